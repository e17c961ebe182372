"""`telemetry = true`: dpdk-telemetry.py reads daemons, two at once; without the key there is no socket, and no thread of it keeps rights."""

import json
import os
import subprocess

import harness
import with_daemon


def read_capabilities(pid):
    """Permitted capabilities of the threads: (name, rights) of each, both out of one file, since threads come and go."""
    fields = [dict(line.split(":", 1) for line in text.splitlines()) for text in harness.thread_files(pid, "status").values()]
    return [(each["Name"].strip(), int(each["CapPrm"], 16)) for each in fields]


class Telemetry(with_daemon.WithDaemon):
    keys = "telemetry = true"

    def ask(self, *commands, run_dir=None):
        """The answers of dpdk-telemetry.py to the commands, one after the other."""
        environment = dict(harness.clean_environment(), RUNTIME_DIRECTORY=str(run_dir or self.run_dir))
        result = subprocess.run(["dpdk-telemetry.py", "-f", "urnic"], input="".join(f"{c}\n" for c in commands), env=environment, capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)
        self.assertEqual(result.returncode, 0, result)
        answers = {}
        for line in result.stdout.splitlines():
            if line.startswith("{"):
                answers.update(json.loads(line))
        self.assertEqual([command for command in commands if command.split(",")[0] not in answers], [], result)
        return answers

    def test_it_is_read(self):
        answers = self.ask("/", "/info", "/eal/params", "/mempool/list", "/mempool/info,frames", "/ethdev/list")
        self.assertIn("/mempool/info", answers["/"])
        self.assertEqual(answers["/info"]["pid"], self.daemon.pid)
        self.assertIn("frames", answers["/mempool/list"])
        self.assertGreater(answers["/mempool/info"]["size"], 0)
        self.assertEqual(answers["/ethdev/list"], [])
        # It serves on, others beside it, and ends.
        self.assertEqual(self.ask("/info")["/info"]["pid"], self.daemon.pid)
        self.assert_ok(self.urnic("status", "--socket", self.socket))

    def test_no_thread_keeps_rights(self):
        rights = [each for each in read_capabilities(self.daemon.pid) if "telemet" in each[0]]
        self.assertNotEqual(rights, [])
        self.assertEqual([each for each in rights if each[1] != 0], [])

    def start_second(self, name):
        """A daemon with another run directory."""
        self.run_dir = self.dir / name
        self.socket = self.run_dir / "control.sock"
        config = self.dir / "urnicd.toml"
        config.write_text(config.read_text(encoding="utf-8").replace(str(self.dir / "run"), str(self.run_dir)), encoding="utf-8")
        self.start_daemon()

    def test_two_daemons(self):
        first, first_dir = self.daemon, self.run_dir
        self.start_second("second")
        self.assertEqual(self.ask("/info", run_dir=first_dir)["/info"]["pid"], first.pid)
        self.assertEqual(self.ask("/info")["/info"]["pid"], self.daemon.pid)

    def test_one_that_was_killed_leaves_nothing_in_the_way(self):
        self.daemon.kill()
        self.daemon.wait()
        self.assertTrue((self.run_dir / "dpdk").exists())
        self.start_daemon()
        self.assertEqual(self.ask("/info")["/info"]["pid"], self.daemon.pid)
        self.stop_daemon(self.daemon)
        self.assertFalse((self.run_dir / "dpdk").exists())

    def test_its_owner_alone_reads_it(self):
        for directory in ("dpdk", "dpdk/urnic"):
            self.assertEqual(os.stat(self.run_dir / directory).st_mode & 0o777, 0o700)

    def test_a_path_that_is_too_long_is_said(self):
        config = self.dir / "urnicd.toml"
        long = self.dir / ("x" * (87 - len(str(self.dir))))
        config.write_text(config.read_text(encoding="utf-8").replace(str(self.run_dir), str(long)), encoding="utf-8")
        result = harness.run(self.daemon_command())
        self.assertEqual(result.returncode, 1)
        self.assertIn("set a run_dir with a shorter path", result.err)


class WithoutTelemetry(with_daemon.WithDaemon):
    def test_there_is_no_thread(self):
        names = [text.strip() for text in harness.thread_files(self.daemon.pid, "comm").values()]
        self.assertEqual([name for name in names if "telemet" in name], [])
        self.assertFalse((self.run_dir / "dpdk").exists())


if __name__ == "__main__":
    harness.main()
