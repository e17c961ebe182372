#!/usr/bin/python3
"""Runs the stages of scripts/test, some side by side, and names every failure when it happens.

usage: run_stages.py whole LOGS
       run_stages.py quick LOGS
       run_stages.py named LOGS TEST...

What a stage prints goes to LOGS/STAGE.log. scripts/report.py adds up the results. Lanes whose tests mostly wait have the processors'
priority, and the builds of the other lanes take what these leave.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import first_cause

TOP = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ["build"])
# Messages of each of the two shards' share in the quick run: seconds instead of half a minute.
QUICK_WALK_MESSAGES = "200000"

# End-to-end tests wait more than they compute: with one for each core the cores are idle for half of the time.
TESTS_AT_ONCE = 2 * (os.cpu_count() or 1)

RESULT = re.compile(r"^\s*\d+/\d+ (.+?)\s+(OK|FAIL|TIMEOUT|ERROR|SKIP|INTERRUPT|UNEXPECTEDPASS|EXPECTEDFAIL)\s+[\d.]+s")
GOOD = ("OK", "SKIP", "EXPECTEDFAIL")
# Meson's lines below the output of a test, and above those that name all failures once more.
RULE = re.compile(r"^(?:―+|-{78})$")
SUMMARY = "Summary of Failures:"
STEP = re.compile(r"^\[\d+/\d+\]|^ninja: build stopped")
VERDICT = re.compile(r"^((?:lint|fuzz) [\w-]+): (ok|FAILED)$")
SUITE = re.compile(r"^(\w+): failed: (.*)")
INTEROP = re.compile(r"^interop: \d+/\d+ (.*): FAILED \([\d.]+ s\): (.*)")

_console = threading.Lock()
_began = time.monotonic()
_running = set()


def say(text):
    with _console:
        print(text, flush=True)


def age():
    seconds = int(time.monotonic() - _began)
    return f"{seconds // 60}:{seconds % 60:02}"


class Watch:
    """Reads what a stage prints line by line and calls `fail(name, cause)` when it has read a failure."""

    def __init__(self, fail):
        self._fail = fail
        self._name = None  # of a test whose output follows
        self._build_failed = self._in_build = self._over = False
        self._lines = []

    def feed(self, line):
        line = first_cause.ESCAPE.sub("", line)
        result = RESULT.match(line)
        if result or self._name and RULE.match(line) or self._in_build and STEP.match(line):
            self.end()
        self._over = self._over or line.startswith(SUMMARY)
        if result:
            if result.group(2) not in GOOD and not self._over:
                self._name, self._lines = f"{result.group(1)} ({result.group(2).lower()})", []
            return
        if line.startswith("FAILED: ") and not self._name and not self._build_failed:
            self._in_build, self._lines = True, []
            self._build_failed = True
        self._lines.append(line)
        self._feed_verdict(line)

    def _feed_verdict(self, line):
        verdict, suite, interop = VERDICT.match(line), SUITE.match(line), INTEROP.match(line)
        if verdict:
            if verdict.group(2) != "ok":
                text = "\n".join(self._lines[:-1])
                self._fail(verdict.group(1), first_cause.build_cause(text) or first_cause.test_cause(text))
            self._lines = []
        elif suite:
            self._fail(f"suite {suite.group(1)}.{suite.group(2).split(':')[0]}", suite.group(2).partition(": ")[2])
        elif interop:
            self._fail(f"interop {interop.group(1)}", interop.group(2))

    def end(self):
        """No more of the output that is being collected."""
        text = "\n".join(self._lines)
        if self._name:
            self._fail(self._name, first_cause.test_cause(text))
        elif self._in_build:
            self._fail("build", first_cause.build_cause(text) or text.strip().split("\n")[0])
        self._name, self._in_build, self._lines = None, False, []


def yield_to_others(pid, nice):
    """Where Linux shares the processors out among sessions (autogroup), a process's own priority counts within its session alone."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    except ProcessLookupError:
        return
    for _ in range(10):
        try:
            pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
            return
        except BlockingIOError:
            time.sleep(0.1)  # who is not root may do it once in 100 ms
        except OSError:
            return  # a kernel without, or the process has ended


