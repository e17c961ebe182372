#!/usr/bin/python3
"""The cases of `urnic conform` against an RNIC of ours again and again beside busy loops: which verdicts are not always the same?

usage: conform_repeat.py [--runs N] [--busy N] [--json DIRECTORY] URNIC [CASE...]
Each run has a daemon, an agent and a tester of its own (`urnic conform --port standalone`), and the same seed.
Exit status: 0 no case failed in any run, 1 one did, 2 a run did not come to its end.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# It ends with whoever started it, however that ended.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1000000): pass"


def run_once(urnic, cases, file):
    """The tester's record; None when the run did not come to its end."""
    result = subprocess.run([urnic, "conform", "--port", "standalone", "--json", file, *cases], check=False, capture_output=True, text=True)
    if result.returncode not in (0, 1):
        print(f"the run ended with status {result.returncode}: {result.stderr.strip()[-2000:]}", file=sys.stderr)
        return None
    return json.loads(file.read_text(encoding="utf-8"))


def verdicts_of(records):
    """By case, its verdicts in the order of the runs."""
    verdicts = collections.defaultdict(list)
    for record in records:
        for case in record["cases"]:
            verdicts[case["name"]].append(case["verdict"])
    return verdicts


def summary(records):
    """Lines about all runs; and how many verdicts were `failed`."""
    verdicts = verdicts_of(records)
    # A case that is missing in a run differs, too.
    unlike = {name: list_ for name, list_ in verdicts.items() if len(set(list_)) != 1 or len(list_) != len(records)}
    failed = sum(list_.count("failed") for list_ in verdicts.values())
    judged = sum(len(list_) for list_ in verdicts.values())
    lines = [f"{len(records)} runs of {len(verdicts)} cases: {judged} verdicts, {failed} of them failed; "
             f"{len(unlike)} cases were not judged alike each time"]
    for name, list_ in sorted(unlike.items()):
        counts = collections.Counter(list_)
        lines.append(f"  {name}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()))
    for record in records:
        lines += [f"  {case['name']} failed: {case['reason']}" for case in record["cases"] if case["verdict"] == "failed"]
    return lines, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="how often; 10 without")
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="busy loops beside them; one for each CPU without")
    parser.add_argument("--json", type=pathlib.Path, help="directory for the result of each run")
    parser.add_argument("urnic")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    if options.runs < 1 or options.busy < 0:
        parser.error("--runs is at least 1, --busy at least 0")
    records = []
    with tempfile.TemporaryDirectory(prefix="urnic-conform-") as temporary:
        directory = options.json or pathlib.Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
        try:
            for number in range(1, options.runs + 1):
                begin = time.monotonic()
                record = run_once(options.urnic, options.cases, directory / f"run-{number}.json")
                if record is None:
                    return 2
                records.append(record)
                counts = ", ".join(f"{name} {count}" for name, count in record["counts"].items() if count)
                print(f"run {number}: {counts}; {time.monotonic() - begin:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    lines, failed = summary(records)
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
