#!/usr/bin/python3
"""Measures urnic beside the programs that people use instead, and draws the pictures of docs/performance.md.

Which pictures, and what runs for them: bench/compare/pictures.toml. Blocks alternate: each repetition runs every series at
one point before it goes to the next point, and begins with another series each time. Everything measured goes into a JSON
file; --draw FILE draws that again and measures nothing.
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
import draw
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say
from programs import Programs
from talker import Talker

HERE = pathlib.Path(__file__).resolve().parent
MARK = "comparison: scripts/bench compare writes it"
MANY_CONNECTED, IN_FLIGHT, SIZE_UNDER_LOSS = 4096, 128, "65536"


class Series(Programs):
    def __init__(self, build, cpus, options, directory, stack):
        super().__init__(build, cpus, options.seconds, options.iterations)
        self.options, self.directory, self.stack = options, directory, stack
        self.daemons, self.talkers = {}, {}

    def daemon(self, name, recovery="selective"):
        if name not in self.daemons:
            self.daemons[name] = Daemon(self.build, self.directory, name, [self.cpus.daemon], recovery)
            self.stack.callback(self.daemons[name].end)
        return self.daemons[name]

    def block(self, words):
        name, *rest = words
        if name.startswith("perftest_"):
            rest = [self.daemon("main"), *rest]
        return getattr(self, name)(*rest)

    def rate_by_qps(self, which, active):
        """Each number of QPs has a daemon of its own, but with `many`: there most QPs are idle."""
        connected = min(MANY_CONNECTED, self.options.connected) if which == "many" else int(active)
        key = f"{which}-{connected}"
        if key not in self.talkers:
            say(f"  connecting {connected} QPs")
            command = [str(self.build / "bench" / "verbs" / "verbs_bench"), "qps", "--connected", connected]
            self.talkers[key] = Talker(self.daemon(key).run(machine.pinned(self.cpus.a, command)))
            self.stack.callback(self.talkers[key].end)
        return self.talkers[key].ask(min(int(active), connected), 64, IN_FLIGHT, self.seconds)["messages_per_second"] / 1e6

    def goodput(self, recovery, program, loss):
        daemon = self.daemon(recovery, recovery)
        if float(loss) > 0:
            daemon.fault("add", "drop", "--probability", loss, "--seed", str(1 + self.repetition))
        try:
            return self.perftest_bandwidth(daemon, program, "-s", SIZE_UNDER_LOSS, "-u", "14")
        finally:
            daemon.fault("clear")


def measure(blocks, picture, options):
    """Samples by series and x; reasons by series that could not run."""
    values = picture["x"]["values"][:: options.every]
    samples = {series["name"]: {str(x): [] for x in values if x <= series.get("most", x)} for series in picture["series"]}
    failed = {}
    for repetition in range(options.repetitions):
        blocks.repetition = repetition
        for x in values:
            shift = repetition % len(picture["series"])
            for series in picture["series"][shift:] + picture["series"][:shift]:
                name = series["name"]
                if name in failed or str(x) not in samples[name]:
                    continue
                try:
                    samples[name][str(x)].append(blocks.block([word.replace("{x}", str(x)) for word in series["run"]]))
                except (Failure, OSError, subprocess.SubprocessError) as failure:
                    if series.get("urnic"):
                        raise
                    failed[name] = str(failure).strip()
                    say(f"  {name} is left out: {failed[name]}")
            say(f"{repetition + 1}/{options.repetitions} {picture['file']} {draw.x_label(picture, x)}: " +
                ", ".join(f"{name} {machine.figure(found[str(x)][-1])}" for name, found in samples.items() if found.get(str(x))))
    return {"samples": {name: found for name, found in samples.items() if name not in failed}, "failed": failed}


def text_of(found, pictures, results, where):
    """Markdown: pictures, and the table of each behind them."""
    lines = [machine.about(found) + f" {found['repetitions']} repetitions of blocks of {found['seconds']:g} s; points are medians, "
             "bars reach from the first to the third quartile.", ""]
    for picture in pictures:
        result = results[picture["file"]]
        values = list(next(iter(result["samples"].values())))
        lines += [f"### {picture['title']}", "", f"![{picture['title']}]({where}/{picture['file']})", "",
                  f"| {picture['y']['unit']} | " + " | ".join(draw.x_label(picture, float(x)) for x in values) + " |",
                  "|---|" + "---|" * len(values)]
        for name, points in result["samples"].items():
            cells = [machine.cell(machine.summary(points[x])) if points.get(x) else "-" for x in values]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines += ["", *(f"{name} could not run: {why.splitlines()[0]}" for name, why in result["failed"].items())]
    return "\n".join(lines).rstrip() + "\n"


def arguments():
    parser = options_of.parser("compare", __doc__)
    options_of.add_blocks(parser, (7, "blocks for each point"), (2, "2 repetitions"),
                          (0.5, "length of a block; perftest and others take whole seconds"),
                          (10000, "iterations of a latency block at most"), (MANY_CONNECTED, "QPs where many are connected"))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth point of each picture")
    parser.add_argument("--only", default="", help="only pictures whose file name contains this")
    parser.add_argument("--draw", type=pathlib.Path, metavar="FILE", help="draw what that file holds; measure nothing")
    options_of.add_results(parser, "compare", "docs/performance.md",
                           "page that pictures and tables go into; pictures lie in the folder pictures beside it (%(default)s)")
    options = options_of.parse(parser)
    if options.repetitions < 1 or options.seconds <= 0 or options.iterations < 100 or options.every < 1:
        parser.error("--repetitions and --every must be at least 1, --seconds positive, --iterations at least 100")
    return options


def measure_all(pictures, options):
    found = {**machine.context(), "build": machine.check_build(options.build), "repetitions": options.repetitions,
             "seconds": options.seconds, "iterations": options.iterations}
    begin, cpu_times = time.monotonic(), machine.CpuTimes()
    results = {}
    for picture in pictures:
        # Daemons and their QPs live as long as their picture: the others are to be alone.
        with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory, contextlib.ExitStack() as stack:
            results[picture["file"]] = measure(Series(options.build, machine.Cpus(), options, directory, stack), picture, options)
    found |= {"took_seconds": round(time.monotonic() - begin, 1), **cpu_times.disturbances()}
    machine.write_json(options.json, {"context": found, "results": results})
    say(f"took {found['took_seconds']:.0f} s; {options.json}")
    return found, results


def main():
    options = arguments()
    with open(HERE / "pictures.toml", "rb") as file:
        pictures = [picture for picture in tomllib.load(file)["picture"] if options.only in picture["file"]]
    if not pictures:
        raise Failure(f"no picture is named like {options.only!r}")
    if options.draw:
        data = json.loads(options.draw.read_text(encoding="utf-8"))
        found, results = data["context"], data["results"]
        pictures = [picture for picture in pictures if picture["file"] in results]
    else:
        found, results = measure_all(pictures, options)
    folder = options.page.parent / "pictures"
    folder.mkdir(exist_ok=True)
    for picture in pictures:
        draw.draw(picture, results[picture["file"]]["samples"], folder / picture["file"])
        say(f"drew {folder / picture['file']}")
    if options.only:
        say(f"{options.page} stays as it is: its tables are of all pictures together")
    else:
        machine.write_between(options.page, MARK, text_of(found, pictures, results, "pictures"))


if __name__ == "__main__":
    machine.run_program(main)
