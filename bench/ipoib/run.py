#!/usr/bin/python3
"""TCP over IPoIB: iperf3 over two links of one daemon, beside iperf3 over a veth pair.

Each repetition runs a block over the veth pair and one over the links of each kind, in rotating order; ratios are taken within a
repetition. Namespaces of its own: nothing is left behind. As root, or as a user who may make user namespaces. Writes the table in
bench/RESULTS.md.
"""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say

MARK = "table of IP over InfiniBand: scripts/bench ipoib writes it"
PRIVATE = "URNIC_BENCH_PRIVATE"
# Of a link: the default, and the largest of UD.
MTUS = (2044, 4092)
CONNECTED = "connected, MTU 65,520"
VETH = "veth pair"


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
    def __init__(self, number, daemon, *link_options):
        super().__init__(number)
        self.programs = []
        # Links that share a Q_Key would be one.
        qkey = 0x80001B00 + number
        for side in (0, 1):
            program = subprocess.Popen(
                self.inside(side, "setpriv", "--pdeathsig", "KILL",
                            *daemon.run([daemon.urnic, "ipoib", "-d", f"urnic{side}", "-i", "ib0", "--qkey", str(qkey), *link_options])),
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


def measure(options):
    found = {}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="urnic-bench-"))
        daemon = Daemon(options.build, directory, "ipoib", options.workers)
        stack.callback(daemon.end)
        paths = {VETH: Veth(50)}
        for number, mtu in enumerate(MTUS, 51):
            paths[f"UD, MTU {mtu:,}"] = link = Ipoib(number, daemon, "--mtu", str(mtu))
            stack.callback(link.end)
        paths[CONNECTED] = link = Ipoib(51 + len(MTUS), daemon, "--mode", "connected")
        stack.callback(link.end)
        names = list(paths)
        for name in names:  # what resolves addresses the first time is not measured
            paths[name].iperf3(1)
        for repetition in range(options.repetitions):
            for name in names[repetition % len(names):] + names[:repetition % len(names)]:
                found.setdefault(name, []).append(paths[name].iperf3(options.seconds))
            say(", ".join(f"{name} {found[name][-1]:.3g}" for name in names))
    return found


def table(found, context, options):
    lines = [f"| path | Gbit/s | of the veth pair | of UD, MTU {MTUS[0]:,} |", "|---|---|---|---|"]
    for name, values in found.items():
        ratios = [value / base for value, base in zip(values, found[VETH])]
        ratio = "-" if name == VETH else machine.cell(machine.summary(ratios))
        of_ud = "-"
        if name == CONNECTED:
            default = found[f"UD, MTU {MTUS[0]:,}"]
            of_ud = machine.cell(machine.summary([value / base for value, base in zip(values, default)]))
        lines.append(f"| {name} | {machine.cell(machine.summary(values))} | {ratio} | {of_ud} |")
    return (f"{machine.about(context)} {options.repetitions} blocks of {options.seconds} s of each, {options.workers} worker"
            f"{'s' if options.workers != 1 else ''}; medians, first to third quartile in brackets.\n\n" + "\n".join(lines) + "\n\n")


def main():
    made = options_of.parser("ipoib", __doc__)
    made.add_argument("--repetitions", type=int, default=7, help="blocks of each path (%(default)s)")
    made.add_argument("--seconds", type=int, default=3, help="length of a block (%(default)s)")
    made.add_argument("--workers", type=int, default=1, help="of the daemon (%(default)s)")
    options_of.add_results(made, "ipoib")
    options_of.add_print(made)
    options = options_of.parse(made)
    private()
    machine.check_build(options.build, "ulp/ipoib/urnic-ipoib")
    context, times = machine.context(), machine.CpuTimes()
    found = measure(options)
    context.update(times.disturbances())
    machine.write_json(options.json, {"context": context, "paths": {name: machine.summary(values) for name, values in found.items()}})
    text = table(found, context, options)
    print(text)
    if not options.print:
        machine.write_between(options.page, MARK, text)


machine.run_program(main)
