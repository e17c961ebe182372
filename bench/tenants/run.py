#!/usr/bin/python3
"""Users of one daemon beside each other: what an innocent one keeps of 64 KB WRITEs and of an 8-byte ping-pong beside a greedy
one, as a part of what it has beside another innocent one; and what each of ten equal users gets.

Stock perftest, each user with an uid of his own, one worker, in-process wire. Needs root. Writes the table in bench/RESULTS.md.
"""

import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say

MARK = "table of tenants: scripts/bench tenants writes it"
INNOCENT, GREEDY = 61001, 61002
USERS = 10
# Each does as much as it can. The first is the innocent one's equal, which it is measured against.
NEIGHBOURS = {
    "nobody": None,
    "one like it": ("ib_write_bw", "-s", "65536"),
    "512 QPs of 8 B WRITEs": ("ib_write_bw", "-q", "512", "-s", "8"),
    "512 QPs of 8 B READs": ("ib_read_bw", "-q", "512", "-s", "8"),
    "512 QPs of 64 KB READs": ("ib_read_bw", "-q", "512", "-s", "65536"),
    "programs with 64 MB, one after the other": ("again", "ib_write_lat", "-s", "67108864", "-n", "5"),
    "512 QPs, made and killed": ("again", "ib_write_bw", "-q", "512", "-s", "8", "-n", "5"),
    "500 connections after the other": ("cmtime", "-c", "500"),
    "its status, as often as it can": ("status",),
    "64 QPs of 64 KB WRITEs of copied memory": ("copied", "ib_write_bw", "-q", "64", "-s", "65536"),
    "registers 64 MB, again and again": ("greedy", "registrations"),
    "dies with 28,000 objects, again and again": ("greedy", "deaths"),
    "500 programs that do nothing": ("idle", "250"),  # of each of two users: more than that is over a user's limit
}
BASE = "one like it"
GREEDY_PROGRAM = (sys.executable, str(HERE / "greedy.py"))
COPIED_BYTES = 64 << 20
PSNS = 1 << 24


def as_user(uid, command):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]


def numbers_of(output):
    rows = [line.split() for line in output.splitlines() if re.fullmatch(r"[\d\s.]+", line) and line.split()]
    if not rows:
        raise Failure(f"no result:\n{output}")
    return [float(field) for field in rows[-1]]


