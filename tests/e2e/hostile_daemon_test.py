"""Programs whose daemon lies: `believer` on the stock libibverbs and librdmacm, with `lying_daemon` between it and the real one."""

import os
import re
import shutil
import signal
import time

import harness
import with_daemon

LYING_DAEMON = harness.BUILD / "tests/e2e/lying_daemon"
BELIEVER = harness.BUILD / "tests/e2e/believer"
# Rounds of each of the programs that run side by side; more of them, from other seeds: URNIC_LIES=rounds, URNIC_SEED=number.
ROUNDS = int(os.environ.get("URNIC_LIES", "60"))
SEED = int(os.environ.get("URNIC_SEED", "1"))
PROGRAMS = 3
# What a program keeps open: two contexts of librdmacm's with what belongs to a connection, and its own files.
KEPT_DESCRIPTORS = 32
SUMMARY = re.compile(r"(\d+) rounds, (\d+) failures, (\d+) objects refused to end, (\d+) descriptors at first, (\d+) at last")


class HostileDaemon(with_daemon.WithDaemon):
    workers = 2

    def start_liar(self, mode, seed=1):
        directory = self.dir / f"{mode}-{seed}"
        directory.mkdir()
        (directory / "sysroot").symlink_to(self.run_dir / "sysroot")
        liar = harness.start([LYING_DAEMON, directory / "control.sock", self.socket, str(seed), mode])
        self.addCleanup(harness.finish, liar)
        self.addCleanup(harness.end_group, liar)
        self.expect_line(liar, "ready")
        return liar, directory / "control.sock"

    def believe(self, socket, rounds, seed):
        # Where it is built for a sanitizer: the shim stands before its runtime in the list of libraries and allocates nothing.
        environment = dict(harness.clean_environment(), ASAN_OPTIONS="verify_asan_link_order=0")
        # `urnic run` asks the real daemon: connections to the liar are the program's alone.
        program = ["/usr/bin/env", f"URNIC_RUN_DIR={socket.parent}", BELIEVER, str(rounds), str(seed)]
        return harness.start([harness.URNIC, "run", "--socket", self.socket, "--", *program], env=environment)

    def test_a_daemon_that_tells_the_truth(self):
        _, socket = self.start_liar("truthful")
        result = harness.finish(self.believe(socket, 8, SEED))
        self.assert_ok(result)
        _, failures, refused, _, _ = map(int, SUMMARY.search(result.out).groups())
        self.assertEqual(refused, 0, result)
        self.assertNotIn("daemon", result.err)
        # Sends into queues that are full, or in QPs that are in error by then, fail.
        self.assertLess(failures, 8 * 40, result)

    def test_lies(self):
        liar, socket = self.start_liar("lying", SEED)
        programs = [self.believe(socket, ROUNDS, SEED + number) for number in range(PROGRAMS)]
        for number, program in enumerate(programs):
            result = harness.finish(program, 600)
            self.assert_ok(result, f"program {number} of seed {SEED}")
            refused, _, last = map(int, SUMMARY.search(result.out).groups()[2:])
            self.assertLessEqual(last, KEPT_DESCRIPTORS + refused, f"descriptors are left: {result}")
        liar.send_signal(signal.SIGTERM)
        connections, lies = map(int, re.search(r"(\d+) connections, (\d+) lies", harness.finish(liar).out).groups())
        self.assertGreater(connections, PROGRAMS * ROUNDS // 2)
        self.assertGreater(lies, PROGRAMS * ROUNDS // 2)

    def test_a_daemon_that_does_not_answer(self):
        """A request ends by SIGINT, and by itself after a minute, as a NIC's that does not answer."""
        _, socket = self.start_liar("silent")
        patient, interrupted = self.believe(socket, 0, 1), self.believe(socket, 0, 1)
        self.assertTrue(harness.wait_until(lambda: len(self.status()["clients"]) == 2))
        interrupted.send_signal(signal.SIGINT)
        self.assertNotEqual(harness.finish(interrupted, 30).returncode, 0)
        result = harness.finish(patient, 180)
        self.assert_ok(result)
        self.assertIn("the RNIC daemon does not answer", result.err)
        self.assertEqual(result.out, "Input/output error\n")


if __name__ == "__main__":
    harness.main()
