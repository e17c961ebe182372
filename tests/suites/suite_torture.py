"""Verbs torture: threads that create, use and destroy everything at random while others transfer and verify, in several
processes of which one is killed again and again, on a daemon built with AddressSanitizer and, in the long form, on a
natural one and one with ThreadSanitizer."""

import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import verdict
import harness

SECONDS_SHORT, SECONDS_LONG = 15, 240
# A slow machine needs longer until everything has happened; one that has not done it by then is broken.
SECONDS_AT_MOST = 600
FINDING = re.compile(r"ERROR: AddressSanitizer|ERROR: LeakSanitizer|WARNING: ThreadSanitizer|runtime error:|check failed")
# What has to have happened in every process, however short the run.
MUST_HAPPEN = ("RC READ", "RC fetch and add", "UC SEND", "UD SEND", "dereg_mr", "destroy_qp", "resize_cq")


def build(sanitizer):
    """The urnicd of that tree, up to date."""
    if sanitizer == "plain":
        return harness.BUILD / "urnicd"
    environment = dict(harness.clean_environment(), URNIC_BUILD_DIR=str(harness.BUILD))
    built = subprocess.run([harness.SOURCE / "scripts/sanitize", sanitizer, "daemon"], env=environment, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if built.returncode != 0:
        raise verdict.Refused(f"the daemon does not build: {built.stdout[-4000:]}")
    return f"{harness.BUILD}-{sanitizer}/urnicd"


class Daemon:
    """A sanitized urnicd with two RNICs, as `urnic run --standalone` makes them."""

    def __init__(self, sanitizer, directory):
        program = build(sanitizer)
        self.directory = directory
        self._log = directory / "log"
        environment = harness.clean_environment()
        environment["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
        environment["TSAN_OPTIONS"] = "second_deadlock_stack=1"
        ready, writes = os.pipe()
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [program, "--standalone", "--run-dir", directory, "--ready-fd", str(writes)], env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writes])
        os.close(writes)
        if os.read(ready, 1) == b"":
            raise verdict.Refused(f"urnicd does not come up: {self.log()}")
        os.close(ready)

    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def command(self, words):
        return [harness.URNIC, "run", "--socket", self.directory, "--", *words]

    def status(self):
        return json.loads(harness.run([harness.URNIC, "status", "--json", "--socket", self.directory]).out)

    def end(self):
        """Its end must be a clean one, without a finding."""
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(harness.PATIENCE_S)
        if status != 0 or FINDING.search(self.log()):
            raise verdict.Refused(f"urnicd ended with status {status}: {self.log()[-8000:]}")

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def kill_again_and_again(daemon, command, others, seed):
    """A process that never gets to tidy up, as long as one of the others runs."""
    while any(other.poll() is None for other in others):
        victim = harness.start(daemon.command([*command, "--seed", str(seed), "--seconds", "3600"]))
        time.sleep(0.3 + seed % 7 * 0.2)
        harness.end_group(victim)
        harness.finish(victim)
        seed += 1


def torture(sanitizer, seconds, seed):
    program = harness.BUILD / "tests/suites/torture"
    with tempfile.TemporaryDirectory(prefix="urnic-torture-") as name:
        daemon = Daemon(sanitizer, pathlib.Path(name))
        try:
            words = [program, "--seconds", str(seconds), "--at-most", str(SECONDS_AT_MOST),
                     *(word for what in MUST_HAPPEN for word in ("--until", what))]
            runs = [harness.start(daemon.command([*words, "--seed", str(seed + i)])) for i in range(2)]
            killer = threading.Thread(target=kill_again_and_again,
                                      args=(daemon, [program, "--churns", "1", "--transfers", "1"], runs, seed))
            killer.start()
            results = [harness.finish(run, SECONDS_AT_MOST + 300) for run in runs]
            killer.join()
            for result in results:
                if result.returncode != 0 or "all data right" not in result.out:
                    raise verdict.Refused(f"{result} urnicd: {daemon.log()[-8000:]}")
            text = "".join(result.out for result in results)
            missing = [what for what in MUST_HAPPEN if any(f"done {what}:" not in result.out for result in results)]
            if missing:
                raise verdict.Refused(f"not done within {SECONDS_AT_MOST} s: {', '.join(missing)}. All that was: {text}")
            expect_nothing_left(daemon)
            daemon.end()
            print(f"torture: under {sanitizer}, seeds {seed} and {seed + 1}:")
            print(summary(text))
        finally:
            daemon.kill()


def summary(text):
    sums = {}
    for what, times in re.findall(r"^done (.*): (\d+)$", text, re.M):
        sums[what] = sums.get(what, 0) + int(times)
    absent = sorted(set(re.findall(r"^not offered: (.*)$", text, re.M)))
    lines = [", ".join(f"{what} {times}" for what, times in sorted(sums.items()))]
    return "\n".join(lines + ([f"not offered: {', '.join(absent)}"] if absent else []))


def expect_nothing_left(daemon):
    """What the dead owned is gone soon after."""
    def left():
        status = daemon.status()
        kept = [(device["name"], kind, number) for device in status["devices"] for kind, number in device.items()
                if isinstance(number, int) and number != 0]
        return kept + status["clients"]
    if not harness.wait_until(lambda: not left(), pause=0.2):
        raise verdict.Refused(f"objects are left: {left()}")


def main():
    suite = verdict.Verdict("torture", __doc__)
    sanitizers = ["asan"] if suite.short else ["plain", "asan", "tsan"]
    for sanitizer in sanitizers:
        suite.run(sanitizer, functools.partial(torture, sanitizer, SECONDS_SHORT if suite.short else SECONDS_LONG,
                                               suite.seed))
    suite.end(expected=sanitizers)


if __name__ == "__main__":
    sys.exit(main())
