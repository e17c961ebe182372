"""A daemon under the thread sanitizer beside programs that write into everything that they share with it: `scripts/sanitize tsan scribble`."""

import os
import pathlib

import harness
import with_daemon

TESTS = harness.BUILD / "tests/e2e"
DAEMON = pathlib.Path(os.environ["URNIC_TSAN_DAEMON"])
SECONDS = os.environ.get("URNIC_SCRIBBLE_SECONDS", "20")
# A program's own memory: that it sends from where another of its requests writes is its race, as with any RNIC.
# What the EAL's alarm is given: its lock orders that, and DPDK is not built for the sanitizer.
SUPPRESSIONS = "".join(f"race:{function}\n" for function in (
    "urnic::wire::copy_payload", "urnic::wire::crc32_copy", "urnic::wire::crc32_headed_copy", "urnic::write_shared", "run_eal_call", "rte_eal_alarm_set"))


class Scribble(with_daemon.WithDaemon):
    workers = 2

    def start_daemon(self):
        suppressions = self.dir / "suppressions"
        suppressions.write_text(SUPPRESSIONS, encoding="ascii")
        self.reports = self.dir / "report"
        options = f"log_path={self.reports} suppressions={suppressions} second_deadlock_stack=1 exitcode=0"
        environment = dict(harness.clean_environment(), TSAN_OPTIONS=options)
        self.daemon = harness.start([DAEMON, "--config", self.dir / "urnicd.toml"], env=environment)
        self.addCleanup(lambda: self.daemon.poll() is None and self.stop_daemon(self.daemon))
        self.assertTrue(harness.wait_until(lambda: self.urnic("status", "--socket", self.socket).returncode == 0, pause=0.1),
                        "urnicd did not come up")

    def test_no_report(self):
        scribblers = [self.start(TESTS / "scribbler", SECONDS, str(seed)) for seed in (1, 2)]
        believer = self.start(TESTS / "believer", "50", "1")
        for process in scribblers:
            self.expect_line(process, "running")
        for process in (*scribblers, believer):
            self.assert_ok(harness.finish(process, 600))
        self.stop_daemon(self.daemon)
        found = [path.read_text(errors="replace") for path in self.dir.glob("report*")]
        self.assertFalse(found, "\n".join(found))


if __name__ == "__main__":
    harness.main()
