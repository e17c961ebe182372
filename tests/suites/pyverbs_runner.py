"""Runs rdma-core's Python tests one by one and writes what each did: pyverbs_runner.py TESTS_DIR SEED RESULTS [NAME...]

Without names it prints the names of all. RESULTS gets a line of JSON when a test begins and one when it has ended, so
that a reader knows which one hangs. Every test begins with a random state made of SEED and its name: it draws the same
whether it runs alone or among others.
"""

import importlib.machinery
import json
import os
import random
import sys
import unittest


class Recorder(unittest.TestResult):
    def __init__(self, out, seed):
        super().__init__()
        self._out, self._seed = out, seed

    def _write(self, test, state, why=""):
        self._out.write(json.dumps([short_name(test), state, why]) + "\n")
        self._out.flush()

    def startTest(self, test):
        super().startTest(test)
        self._write(test, "begun")
        random.seed(f"{self._seed} {short_name(test)}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._write(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._write(test, "failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._write(test, "failed", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._write(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._write(test, "failed", f"{subtest.id()}: {err[1]}")


def short_name(test):
    """module.Class.test, or the text of what failed while classes were set up."""
    return test.id().split("tests.", 1)[-1]


def all_tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from all_tests(test)
        else:
            yield test


def main():
    directory, seed, results, *names = sys.argv[1:]
    sys.path.insert(0, directory)
    import args_parser  # of the tests, which their modules import by this name
    sys.argv[1:] = []
    args_parser.parser.parse_args()
    module = importlib.machinery.SourceFileLoader("tests", os.path.join(directory, "__init__.py")).load_module()
    tests = {short_name(test): test for test in all_tests(unittest.defaultTestLoader.loadTestsFromModule(module))}
    if not names:
        print("\n".join(tests))
        return
    with open(results, "a", encoding="utf-8") as out:
        recorder = Recorder(out, seed)
        for name in names:
            tests[name].run(recorder)


if __name__ == "__main__":
    main()
