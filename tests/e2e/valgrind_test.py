"""Programs under valgrind's memcheck find their own errors and none of ours.

Runs under `urnic run --standalone`.
"""

import os
import pathlib

import harness

PROGRAM = harness.BUILD / "tests/e2e/unwritten_memory"
VALGRIND = ["valgrind", "--error-exitcode=7", "--leak-check=full", "--errors-for-leak-kinds=definite,possible"]


class Memcheck(harness.TestCase):
    def test_registered_heap_blocks(self):
        self.assert_ok(harness.run([*VALGRIND, PROGRAM], env=dict(os.environ)))

    def test_a_programs_own_error_is_found(self):
        result = harness.run([*VALGRIND, PROGRAM, "bug"], env=dict(os.environ))
        self.assertEqual(result.returncode, 7, result)
        self.assertIn("Invalid read of size 1", result.err)
        self.assertIn("ERROR SUMMARY: 1 errors", result.err)

    def test_pingpong(self):
        port = harness.free_port()
        common = [*VALGRIND, "--child-silent-after-fork=yes", "ibv_rc_pingpong", "-g", "1", "-n", "100", "-p", str(port)]
        self.run_pair([*common, "-d", "urnic0"], [*common, "-d", "urnic1", "127.0.0.1"], port)

    def test_other_options_of_the_user_stay(self):
        shown = harness.run([harness.URNIC, "run", "--", "printenv", "VALGRIND_OPTS"], env={**os.environ, "VALGRIND_OPTS": "--quiet"})
        self.assert_ok(shown)
        first, second = shown.out.split()
        self.assertEqual(second, "--quiet")
        self.assertTrue(pathlib.Path(first.removeprefix("--suppressions=")).is_file(), first)


if __name__ == "__main__":
    harness.main()
