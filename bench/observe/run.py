#!/usr/bin/python3
"""What looking costs: `ib_write_bw` while nobody looks, and beside a capture, a trace, and who asks for metrics and the status each second.

One worker on a CPU of its own; the programs and who looks share the other CPUs. What that sharing costs without any looking is measured
by a program that only computes there. All blocks are of frames (`offload = "off"`), as packets
are while somebody captures. Each repetition runs a block of each in rotating order; ratios are taken within a repetition. Writes the
table in bench/RESULTS.md.

The other table has what a worker itself does for who looks (bench/observe/worker_cost.cc), which is all the cost where readers have
CPUs of their own.
"""

import contextlib
import json
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say
from programs import numbers_of_last_row

MARK = "table of looking: scripts/bench observe writes it"
NOBODY = "nobody looks"
LOSSES = re.compile(r"(?P<seen>\d+) packets, (?P<lost>\d+) of them lost|(?P<missing>\d+) of (?P<all>\d+) packets of")
WRITTEN = re.compile(r"(?P<events>\d+) events of \d+ packets are in|; (?P<packets>\d+) are in")
# Column of ib_write_bw's last row, and what it is to be multiplied with.
ROWS = {
    "64 KB `ib_write_bw`, GB/s": ("65536", 3, 1 / 8),
    "4 KB `ib_write_bw`, GB/s": ("4096", 3, 1 / 8),
    "64 B `ib_write_bw`, million/s": ("64", 4, 1),
}
TARGETS = {("64 KB `ib_write_bw`, GB/s", "urnic capture --snaplen 128"): "at least 0.9",
           ("4 KB `ib_write_bw`, GB/s", "urnic trace"): "at least 0.95"}
# Of a worker's cycles.
COST_TARGETS = {("64 KB", "urnic capture --snaplen 128"): "below 1.1", ("4 KB", "urnic trace"): "below 1.05"}


