#!/usr/bin/python3
"""Measures every row of targets.toml and writes the table into bench/RESULTS.md and everything into a JSON file.

The host moves virtual CPUs about, so a single figure says little. Each repetition runs a short block of each row of a
group and of what it is compared with, one after the other, and begins with another one each time; ratios are taken
within a repetition; medians and quartiles over all.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say
from programs import Programs
from talker import Talker
from verdicts import HEAD, judge, table_row

HERE = pathlib.Path(__file__).resolve().parent
MARKS = {"here": "table of targets: scripts/bench writes it",
         "many CPUs": "table of targets on many CPUs: scripts/bench writes it"}
MANY_CONNECTED, IN_FLIGHT = 10_000, 128


class Rows(Programs):
    """Rows that stock programs do not measure, besides those that they do."""

    def __init__(self, build, cpus, options, directory, stack):
        super().__init__(build, cpus, options.seconds, options.iterations)
        self.directory, self.stack, self.options = directory, stack, options
        self.verbs_bench = str(build / "bench" / "verbs" / "verbs_bench")
        self.main = self.start("main", [cpus.daemon])
        self.talkers = {}
        self.registered = {}

    def start(self, name, workers, **settings):
        daemon = Daemon(self.build, self.directory, name, workers, **settings)
        self.stack.callback(daemon.end)
        return daemon

    def talk(self, name, daemon, cpu, *words):
        say(f"  setting up: {name}")
        begin = time.monotonic()
        self.talkers[name] = Talker(daemon.run(machine.pinned(cpu, [self.verbs_bench, *words])))
        self.stack.callback(self.talkers[name].end)
        say(f"  {name} is connected after {time.monotonic() - begin:.1f} s")

    def prepare(self, need):
        """What the blocks of a group need and what takes too long to be made for each."""
        cpus = self.cpus
        if need == "many":
            # Another daemon has no idle QPs at all.
            self.talk("many", self.start("many", [cpus.daemon]), cpus.a, "qps", "--connected", self.options.connected)
            self.talk("one", self.start("one", [cpus.daemon]), cpus.a, "qps", "--connected", "1")
        elif need == "workers":
            if "one worker" not in self.talkers:
                for name, workers in (("one worker", 1), ("two workers", 2)):
                    self.talk(name, self.start(name.split(" ")[0] + "_worker", workers), None, "qps", "--connected", "16")
        elif need == "waiting":
            if "waiting" not in self.talkers:
                self.waiting_daemon = self.start("waiting", 1)
                self.talk("waiting", self.waiting_daemon, None, "waiting")
                self.talk("turns", self.waiting_daemon, None, "turns")
        elif need == "offload":
            if not hasattr(self, "offloaded"):
                self.offloaded = self.start("offload", [cpus.daemon], offload="auto")
        elif need == "pause":
            if "pause" not in self.talkers:
                self.quiet = self.start("quiet", [cpus.daemon])
                self.talk("pause", self.quiet, cpus.a, "pause")

    def block(self, words):
        """One figure."""
        name, *rest = words
        if name.startswith("perftest_"):
            rest = [self.main, *rest]
        return getattr(self, name)(*rest)

    def offload(self, name, *words):
        """A function of perftest's programs, on RNICs whose packets are no frames."""
        return getattr(self, name)(self.offloaded, *words)

    def many_qps(self, which, active):
        return self.talkers[which].ask(min(int(active), self.options.connected), 64, IN_FLIGHT, self.seconds)["messages_per_second"] / 1e6

    def workers(self, which, size):
        return self.talkers[which].ask(16, size, IN_FLIGHT, self.seconds)["messages_per_second"] / 1e6

    def waiting(self, figure, writing, polling, computing, size):
        """Threads on no CPU in particular that poll; "cpus": so many processes compute beside them as there are CPUs."""
        computing = len(self.cpus.all) if computing == "cpus" else computing
        return self.talkers["waiting"].ask(writing, polling, computing, size, self.seconds)[figure]

    def turns(self, how, where, computing):
        """us one way between processes that hand each other a word, without RDMA."""
        computing = len(self.cpus.all) if computing == "cpus" else computing
        return self.talkers["turns"].ask(how, where, computing, self.seconds)["one_way_us"]

    def latency_beside(self, computing, program, *words):
        """us one way, the average: what waits for time slices counts as often as it happens."""
        with contextlib.ExitStack() as stack:
            for _ in range(len(self.cpus.all) if computing == "cpus" else int(computing)):
                loop = stack.enter_context(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
                stack.callback(loop.kill)
            return self.perftest(self.waiting_daemon, program, *words, "-n", str(max(100, self.iterations // 10)), pins=False)[5]

    def registration_beside(self, size, writers):
        """us of the first registration, on no CPU in particular."""
        command = self.main.run([self.verbs_bench, "registration", "--bytes", size, "--writers", writers, "--content", "1"])
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} ended with {done.returncode}")
        return json.loads(done.stdout)["first_us"]

    def registration(self, size, figure):
        """Both figures of a size come from one run: the one that is asked for first makes it."""
        if figure not in self.registered.get(size, {}):
            command = self.main.run(machine.pinned(self.cpus.a, [self.verbs_bench, "registration", "--bytes", size]))
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
            if done.returncode != 0:
                raise Failure(f"{' '.join(command)} ended with {done.returncode}")
            self.registered[size] = json.loads(done.stdout)
        return self.registered[size].pop(figure)

    def idle_cpu(self):
        time.sleep(0.5)  # what was before has an end
        before, begin = self.quiet.cpu_seconds(), time.monotonic()
        time.sleep(2 * self.seconds)
        return 100 * (self.quiet.cpu_seconds() - before) / (time.monotonic() - begin)

    def first_packet(self):
        return machine.summary(self.talkers["pause"].ask(10, 100)["one_way_us"])["median"]


def measure(rows, group, options):
    """Samples by name of a row or of what it is compared with."""
    for need in group.get("needs", []):
        rows.prepare(need)
    blocks = [*group.get("beside", {}).items(), *((row["name"], row["run"]) for row in group["rows"])]
    samples = {name: [] for name, _ in blocks}
    for repetition in range(options.repetitions):
        shift = repetition % len(blocks)
        for name, words in blocks[shift:] + blocks[:shift]:
            samples[name].append(rows.block(words))
        say(f"{repetition + 1}/{options.repetitions} {group['name']} ({group['unit']}): " +
            ", ".join(f"{name} {machine.figure(values[-1])}" for name, values in samples.items()))
    return samples


def table(results, found, options):
    about = (machine.about(found) + f" {options.repetitions} repetitions of blocks of {options.seconds:g} s; daemon on CPU "
             f"{found['cpu_daemon']}, applications on {found['cpu_a']} and {found['cpu_b']}; programs without a daemon on "
             f"{found['cpu_a']} and {found['cpu_own_b']}. Medians (first to third quartile); ratios are taken within a "
             "repetition. A latency's ratio is good when it is small, any other when it is large.")
    return "\n".join([about, "", *HEAD, *map(table_row, results)]) + "\n"


def renewed(page_table, results, found, options):
    """The page's table with these rows in their places, new ones at its end, and below when they were measured."""
    lines = page_table.splitlines()
    for entry in results:
        row = table_row(entry)
        same = [number for number, line in enumerate(lines) if line.startswith(f"| {entry['row']} | ")]
        if same:
            lines[same[0]] = row
        else:
            lines.insert(max(number for number, line in enumerate(lines) if line.startswith("|")) + 1, row)
    begin = f"Rows of `--only {options.only}`: "
    lines = [line for line in lines if not line.startswith(begin)]
    note = begin + machine.about(found) + f" {options.repetitions} repetitions of blocks of {options.seconds:g} s."
    if lines[-1].startswith("|"):
        lines.append("")
    return "\n".join([*lines, note]) + "\n"


def arguments():
    parser = options_of.parser("", __doc__)
    options_of.add_blocks(parser, (11, "blocks of each kind"), (3, "3 repetitions, under five minutes"), (1.0, "length of a throughput block"),
                          (20000, "iterations of a latency block"), (MANY_CONNECTED, "QPs of the rows with many"))
    parser.add_argument("--only", default="", help="only groups and rows whose name contains this; the table is then printed only")
    parser.add_argument("--renew", action="store_true", help="with --only: puts these rows into the page's table")
    options_of.add_results(parser, "results", what="page that the table goes into (%(default)s); of --only and of --print it stays as it is")
    parser.add_argument("--table", choices=MARKS, default="here", help="which table of the page it is (%(default)s)")
    options_of.add_print(parser)
    options = options_of.parse(parser)
    if options.renew and not options.only:
        parser.error("--renew is for --only: without it the whole table is written")
    if options.repetitions < 1 or not 0 < options.seconds <= 600 or options.iterations < 100 or not 1 <= options.connected <= 16384:
        parser.error("--repetitions must be at least 1, --seconds positive, --iterations at least 100, --connected 1 to 16384")
    return options


def chosen_groups(only):
    with open(HERE / "targets.toml", "rb") as file:
        groups = tomllib.load(file)["group"]
    for group in groups:
        if only not in group["name"]:
            group["rows"] = [row for row in group["rows"] if only in row["name"]]
    groups = [group for group in groups if group["rows"]]
    if not groups:
        raise Failure(f"nothing in {HERE / 'targets.toml'} is named like {only!r}")
    return groups


def main():
    options = arguments()
    groups = chosen_groups(options.only)
    cpus = machine.Cpus()
    found = {**machine.context(), "build": machine.check_build(options.build), "repetitions": options.repetitions,
             "seconds": options.seconds, "iterations": options.iterations, "connected": options.connected,
             "cpu_daemon": cpus.daemon, "cpu_a": cpus.a, "cpu_b": cpus.b, "cpu_own_b": cpus.own_b}
    begin, cpu_times = time.monotonic(), machine.CpuTimes()
    results = []
    with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory, contextlib.ExitStack() as stack:
        rows = Rows(options.build, cpus, options, directory, stack)
        for group in groups:
            samples = measure(rows, group, options)
            results += [judge(group, row, samples, found["cpus"]) for row in group["rows"]]
    found |= {"took_seconds": round(time.monotonic() - begin, 1), **cpu_times.disturbances()}
    machine.write_json(options.json, {"context": found, "results": results})
    text = table(results, found, options)
    mark = MARKS[options.table]
    if options.renew and options.only:
        machine.write_between(options.page, mark, renewed(machine.read_between(options.page, mark), results, found, options))
    elif not options.only and not options.print:
        machine.write_between(options.page, mark, text)
    print(text, end="")
    say(f"{sum(entry['held'] for entry in results)} of {len(results)} targets met; took {found['took_seconds']:.0f} s; {options.json}")


if __name__ == "__main__":
    machine.run_program(main)
