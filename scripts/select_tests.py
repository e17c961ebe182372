#!/usr/bin/python3
"""Names of tests of a build tree, and what they are built from: of these names, or all of the suites unit and sim.

usage: select_tests.py names|targets TREE [--threads] [NAME...]

--threads: only those with a second thread. The protocol and its simulated network are one thread.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys

THREADED = re.compile(r"/tests/unit/((daemon|dataplane|verbs_provider)/|rnic/(fault_plan|key_table|qp)_)")


def introspect(tree, what):
    return json.loads(subprocess.run(["meson", "introspect", tree, what], capture_output=True, text=True, check=True).stdout)


def named(tests, names):
    """The tests of these names, whatever their suite."""
    known = sorted({test["name"] for test in tests})
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 5, 0.4)
            sys.exit(f"there is no test {name}" + (f"; there are {', '.join(near)}" if near else ""))
    return [test for test in tests if test["name"] in names]


def with_threads(tests):
    found = [test for test in tests if THREADED.search(test["cmd"][0])]
    if len(found) < 20:
        sys.exit("select_tests.py: the tests with threads are not where they were (tests/unit): correct THREADED")
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("what", choices=("names", "targets"))
    parser.add_argument("tree", type=os.path.realpath)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tree = options.tree
    tests = introspect(tree, "--tests")
    if options.names:
        tests = named(tests, options.names)
    else:
        tests = [test for test in tests if any(suite.split(":")[-1] in ("unit", "sim") for suite in test["suite"])]
    if options.threads:
        tests = with_threads(tests)
    if options.what == "names":
        print(*dict.fromkeys(test["name"] for test in tests), sep="\n")
        return
    files = {target["id"]: target["filename"] for target in introspect(tree, "--targets")}
    needed = [word for test in tests for word in test["cmd"]] + [file for test in tests for id_ in test["depends"]
                                                                  for file in files.get(id_, [])]
    inside = (os.path.relpath(os.path.realpath(path), tree) for path in needed if path.startswith("/"))
    print(*sorted({path for path in inside if not path.startswith("..")}), sep="\n")


if __name__ == "__main__":
    main()
