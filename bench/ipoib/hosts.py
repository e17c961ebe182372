"""Two hosts, a network namespace each, joined by a veth pair or by links of `urnic ipoib` on one daemon."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from machine import Failure

PRIVATE = "URNIC_BENCH_PRIVATE"
# Parts of a path.
SENDER, RECEIVER = "sending iperf3", "receiving iperf3"
SENDING_LINK, DAEMON, RECEIVING_LINK = "sending link", "daemon", "receiving link"


def private():
    """Goes on in namespaces of its own."""
    if os.environ.get(PRIVATE) == str(os.getpid()):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        return
    words = ["unshare", "-nm"] if os.geteuid() == 0 else ["unshare", "-Urnm", "--map-root-user"]
    # unshare becomes the program that it runs: the pid stays.
    os.environ[PRIVATE] = str(os.getpid())
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


def cpu_seconds(pid):
    """Of all its threads: (user, kernel)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:13]]


def ended(program):
    """Waits for its end; its CPU seconds."""
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    return [used.ru_utime, used.ru_stime]


class Block:
    """What iperf3 has measured, and what it cost."""

    def __init__(self, received, cpu):
        self.gbps = received["bits_per_second"] / 1e9
        #: {part: (user, kernel)}, CPU seconds for 1 GB
        self.cpu = {name: [seconds * 1e9 / received["bytes"] for seconds in pair] for name, pair in cpu.items()}


class Path:
    """Two hosts, a namespace each."""

    def __init__(self, number):
        self.names = [f"bench{number}{side}" for side in "ab"]
        self.addresses = [f"10.{number}.0.{side}" for side in (1, 2)]
        for name in self.names:
            ip("netns", "add", name)

    def inside(self, side, *words):
        return ["nsenter", f"--net=/run/netns/{self.names[side]}", *map(str, words)]

    def parts(self):
        """{what a byte passes: pid}, beside the two programs."""
        return {}

    def iperf3(self, seconds):
        """Of one TCP connection."""
        server = subprocess.Popen(self.inside(1, "iperf3", "-s", "-1", "--forceflush"), stdout=subprocess.PIPE, text=True)
        parts = self.parts()
        try:
            while "listening" not in (line := server.stdout.readline()):
                if not line:
                    raise Failure("the server iperf3 did not start")
            before = {name: cpu_seconds(pid) for name, pid in parts.items()}
            client = subprocess.Popen(self.inside(0, "iperf3", "-c", self.addresses[1], "-t", seconds, "-J"), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            out, errors = client.stdout.read(), client.stderr.read()
            sent = ended(client)
            cpu = {name: [now - then for now, then in zip(cpu_seconds(pid), before[name])] for name, pid in parts.items()}
            received = ended(server)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
        if client.returncode != 0:
            raise Failure(f"iperf3 failed: {json.loads(out).get('error', errors)}")
        return Block(json.loads(out)["end"]["sum_received"], {SENDER: sent, **cpu, RECEIVER: received})


class Veth(Path):
    def __init__(self, number):
        super().__init__(number)
        ip("link", "add", "va", "netns", self.names[0], "type", "veth", "peer", "name", "vb", "netns", self.names[1])
        for name, interface, address in zip(self.names, ("va", "vb"), self.addresses):
            ip("-n", name, "address", "add", f"{address}/24", "dev", interface)
            ip("-n", name, "link", "set", interface, "up")


class Ipoib(Path):
    def __init__(self, number, daemon, *link_options, is_infiniband=False):
        super().__init__(number)
        self.daemon = daemon
        self.programs = []
        # Links that share a Q_Key would be one. Of InfiniBand it is the broadcast group's.
        qkey = [] if is_infiniband else ["--qkey", str(0x80001B00 + number)]
        for side in (0, 1):
            program = subprocess.Popen(
                self.inside(side, "setpriv", "--pdeathsig", "KILL",
                            *daemon.run([daemon.urnic, "ipoib", "-d", f"urnic{side}", "-i", "ib0", *qkey, *link_options])),
                stdout=subprocess.PIPE, text=True)
            self.programs.append(program)
            if "ib0" not in program.stdout.readline():
                self.end()
                raise Failure("urnic ipoib did not make a link")
            ip("-n", self.names[side], "address", "add", f"{self.addresses[side]}/24", "dev", "ib0")

    def parts(self):
        return {SENDING_LINK: self.programs[0].pid, DAEMON: self.daemon.process.pid, RECEIVING_LINK: self.programs[1].pid}

    def end(self):
        for program in self.programs:
            program.send_signal(signal.SIGTERM)
            program.wait(30)
            program.stdout.close()
