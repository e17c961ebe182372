#!/usr/bin/python3
"""Goodput of stock perftest over urnic while `urnic fault` drops packets, as a ratio to the lossless blocks beside it.

Two daemons, one for each way of loss recovery, take turns; a lossless block comes before each lossy one, so that a
machine whose speed changes tells itself apart from a protocol that is slow. Prints a table in Markdown.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
LOSSES = (0.0001, 0.001, 0.01, 0.05)
CONFIG = """[daemon]
run_dir = "{run_dir}"
socket_mode = "0600"
workers = 1
hugepages = false
"""
RNIC = """
[[rnic]]
name = "urnic{number}"
port = "fabric"
fabric = "loss"
ipv4 = "198.18.0.{address}/24"
recovery = "{recovery}"
"""


class Failure(Exception):
    """Something a person has to know; printed without a traceback."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    """A daemon with two RNICs on an in-process wire."""

    def __init__(self, build, directory, recovery):
        self.urnic, self.recovery = str(build / "urnic"), recovery
        self.run_dir = pathlib.Path(directory, recovery)
        config = pathlib.Path(directory, recovery + ".toml")
        config.write_text(CONFIG.format(run_dir=self.run_dir) +
                          "".join(RNIC.format(number=i, address=i + 1, recovery=recovery) for i in range(2)),
                          encoding="utf-8")
        self.process = subprocess.Popen([build / "urnicd", "--config", config], stderr=subprocess.PIPE, text=True)
        self.socket = self.run_dir / "control.sock"
        while not self.socket.exists():
            if self.process.poll() is not None:
                raise Failure(f"the daemon ended: {self.process.stderr.read()}")
            time.sleep(0.05)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stderr.close()

    def fault(self, *words):
        done = subprocess.run([self.urnic, "fault", *words, "--socket", self.socket], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failure(f"urnic fault {' '.join(words)}: {done.stderr.strip()}")

    def goodput(self, tool, options):
        """Gbit/s of one block."""
        port = free_port()
        command = [self.urnic, "run", "--socket", str(self.socket), "--", tool, "-F", "-p", str(port), "-s",
                   str(options.size), "-D", str(options.seconds), "--report_gbits", "-u", str(options.timeout)]
        server = subprocess.Popen([*command, "-d", "urnic1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            listening = f":{port:04X} 00000000:0000 0A"
            while listening not in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii"):
                if server.poll() is not None:
                    raise Failure(f"{' '.join(command)} ended: {server.stdout.read()}")
                time.sleep(0.02)
            client = subprocess.run([*command, "-d", "urnic0", "127.0.0.1"], capture_output=True, text=True, check=False,
                                    timeout=options.seconds + 120)
            rows = [line.split() for line in client.stdout.splitlines() if re.fullmatch(r"[\d\s.]+", line) and line.split()]
            if client.returncode != 0 or not rows:
                raise Failure(f"{' '.join(command)}: {client.stdout}{client.stderr}")
            return float(rows[-1][3])
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            if server.poll() is None:
                server.kill()
                server.wait()
            server.stdout.close()


def measure(daemon, tool, loss, options):
    """Goodput under loss and its ratio to the lossless block before it, for each repetition."""
    results = []
    for repetition in range(options.repetitions):
        lossless = daemon.goodput(tool, options)
        daemon.fault("add", "drop", "--probability", str(loss), "--seed", str(repetition + 1))
        try:
            lossy = daemon.goodput(tool, options)
        finally:
            daemon.fault("clear")
        results.append((lossy, lossy / lossless))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build", help="build directory")
    parser.add_argument("--repetitions", type=int, default=5, help="blocks for each row")
    parser.add_argument("--seconds", type=int, default=1, help="length of a block")
    parser.add_argument("--size", type=int, default=65536, help="bytes of a message")
    parser.add_argument("--timeout", type=int, default=14, help="local ACK timeout code, as perftest's -u")
    options = parser.parse_args()
    print(f"Blocks of {options.seconds} s, {options.repetitions} repetitions, ACK timeout code {options.timeout}, "
          f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before. Median (least to most).\n")
    print("| | recovery | loss | goodput | of lossless |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="urnic-loss-") as directory, contextlib.ExitStack() as stack:
        daemons = []
        for recovery in ("go-back-n", "selective"):
            daemons.append(Daemon(options.build, directory, recovery))
            stack.callback(daemons[-1].end)
        for tool in ("ib_write_bw", "ib_read_bw"):
            for loss in LOSSES:
                for daemon in daemons:
                    goodputs, ratios = zip(*measure(daemon, tool, loss, options))
                    print(f"| {tool} | {daemon.recovery} | {loss * 100:g} % | {statistics.median(goodputs):.2f} Gbit/s | "
                          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"loss.py: {failure}")
