"""What the end-to-end tests share: running programs, free ports, a report for scripts/report.py.

A test file ends with `harness.main()`. Meson runs it with the build directory in URNIC_BUILD; by hand:
    URNIC_BUILD=build /usr/bin/python3 tests/e2e/FILE.py [Class[.test_name]]
"""

import collections
import contextlib
import fcntl
import math
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("URNIC_BUILD", SOURCE / "build")).resolve()
URNIC = str(BUILD / "urnic")
# Of the messages between provider, launcher and daemon.
ABI_VERSION = int(next(line.split("=")[1].strip(" ;\n")
                       for line in (SOURCE / "abi/control.h").read_text(encoding="utf-8").splitlines()
                       if "kAbiVersion" in line and "=" in line))
# (programs, what is preloaded into them; the sources say why). Benchmarks empty this: theirs run as they are.
PRELOADS = [
    (re.compile(r"(?:^|['/ ])ib_(?:write|read|send|atomic)_(?:bw|lat)\b"), BUILD / "tests/e2e/libsleeping_clock.so"),
    (re.compile(r"(?:^|['/ ])rping\b"), BUILD / "tests/e2e/libkept_channel.so"),
]
# Long enough for a busy machine; what hangs is ended then.
PATIENCE_S = 120

# What ends a test, which takes with it all that it has started.
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A shell starts what it runs in the background with these ignored, and programs keep what they inherit.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def clean_environment():
    """The caller's environment without what a surrounding `urnic run` or a sanitizer put into it."""
    unwanted = ("LD_PRELOAD", "URNIC_RUN_DIR", "RDMAV_DRIVERS", "IBV_DRIVERS", "ASAN_OPTIONS", "GTEST_OUTPUT")
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def with_preloads(command, environment):
    wanted = [str(library) for programs, library in PRELOADS if any(map(programs.search, command)) and library.exists()]
    if not wanted:
        return environment
    return {**environment, "LD_PRELOAD": ":".join(filter(None, [environment.get("LD_PRELOAD"), *wanted]))}


class Result:
    def __init__(self, process, out, err, timed_out):
        self.returncode, self.out, self.err, self.timed_out = process.returncode, out, err, timed_out

    def __str__(self):
        return f"status {self.returncode}{' (ended by the test: no end in time)' if self.timed_out else ''}\n" \
               f"--- stdout\n{self.out}\n--- stderr\n{self.err}"


