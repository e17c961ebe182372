"""The Python tests of rdma-core 44 that are not for one vendor's devices; the long form runs them with twenty seeds."""

import json
import os
import pathlib
import sys
import tempfile

import verdict
import harness
import rdma_core_tests

VENDORS = ("test_mlx5_", "test_efa")
SEEDS_LONG, SEEDS_SHORT = 20, 1
# A test takes seconds at most; what hangs is ended and the rest continues.
TEST_TIMEOUT_S = 60


def runner(tests, seed, results, names):
    environment = dict(os.environ, PYTHONHASHSEED=str(seed), PYTHONDONTWRITEBYTECODE="1")
    command = ["/usr/bin/python3", verdict.HERE / "pyverbs_runner.py", tests, str(seed), results, *names]
    if names and is_cm(names[0]):
        environment = dict(harness.clean_environment(), PYTHONHASHSEED=str(seed), PYTHONDONTWRITEBYTECODE="1")
        command = ["/usr/bin/python3", verdict.HERE / "on_interface.py", *command]
    return harness.start(command, env=environment)


def is_cm(name):
    """The tests of librdmacm look for an interface of the kernel with the RNIC's address."""
    return name.startswith("test_rdmacm.")


def lines_of(results):
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def run_names(tests, seed, names, results):
    """Yields (name, state, why) of each, however many of them hang or take the interpreter with them."""
    while names:
        results.unlink(missing_ok=True)
        process, seen = runner(tests, seed, results, names), 0
        done = None
        while done is None:
            grown = lambda: process.poll() is not None or len(lines_of(results)) > seen
            if not harness.wait_until(grown, TEST_TIMEOUT_S, pause=0.05):
                done = "hangs"
            elif process.poll() is not None:
                done = "ended the interpreter"
            seen = len(lines_of(results))
        harness.end_group(process)
        output = harness.finish(process)
        last = None
        for name, state, why in lines_of(results):
            last = name if state == "begun" else None
            names = [other for other in names if other != name]
            if state != "begun":
                yield name, state, why
        if last is not None:
            yield last, verdict.FAILED, f"{done}: {output}"
        elif names and not lines_of(results):
            raise SystemExit(f"the tests could not be loaded: {output}")


def main():
    suite = verdict.Verdict("pyverbs", __doc__)
    with tempfile.TemporaryDirectory(prefix="urnic-pyverbs-") as name:
        directory = pathlib.Path(name)
        tests = rdma_core_tests.provide()
        found = harness.finish(runner(tests, 0, "-", []))
        if found.returncode != 0:
            raise SystemExit(f"the tests could not be loaded: {found}")
        names = [test for test in found.out.split() if not test.startswith(VENDORS) and suite.wanted(test)]
        for seed in range(suite.seed, suite.seed + (SEEDS_SHORT if suite.short else SEEDS_LONG)):
            failed = 0
            for group in ([test for test in names if not is_cm(test)], [test for test in names if is_cm(test)]):
                for test, state, why in run_names(tests, seed, group, directory / "results"):
                    suite.report(test, state, f"with --seed {seed}: {why}" if state == verdict.FAILED else why)
                    failed += state == verdict.FAILED and not suite.listed_reason(test)
            print(f"pyverbs: seed {seed}: {len(names)} tests, {failed} failed", flush=True)
    suite.end(already_printed=False)


if __name__ == "__main__":
    sys.exit(main())
