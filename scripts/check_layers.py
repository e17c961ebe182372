#!/usr/bin/python3
"""Checks what the compiler cannot: the length of files and functions, and which room may include what."""

import pathlib
import re
import sys

MAX_LINES = 500
MAX_FUNCTION_LINES = 70
NOT_CODE = re.compile(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'')
NO_FUNCTION = re.compile(r"\b(namespace|struct|class|union|enum|extern)\b|=[^{]*\{")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')

# rnic/ is pure: no operating system, no clock, no thread, no DPDK.
NOT_IN_RNIC = re.compile(r"^(sys/|linux/|net/|arpa/|infiniband/|rte_|fmt/)|^(unistd|pthread|fcntl|poll|time|signal|dlfcn)\.h$"
                         r"|^(thread|chrono|mutex|condition_variable|ctime|csignal|iostream|fstream|future)$")
NOT_OUTSIDE_DATAPLANE = re.compile(r"^rte_")
# (folder, what its files may not include, why)
RULES = [
    ("rnic/", NOT_IN_RNIC, "rnic/ uses the standard library alone, without clocks and threads"),
    ("rnic/", re.compile(r"^(dataplane|verbs_provider|congestion/[a-z]+)/"), "rnic/ knows no other room but how fast QPs send"),
    ("rnic/base/", re.compile(r"^congestion/"), "rnic/base is below congestion/"),
    ("congestion/", re.compile(r"^(rte_|dataplane/|verbs_provider/)"), "congestion/ knows neither daemon nor provider"),
    ("congestion/(?!experiment/)", re.compile(r"^(rnic/(?!base/)|congestion/experiment)"),
     "congestion/ uses rnic/base alone; experiments alone use RNICs"),
    ("verbs_provider/", NOT_OUTSIDE_DATAPLANE, "DPDK is for dataplane/ alone"),
    ("verbs_provider/", re.compile(r"^(dataplane/|rnic/(?!abi/|base/check\.h))"), "verbs_provider/ may use rnic/abi alone"),
]


def long_functions(path, lines):
    """Blocks of too many lines between their braces that are neither types nor tables."""
    open_blocks = []
    for number, line in enumerate(lines, 1):
        code = NOT_CODE.sub("", line)
        for character in code:
            if character == "{":
                open_blocks.append((number, code))
            elif character == "}" and open_blocks:
                start, head = open_blocks.pop()
                length = number - start - 1
                if length > MAX_FUNCTION_LINES and not NO_FUNCTION.search(head):
                    yield f"{path}:{start}: a block of {length} lines; split it, a function has at most {MAX_FUNCTION_LINES}"


def problems(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) >= MAX_LINES:
        yield f"{path}: {len(lines)} lines; split it, a file has fewer than {MAX_LINES}"
    if path.endswith((".h", ".cc")):
        yield from long_functions(path, lines)
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        for folder, forbidden, why in RULES:
            if re.match(folder, path) and forbidden.search(found.group(1)):
                yield f"{path}:{number}: includes {found.group(1)}: {why}"


def main():
    found = [problem for path in sys.argv[1:] for problem in problems(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
