"""The commands in the code blocks of README.md and the user guide run as they are shown.

In namespaces of their own, where the daemon's usual place and perftest's usual port are free. A block's `sleep 1` stands for a reader
who sees that his server is up: here a program of that name waits until a server listens.
"""

import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

import harness
import netns

sys.path.insert(0, str(harness.SOURCE / "scripts"))
import check_docs

PAGES = ("README.md", "docs/user-guide.md")
# What runs elsewhere, or not at all, by the command's first word.
NOT_HERE = {"prometheus-node-exporter": "none of the packages that scripts/setup installs; sysfs_test reads the tree that it is given"}
DAEMON = "urnicd --config urnicd.toml"
WAITING_SERVERS = re.compile(r"ibv_rc_pingpong -d urnic0")  # without its client


def shown_commands():
    """(page, line number, command) of each."""
    for page in PAGES:
        for number, line in check_docs.joined(check_docs.Page(harness.SOURCE / page).code):
            if command := line.split(" # ")[0].strip():
                yield page, number, command


def listens():
    """A TCP socket, or a listener of librdmacm at the daemon that programs see here."""
    if harness.run(["ss", "-Hltn"]).out.strip():
        return True
    socket = pathlib.Path(os.environ["URNIC_RUN_DIR"], "control.sock")
    status = harness.run([harness.URNIC, "status", "--json", "--socket", socket])
    return status.returncode == 0 and re.search(r'"listeners": ?[1-9]', status.out) is not None


class ShownCommands(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        (self.dir / "build").symlink_to(harness.BUILD)
        example = (harness.SOURCE / "docs/examples/urnicd.toml").read_text(encoding="utf-8")
        # The group may not exist here.
        self.config = re.sub(r"(?m)^socket_group = .*\n", "", example)
        (self.dir / "urnicd.toml").write_text(self.config, encoding="utf-8")
        sleep = self.dir / "bin/sleep"
        sleep.parent.mkdir()
        sleep.write_text(f'#!/bin/sh\nexec {sys.executable} {pathlib.Path(__file__).resolve()} wait\n', encoding="utf-8")
        sleep.chmod(0o755)
        self.environment = {**harness.clean_environment(), "PATH": f"{sleep.parent}:{harness.BUILD}:{os.environ['PATH']}"}

    def start(self, command):
        process = harness.start(["sh", "-c", command], cwd=self.dir, env=self.environment)
        self.addCleanup(harness.end_group, process)
        return process

    def start_daemon(self, command, run_dir):
        daemon = self.start(f"exec {command}")
        socket = pathlib.Path(run_dir, "control.sock")
        self.assertTrue(harness.wait_until(lambda: daemon.poll() is not None
                                           or harness.run([harness.URNIC, "status", "--socket", socket]).returncode == 0, pause=0.1))
        return daemon

    def expect_success(self, process, command):
        result = harness.finish(process)
        self.assertEqual(result.returncode, 0, f"{command}: {result}")

    def check_server(self, command):
        server = self.start(command)
        self.assertTrue(harness.wait_until(lambda: server.poll() is not None or harness.run(["ss", "-Hltn"]).out.strip(), pause=0.05))
        client = command.replace("urnic0", "urnic1") + " 127.0.0.1"
        self.expect_success(self.start(client), client)
        self.expect_success(server, command)

    def test_all(self):
        mine = self.dir / "mine.toml"
        mine.write_text(self.config.replace("/run/urnic", "/run/mine"), encoding="utf-8")
        commands = list(shown_commands())
        self.assertIn(DAEMON, [command for _, _, command in commands])
        daemons = [self.start_daemon(DAEMON, "/run/urnic"), self.start_daemon(f"urnicd --config {mine}", "/run/mine")]
        for page, number, command in commands:
            with self.subTest(f"{page}:{number}"):
                if command == DAEMON or command.split()[0] in NOT_HERE:
                    continue
                if WAITING_SERVERS.search(command):
                    self.check_server(command)
                else:
                    self.expect_success(self.start(command), command)
        for daemon in daemons:
            daemon.send_signal(signal.SIGTERM)
            self.expect_success(daemon, DAEMON)


if __name__ == "__main__":
    if sys.argv[1:] == ["wait"]:
        while not listens():
            time.sleep(0.05)
        sys.exit(0)
    netns.private()
    harness.main()
