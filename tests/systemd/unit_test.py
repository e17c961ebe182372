"""urnicd.service as systemd runs it, in a container. `scripts/systemd` runs this."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import harness

ROOT = harness.BUILD / "systemd/root"
DROP_IN = ROOT / "etc/systemd/system/urnicd.service.d/test.conf"
# What `systemd-analyze security` says at most, of 10: 0 is nothing that anybody could do.
MAX_EXPOSURE = 2.5
FABRIC = """
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
"""


class Container:
    """Its first process is systemd; commands run beside the services."""

    def __init__(self, log):
        # bpf: AF_XDP ports; what systemd-nspawn refuses to services, no drop-in gives.
        self.process = subprocess.Popen(["systemd-nspawn", "--quiet", "-D", ROOT, "--boot", "--register=no", "--keep-unit", "--console=pipe",
                                         "--capability=all", "--system-call-filter=bpf"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.init = None

    def children(self, pid):
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    def boot(self):
        def is_up():
            self.init = next(iter(self.children(self.process.pid)), None)
            return self.init is not None and self.run("systemctl", "is-system-running").out.strip() in ("running", "degraded")
        return harness.wait_until(is_up, pause=0.2)

    def run(self, *words):
        """What is installed there is in /usr/local, where scripts of this project look for no program."""
        enter = ["nsenter", "--target", self.init, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"]
        return harness.run([*enter, *words], env={**harness.clean_environment(), "PATH": f"/usr/local/bin:{os.environ['PATH']}"})

    def close(self):
        if self.init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGRTMIN + 3)  # systemd's halt
        try:
            self.process.wait(harness.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Unit(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        DROP_IN.unlink(missing_ok=True)
        log = cls.enterClassContext(open(harness.BUILD / "systemd/boot.log", "w", encoding="utf-8"))
        cls.container = Container(log)
        cls.addClassCleanup(cls.container.close)
        assert cls.container.boot(), f"systemd does not boot: {log.name}"
        cls.container.run("systemd-sysusers")
        cls.container.run("groupadd", "-f", "rdma")
        cls.container.run("useradd", "--groups", "rdma", "alice")

    def setUp(self):
        self.addCleanup(self.systemctl, "reset-failed", "urnicd")
        self.addCleanup(self.systemctl, "stop", "urnicd")

    def systemctl(self, *words):
        return self.container.run("systemctl", *words)

    def journal(self):
        return self.container.run("journalctl", "--boot", "--unit", "urnicd", "--no-pager", "--output", "cat").out

    def main_pid(self):
        """As this side of the container sees it; 0: there is none."""
        pids = [pid for pid in self.container.children(self.container.init)
                if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii") == "urnicd\n"]
        return pids[0] if pids else 0

    def configure(self, rnics, daemon=""):
        config = ROOT / "etc/urnic/urnicd.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(f'[daemon]\nrun_dir = "/run/urnic"\nsocket_mode = "0660"\nsocket_group = "rdma"\n{daemon}\n{rnics}', encoding="ascii")

    def start(self):
        started = self.systemctl("restart", "urnicd")
        self.assertEqual(started.returncode, 0, f"{started}\n{self.journal()}")

    def expect_restart(self, pid):
        self.assertTrue(harness.wait_until(lambda: self.main_pid() not in (0, pid), pause=0.2), self.journal())
        self.assertTrue(harness.wait_until(lambda: self.systemctl("is-active", "urnicd").out.strip() == "active", pause=0.2), self.journal())

    def as_alice(self, *words):
        return self.container.run("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "urnic", "run", "--", *words)

    def test_rights(self):
        self.configure(FABRIC)
        self.start()
        status = pathlib.Path(f"/proc/{self.main_pid()}/status").read_text(encoding="ascii")
        self.assertRegex(status, r"CapEff:\t0{16}\n")
        user = self.container.run("id", "--user", "urnic").out.strip()
        self.assertRegex(status, rf"Uid:\t{user}\t{user}\t{user}\t{user}\n")
        said = self.container.run("systemd-analyze", "security", "--no-pager", "urnicd.service").out
        self.assertLessEqual(float(re.search(r"Overall exposure level for urnicd.service: ([0-9.]+)", said).group(1)), MAX_EXPOSURE)

    def test_programs_of_a_user(self):
        """Memory of every kind, which is converted or copied by a descriptor."""
        self.configure(FABRIC, 'copied_memory = "all"')
        self.start()
        result = self.as_alice("verbs_check", "--gtest_filter=Memory.*-*HugePages:Rc.*")
        self.assert_ok(result, self.journal())
        self.assertNotIn("refused", self.journal())

    def test_a_daemon_that_hangs_and_one_that_is_killed(self):
        self.configure(FABRIC)
        self.start()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            pid = self.main_pid()
            os.kill(pid, number)
            self.expect_restart(pid)
        self.assertIn("Watchdog timeout", self.journal())
        self.assert_ok(self.as_alice("ibv_devinfo"))

    def service(self, text, dropin=""):
        """Installs other.service."""
        directory = ROOT / "etc/systemd/system"
        (directory / "other.service.d").mkdir(exist_ok=True)
        (directory / "other.service").write_text(f"[Service]\n{text}\n", encoding="ascii")
        (directory / "other.service.d/urnic.conf").write_text(dropin, encoding="ascii")
        self.addCleanup(self.systemctl, "stop", "other")
        self.assert_ok(self.systemctl("daemon-reload"))

    def said_by_service(self, since):
        return self.container.run("journalctl", "--boot", "--unit", "other", "--no-pager", "--output", "cat", "--since", f"@{since}").out

    def test_a_service_with_a_drop_in(self):
        """A static program, which no preloading reaches, and a program of libibverbs."""
        self.configure(FABRIC)
        self.start()
        dropin = self.container.run("urnic", "systemd-dropin", "other")
        self.assert_ok(dropin)
        self.assertIn("SupplementaryGroups=rdma\n", dropin.out)
        for program, user, words in (("list_rnics", "alice", ["urnic0", "urnic1"]), ("/usr/bin/ibv_devinfo -d urnic1", "alice", ["PORT_ACTIVE"])):
            for text in ("", dropin.out):
                since = int(time.time())
                command = program if program.startswith("/") else f"/usr/local/bin/{program}"
                self.service(f"Type=oneshot\nUser={user}\nExecStart=-{command}", text)
                self.assert_ok(self.systemctl("start", "other"), text + self.said_by_service(since))
                said = self.said_by_service(since)
                self.assertEqual([word in said for word in words], [text != ""] * len(words), said)

    def test_a_service_that_runs_is_entered(self):
        self.configure(FABRIC)
        self.start()
        self.service("PrivateTmp=yes\nExecStart=/bin/sh -c 'until /usr/local/bin/list_rnics | grep urnic1; do sleep 0.1; done; exec sleep infinity'")
        since = int(time.time())
        self.assert_ok(self.systemctl("start", "other"))
        self.assertNotIn("urnic1", self.said_by_service(since))
        entered = self.container.run("urnic", "enter", "other")
        self.assert_ok(entered)
        self.assertTrue(harness.wait_until(lambda: "urnic1" in self.said_by_service(since), pause=0.2), self.said_by_service(since))
        self.assertNotIn("urnic", self.container.run("list_rnics").out)
        self.assert_ok(self.systemctl("stop", "other"))
        stopped = self.container.run("urnic", "enter", "other")
        self.assertIn("other.service does not run: systemctl start other.service", stopped.err)

    def test_stop(self):
        self.configure(FABRIC)
        self.start()
        self.assert_ok(self.systemctl("stop", "urnicd"))
        self.assertEqual(self.systemctl("is-failed", "urnicd").out.strip(), "inactive")
        self.assertNotEqual(self.container.run("ls", "/run/urnic").returncode, 0)


class DropIns(Unit):
    """What docs/deploy.md says that other ports need."""

    test_rights = test_programs_of_a_user = test_a_daemon_that_hangs_and_one_that_is_killed = test_stop = None

    def setUp(self):
        super().setUp()
        for words in (("add", "v0", "mtu", "3000", "type", "veth", "peer", "name", "v1"), ("set", "v0", "up"), ("set", "v1", "up")):
            self.assert_ok(self.container.run("ip", "link", *words))
        self.addCleanup(self.container.run, "ip", "link", "del", "v0")
        self.addCleanup(self.systemctl, "daemon-reload")
        self.addCleanup(DROP_IN.unlink, missing_ok=True)

    def start_with(self, port, configuration, more=""):
        text = (harness.SOURCE / "docs/deploy.md").read_text(encoding="utf-8")
        row = next(line for line in text.splitlines() if line.strip().startswith(f"| `{port}` |"))
        lines = re.findall(r"`([^`]+)`", row.split("|")[2])
        self.assertEqual(lines[0], "[Service]", row)
        DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        DROP_IN.write_text("\n".join([*lines, more, ""]), encoding="ascii")
        self.systemctl("daemon-reload")
        self.configure(f'[[rnic]]\nname = "urnic0"\ninterface = "v0"\nmtu = 2048\n{configuration}\n')
        self.start()
        self.assertIn('"state": "ACTIVE"', self.container.run("urnic", "status", "--json").out.replace('":"', '": "'))

    def test_af_packet(self):
        """No drop-in."""
        self.configure('[[rnic]]\nname = "urnic0"\nport = "af_packet"\ninterface = "v0"\nmtu = 2048\n')
        self.start()

    def test_af_xdp(self):
        # Locked memory is limited here, and systemd may not raise it in every container.
        self.start_with('port = "af_xdp"', 'port = "af_xdp"', "AmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_IPC_LOCK")

    def test_netns(self):
        self.assert_ok(self.container.run("ip", "netns", "add", "far"))
        self.addCleanup(self.container.run, "ip", "netns", "del", "far")
        self.assert_ok(self.container.run("ip", "link", "set", "v0", "netns", "far"))
        self.assert_ok(self.container.run("ip", "-n", "far", "link", "set", "v0", "up"))
        self.start_with("netns = ...", 'port = "af_packet"\nnetns = "far"')


if __name__ == "__main__":
    harness.main()
