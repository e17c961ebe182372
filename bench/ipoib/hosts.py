"""Two hosts, a network namespace each, joined by a veth pair or by links of `urnic ipoib` on one daemon."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from machine import Failure

PRIVATE = "URNIC_BENCH_PRIVATE"


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


class Path:
    """Two hosts, a namespace each."""

    def __init__(self, number):
        self.names = [f"bench{number}{side}" for side in "ab"]
        self.addresses = [f"10.{number}.0.{side}" for side in (1, 2)]
        for name in self.names:
            ip("netns", "add", name)

    def inside(self, side, *words):
        return ["nsenter", f"--net=/run/netns/{self.names[side]}", *map(str, words)]

    def iperf3(self, seconds):
        """Gbit/s received."""
        server = subprocess.Popen(self.inside(1, "iperf3", "-s", "-1", "--forceflush"), stdout=subprocess.PIPE, text=True)
        try:
            while "listening" not in (line := server.stdout.readline()):
                if not line:
                    raise Failure("the server iperf3 did not start")
            done = subprocess.run(self.inside(0, "iperf3", "-c", self.addresses[1], "-t", seconds, "-J"), capture_output=True, text=True,
                                  timeout=seconds + 60, check=False)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
        if done.returncode != 0:
            raise Failure(f"iperf3 failed: {json.loads(done.stdout).get('error', done.stderr)}")
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9


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

    def end(self):
        for program in self.programs:
            program.send_signal(signal.SIGTERM)
            program.wait(30)
            program.stdout.close()
