"""A long-running daemon, urnicd --config, with two RNICs on one fabric, for each case of a test."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import tempfile

import harness

CONFIG = """
[daemon]
run_dir = "{run_dir}"
socket_mode = "{mode}"
workers = {workers}
hugepages = false
[[rnic]]
name = "urnic0"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.1/24"
[[rnic]]
name = "urnic1"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.2/24"
{wire}"""


def as_nobody():
    """Options of a process of another user's, where there can be one."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class WithDaemon(harness.TestCase):
    mode = "0666"
    workers = 1
    wire = ""  # a [[network]] of the fabric
    keys = ""  # more of [daemon]

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.run_dir = self.dir / "run"
        self.socket = self.run_dir / "control.sock"
        config = self.dir / "urnicd.toml"
        text = CONFIG.format(run_dir=self.run_dir, mode=self.mode, workers=self.workers, wire=self.wire)
        config.write_text(text.replace("[daemon]\n", f"[daemon]\n{self.keys}\n"), encoding="utf-8")
        self.start_daemon()

    def daemon_command(self):
        return [harness.BUILD / "urnicd", "--config", self.dir / "urnicd.toml"]

    def start_daemon(self):
        self.daemon = harness.start(self.daemon_command())
        self.addCleanup(self.stop_daemon, self.daemon)
        up = harness.wait_until(lambda: self.daemon.poll() is not None
                                or self.urnic("status", "--socket", self.socket).returncode == 0, pause=0.1)
        self.assertTrue(up and self.daemon.poll() is None, "urnicd did not come up")

    @staticmethod
    def stop_daemon(daemon):
        if daemon.poll() is None:
            daemon.terminate()
        result = harness.finish(daemon, 30)
        assert result.returncode in (0, -signal.SIGKILL), f"urnicd: {result}"

    def urnic(self, *words, **options):
        return harness.run([harness.URNIC, *words], **options)

    def start(self, *words):
        process = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", *words])
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(harness.end_group, process)
        return process

    def expect_line(self, process, *expected):
        line = harness.read_line(process).rstrip("\n")
        if line not in expected:
            harness.end_group(process)
            self.fail(f"{line!r} instead of {expected}: {harness.finish(process)}")
        return line

    def status(self):
        result = self.urnic("status", "--json", "--socket", self.socket)
        self.assert_ok(result)
        return json.loads(result.out)

    def objects(self):
        """How many objects the daemon keeps, by device, and its clients."""
        status = self.status()
        count = sum(device[kind] for device in status["devices"] for kind in ("qps", "cqs", "mrs", "pds", "srqs"))
        return count, len(status["clients"])
