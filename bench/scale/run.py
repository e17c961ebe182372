#!/usr/bin/python3
"""What more workers bring: WRITEs between two RNICs of one daemon by 1, 2, 4 and 8 workers, as far as there are CPUs.

Each worker has a CPU of its own, and each thread that posts has one; where cores have two hardware threads, a worker
has a core of its own, and the thread that posts its other hardware thread. Both ends of a connection have the same worker, or
(between workers) neighbours. In each repetition all numbers of workers are measured one after the other; ratios to one worker are
taken within it. Writes the table into bench/RESULTS.md.
"""

import contextlib
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say
from talker import Talker

MARK = "table of scale: scripts/bench scale writes it"
WORKERS = (1, 2, 4, 8)
# Of each thread; a multiple of every number of workers, so that each has as many.
CONNECTIONS = 16
IN_FLIGHT = {64: 128, 65536: 32}
# (what, [[rnic]] offload, further words of verbs_bench)
FORMS = (("frames, both ends on one worker", "off", ()), ("frames, between workers", "off", ("--apart",)),
         ("offload, both ends on one worker", "auto", ()))
SIZES = ((64, "64 B WRITE", "M messages/s", 1e-6), (65536, "64 KB WRITE", "GB/s", 65536e-9))


def places(cores):
    """(CPU of a worker, CPU of a thread that posts) for as many as there is room for. `cores`: CPUs of each."""
    if all(len(core) > 1 for core in cores):
        return [tuple(core[:2]) for core in cores]
    cpus = [core[0] for core in cores]
    half = len(cpus) // 2
    return list(zip(cpus[:half], cpus[half:]))


class Setup:
    """A daemon with so many workers, and as many threads that post."""

    def __init__(self, build, directory, where, form, stack):
        _, offload, words = form
        workers, posting = map(list, zip(*where))
        number = len(where)
        name = f"{offload}{''.join(words)}{number}"
        daemon = Daemon(build, directory, name, workers, offload=offload)
        stack.callback(daemon.end)
        program = [str(build / "bench/verbs/verbs_bench"), "pairs", "--threads", number, "--connected", CONNECTIONS, *words]
        self.talker = Talker(daemon.run(machine.pinned(",".join(map(str, posting)), program)))
        stack.callback(self.talker.end)

    def rate(self, size, seconds):
        return self.talker.ask(size, IN_FLIGHT[size], seconds)["messages_per_second"]


def measure(form, where, numbers, options, directory):
    """{size: {number of workers: messages a second of each repetition}}."""
    found = {size: {number: [] for number in numbers} for size, *_ in SIZES}
    with contextlib.ExitStack() as stack:
        setups = {number: Setup(options.build, directory, where[:number], form, stack) for number in numbers}
        for repetition in range(options.repetitions):
            shift = repetition % len(numbers)
            for size, what, unit, factor in SIZES:
                for number in numbers[shift:] + numbers[:shift]:
                    found[size][number].append(setups[number].rate(size, options.seconds))
                say(f"{repetition + 1}/{options.repetitions} {form[0]}, {what}, {unit}: " +
                    ", ".join(f"{number}: {machine.figure(rates[-1] * factor)}" for number, rates in found[size].items()))
    return found


def rows(form, found):
    for size, what, unit, factor in SIZES:
        for number, rates in found[size].items():
            one = found[size].get(1)
            ratios = machine.cell(machine.summary([rate / first for rate, first in zip(rates, one)])) if one and number > 1 else "-"
            yield f"| {what}, {form[0]} | {unit} | {number} | {machine.cell(machine.summary([rate * factor for rate in rates]))} | {ratios} |"


def main():
    parser = options_of.parser("scale", __doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="blocks of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block (%(default)s)")
    options_of.add_results(parser, "scale")
    options_of.add_print(parser)
    options = options_of.parse(parser)
    if options.repetitions < 1 or not 0 < options.seconds <= 600:
        parser.error("--repetitions must be at least 1, --seconds positive")
    where = places(machine.threads_of_cores(sorted(os.sched_getaffinity(0))))
    numbers = [number for number in WORKERS if number <= len(where)]
    if not numbers:
        raise Failure("a worker and a thread that posts need a CPU each: there is one")
    about = {**machine.context(), "build": machine.check_build(options.build)}
    cpu_times, lines, results = machine.CpuTimes(), [], {}
    with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory:
        for form in FORMS:
            # One worker has no neighbour.
            of_form = [number for number in numbers if number > 1 or "--apart" not in form[2]]
            if of_form:
                results[form[0]] = measure(form, where, of_form, options, directory)
                lines += rows(form, results[form[0]])
    shared = any(worker in core and posting in core for core in machine.threads_of_cores(sorted(os.sched_getaffinity(0)))
                 for worker, posting in where)
    about |= cpu_times.disturbances()
    machine.write_json(options.json, {"context": about, "results": results})
    words = (f"{machine.about(about)} {options.repetitions} repetitions of blocks of {options.seconds:g} s; medians (first to third "
             "quartile)." + (" A worker and a thread that posts share a core of two hardware threads." if shared else ""))
    text = "\n".join([words, "", "| what | unit | workers | all together | ratio to one worker |", "|---|---|---|---|---|", *lines]) + "\n"
    if not options.print:
        machine.write_between(options.page, MARK, text)
    print(text, end="")


if __name__ == "__main__":
    machine.run_program(main)
