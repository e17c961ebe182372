#!/usr/bin/python3
"""TCP over IPoIB: iperf3 over two links of one daemon, beside iperf3 over a veth pair.

Each repetition runs a block over the veth pair and one over the links of each kind, in rotating order; ratios are taken within a
repetition, and beside them stands the CPU time of each part. Namespaces of its own: nothing is left behind. As root, or as a user
who may make user namespaces. Writes the table in bench/RESULTS.md.

--verify: instead, 1 GB by TCP each way over each kind of link, on both link layers, compared by SHA-256.
"""

import contextlib
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import hosts
import machine
import options as options_of
import transfer
from daemon import Daemon
from hosts import Ipoib, Veth, private
from machine import say

MARK = "table of IP over InfiniBand: scripts/bench ipoib writes it"
# Of a link: the default, and the largest of UD.
MTUS = (2044, 4092)
CONNECTED = "connected, MTU 65,520"
VETH = "veth pair"
PARTS = (hosts.SENDER, hosts.SENDING_LINK, hosts.DAEMON, hosts.RECEIVING_LINK, hosts.RECEIVER)


def measure(options):
    found = {}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="urnic-bench-"))
        daemon = Daemon(options.build, directory, "ipoib", options.workers, offload=options.offload)
        stack.callback(daemon.end)
        paths = {VETH: Veth(50)}
        for number, mtu in enumerate(MTUS, 51):
            paths[f"UD, MTU {mtu:,}"] = link = Ipoib(number, daemon, "--mtu", str(mtu))
            stack.callback(link.end)
        paths[CONNECTED] = link = Ipoib(51 + len(MTUS), daemon, "--mode", "connected")
        stack.callback(link.end)
        names = list(paths)
        for name in names:  # what resolves addresses the first time is not measured
            paths[name].iperf3(1)
        for repetition in range(options.repetitions):
            for name in names[repetition % len(names):] + names[:repetition % len(names)]:
                found.setdefault(name, []).append(paths[name].iperf3(options.seconds))
            say(", ".join(f"{name} {found[name][-1].gbps:.3g}" for name in names))
    return found


def rates(blocks):
    return [block.gbps for block in blocks]


def table(found, context, options):
    lines = [f"| path | Gbit/s | of the veth pair | of UD, MTU {MTUS[0]:,} |", "|---|---|---|---|"]
    for name, blocks in found.items():
        cells = []
        for base, is_compared in ((VETH, name != VETH), (f"UD, MTU {MTUS[0]:,}", name == CONNECTED)):
            ratios = [value / of for value, of in zip(rates(blocks), rates(found[base]))]
            cells.append(machine.cell(machine.summary(ratios)) if is_compared else "-")
        lines.append(f"| {name} | {machine.cell(machine.summary(rates(blocks)))} | {' | '.join(cells)} |")
    return (f"{machine.about(context)} {options.repetitions} blocks of {options.seconds} s of each, {options.workers} worker"
            f"{'s' if options.workers != 1 else ''}, offload {options.offload}; medians, first to third quartile in brackets.\n\n" +
            "\n".join(lines) +
            "\n\nCPU seconds for 1 GB, user + kernel, medians of the same blocks. What the kernel does for a frame in a call of a part "
            "counts as that part's: a link's write to its TAP device carries a frame up to the TCP connection.\n\n" +
            cpu_table(found) + "\n\n")


def cpu_table(found):
    lines = [f"| path | {' | '.join(PARTS)} | all |", f"|---|{'---|' * len(PARTS)}---|"]
    for name, blocks in found.items():
        cells = []
        for part in PARTS:
            pairs = [block.cpu[part] for block in blocks if part in block.cpu]
            cells.append(" + ".join(f"{statistics.median(values):.3f}" for values in zip(*pairs)) or "-")
        everything = statistics.median(sum(map(sum, block.cpu.values())) for block in blocks)
        lines.append(f"| {name} | {' | '.join(cells)} | {everything:.3f} |")
    return "\n".join(lines)


def main():
    made = options_of.parser("ipoib", __doc__)
    made.add_argument("--repetitions", type=int, default=7, help="blocks of each path (%(default)s)")
    made.add_argument("--seconds", type=int, default=3, help="length of a block (%(default)s)")
    made.add_argument("--workers", type=int, default=1, help="of the daemon (%(default)s)")
    made.add_argument("--offload", choices=("off", "auto"), default="off",
                      help="of the RNICs: packets are frames, or need not be (%(default)s)")
    made.add_argument("--verify", action="store_true", help="transfer files and compare them; writes a table of its own")
    made.add_argument("--octets", type=int, default=1_000_000_000, help="of a file, with --verify (%(default)s)")
    options_of.add_results(made, "ipoib")
    options_of.add_print(made)
    options = options_of.parse(made)
    private()
    machine.check_build(options.build, "ulp/ipoib/urnic-ipoib")
    context, times = machine.context(), machine.CpuTimes()
    if options.verify:
        found = transfer.measure(options)
        context.update(times.disturbances())
        text = transfer.table(found, context, options)
        print(text)
        if not options.print:
            machine.write_between(options.page, transfer.MARK, text)
        return
    found = measure(options)
    context.update(times.disturbances())
    machine.write_json(options.json, {"context": context, "paths": {
        name: {**machine.summary(rates(blocks)), "cpu": [block.cpu for block in blocks]} for name, blocks in found.items()}})
    text = table(found, context, options)
    print(text)
    if not options.print:
        machine.write_between(options.page, MARK, text)


machine.run_program(main)
