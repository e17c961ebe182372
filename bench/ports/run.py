#!/usr/bin/python3
"""Two daemons joined by a real port: stock perftest between two network namespaces over a veth pair, by packet sockets
(af_packet, with segmentation offload and without) and AF_XDP, each at several MTUs, and over memif. Beside them TCP over a veth pair
with the same MTU, and for memif two RNICs of one daemon. Needs root.

Each round measures everything once, so that what the machine does meanwhile meets all; ratios are taken within a round. Writes the
table in bench/RESULTS.md.
"""

import contextlib
import json
import math
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent.parent / "tests/e2e")]

import harness
import machine
import netns
import options as options_of
from daemon import Daemon
from machine import say
from verdicts import HEAD, judge, table_row

harness.PRELOADS.clear()
PORT = 18700
MARK = "table of ports: scripts/bench ports writes it"
SINGLE_FRAMES = 'segmentation_offload = "off"'
# what: port, the interface's MTU and more of [[rnic]].
VETHS = {
    **{f"af_packet, MTU {mtu}": ("af_packet", mtu, "") for mtu in (1500, 4200, 9000)},
    "af_packet, MTU 4200, single frames": ("af_packet", 4200, SINGLE_FRAMES),
    **{f"af_xdp, MTU {mtu}": ("af_xdp", mtu, "") for mtu in (1500, 4200, 9000)},
}
MEMIF, WIRE = "memif", "in-process wire"
TCP = {f"iperf3, MTU {mtu}": mtu for _, mtu, _ in VETHS.values()}
# figure: program, column behind the size, what it is multiplied with, unit, what is better
FIGURES = {
    "64 KB `ib_write_bw`": ("ib_write_bw -s 65536 -n 3000", 2, 1, "MB/s", "more"),
    "64 KB `ib_read_bw`": ("ib_read_bw -s 65536 -n 3000", 2, 1, "MB/s", "more"),
    "8 B `ib_send_bw`": ("ib_send_bw -s 8 -n 50000", 3, 1, "M messages/s", "more"),
    "8 B `ib_send_lat`": ("ib_send_lat -s 8 -n 3000", 3, 1, "us one way", "less"),
}
# M messages/s of 8 B.
LEAST_RATE = {MEMIF: 5.0} | {kind: 1.0 for kind, (_, _, extra) in VETHS.items() if extra != SINGLE_FRAMES}
LEAST_OF_WIRE = 0.6


class Hosts(harness.TestCase):
    """What netns wants for cleaning up behind itself."""

    def runTest(self):
        raise NotImplementedError


class MemifSide(netns.Side):
    """Both daemons in one namespace; the programs find each other over its loopback."""

    def config(self):
        role = ("server", "client")[self.number]
        self.extra = f'mac = "{self.mac}"\nsocket = "/run/bench-memif.sock"\nrole = "{role}"'
        return "\n".join(line for line in super().config().splitlines() if not line.startswith(("interface", "netns")))


def make_memif(hosts):
    sides = [MemifSide(hosts, number, MEMIF) for number in (0, 1)]
    netns.add_namespace(hosts, sides[0].name)
    sides[1].name = sides[0].name
    return sides


def perftest(hosts, sides, words, address, column):
    """`sides`: the command lines of a program at either end, by its words."""
    words = [*words.split(), "-F", "-x", 1, "-p", PORT]
    results = netns.run_pair(hosts, sides[0](*words), sides[1](*words, address), PORT)
    for result in results:
        hosts.assert_ok(result, words)
    row = next(line.split() for line in results[1].out.splitlines() if line.split()[:1] == [words[2]])
    value = float(row[column + 1])
    return value if math.isfinite(value) and value > 0 else None


def figures_of(hosts, sides, address):
    return {what: perftest(hosts, sides, words, address, column) for what, (words, column, *_) in FIGURES.items()}


def measure_port(hosts, kind):
    """{figure: value} between two daemons."""
    if kind == MEMIF:
        sides, address = make_memif(hosts), "127.0.0.1"
    else:
        port, mtu, extra = VETHS[kind]
        sides = netns.make_hosts(hosts, port, mtu=mtu, extra=extra)
        address = sides[0].ip
    for side in sides:
        side.start()
    for side in sides:
        side.expect_state("ACTIVE")
    programs = [lambda *words, side=side: side.program(*words, "-d", "urnic0") for side in sides]
    return figures_of(hosts, programs, address)


