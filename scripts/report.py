#!/usr/bin/python3
"""Adds up test results and prints the summary line.

usage: report.py --skips FILE --logs DIRECTORY [--suites DIRECTORY] [--interop FILE] [--checks STAGE...] -- BUILD_DIR:LOGBASE...

--logs: what the stages printed (STAGE.log): the verdicts of those named by --checks, and why another has no results.
Each test that Meson ran counts as the cases it reports (BUILD_DIR/gtest/*.xml) or, without a report, as one. Every
skip must be listed in the skips file (one a line: NAME, a tab, the reason). The suites (tests/suites) leave a report
each in DIRECTORY, and compare their skips with lists of their own; scripts/interop leaves one report. Exit status 0
when nothing failed and every skip is listed.
"""

import argparse
import json
import pathlib
import re
import sys
import xml.etree.ElementTree


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []
        self.skipped_by_suites = []
        self.evidence = {}  # by name of what failed: the end of what it said

    def fail(self, name, said):
        self.failed.append(name)
        self.evidence[name] = said.rstrip().split("\n")[-40:]


def read_cases(path):
    """(name, state, reason) of each case in a report of GoogleTest's form; of one that failed, what it said."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        failures = case.findall("failure") + case.findall("error")
        if failures:
            yield name, "failed", "\n".join(failure.text or failure.get("message") or "" for failure in failures)
        elif skip is not None or case.get("status") == "notrun":
            yield name, "skipped", (skip.get("message") or "") if skip is not None else "disabled"
        else:
            yield name, "passed", ""


def reports_of(build, test):
    """The reports that a test's program left: its own name, then with _1, _2 ... for further runs."""
    names = [re.escape(pathlib.Path(word).stem) for word in test["command"][:2]]
    names.append(re.escape(test["name"].split(" / ")[-1].split(":")[-1]))
    pattern = re.compile(r"^(%s)(_\d+)?\.xml$" % "|".join(names))
    return [path for path in sorted((build / "gtest").glob("*.xml")) if pattern.match(path.name)]


def add_test(totals, build, test, counted):
    name = test["name"]
    cases, failed_before = 0, len(totals.failed)
    for report in reports_of(build, test):
        if report in counted:
            continue
        counted.add(report)
        for case, state, reason in read_cases(report):
            cases += 1
            if state == "passed":
                totals.passed += 1
            elif state == "failed":
                totals.fail(f"{name}: {case}", reason)
            else:
                totals.skipped.append((f"{name}: {case}", reason))
    result = test["result"]
    if result == "SKIP":
        totals.skipped.append((name, (test.get("stdout") or "").strip().split("\n")[-1]))
    elif result not in ("OK", "EXPECTEDFAIL"):
        if len(totals.failed) == failed_before:
            totals.fail(f"{name} ({result.lower()})", (test.get("stdout") or "") + (test.get("stderr") or ""))
    elif cases == 0:
        totals.passed += 1


def add_build(totals, argument, logs):
    build, logbase = argument.rsplit(":", 1)
    log = pathlib.Path(build, "meson-logs", f"{logbase}.json")
    try:
        lines = log.read_text(encoding="utf-8").splitlines()
    except OSError:
        said = logs / f"{'tests' if logbase == 'quick' else logbase}.log"
        totals.fail(f"{logbase}: no results at {log} (its build or its start failed)",
                    said.read_text(encoding="utf-8", errors="replace") if said.exists() else "")
        return
    counted = set()
    for line in lines:
        add_test(totals, pathlib.Path(build), json.loads(line), counted)


def checks_of(stage):
    """Names of the verdicts that a stage prints: those that its script can print."""
    if stage == "lint":
        names = re.findall(r"^verdict ([\w-]+) ", pathlib.Path("scripts/lint").read_text(encoding="utf-8"), re.M)
    elif stage == "fuzz":
        names = re.search(r"^targets=\((.+)\)", pathlib.Path("scripts/fuzz").read_text(encoding="utf-8"), re.M).group(1).split()
    else:
        names = ["programs"]
    return [f"{stage} {name}" for name in names]


def add_checks(totals, path, checks):
    """Each check's verdict stands on a line of its own in the file at `path`."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    for check in checks:
        if f"{check}: ok" in lines:
            totals.passed += 1
        else:
            end = lines.index(f"{check}: FAILED") if f"{check}: FAILED" in lines else len(lines)
            totals.fail(check, "\n".join(lines[:end]))


def add_suites(totals, directory):
    for suite in sorted(pathlib.Path("tests/suites").glob("suite_*.py")):
        name = suite.stem.removeprefix("suite_")
        try:
            cases = list(read_cases(directory / f"{name}.xml"))
        except (OSError, xml.etree.ElementTree.ParseError):
            totals.fail(f"suite {name}: no results", "")
            continue
        for case, state, reason in cases:
            if state == "passed":
                totals.passed += 1
            elif state == "failed":
                totals.fail(f"suite {case}", reason)
            else:
                totals.skipped_by_suites.append((f"suite {case}", reason))


def add_interop(totals, path):
    try:
        cases = list(read_cases(path))
    except (OSError, xml.etree.ElementTree.ParseError):
        totals.fail("interop: no results", "")
        return
    for case, state, reason in cases:
        if state == "passed":
            totals.passed += 1
        elif state == "failed":
            totals.fail(case, reason)
        else:
            totals.skipped.append((case, reason))


def unlisted_skips(totals, path):
    listed = [line.split("\t")[0] for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()
              if line and not line.startswith("#")]
    return [name for name, _ in totals.skipped if name not in listed]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--skips", required=True)
    parser.add_argument("--logs", required=True, type=pathlib.Path)
    parser.add_argument("--suites", type=pathlib.Path)
    parser.add_argument("--interop", type=pathlib.Path)
    parser.add_argument("--checks", nargs="*", default=[], metavar="STAGE")
    parser.add_argument("builds", nargs="+")
    arguments = parser.parse_args()
    totals = Totals()
    for build in arguments.builds:
        add_build(totals, build, arguments.logs)
    for stage in arguments.checks:
        add_checks(totals, arguments.logs / f"{stage}.log", checks_of(stage))
    if arguments.suites:
        add_suites(totals, arguments.suites)
    if arguments.interop:
        add_interop(totals, arguments.interop)
    skipped = totals.skipped + totals.skipped_by_suites
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    unlisted = unlisted_skips(totals, arguments.skips)
    for name in unlisted:
        print(f"not in {arguments.skips}: {name}")
    for name in totals.failed:
        print(f"failed: {name}")
        for line in totals.evidence[name]:
            print(f"    {line[:400]}")
    print(f"logs: {arguments.logs}")
    for tree in dict.fromkeys(build.split(":")[0] for build in arguments.builds):
        for path in sorted((pathlib.Path(tree) / "junit").glob("conform-*.xml")):
            print(f"JUnit of urnic conform: {path}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed, {len(skipped)} skipped")
    return 1 if totals.failed or unlisted or totals.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
