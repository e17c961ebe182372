#!/usr/bin/python3
"""Packets through three emulated switches, leaf, spine and leaf: InfiniBand beside Ethernet, `ib_write_bw` and `ib_write_lat`.

The links are faster than the daemon, so that its forwarding is measured and not their rate. Each repetition runs a block on each, in
rotating order; ratios are taken within a repetition. Writes the table in bench/RESULTS.md.
"""

import contextlib
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import say
from programs import numbers_of_last_row

MARK = "table of emulated switches: scripts/bench subnet writes it"
ETHERNET, INFINIBAND = "ethernet", "infiniband"
NETWORK = """
[[network]]
fabric = "bench"
topology = "leaf-spine"
leaves = 2
spines = 1
link_mbps = 100000
"""
# what: program and its words, the column of its last row, and what that is to be multiplied with. Targets of the ratio.
ROWS = {
    "64 KB `ib_write_bw`, GB/s": (("ib_write_bw", "-s", "65536"), 3, 1 / 8, "at least 0.5"),
    "8 B `ib_write_bw`, million/s": (("ib_write_bw", "-s", "8"), 4, 1, "-"),
    "8 B `ib_write_lat`, us one way": (("ib_write_lat", "-s", "8"), 4, 1, "-"),
}


def block(daemon, link_layer, words, seconds):
    port = machine.free_port()
    length = ["-n", "2000"] if words[0].endswith("_lat") else ["-D", str(seconds), "--report_gbits"]
    command = [*words, "-F", "-p", str(port), *length, *(["-x", "1"] if link_layer == ETHERNET else [])]
    server, client = ([*command, "-d", "urnic1"], [*command, "-d", "urnic0", "127.0.0.1"])
    return numbers_of_last_row(machine.pair(daemon.run(server), daemon.run(client), port))


def measure(options):
    found = {what: {} for what in ROWS}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="urnic-bench-"))
        daemons = {}
        for name in (ETHERNET, INFINIBAND):
            daemons[name] = Daemon(options.build, directory, name, 1, link_layer=name, networks=NETWORK)
            stack.callback(daemons[name].end)
        for repetition in range(options.repetitions):
            for what, (words, column, factor, _) in ROWS.items():
                for name in list(daemons)[::-1 if repetition % 2 else 1]:
                    value = block(daemons[name], name, words, options.seconds)[column] * factor
                    found[what].setdefault(name, []).append(value)
                say(f"{what}: " + ", ".join(f"{name} {found[what][name][-1]:.3g}" for name in daemons))
    return found


def table(found, context, options):
    lines = ["| what | Ethernet | InfiniBand | InfiniBand / Ethernet | target |", "|---|---|---|---|---|"]
    for what, values in found.items():
        ratios = [b / a for a, b in zip(values[ETHERNET], values[INFINIBAND])]
        cells = [machine.cell(machine.summary(each)) for each in (values[ETHERNET], values[INFINIBAND], ratios)]
        lines.append(f"| {what} | {' | '.join(cells)} | {ROWS[what][3]} |")
    return (f"{machine.about(context)} {options.repetitions} blocks of {options.seconds} s of each, of latency 2,000 iterations; one worker; medians, first to third "
            "quartile in brackets.\n\n" + "\n".join(lines) + "\n\n")


def main():
    made = options_of.parser("subnet", __doc__)
    made.add_argument("--repetitions", type=int, default=7, help="blocks of each (%(default)s)")
    made.add_argument("--seconds", type=int, default=2, help="length of a block (%(default)s)")
    options_of.add_results(made, "subnet")
    options_of.add_print(made)
    options = options_of.parse(made)
    machine.check_build(options.build)
    context, times = machine.context(), machine.CpuTimes()
    found = measure(options)
    context.update(times.disturbances())
    machine.write_json(options.json, {"context": context, "rows": {
        what: {name: machine.summary(values) for name, values in each.items()} for what, each in found.items()}})
    text = table(found, context, options)
    print(text)
    if not options.print:
        machine.write_between(options.page, MARK, text)


machine.run_program(main)