class Stage:
    """A command with a log. `nice`: priority of its session; tests that Meson starts have sessions of their own. `verdict`: its status
    is a check of its own."""

    def __init__(self, name, title, command, nice=0, environment=None, verdict=False):
        self.name, self.title, self.command, self.nice = name, title, [*map(str, command)], nice
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self.verdict, self.failures = verdict, 0
        self.began = self.wall = self.cpu = 0.0

    def fail(self, name, cause):
        self.failures += 1
        # Sanitized and plain runs of a test have one name.
        stage = "" if name.startswith(self.name) else f"{self.name}: "
        say(f"FAILED after {age()}: {stage}{name}: {cause or 'it printed nothing'}")

    def run(self, log):
        say(f"== {self.title} (after {age()}; {log})")
        self.began = time.monotonic()
        watch = Watch(self.fail)
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(self.command, cwd=TOP, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
            _running.add(process.pid)
            if self.nice:
                yield_to_others(process.pid, self.nice)
            for line in process.stdout:
                file.write(line)
                file.flush()
                watch.feed(line.rstrip("\n"))
            watch.end()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            _running.discard(process.pid)
            if self.verdict:
                file.write(f"{self.name} programs: {'ok' if process.returncode == 0 else 'FAILED'}\n")
        self.wall, self.cpu = time.monotonic() - self.began, usage.ru_utime + usage.ru_stime
        if process.returncode != 0 and self.failures == 0:
            text = log.read_text(encoding="utf-8", errors="replace")
            self.fail(f"status {process.returncode}", first_cause.build_cause(text) or first_cause.test_cause(text))
        say(f"== {self.title}: {'done' if process.returncode == 0 else 'FAILED'} in {self.wall:.0f} s")


def meson_test(logbase, *words):
    return ["meson", "test", "-C", BUILD, "--no-rebuild", "--logbase", logbase, "--print-errorlogs", *words]


# GoogleTest prints its failures alone then, so that the first stands in the part of a log that Meson shows.
GTEST = {"GTEST_OUTPUT": f"xml:{BUILD}/gtest/", "GTEST_BRIEF": "1"}


def lanes(mode, names):
    if mode == "quick":
        programs = [BUILD / "urnic", "run", "--standalone", "--", "/usr/bin/python3", "scripts/demo_programs.py"]
        return [[Stage("tests", "Suites unit and sim, the walk shortened", meson_test("quick", "--suite", "unit", "--suite", "sim"),
                       environment={**GTEST, "URNIC_WALK_MESSAGES": QUICK_WALK_MESSAGES}),
                 Stage("demo", "The programs of scripts/demo", programs, verdict=True)]]
    if mode == "named":
        return [[Stage("tests", f"Tests {' '.join(names)}", meson_test("quick", *names), environment=GTEST)]]
    suites = {"URNIC_SUITES": str(BUILD / "suites")}
    interop = {"URNIC_INTEROP": str(BUILD / "interop.xml")}
    return [[Stage("tests", "Suites unit, sim and e2e", meson_test("tests", "--no-suite", "vm", "--num-processes", TESTS_AT_ONCE), environment=GTEST),
             Stage("suites", "Suites of others", ["scripts/suites", "--short"], environment=suites)],
            [Stage("vm", "Suite vm: virtual machines", meson_test("vm", "--suite", "vm", "--num-processes", "1"),
                   environment=GTEST),
             Stage("interop", "Linux rxe as the peer", ["scripts/interop"], environment=interop)],
            [Stage("asan", "ASan and UBSan", ["scripts/sanitize", "asan"], 10),
             Stage("fuzz", "Fuzz targets", ["scripts/fuzz"], 10)],
            # Not behind them: at the end they would leave a processor idle.
            [Stage("tsan", "TSan", ["scripts/sanitize", "tsan"], 10)],
            [Stage("lint", "Lint", ["scripts/lint"], 15)]]


def run_lane(lane, logs):
    for stage in lane:
        stage.run(logs / f"{stage.name}.log")


def end(number, _frame):
    for pid in list(_running):
        try:
            os.killpg(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    os._exit(128 + number)


def table(stages):
    print("\n== Times of the stages: begin, duration, processor time of all its processes")
    for stage in sorted(stages, key=lambda one: one.began):
        print(f"{stage.began - _began:5.0f} s {stage.wall:5.0f} s {stage.cpu:5.0f} s  {stage.title}")
    print(f"{time.monotonic() - _began:5.0f} s in total, after the build", flush=True)


def main():
    mode, logs, *names = sys.argv[1:]
    logs = pathlib.Path(logs)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    plan = lanes(mode, names)
    threads = [threading.Thread(target=run_lane, args=(lane, logs)) for lane in plan]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stages = [stage for lane in plan for stage in lane]
    table(stages)
    report = ["/usr/bin/python3", "scripts/report.py", "--skips", "tests/skips.txt", "--logs", logs]
    if mode == "whole":
        report += ["--suites", BUILD / "suites", "--interop", BUILD / "interop.xml", "--checks", "lint", "fuzz", "--",
                   f"{BUILD}:tests", f"{BUILD}:vm", f"{BUILD}-asan:asan", f"{BUILD}-tsan:tsan"]
    else:
        report += [*(["--checks", "demo"] if mode == "quick" else []), "--", f"{BUILD}:quick"]
    return subprocess.run(report, cwd=TOP, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
