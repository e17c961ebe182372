#!/usr/bin/python3
"""Goodput of stock perftest over urnic while `urnic fault` drops packets, as a ratio to the lossless blocks beside it.

Two daemons, one for each way of loss recovery, take turns; a lossless block comes before each lossy one, so that a
machine whose speed changes tells itself apart from a protocol that is slow. The lossless block has a fault too, one that
never comes: what is compared is loss, not the work of deciding about each packet, which has a row of its own. Prints a table
in Markdown.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import machine
from daemon import Daemon
from machine import Failure
from programs import Programs

# Of a fault that decides about each packet and leaves it alone, for as many packets as a run has.
NEVER = 1e-12
LOSSES = (NEVER, 0.0001, 0.001, 0.01, 0.05)


def goodput(programs, daemon, words, loss, seed):
    """Gbit/s with packets dropped with this probability; None: no fault at all."""
    if loss is None:
        return 8 * programs.perftest_bandwidth(daemon, *words)
    daemon.fault("add", "drop", "--probability", f"{loss:.12f}", "--seed", str(seed))
    try:
        return 8 * programs.perftest_bandwidth(daemon, *words)
    finally:
        daemon.fault("clear")


def measure(programs, daemon, tool, loss, options):
    """Goodput in Gbit/s under loss and its ratio to the lossless block before it, for each repetition."""
    words = [tool, "-s", str(options.size), "-u", str(options.timeout)]
    results = []
    for seed in range(1, options.repetitions + 1):
        lossless = goodput(programs, daemon, words, None if loss == NEVER else NEVER, seed)
        lossy = goodput(programs, daemon, words, loss, seed)
        results.append((lossy, lossy / lossless))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=machine.SOURCE / "build", help="build directory")
    parser.add_argument("--repetitions", type=int, default=5, help="blocks for each row")
    parser.add_argument("--seconds", type=int, default=1, help="length of a block")
    parser.add_argument("--size", type=int, default=65536, help="bytes of a message")
    parser.add_argument("--timeout", type=int, default=14, help="local ACK timeout code, as perftest's -u")
    options = parser.parse_args()
    cpus = machine.Cpus()
    programs = Programs(options.build, cpus, options.seconds, 1000)
    print(f"Blocks of {options.seconds} s, {options.repetitions} repetitions, ACK timeout code {options.timeout}, "
          f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before. Median (least to most).\n")
    print("| | recovery | loss | goodput | of lossless |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="urnic-loss-") as directory, contextlib.ExitStack() as stack:
        daemons = {}
        for recovery in ("go-back-n", "selective"):
            daemons[recovery] = Daemon(options.build, directory, recovery, [cpus.daemon], recovery)
            stack.callback(daemons[recovery].end)
        for tool in ("ib_write_bw", "ib_read_bw"):
            for loss in LOSSES:
                for recovery, daemon in daemons.items():
                    goodputs, ratios = zip(*measure(programs, daemon, tool, loss, options))
                    what = "none, but a fault in place" if loss == NEVER else f"{loss * 100:g} %"
                    print(f"| {tool} | {recovery} | {what} | {statistics.median(goodputs):.2f} Gbit/s | "
                          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"loss.py: {failure}")