def measure_wire(hosts):
    """The same between two RNICs of one daemon, as frames."""
    directory = tempfile.TemporaryDirectory(prefix="urnic-bench-")
    hosts.addCleanup(directory.cleanup)
    daemon = Daemon(harness.BUILD, directory.name, "wire", 1)
    hosts.addCleanup(daemon.end)
    programs = [lambda *words, number=number: daemon.run([*map(str, words), "-d", f"urnic{number}"]) for number in (1, 0)]
    return figures_of(hosts, programs, "127.0.0.1")


def measure_tcp(hosts, mtu):
    """MB/s (2^20 bytes, as perftest's)."""
    sides = netns.make_hosts(hosts, "af_packet", mtu=mtu)
    serving = harness.start(netns.inside(sides[0].name, "iperf3", "-s", "-1", "-p", PORT))
    hosts.addCleanup(harness.end_group, serving)
    hosts.assertTrue(harness.wait_until(lambda: netns.listens(PORT, serving)))
    result = harness.run(netns.inside(sides[1].name, "iperf3", "-c", sides[0].ip, "-p", PORT, "-t", 1, "-J"))
    hosts.assert_ok(result, "iperf3")
    return json.loads(result.out)["end"]["sum_received"]["bits_per_second"] / 8 / 2**20


def measure(kind):
    """{figure: value} of one round; of TCP its one value under its own name."""
    hosts = Hosts()
    with contextlib.ExitStack() as stack:
        stack.callback(hosts.doCleanups)
        if kind in TCP:
            return {kind: measure_tcp(hosts, TCP[kind])}
        return measure_wire(hosts) if kind == WIRE else measure_port(hosts, kind)


def beside(kind, figure):
    """What a figure of a port is compared with, and the target."""
    if FIGURES[figure][3] == "us one way":
        return [], []
    if FIGURES[figure][3] != "MB/s":
        return [], [{"value": LEAST_RATE[kind]}] if kind in LEAST_RATE else []
    if kind == MEMIF:
        return [WIRE], [{"of": WIRE, "ratio": LEAST_OF_WIRE}]
    other = next(name for name, mtu in TCP.items() if mtu == VETHS[kind][1])
    # Single frames are there to tell what the offload gives.
    return [other], [] if VETHS[kind][2] == SINGLE_FRAMES else [{"ahead_of": [other]}]


def verdict(kind, figure, rounds):
    """Of the rounds in which perftest could tell the time."""
    others, target = beside(kind, figure)
    name = f"{figure}, {kind}"
    values = [[found[kind][figure], *(found[other][figure if other == WIRE else other] for other in others)] for found in rounds]
    columns = list(zip(*(row for row in values if None not in row)))
    if not columns:
        raise machine.Failure(f"perftest could tell no figure of {name}")
    _, _, _, unit, better = FIGURES[figure]
    group = {"name": kind, "unit": unit, "better": better, "beside": dict.fromkeys(others)}
    return judge(group, {"name": name, "target": target}, dict(zip([name, *others], columns)), os.cpu_count())


def table(found, rounds):
    """`rounds`: of each {kind: {figure: value}}."""
    about = machine.about(found) + f" {len(rounds)} rounds. Medians (first to third quartile); ratios are taken within a round."
    rows = [table_row(verdict(kind, figure, rounds)) for kind in (*VETHS, MEMIF) for figure in FIGURES]
    return "\n".join([about, "", *HEAD, *rows]) + "\n"


def arguments():
    parser = options_of.parser("ports", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured (%(default)s)")
    options_of.add_results(parser, "ports")
    options_of.add_print(parser)
    options = options_of.parse(parser)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.build.resolve() != harness.BUILD:
        parser.error("the build directory is what URNIC_BUILD names")
    return options


def main():
    options = arguments()
    if os.geteuid() != 0:
        raise machine.Failure("AF_XDP and network namespaces need root: sudo scripts/bench ports")
    netns.private()
    found = {**machine.context(), "build": machine.check_build(options.build)}
    cpu_times, rounds = machine.CpuTimes(), []
    for number in range(1, options.rounds + 1):
        rounds.append({kind: measure(kind) for kind in (*VETHS, MEMIF, WIRE, *TCP)})
        say(f"round {number}: {json.dumps(rounds[-1])}")
    found |= cpu_times.disturbances()
    machine.write_json(options.json, {"context": found, "rounds": rounds})
    text = table(found, rounds)
    if not options.print:
        machine.write_between(options.page, MARK, text)
    print(text, end="")


if __name__ == "__main__":
    machine.run_program(main)
