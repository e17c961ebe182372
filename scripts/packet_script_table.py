#!/usr/bin/python3
"""Writes the table of packet scripts into docs/conformance/packet-scripts.md, from the program's own list.

usage: packet_script_table.py [--check] PROGRAM...

PROGRAM --list prints a line for each script: suite, name, clause, what it checks, separated by tabs. With --check
nothing is written: exit status 1 says that the table in the file is not what the programs say.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys

BEGIN = "<!-- packet scripts: written by scripts/packet_script_table.py -->"
END = "<!-- packet scripts: end -->"
DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "conformance" / "packet-scripts.md"


def natural(clause):
    """Clauses in the order of the specification: 9.7.5 before 9.7.10, annexes behind the chapters."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"[.\s,]+", clause)]


def scripts_of(program):
    output = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in output.splitlines()]


def table(scripts):
    suites = sorted({suite for suite, *_ in scripts})
    lines = [f"{len(scripts)} scripts.", ""]
    for suite in suites:
        rows = sorted((natural(clause), name, clause, what) for of, name, clause, what in scripts if of == suite)
        lines += [f"### {suite}: {len(rows)}", "", "| clause | what | test |", "|---|---|---|"]
        lines += [f"| {clause} | {what.replace('|', chr(92) + '|')} | {name} |" for _, name, clause, what in rows]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    arguments = parser.parse_args()
    scripts = [script for program in arguments.programs for script in scripts_of(program)]
    names = [f"{suite}.{name}" for suite, name, *_ in scripts]
    doubled = sorted({name for name in names if names.count(name) > 1})
    unnamed = [f"{suite}.{name}" for suite, name, clause, what in scripts if not clause or not what]
    if not scripts or doubled or unnamed:
        print(f"{len(scripts)} scripts; listed twice: {doubled}; without clause or description: {unnamed}")
        return 1
    text = DOCUMENT.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        print(f"{DOCUMENT} needs one line '{BEGIN}' and one '{END}': the table goes between them")
        return 1
    head, rest = text.split(BEGIN)
    wanted = f"{head}{BEGIN}\n\n{table(scripts)}\n{END}{rest.split(END)[1]}"
    if wanted == text:
        return 0
    if arguments.check:
        sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), wanted.splitlines(True), "in the document",
                                                   "as the programs say"))
        print(f"{DOCUMENT} is out of date: run scripts/packet_script_table.py {' '.join(arguments.programs)}")
        return 1
    DOCUMENT.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
