#!/usr/bin/python3
"""The cases that the simulator plays against a QP of ours, as `urnic conform` writes results: a device of the table beside others.

usage: conform_in_process.py [--selective] [--label TEXT] [--junit FILE] RC_SCRIPTS RESULT.json
RC_SCRIPTS: the program of tests/sim/scripts. --selective: its QP keeps what comes early; without, it goes back N.
Exit status: 0 no case failed, 1 one did, 2 the program did not come to its end.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# conform/record.cc
FORMAT = 2
# Suites of cases end so, where the simulator has scripts of its own beside them (tests/sim/scripts/main.cc).
MARK = "_"
MS_PER_S = 1000


def requirements(listing):
    """By suite and name, clause and requirement: a line each, separated by tabs."""
    rows = (line.split("\t") for line in listing.splitlines())
    return {(suite, name): (clause, what) for suite, name, clause, what in rows}


def case_of(suite, test, listed):
    """One case, of what GoogleTest says of it."""
    failures = [failure["failure"].strip() for failure in test.get("failures", [])]
    clause, what = listed[(suite, test["name"])]
    return {"name": f"{suite}.{test['name']}", "clause": clause, "requirement": what, "verdict": "failed" if failures else "passed",
            "reason": "\n".join(failures), "measurements": [], "attempts": 1,
            "milliseconds": round(float(test["time"].rstrip("s")) * MS_PER_S), "evidence": "", "packets": []}


def record(document, listing, label, is_selective):
    """The results of a run, of GoogleTest's JSON."""
    listed = requirements(listing)
    cases = [case_of(suite["name"].removesuffix(MARK), test, listed)
             for suite in document["testsuites"] if suite["name"].endswith(MARK) for test in suite["testsuite"]]
    return {"format": FORMAT, "label": label, "peer": "", "port": "in-process", "seed": 0, "ended_by": "",
            "device": {"name": "simulator", "early_packets": "kept" if is_selective else "discarded"}, "cases": cases}


def junit(result):
    """The same as JUnit XML, as conform/report.cc has it."""
    failed = [case for case in result["cases"] if case["verdict"] == "failed"]
    suite = ElementTree.Element("testsuite", name=f"urnic conform {result['label']}", tests=str(len(result["cases"])),
                                failures=str(len(failed)), errors="0", skipped="0")
    for case in result["cases"]:
        group, name = case["name"].split(".")
        entry = ElementTree.SubElement(suite, "testcase", classname=group, name=name, time=f"{case['milliseconds'] / MS_PER_S:.3f}")
        if case["verdict"] == "failed":
            failure = ElementTree.SubElement(entry, "failure", message=f"{case['clause']}: {case['requirement']}")
            failure.text = case["reason"]
    return ElementTree.ElementTree(suite)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selective", action="store_true")
    parser.add_argument("--label", default="urnic, in-process")
    parser.add_argument("--junit", type=pathlib.Path, metavar="FILE")
    parser.add_argument("program", metavar="RC_SCRIPTS", type=pathlib.Path)
    parser.add_argument("result", metavar="RESULT.json", type=pathlib.Path)
    options = parser.parse_args()
    listing = subprocess.run([options.program, "--list"], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="urnic-conform-") as directory:
        written = pathlib.Path(directory) / "result.json"
        words = [options.program, f"--gtest_output=json:{written}", f"--gtest_filter=*{MARK}.*"]
        ended = subprocess.run(words + ["--selective"] * options.selective, check=False, capture_output=True, text=True)
        if ended.returncode not in (0, 1) or not written.exists():
            print(f"{options.program} ended with status {ended.returncode}: {ended.stderr.strip()[-2000:]}", file=sys.stderr)
            return 2
        document = json.loads(written.read_text(encoding="utf-8"))
    result = record(document, listing, options.label, options.selective)
    options.result.write_text(json.dumps(result, indent=1), encoding="utf-8")
    if options.junit:
        junit(result).write(options.junit, encoding="unicode", xml_declaration=True)
    failed = [case["name"] for case in result["cases"] if case["verdict"] == "failed"]
    print(f"{options.label}: {len(result['cases'])} cases, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
