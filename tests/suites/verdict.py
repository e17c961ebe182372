"""What all suites share: options, the checked-in list of names, the verdict.

A suite is a program `suite_NAME.py`, run under `urnic run --standalone --`, with a list lists/NAME.txt: one check a
line, `NAME` when it has to pass, `NAME<tab>reason` when it cannot, `NAME<tab>may pass: reason` when it passes or skips
itself as the machine is, `NAME<tab>not run: reason` when nothing follows from its result. The verdict compares: what newly fails, what passes though the list says that it cannot, what
is missing and what the list does not know makes the suite fail.
"""

import argparse
import os
import pathlib
import sys
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Written by --renew for a check that does not pass and has no reason yet; no verdict accepts it.
NO_REASON = "?"
MAY_PASS = "may pass: "
NOT_RUN = "not run: "


class Refused(Exception):
    """A check failed; the text says how."""


def read_list(path):
    """{name: reason, or "" when the check has to pass}"""
    entries = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, _, reason = line.partition("\t")
                entries[name] = reason
    return entries


def check_state(state, why, reason):
    """(state, text) of a check that ended in `state` and of which the list says `reason` (None: not in it)."""
    if reason is None:
        return FAILED, f"not in the list ({state}{': ' + why if why else ''})"
    if reason == NO_REASON:
        return FAILED, "skipped in the list without a reason"
    if not reason:
        return (PASSED, "") if state == PASSED else (FAILED, why if state == FAILED else f"skipped itself: {why}")
    if reason.startswith(MAY_PASS) and state != SKIPPED:
        return state, why
    if state == PASSED:
        return FAILED, f"passes, but the list says that it cannot: {reason}"
    return SKIPPED, reason.removeprefix(MAY_PASS)


class Verdict:
    """Collects the results of one suite. A check may be reported several times: the worst result counts."""

    def __init__(self, name, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--short", action="store_true", help="the form for CI")
        parser.add_argument("--seed", type=int, default=1, help="for what is drawn at random (default 1)")
        parser.add_argument("--only", default="", metavar="TEXT", help="only checks whose name contains TEXT")
        parser.add_argument("--renew", action="store_true", help="write the list anew from what happens")
        options = parser.parse_args()
        self.name, self.short, self.seed, self.only = name, options.short, options.seed, options.only
        self._renew = options.renew
        self._list_path = HERE / "lists" / f"{name}.txt"
        self._list = read_list(self._list_path)
        self._results = {}
        self._began = time.monotonic()

    def wanted(self, name):
        return self.only in name

    def listed_reason(self, name):
        """Why the list says that this check cannot pass, or None."""
        reason = self._list.get(name) or None
        return None if reason and reason.startswith(MAY_PASS) else reason

    def is_run(self, name):
        return not self._list.get(name, "").startswith(NOT_RUN)

    def report(self, name, state, why=""):
        severity = (PASSED, SKIPPED, FAILED)
        old = self._results.get(name)
        if old is None or severity.index(state) > severity.index(old[0]):
            self._results[name] = (state, " ".join(why.split()))

    def run(self, name, check):
        """Runs a check that raises Refused when it fails, and prints its line."""
        if not self.wanted(name):
            return
        try:
            if self.is_run(name):
                check()
            self.report(name, PASSED if self.is_run(name) else SKIPPED)
        except Refused as refusal:
            self.report(name, FAILED, str(refusal))
        if not self._renew:
            self._print(name)

    def _print(self, name):
        state, text = check_state(*self._results[name], self._list.get(name))
        print(f"{self.name}: {state}: {name}{': ' + text if text else ''}", flush=True)
        return state

    def print_table(self, name, result):
        """All checks as a table of Markdown, in the order in which they ran."""
        print(f"\n| {name} | {result} |\n|---|---|")
        for check, reported in self._results.items():
            state, text = check_state(*reported, self._list.get(check))
            print(f"| {check} | {state}{': ' + text if text and state == SKIPPED else ''} |")
        print(flush=True)

    def end(self, expected=None, already_printed=True):
        """Prints the summary and ends the program. `expected`: the names that must have run; None: the whole list."""
        if self._renew:
            self._write_list()
        must = [name for name in (self._list if expected is None else expected) if self.wanted(name)]
        for name in must:
            if name not in self._results:
                self._results[name] = (FAILED, "did not run")
                self._print(name)
        states = {}
        for name, result in self._results.items():
            states[name] = check_state(*result, self._list.get(name))
            if not already_printed:
                self._print(name)
        counts = [[state for state, _ in states.values()].count(state) for state in (PASSED, FAILED, SKIPPED)]
        self._write_report(states)
        print(f"{self.name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped in "
              f"{time.monotonic() - self._began:.0f} s", flush=True)
        sys.exit(0 if counts[1] == 0 and counts[0] > 0 else 1)

    def _write_list(self):
        kept = [line for line in self._list_path.read_text(encoding="utf-8").splitlines()
                if line.startswith("#")] if self._list_path.exists() else []
        entries = dict(self._list) if self.only else {}
        for name, (state, why) in self._results.items():
            old = self._list.get(name, "")
            kept_reason = state != PASSED or old.startswith(MAY_PASS)
            entries[name] = (old or NO_REASON) if kept_reason else ""
            if state != PASSED:
                print(f"{self.name}: {name}: {why}")
        lines = kept + [f"{name}\t{reason}" if reason else name for name, reason in entries.items()]
        self._list_path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._list = read_list(self._list_path)

    def _write_report(self, states):
        """A report in GoogleTest's form, for scripts/report.py, where URNIC_SUITES names a directory."""
        directory = os.environ.get("URNIC_SUITES")
        if not directory:
            return
        suite = ElementTree.Element("testsuite", name=self.name)
        for name, (state, why) in states.items():
            case = ElementTree.SubElement(suite, "testcase", classname=self.name, name=name, status="run")
            if state == FAILED:
                # What a program printed may hold bytes that XML cannot.
                said = "".join(sign if sign.isprintable() else "?" for sign in why)
                ElementTree.SubElement(case, "failure", message=said)
            if state == SKIPPED:
                ElementTree.SubElement(case, "skipped", message=self._list[name])
        ElementTree.ElementTree(suite).write(pathlib.Path(directory) / f"{self.name}.xml")
