"""A test that is told to end takes with it what it has started: daemons, programs, files."""

import os
import pathlib
import signal
import subprocess
import sys

import harness
import with_daemon


class Sleeper(with_daemon.WithDaemon):
    """What is interrupted, in a process of its own. Not run itself."""

    def test_sleeps(self):
        program = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", "sleep", "1000"])
        self.addCleanup(harness.end_group, program)
        print(self.dir, self.daemon.pid, program.pid, flush=True)
        program.wait()


class Interrupted(harness.TestCase):
    def test_nothing_is_left(self):
        for number in harness.ENDINGS:
            with self.subTest(number.name):
                test = subprocess.Popen([sys.executable, __file__, "Sleeper"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=os.environ | {"GTEST_OUTPUT": ""}, preexec_fn=harness.default_signals)
                self.addCleanup(test.kill)
                directory, *processes = test.stdout.readline().split()
                test.send_signal(number)
                _, said = test.communicate(timeout=harness.PATIENCE_S)
                self.assertEqual(test.returncode, 1, said)
                self.assertIn(f"Interrupted: ended by {number.name}", said)
                self.assertFalse(pathlib.Path(directory).exists())
                files = [pathlib.Path("/proc", pid) for pid in processes]
                self.assertTrue(harness.wait_until(lambda files=files: not any(map(pathlib.Path.exists, files))), said)


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(Interrupted)


if __name__ == "__main__":
    harness.main()
