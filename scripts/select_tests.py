#!/usr/bin/python3
"""Names of the unit and sim tests of a build tree that a sanitizer is to run, and what they are built from.

usage: select_tests.py names|targets TREE [--threads]

--threads: only those with a second thread. The protocol and its simulated network are one thread.
"""

import json
import os
import re
import subprocess
import sys

THREADED = re.compile(r"/tests/unit/((control|dataplane|fault|memory|verbs_provider)/|mem_key_table)")


def introspect(tree, what):
    return json.loads(subprocess.run(["meson", "introspect", tree, what], capture_output=True, text=True, check=True).stdout)


def main():
    what, tree = sys.argv[1], os.path.realpath(sys.argv[2])
    tests = [test for test in introspect(tree, "--tests")
             if any(suite.split(":")[-1] in ("unit", "sim") for suite in test["suite"])]
    if "--threads" in sys.argv:
        tests = [test for test in tests if THREADED.search(test["cmd"][0])]
        if len(tests) < 20:
            sys.exit("select_tests.py: the tests with threads are not where they were (tests/unit): correct THREADED")
    if what == "names":
        print(*dict.fromkeys(test["name"] for test in tests), sep="\n")
        return
    files = {target["id"]: target["filename"] for target in introspect(tree, "--targets")}
    needed = [word for test in tests for word in test["cmd"]] + [file for test in tests for id_ in test["depends"]
                                                                  for file in files.get(id_, [])]
    inside = (os.path.relpath(os.path.realpath(path), tree) for path in needed if path.startswith("/"))
    print(*sorted({path for path in inside if not path.startswith("..")}), sep="\n")


if __name__ == "__main__":
    main()
