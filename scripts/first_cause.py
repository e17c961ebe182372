#!/usr/bin/python3
"""Finds the first cause of a failure in what a compiler, a test program or a script printed.

usage: first_cause.py FILE: prints the first error of a build.
"""

import re
import sys

MAX_LENGTH = 300
ESCAPE = re.compile(r"\x1b\[[0-9;]*[mK]")
# What compilers, linkers, ninja and Meson print. collect2 only sums up what the linker said.
BUILD = re.compile(r"(?:^|\s)(?:fatal )?error: (?!ld returned)|undefined reference to |multiple definition of |\bld: cannot find "
                   r"|^ninja: error|ERROR: ")
# What ends a program: sanitizers, GoogleTest, Python, our own checks, signals.
SANITIZER = re.compile(r"(ERROR: \w+Sanitizer|WARNING: \w+Sanitizer|SUMMARY: \w+Sanitizer|runtime error: )")
GOOGLE_TEST = re.compile(r"^\S+:\d+: Failure$|^unknown file: Failure$")
PYTHON_CASE = re.compile(r"^(?:FAIL|ERROR): (\S+)")
PYTHON_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Failed|Expired|Missing|Refused)|SystemExit|KeyboardInterrupt)\b")
OTHER = re.compile(r"terminate called|[Aa]ssertion|check failed|Segmentation fault|Aborted|FAILED|[Ff]atal|(?:^|\s)error\b|Traceback")


def clean(text):
    return [ESCAPE.sub("", line).rstrip() for line in text.split("\n")]


def build_cause(text):
    """The first error of a build, or ""."""
    for line in clean(text):
        if BUILD.search(line) and "warnings being treated as errors" not in line:
            return line.strip()[:MAX_LENGTH]
    return ""


def _google_test(lines, at):
    """Place and what follows it, up to an empty line."""
    words = [lines[at].removesuffix(" Failure").rstrip()]
    for line in lines[at + 1:at + 6]:
        if not line.strip() or line.startswith("["):
            break
        words.append(line.strip())
    return " ".join(words)


def _python(lines, at):
    """Name of the case and the last line of its traceback."""
    name = PYTHON_CASE.match(lines[at]).group(1)
    for line in lines[at + 1:]:
        if PYTHON_ERROR.match(line):
            return f"{name}: {line}"
        if PYTHON_CASE.match(line):
            break
    return name


def test_cause(text):
    """The first cause that a test printed; what it printed last where nothing looks like one, or ""."""
    lines = clean(text)
    for at, line in enumerate(lines):
        if SANITIZER.search(line):
            return line.strip()[:MAX_LENGTH]
        if GOOGLE_TEST.match(line):
            return _google_test(lines, at)[:MAX_LENGTH]
        if PYTHON_CASE.match(line):
            return _python(lines, at)[:MAX_LENGTH]
    for pattern in (PYTHON_ERROR, OTHER):
        found = next((line for line in lines if pattern.search(line)), None)
        if found:
            return found.strip()[:MAX_LENGTH]
    said = [line for line in lines if line.strip()]
    return said[-1].strip()[:MAX_LENGTH] if said else ""


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        text = file.read()
    print(build_cause(text) or test_cause(text))


if __name__ == "__main__":
    main()