class Looking:
    """A program that looks, from when it sees all until it is told to end."""

    def __init__(self, bench, words, file):
        self.file = file
        self.process = subprocess.Popen(machine.pinned(bench.cpus.a, [bench.daemon.urnic, *words, "--socket", bench.daemon.socket]),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not any(self.file.parent.glob(f"{self.file.stem}*")):
            if self.process.poll() is not None:
                raise Failure(f"urnic {' '.join(map(str, words))} ended: {self.process.stderr.read()}")
            time.sleep(0.01)

    def end(self):
        """What part of the packets was lost on the way to it, and the nanoseconds of CPU for each packet or event in its file."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        for written in self.file.parent.glob(f"{self.file.stem}*"):
            written.unlink()
        found = list(LOSSES.finditer(said))
        lost = sum(int(each["lost"] or each["missing"]) for each in found)
        seen = sum(int(each["seen"] or each["all"]) for each in found)
        written = WRITTEN.search(said)
        if self.process.returncode != 0 or not written:
            raise Failure(f"who looked ended with {self.process.returncode}: {said}")
        return lost / seen if seen else 0.0, seconds * 1e9 / max(int(written["events"] or written["packets"]), 1)


class Computing:
    """Takes from the programs what CPU one who looks could take, and looks at nothing."""

    def __init__(self, bench):
        self.process = subprocess.Popen(machine.pinned(bench.cpus.a, ["sh", "-c", "while :; do :; done"]))

    def end(self):
        self.process.kill()
        self.process.wait()


class Asking:
    """Each second for the page of metrics and for the status."""

    def __init__(self, bench):
        self.page = f"http://127.0.0.1:{bench.http}/metrics"
        self.status = machine.pinned(bench.cpus.a, [bench.daemon.urnic, "status", "--json", "--socket", bench.daemon.socket])
        self.over, self.asked = threading.Event(), 0
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.over.is_set():
            subprocess.run(self.status, stdout=subprocess.DEVNULL, check=True)
            with urllib.request.urlopen(self.page, timeout=60) as page:
                page.read()
            self.asked += 1
            self.over.wait(1)

    def end(self):
        self.over.set()
        self.thread.join()
        if self.asked == 0:
            raise Failure("the status or the page of metrics was not answered")


class Bench:
    def __init__(self, options, stack):
        self.options, self.cpus, self.http = options, machine.Cpus(), machine.free_port()
        self.directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="urnic-bench-", dir="/dev/shm")))
        self.daemon = Daemon(options.build, self.directory, "daemon", f"[{self.cpus.daemon}]",
                             settings=f'http = "127.0.0.1:{self.http}"\nhttp_qps = 100\n')
        stack.callback(self.daemon.end)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=60) as page:
            if b"urnic_" not in page.read():
                raise Failure("the daemon's page of metrics has none of its series")
        file = self.directory / "seen"
        self.lookers = {
            NOBODY: None,
            "urnic capture --snaplen 128": lambda: Looking(self, ["capture", "-w", file, "--snaplen", "128", "--ring", "2,100"], file),
            "urnic capture": lambda: Looking(self, ["capture", "-w", file, "--ring", "2,100"], file),
            "urnic trace": lambda: Looking(self, ["trace", file], file),
            "status and metrics each second": lambda: Asking(self),
            "a program that only computes": lambda: Computing(self),
        }

    def block(self, looker, size):
        """The last row of the client, and what the looker says in its end (None: nothing)."""
        port = machine.free_port()
        command = ["ib_write_bw", "-s", size, "-F", "-x", "1", "-p", str(port), "-D", str(self.options.seconds), "--report_gbits"]
        server = machine.pinned(self.cpus.b, self.daemon.run([*command, "-d", "urnic1"]))
        client = machine.pinned(self.cpus.a, self.daemon.run([*command, "-d", "urnic0", "127.0.0.1"]))
        begun = looker() if looker is not None else None
        told = None
        try:
            numbers = numbers_of_last_row(machine.pair(server, client, port))
        finally:
            if begun is not None:
                told = begun.end()
        return numbers, told

    def measure(self):
        found = {what: {name: [] for name in self.lookers} for what in ROWS}
        told = {what: {name: [] for name in self.lookers} for what in ROWS}
        for repetition in range(self.options.repetitions):
            for what, (size, column, factor) in ROWS.items():
                names = list(self.lookers)
                first = repetition % len(names)
                for name in names[first:] + names[:first]:
                    numbers, of_looker = self.block(self.lookers[name], size)
                    found[what][name].append(numbers[column] * factor)
                    if of_looker is not None:
                        told[what][name].append(of_looker)
                say(f"{what}: " + ", ".join(f"{name} {values[-1]:.3g}" for name, values in found[what].items()))
        return found, told


def table(found, told, context, options):
    lines = ["| what | while | figure | of that while nobody looks | target | lost by who looks | its CPU time, ns a packet or event |",
             "|---|---|---|---|---|---|---|"]
    for what, values in found.items():
        for name, each in values.items():
            ratio = "-"
            if name != NOBODY:
                ratio = machine.cell(machine.summary(b / a for a, b in zip(values[NOBODY], each)))
            missing = cost = "-"
            if told[what][name]:
                parts, costs = zip(*told[what][name])
                missing = f"{machine.figure(100 * statistics.median(parts))} %"
                cost = machine.cell(machine.summary(costs))
            shown = f"`{name}`" if name.startswith("urnic ") else name
            lines.append(f"| {what} | {shown} | {machine.cell(machine.summary(each))} | {ratio} | {TARGETS.get((what, name), '-')} "
                         f"| {missing} | {cost} |")
    return (f"{machine.about(context)} {options.repetitions} blocks of {options.seconds} s of each; medians, first to third quartile in "
            "brackets.\n\n" + "\n".join(lines) + "\n\n")


def worker_cost(build, batches):
    cpus = machine.Cpus()
    done = subprocess.run(machine.pinned(f"{cpus.a},{cpus.daemon}", [build / "bench/observe/worker_cost", "--cpu", str(cpus.daemon),
                                                                     "--batches", str(batches)]),
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"worker_cost ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def cost_table(runs):
    """Medians of the runs."""
    lines = ["| WRITE of | while | cycles a message | of those while nobody looks | target | records a message | cycles a record |",
             "|---|---|---|---|---|---|---|"]
    for size, modes in runs[0].items():
        plain = [run[size][NOBODY]["cycles"] for run in runs]
        for name in modes:
            cycles = [run[size][name]["cycles"] for run in runs]
            shown = f"`{name}`" if name.startswith("urnic ") else name
            row = f"| {size} | {shown} | {machine.cell(machine.summary(cycles))} "
            if name == NOBODY:
                lines.append(row + "| - | - | - | - |")
                continue
            records = statistics.median(run[size][name]["records"] for run in runs)
            ratio = machine.cell(machine.summary(b / a for a, b in zip(plain, cycles)))
            each = machine.figure(statistics.median((b - a) / records for a, b in zip(plain, cycles)))
            lines.append(row + f"| {ratio} | {COST_TARGETS.get((size, name), '-')} | {machine.figure(records)} | {each} |")
    return lines


def main():
    made = options_of.parser("observe", __doc__)
    made.add_argument("--repetitions", type=int, default=5, help="blocks of each (%(default)s)")
    made.add_argument("--runs", type=int, default=9, help="runs of worker_cost (%(default)s)")
    made.add_argument("--seconds", type=int, default=2, help="length of a block (%(default)s)")
    options_of.add_results(made, "observe")
    options_of.add_print(made)
    options = options_of.parse(made)
    machine.check_build(options.build)
    context, times = machine.context(), machine.CpuTimes()
    with contextlib.ExitStack() as stack:
        found, told = Bench(options, stack).measure()
    costs = []
    for number in range(options.runs):
        costs.append(worker_cost(options.build, 500))
        say(f"worker_cost {number + 1}/{options.runs}")
    context.update(times.disturbances())
    machine.write_json(options.json, {"context": context, "costs": costs, "rows": {
        what: {name: machine.summary(values) for name, values in each.items()} for what, each in found.items()}})
    text = (table(found, told, context, options)
            + f"The worker's part, medians of {options.runs} runs, each of the second percentile of 500 batches:\n\n"
            + "\n".join(cost_table(costs)) + "\n\n")
    print(text)
    if not options.print:
        machine.write_between(options.page, MARK, text)


machine.run_program(main)
