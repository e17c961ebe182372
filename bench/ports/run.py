#!/usr/bin/python3
"""Two daemons joined by a real port: stock perftest between two network namespaces over a veth pair, by packet sockets
(af_packet, with segmentation offload and without) and AF_XDP, and over memif; beside them TCP over the same veth pair. Needs root.

Each round measures every port once, so that what the machine does meanwhile meets all. Writes the table in
bench/RESULTS.md.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/e2e"))

import harness
import netns

harness.PRELOADS.clear()
PORT = 18700
# (what, program, column behind the size, digits)
FIGURES = (
    ("ib_write_bw 64 KB, MB/s", "ib_write_bw -s 65536 -n 3000", 2, 0),
    ("ib_read_bw 64 KB, MB/s", "ib_read_bw -s 65536 -n 3000", 2, 0),
    ("ib_send_lat 8 B, us one way", "ib_send_lat -s 8 -n 3000", 3, 2),
    ("ib_send_bw 8 B, 1000 messages/s", "ib_send_bw -s 8 -n 50000", 3, 0),
)
SCALE = {"ib_send_bw": 1000}
KINDS = ("af_packet", "af_packet off", "af_xdp", "memif", "TCP")
# AF_XDP on a veth takes frames of one page.
INTERFACE_MTU = {"af_packet": 4200, "af_packet off": 4200, "af_xdp": 3498, "TCP": 4200}
BEGIN, END = "<!-- table of ports: bench/ports/run.py writes it -->", "<!-- end of the table of ports -->"


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


def make(hosts, kind):
    if kind == "af_packet off":
        return netns.make_hosts(hosts, "af_packet", mtu=INTERFACE_MTU[kind], extra='segmentation_offload = "off"')
    if kind != "memif":
        return netns.make_hosts(hosts, kind, mtu=INTERFACE_MTU[kind])
    sides = [MemifSide(hosts, number, kind) for number in (0, 1)]
    netns.add_namespace(hosts, sides[0].name)
    sides[1].name = sides[0].name
    for side in sides:
        side.ip_of_server = "127.0.0.1"
    return sides


def perftest(hosts, sides, program, column):
    words = [*program.split(), "-F", "-x", 1, "-d", "urnic0", "-p", PORT]
    server = getattr(sides[0], "ip_of_server", sides[0].ip)
    results = netns.run_pair(hosts, sides[0].program(*words), sides[1].program(*words, server), PORT)
    for result in results:
        hosts.assert_ok(result, program)
    row = next(line.split() for line in results[1].out.splitlines() if line.split()[:1] == [words[2]])
    value = float(row[column + 1]) * SCALE.get(words[0], 1)
    return value if math.isfinite(value) and value > 0 else None


def tcp(hosts, sides):
    """MB/s (2^20 bytes, as perftest's)."""
    serving = harness.start(netns.inside(sides[0].name, "iperf3", "-s", "-1", "-p", PORT))
    hosts.addCleanup(harness.end_group, serving)
    hosts.assertTrue(harness.wait_until(lambda: netns.listens(PORT, serving)))
    result = harness.run(netns.inside(sides[1].name, "iperf3", "-c", sides[0].ip, "-p", PORT, "-t", 1, "-J"))
    hosts.assert_ok(result, "iperf3")
    return json.loads(result.out)["end"]["sum_received"]["bits_per_second"] / 8 / 2**20


def measure(kind):
    """{what: value} of one port."""
    hosts = Hosts()
    try:
        sides = make(hosts, kind)
        if kind == "TCP":
            return {FIGURES[0][0]: tcp(hosts, sides)}
        for side in sides:
            side.start()
        for side in sides:
            side.expect_state("ACTIVE")
        return {what: perftest(hosts, sides, program, column) for what, program, column, _ in FIGURES}
    finally:
        hosts.doCleanups()


def cell(values, digits):
    values = [value for value in values if value is not None]
    if not values:
        return ""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(found, rounds):
    yield (f"Measured {time.strftime('%Y-%m-%d')}, {rounds} rounds, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs. Median "
           "(lowest to highest).")
    yield ""
    yield "| figure | af_packet, veth | the same, single frames | af_xdp, veth | memif | TCP, veth (iperf3) |"
    yield "|---|---|---|---|---|---|"
    for what, _, _, digits in FIGURES:
        yield f"| {what} | " + " | ".join(cell([values.get(what) for values in found[kind]], digits) for kind in KINDS) + " |"
    what = FIGURES[0][0]
    ratios = [[values[what] / tcp_values[what] for values, tcp_values in zip(found[kind], found["TCP"]) if values.get(what)]
              for kind in KINDS]
    yield "| of TCP's, in the same round | " + " | ".join(cell(values, 2) for values in ratios[:-1]) + " |  |"


def write_table(page, lines):
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=pathlib.Path, default=harness.SOURCE / "bench/RESULTS.md",
                        help="the page whose table is written")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("AF_XDP and network namespaces need root: sudo bench/ports/run.py")
    netns.private()
    found = {kind: [] for kind in KINDS}
    for number in range(1, options.rounds + 1):
        for kind in KINDS:
            found[kind].append(measure(kind))
            print(f"round {number}: {kind}: {found[kind][-1]}", flush=True)
    lines = list(table(found, options.rounds))
    print("\n" + "\n".join(lines))
    write_table(options.page, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
