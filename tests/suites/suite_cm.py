"""librdmacm's programs over the in-process wire: rping, ucmatose, udaddy, mckey, rsockets, perftest -R and others, as tests/e2e/cm_test.py runs
them; and those of cm_hosts_test.py, each with a network and a daemon of its own."""

import functools
import subprocess
import sys
import unittest

import verdict
import cm_hosts_test
import cm_test
import harness


def run_case(case):
    result = unittest.TestResult()
    case.run(result)
    for _, problem in result.failures + result.errors:
        raise verdict.Refused(problem)


def run_with_interfaces(name):
    # Not among this daemon's: urnic run is begun anew.
    environment = harness.clean_environment()
    done = subprocess.run(["/usr/bin/python3", cm_hosts_test.__file__, name], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise verdict.Refused(done.stdout + done.stderr)


def cases(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


def main():
    suite = verdict.Verdict("cm", __doc__)
    for case in cases(unittest.TestLoader().loadTestsFromModule(cm_test)):
        suite.run(case.id().removeprefix("cm_test."), functools.partial(run_case, case))
    for case in cases(unittest.TestLoader().loadTestsFromTestCase(cm_hosts_test.Hosts)):
        name = case.id().removeprefix("cm_hosts_test.")
        suite.run(name, functools.partial(run_with_interfaces, name))
    suite.end()


if __name__ == "__main__":
    sys.exit(main())
