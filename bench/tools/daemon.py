"""A daemon of its own with two RNICs, urnic0 and urnic1, on an in-process wire or an emulated network."""

import pathlib
import signal
import socket
import struct
import subprocess
import time

from machine import Failure, SOURCE

CONFIG = """[daemon]
run_dir = "{run_dir}"
socket_mode = "{socket_mode}"
workers = {workers}
hugepages = false
"""
RNIC = """
[[rnic]]
name = "urnic{number}"
port = "fabric"
fabric = "bench"
ipv4 = "198.18.0.{address}/24"
recovery = "{recovery}"
offload = "{offload}"
link_layer = "{link_layer}"
"""


class Daemon:
    """`workers`: how many, or the CPUs of each. `settings`: further lines of [daemon]. `offload`: "off" for frames, or "auto".
    `networks`: [[network]] tables."""

    def __init__(self, build, directory, name, workers, recovery="selective", socket_mode="0600", settings="", offload="off",
                 link_layer="ethernet", networks=""):
        self.urnic, self.build = str(build / "urnic"), build
        self.run_dir = pathlib.Path(directory, name)
        config = pathlib.Path(directory, name + ".toml")
        config.write_text(CONFIG.format(run_dir=self.run_dir, workers=workers, socket_mode=socket_mode) + settings +
                          "".join(RNIC.format(number=i, address=i + 1, recovery=recovery, offload=offload, link_layer=link_layer)
                                  for i in range(2)) + networks,
                          encoding="utf-8")
        self.log = open(pathlib.Path(directory, name + ".log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", build / "urnicd", "--config", config], stderr=self.log)
        self.socket = self.run_dir / "control.sock"
        try:
            self.wait_until_it_answers()
        except Failure:
            self.end()
            raise

    def wait_until_it_answers(self):
        give_up_at = time.monotonic() + 60
        while True:
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise Failure(f"urnicd does not serve {self.socket}: {self.said()}")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
                try:
                    control.connect(str(self.socket))
                    return struct.unpack("3i", control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                except OSError:
                    time.sleep(0.02)

    def said(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def run(self, command):
        """The command line of a program that sees these RNICs."""
        return [self.urnic, "run", "--socket", str(self.socket), "--", *command]

    def fault(self, *words):
        done = subprocess.run([self.urnic, "fault", *words, "--socket", self.socket], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failure(f"urnic fault {' '.join(words)}: {done.stderr.strip()}")

    def cpu_seconds(self):
        """Time that its threads have run, those that have ended too."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # clock_getcpuclockid(3)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
