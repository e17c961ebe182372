"""Stock programs over two of our RNICs and, run by run, over the kernel's TCP: medians, their ratio, and the range of both.

Both ends are on this machine, and what else runs there takes its part of both. A run over the RNICs counts only when the bytes
went through them. Exit status 0: every program did what it is for.
"""

import argparse
import datetime
import statistics
import subprocess
import sys

import places
import programs

import harness  # found by places


def measure(measured, runs):
    """(figures over the RNICs, figures over TCP). Raises places.Failed."""
    ours, tcp = [], []
    for _ in range(runs):
        before = places.sent_bytes()
        ours.append(measured.figure(True))
        # Who asks often is told what was so up to a tenth of a second ago.
        if not harness.wait_until(lambda before=before: places.sent_bytes() - before >= measured.least_bytes, timeout=5):
            raise places.Failed(f"the data of '{measured.what}' went another way")
        if measured.has_tcp:
            tcp.append(measured.figure(False))
    return ours, tcp


def shown(figures):
    if not figures:
        return "-"
    return f"{statistics.median(figures):.4g} ({min(figures):.4g} to {max(figures):.4g})"


def ratio(measured, ours, tcp):
    """How many times as good as TCP."""
    if not tcp:
        return "-"
    times = statistics.median(ours) / statistics.median(tcp)
    return f"{1 / times if measured.less_is_better else times:.2f}"


def revision():
    return subprocess.run(["git", "log", "-1", "--format=%h"], capture_output=True, text=True, check=False).stdout.strip()


def main():
    parser = argparse.ArgumentParser(prog="scripts/applications", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the programs")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each program; 5 without")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all without")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{program.name}\t{program.what}" for program in programs.PROGRAMS))
        return 0
    known = {program.name: program for program in programs.PROGRAMS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no {unknown[0]}; --list prints all")
    places.enter()
    failed = []
    print(f"{datetime.date.today()}, commit {revision()}, {options.runs} runs each: median (least to most)\n\n"
          "| program | what | over urnic | over TCP | times as good |\n|---|---|---|---|---|", flush=True)
    for program in [known[name] for name in options.names] or programs.PROGRAMS:
        for measured in program.measures:
            try:
                ours, tcp = measure(measured, options.runs)
            except places.Failed as failure:
                failed.append(f"{program.name}, {measured.what}: {failure}")
                continue
            print(f"| {program.name} | {measured.what}, {measured.unit} | {shown(ours)} | {shown(tcp)} | "
                  f"{ratio(measured, ours, tcp)} |", flush=True)
    print("\n".join(["", *failed]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