class Pair:
    """Both ends of one perftest, which runs for `seconds` or until it is ended. `files`: what each registers instead of its own memory."""

    def __init__(self, daemon, uid, command, length, files=None):
        port = machine.free_port()
        whole = [*command, "-x", "1", "-F", "-p", str(port), *length]
        server, client = ([], []) if files is None else ([f"--mmap={file}"] for file in files)
        self.server = subprocess.Popen(daemon.run(as_user(uid, [*whole, *server, "-d", "urnic1"])), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not machine.is_listening(port):
            if self.server.poll() is not None:
                raise Failure(f"{command[0]} does not listen: {self.server.stderr.read()}")
        self.out = tempfile.TemporaryFile("w+", encoding="ascii")  # perftest says something of each QP: too much for a pipe
        self.client = subprocess.Popen(daemon.run(as_user(uid, [*whole, *client, "-d", "urnic0", "127.0.0.1"])), stdout=self.out,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)

    def result(self):
        _, problems = self.client.communicate(timeout=300)
        self.server.wait(60)
        self.server.stderr.close()
        if self.client.returncode != 0:
            raise Failure(f"{' '.join(self.client.args)} ended with {self.client.returncode}: {problems}")
        self.out.seek(0)
        with self.out:
            return numbers_of(self.out.read())

    def end(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
            process.stderr.close()
        self.out.close()


class Repeated:
    """Runs commands, a server first if it listens on `port`, again and again in a thread until it is ended."""

    def __init__(self, *commands, port=None):
        self.commands, self.port, self.stopping, self.running = commands, port, False, []
        self.thread = threading.Thread(target=self._go)
        self.thread.start()

    def _go(self):
        while not self.stopping:
            self.running = []
            for command in self.commands:
                self.running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
                while self.port and not machine.is_listening(self.port) and self.running[0].poll() is None and not self.stopping:
                    time.sleep(0.01)
            self.running[-1].wait()
            self._kill()

    def _kill(self):
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

    def end(self):
        self.stopping = True
        while self.thread.is_alive():
            self._kill()
            self.thread.join(0.1)


class Idle:
    """Programs of two users that are connected and do nothing."""

    def __init__(self, daemon, count):
        command = [*GREEDY_PROGRAM, daemon.socket, "idle", count]
        self.processes = [subprocess.Popen(as_user(GREEDY + user, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                          for user in range(2)]
        for process in self.processes:
            if process.stdout.readline() != f"{count}\n":
                self.end()
                raise Failure(f"{count} programs cannot connect")

    def end(self):
        for process in self.processes:
            process.communicate()


def status(daemon):
    done = subprocess.run([daemon.urnic, "status", "--json", "--socket", str(daemon.socket)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def wait_for_traffic(daemon, pair):
    """Until packets flow: perftest connects hundreds of QPs one after the other."""
    give_up_at = time.monotonic() + 60
    sent = 0
    while True:
        before, sent = sent, sum(device["counters"]["sent_pkts"] for device in status(daemon)["devices"])
        if before and sent > before + 1000:
            return
        if pair.client.poll() is not None or time.monotonic() > give_up_at:
            raise Failure(f"no traffic of {' '.join(pair.client.args)}")
        time.sleep(0.2)


def shared_files(daemon):
    """Two whose pages do not convert, so that the kernel copies what is sent from them and to them."""
    files = [daemon.run_dir.parent / f"copied.{number}" for number in range(2)]
    for file in files:
        file.write_bytes(bytes(COPIED_BYTES))
        file.chmod(0o666)
    return files


@contextlib.contextmanager
def neighbour(daemon, command):
    """Somebody else who does that, from before the block until after it."""
    if command is None:
        yield
        return
    if command[0] == "status":
        beside = Repeated(as_user(GREEDY, [daemon.urnic, "status", "--socket", str(daemon.socket)]))
    elif command[0] == "idle":
        beside = Idle(daemon, command[1])
    elif command[0] == "greedy":
        beside = Repeated(as_user(GREEDY, [*GREEDY_PROGRAM, str(daemon.socket), command[1]]))
    elif command[0] == "copied":
        beside = Pair(daemon, GREEDY, command[1:], ["-D", "600"], shared_files(daemon))
    elif command[0] == "cmtime":
        beside = Repeated(daemon.run(as_user(GREEDY, command)), daemon.run(as_user(GREEDY, [*command, "-s", "198.18.0.1"])))
    elif command[0] == "again":
        port = machine.free_port()
        whole = [*command[1:], "-x", "1", "-F", "-p", str(port)]
        beside = Repeated(daemon.run(as_user(GREEDY, [*whole, "-d", "urnic1"])),
                          daemon.run(as_user(GREEDY, [*whole, "-d", "urnic0", "127.0.0.1"])), port=port)
    else:
        beside = Pair(daemon, GREEDY, command, ["-D", "600"])
    try:
        if isinstance(beside, Pair):
            wait_for_traffic(daemon, beside)
        yield
        if isinstance(beside, Pair) and beside.client.poll() is not None:
            raise Failure(f"{' '.join(command)} ended too soon: {beside.client.stderr.read()}")
    finally:
        beside.end()


def measure(daemon, command, seconds):
    """GB/s of 64 KB WRITEs, and of an 8 B ping-pong the 99th percentile in us."""
    found = {}
    with neighbour(daemon, command):
        bandwidth = Pair(daemon, INNOCENT, ["ib_write_bw", "-s", "65536"], ["-D", str(seconds), "--report_gbits"])
        found["gbyte_per_second"] = bandwidth.result()[3] / 8
    with neighbour(daemon, command):
        found["p99_us"] = ping_pong(daemon, seconds)
    return found


def ping_pong(daemon, seconds):
    """The 99th percentile of about so many seconds, of half a round trip in us: what the neighbour does now and then falls into them."""
    command = ["ib_write_lat", "-s", "8"]
    average_us = Pair(daemon, INNOCENT, command, ["-n", "2000"]).result()[5]
    iterations = round(min(max(seconds * 1e6 / (2 * average_us), 2000), 1_000_000))
    return Pair(daemon, INNOCENT, command, ["-n", str(iterations)]).result()[7]


def next_psns(daemon):
    """Of each user that sends, the next packet's number."""
    return {client["uid"]: qp["sq_psn"] for client in status(daemon)["clients"] for qp in client["qps"] if qp["device"] == "urnic0"}


def wait_until_all_send(daemon, pairs):
    give_up_at = time.monotonic() + 60
    first, now = {}, {}
    while len(first) < USERS or any(now.get(uid) == psn for uid, psn in first.items()):
        if time.monotonic() > give_up_at or any(pair.client.poll() is not None for pair in pairs):
            raise Failure(f"{len(now)} of {USERS} users are connected, and some do not send")
        time.sleep(0.2)
        now = next_psns(daemon)
        if len(first) < USERS:
            first = now


def ten_users(daemon, seconds):
    """What each of ten equal users gets while all are there, as a part of a tenth of what all get."""
    pairs = [Pair(daemon, INNOCENT + 100 + user, ["ib_write_bw", "-s", "65536"], ["-D", "600"]) for user in range(USERS)]
    try:
        wait_until_all_send(daemon, pairs)
        before = next_psns(daemon)
        time.sleep(3 * seconds)
        after = next_psns(daemon)
    finally:
        for pair in pairs:
            pair.end()
    got = [(after[uid] - psn) % PSNS for uid, psn in before.items()]
    return [USERS * value / sum(got) for value in got]


def sentence_of_turns(turns):
    requests, steps = turns["requests"], turns["steps"]
    parts = [f"{name} {kind['longest_ns'] / 1e6:.2f} ms ({kind['longest_cpu_ns'] / 1e6:.2f} ms of processor time; {kind['over_2_ms']} of "
             f"{kind['number']} over 2 ms)" for name, kind in (("of one program's requests", requests), ("of one step of an end", steps))]
    return f"The control thread's longest turn in all of this: {', '.join(parts)}."


def table(found, rounds, tenths, turns, options):
    lines = [machine.about(found) + f" {options.rounds} rounds of {options.seconds} s each. Medians (first to third quartile).", "",
             "| beside | 64 KB WRITE, GB/s | of what it has beside one like it; target: 0.4 | 8 B ping-pong, p99 us | "
             "times that beside one like it; target: below 3 |", "|---|---|---|---|---|"]
    base = {key: statistics.median(run[key] for run in rounds[BASE]) for key in ("gbyte_per_second", "p99_us")}
    for name, runs in rounds.items():
        cells = []
        for key in ("gbyte_per_second", "p99_us"):
            values = [run[key] for run in runs]
            cells += [machine.cell(machine.summary(values)), f"{statistics.median(values) / base[key]:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if tenths:
        lines += ["", f"{USERS} users of 64 KB WRITEs at once: each got {min(tenths):.2f} to {max(tenths):.2f} of an equal part (target: 0.8 to 1.2)."]
    lines += ["", sentence_of_turns(turns)]
    return "\n".join(lines) + "\n"


def arguments():
    parser = options_of.parser("tenants", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--seconds", type=int, default=2, help="length of a block (%(default)s)")
    options_of.add_results(parser, "tenants")
    options_of.add_print(parser)
    options = options_of.parse(parser)
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    return options


def main():
    options = arguments()
    if os.geteuid() != 0:
        raise Failure("programs of several users are started here: run it as root")
    found = {**machine.context(), "build": machine.check_build(options.build)}
    os.environ["URNIC_BUILD"] = str(options.build)  # of the tests' modules that greedy.py uses
    cpu_times = machine.CpuTimes()
    rounds = {name: [] for name in NEIGHBOURS}
    with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory:
        os.chmod(directory, 0o755)
        daemon = Daemon(options.build, directory, "tenants", 1, socket_mode="0666", settings="copied_memory = \"all\"\n", offload="auto")
        try:
            for i in range(options.rounds):
                for name, command in NEIGHBOURS.items():
                    rounds[name].append(measure(daemon, command, options.seconds))
                    say(f"{i + 1}/{options.rounds} beside {name}: {rounds[name][-1]}")
            tenths = ten_users(daemon, options.seconds)
            turns = status(daemon)["control_thread"]  # since the daemon's start
        finally:
            daemon.end()
    found |= cpu_times.disturbances()
    machine.write_json(options.json, {"context": found, "rounds": rounds, "tenths": tenths, "control_thread": turns})
    text = table(found, rounds, tenths, turns, options)
    if not options.print:
        machine.write_between(options.page, MARK, text)
    print(text, end="")


if __name__ == "__main__":
    machine.run_program(main)