def default_signals():
    """A shell's background job, as this test may be, ignores these, and so would all it starts."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(command, **options):
    """A process with its output in pipes, in a group of its own so that all of it can be ended."""
    options.setdefault("env", clean_environment())
    options.setdefault("preexec_fn", default_signals)
    command = [str(word) for word in command]
    options["env"] = with_preloads(command, options["env"])
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, **options)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def finish(process, timeout=PATIENCE_S):
    timed_out = False
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        end_group(process)
        out, err = process.communicate()
    return Result(process, out, err, timed_out)


def read_line(process, timeout=60):
    """The next line of its output. "" at its end, or when none came in time: the process is ended then. Nothing behind the line
    is read: finish() would not see what was read ahead."""
    impatience = threading.Timer(timeout, end_group, (process,))
    impatience.start()
    line = b""
    try:
        while not line.endswith(b"\n") and (octet := os.read(process.stdout.fileno(), 1)):
            line += octet
        return line.decode(errors="replace")
    finally:
        impatience.cancel()


def run(command, timeout=PATIENCE_S, **options):
    return finish(start(command, **options), timeout)


_claims = collections.deque(maxlen=200)


def free_port():
    """A TCP port that nobody uses. None of those that the kernel gives to connections: one of another test's could have it
    before the program that is to listen on it has started."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as text:
        first_given = int(text.read().split()[0])
    while True:
        port = random.randrange(min(10_000, first_given // 2), first_given)
        # No other test takes it before the program listens: an abstract name belongs to the network namespace as a port does.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0urnic-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


def listening(port, pid):
    """True when that process listens on the TCP port. Looks without connecting: perftest serves one client."""
    wanted, inodes = f":{port:04X}", set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return False
    # Of another process it would be that of another test.
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") in inodes:
                    return True
    return False


class Footprint:
    """What a leak of a process shows in: KiB resident of the heap and of small private mappings, descriptors, mappings.

    The daemon's tables of memory keys are large mappings, and keys are random: a page of them is touched with every other
    registration for a long time, and nothing can leak there."""

    def __init__(self, pid):
        proc = pathlib.Path("/proc", str(pid))
        self.pid = pid
        self.resident_kb, self.mappings, counts = 0, 0, False
        for line in (proc / "smaps").read_text(encoding="ascii").splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                begin, end = (int(address, 16) for address in words[0].split("-"))
                counts = words[-1] == "[heap]" or (words[4] == "0" and end - begin < 16 << 20)
                self.mappings += 1
            elif words[0] == "Rss:" and counts:
                self.resident_kb += int(words[1])
        self.descriptors = len(list((proc / "fd").iterdir()))


def thread_files(pid, name):
    """The text of that file of /proc of each thread, by the thread's number. Threads that end meanwhile are left out."""
    texts = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            texts[int(task.name)] = (task / name).read_text(encoding="utf-8")
    return texts


def wait_until(condition, timeout=PATIENCE_S, pause=0.01):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause)
    return False


class TestCase(unittest.TestCase):
    maxDiff = None

    def assert_ok(self, result, what=""):
        self.assertEqual(result.returncode, 0, f"{what}: {result}")
        self.assertFalse(result.timed_out, f"{what}: {result}")

    def run_ok(self, command, timeout=PATIENCE_S, **options):
        result = run(command, timeout, **options)
        self.assert_ok(result, " ".join(str(word) for word in command))
        return result

    def run_pair(self, server, client, port, timeout=PATIENCE_S):
        """Runs a server and, once it listens on `port`, its client; both must succeed. Returns both results."""
        with xrc_domain_files(server):
            return self._run_pair(server, client, port, timeout)

    def _run_pair(self, server, client, port, timeout):
        serving = start(server, env=dict(os.environ))
        self.addCleanup(end_group, serving)
        ready = wait_until(lambda: listening(port, serving.pid) or serving.poll() is not None)
        if not ready or serving.poll() is not None:
            end_group(serving)
            self.fail(f"{' '.join(server)} does not listen: {finish(serving)}")
        client_result = run(client, timeout, env=dict(os.environ))
        if client_result.returncode != 0:
            end_group(serving)
        server_result = finish(serving, timeout)
        both = f"\n=== {' '.join(server)}\n{server_result}\n=== {' '.join(client)}\n{client_result}"
        self.assertEqual((server_result.returncode, client_result.returncode), (0, 0), both)
        return server_result, client_result


# Files of fixed names by which perftest and ibv_xsrq_pingpong open XRC domains. They leave them, readable for their owner alone.
_XRC_DOMAIN_FILES = ("/tmp/xrc_domain", "/tmp/xrc_domain_server", "/tmp/xrc_domain_client")


def _remove_xrc_domain_files():
    for path in _XRC_DOMAIN_FILES:
        with contextlib.suppress(FileNotFoundError):
            try:
                os.unlink(path)
            except PermissionError as problem:
                raise RuntimeError(f"{path} belongs to somebody else, whose program left it: remove it (sudo rm {path})") from problem


@contextlib.contextmanager
def xrc_domain_files(command):
    """Around a program that uses those files: one run at a time, whoever's, and nothing is left."""
    if "XRC" not in command and command[0] != "ibv_xsrq_pingpong":
        yield
        return
    directory = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        _remove_xrc_domain_files()
        try:
            yield
        finally:
            _remove_xrc_domain_files()
    finally:
        os.close(directory)


# perftest computes the squares for its standard deviation as `int`: one latency this far from the average overflows it,
# and what is printed is the root of a negative sum (print_report_lat() in perftest_parameters.c, 4.5).
_PERFTEST_STDEV_LIMIT_US = 46_340
_LATENCY_COLUMNS = ("iterations", "t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%")


def _sound(figures):
    """Whether a row's figures are figures."""
    if len(figures) == len(_LATENCY_COLUMNS):
        row = dict(zip(_LATENCY_COLUMNS, figures))
        if math.isnan(row["t_stdev"]) and row["t_max"] - row["t_avg"] >= _PERFTEST_STDEV_LIMIT_US:
            figures = [figure for name, figure in row.items() if name != "t_stdev"]
    # Latencies or bandwidths: none is zero but, rounded, one of the smallest rates.
    return all(map(math.isfinite, figures)) and max(figures[1:]) > 0


def perftest_rows(client):
    """A perftest client's table, {bytes: [iterations, figures...]}. Raises ValueError when there is none, or when its
    figures are no figures. On a busy machine perftest fails to calibrate the TSC, says so, and prints inf, nan and 0 for
    a run that was whole: then the figures are not looked at."""
    rows = {}
    for line in client.out.splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[0].isdigit() and all(re.fullmatch(r"[0-9.]+|-?inf|-?nan", text) for text in fields):
            rows[int(fields[0])] = [float(text) for text in fields[1:]]
    if not rows or any(figures[0] <= 0 for figures in rows.values()):
        raise ValueError(f"no rows: {client}")
    if "Correlation coefficient" not in client.err and not all(map(_sound, rows.values())):
        raise ValueError(f"no figures: {client}")
    return rows


class Interrupted(Exception):
    """The test was told to end. Unlike KeyboardInterrupt, unittest lets the running case clean up after it."""


def interrupt(number, _frame):
    for each in ENDINGS:
        signal.signal(each, lambda *_: None)  # ignored, but not by what the clean-up starts
    raise Interrupted(f"ended by {signal.Signals(number).name}")


class Collector(unittest.TextTestResult):
    """Remembers each case for the report."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test, "passed", ""))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.cases.append((test, "failed", str(err[1])))

    def addError(self, test, err):
        super().addError(test, err)
        self.cases.append((test, "failed", str(err[1])))
        if issubclass(err[0], Interrupted):
            self.stop()

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.cases.append((subtest, "failed", str(err[1])))
            if issubclass(err[0], Interrupted):
                self.stop()

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append((test, "skipped", reason))


def write_report(cases, name):
    """In GoogleTest's form, where GTEST_OUTPUT=xml:DIRECTORY/ asks for it."""
    target = os.environ.get("GTEST_OUTPUT", "")
    if not target.startswith("xml:") or not target.endswith("/"):
        return
    suite = ElementTree.Element("testsuite", name=name)
    for test, state, message in cases:
        names = test.id().split(".", 2)
        case = ElementTree.SubElement(suite, "testcase", classname=names[1], name=".".join(names[2:]), status="run")
        if state == "failed":
            ElementTree.SubElement(case, "failure", message=message[:200].encode("ascii", "replace").decode())
        if state == "skipped":
            ElementTree.SubElement(case, "skipped", message=message)
    directory = pathlib.Path(target[4:])
    directory.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(directory / f"{name}.xml")


def main():
    for number in ENDINGS:
        signal.signal(number, interrupt)
    names = sys.argv[1:]
    module = sys.modules["__main__"]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Collector).run(suite)
    # The same name as the Meson test's.
    write_report(result.cases, os.environ.get("URNIC_TEST_NAME", pathlib.Path(sys.argv[0]).stem))
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
