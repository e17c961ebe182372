#!/usr/bin/python3
"""Runs build/bench/stages/stages several times and writes its table, medians of all runs, into docs/performance.md."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import machine
from machine import Failure, say

# Cycles of all stages together, at most.
TARGETS = {"64 B WRITE, 32 at once": 350, "64 B SEND, 32 at once": 480}
MARK = "table of stages: scripts/bench stages writes it"


def run_once(program, batches, cpu):
    done = subprocess.run(machine.pinned(cpu, [program, "--batches", batches]), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{program} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def table(found, runs):
    ghz = statistics.median(run["tsc_ghz"] for run in runs)
    cases = list(runs[0]["stages"])
    lines = [machine.about(found) + f" Medians of {len(runs)} runs, in cycles of the time stamp counter ({ghz:.2f} GHz) a message; CRC by "
             f"{runs[0]['crc32']}.", "", "| stage | " + " | ".join(cases) + " |", "|---|" + "---|" * len(cases)]
    totals = dict.fromkeys(cases, 0)
    for stage in runs[0]["stages"][cases[0]]:
        row = [statistics.median(run["stages"][case][stage] for run in runs) for case in cases]
        for case, cycles in zip(cases, row):
            totals[case] += cycles
        lines.append(f"| {stage} | " + " | ".join(f"{cycles:.0f}" for cycles in row) + " |")
    lines.append("| together | " + " | ".join(f"{total:.0f}" for total in totals.values()) + " |")
    lines.append("| target | " + " | ".join(str(TARGETS.get(case, "-")) for case in cases) + " |")
    met = {case: "yes" if totals[case] <= target else "**no**" for case, target in TARGETS.items()}
    lines.append("| met | " + " | ".join(met.get(case, "-") for case in cases) + " |")
    lines.append("| that is | " + " | ".join(f"{total / ghz:.0f} ns" for total in totals.values()) + " |")
    lines += ["", "| part by itself, everything in the cache | cycles |", "|---|---|"]
    for part in runs[0]["parts"]:
        lines.append(f"| {part} | {statistics.median(run['parts'][part] for run in runs):.0f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench stages", description=__doc__)
    build = pathlib.Path(os.environ.get("URNIC_BUILD", machine.SOURCE / "build"))
    parser.add_argument("--build", type=pathlib.Path, default=build, help="build directory (%(default)s)")
    parser.add_argument("--runs", type=int, default=9, help="runs of the program (%(default)s)")
    parser.add_argument("--batches", type=int, default=2000, help="batches of each kind in a run (%(default)s)")
    parser.add_argument("--page", type=pathlib.Path, default=machine.SOURCE / "docs" / "performance.md",
                        help="page that the table goes into (%(default)s)")
    parser.add_argument("--print", action="store_true", help="leave the page alone")
    options = parser.parse_args()
    found = {**machine.context(), "build": machine.check_build(options.build, "bench/stages/stages")}
    cpu_times, runs = machine.CpuTimes(), []
    for number in range(options.runs):
        runs.append(run_once(options.build / "bench" / "stages" / "stages", options.batches, machine.Cpus().a))
        say(f"{number + 1}/{options.runs}")
    found |= cpu_times.disturbances()
    machine.write_json(options.build / "bench" / "stages.json", {"context": found, "runs": runs})
    text = table(found, runs)
    if not options.print:
        machine.write_between(options.page, MARK, text)
    print(text, end="")


if __name__ == "__main__":
    machine.run_program(main)
