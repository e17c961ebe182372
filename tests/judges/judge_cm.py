"""librdmacm's programs over the in-process wire: rping, ucmatose, udaddy, mckey, rsockets, perftest -R and others, as tests/e2e/cm_test.py runs them."""

import functools
import sys
import unittest

import verdict
import cm_test


def run_case(case):
    result = unittest.TestResult()
    case.run(result)
    for _, problem in result.failures + result.errors:
        raise verdict.Refused(problem)


def cases(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


def main():
    judge = verdict.Verdict("cm", __doc__)
    for case in cases(unittest.TestLoader().loadTestsFromModule(cm_test)):
        judge.run(case.id().removeprefix("cm_test."), functools.partial(run_case, case))
    judge.end()


if __name__ == "__main__":
    sys.exit(main())
