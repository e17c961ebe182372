"""When is a suite content? The comparison of what happened with the list, and the exit status that follows from it."""

import pathlib
import sys
import tempfile
import textwrap
import types

import verdict
from verdict import FAILED, PASSED, SKIPPED, check_state
import harness


class Comparison(harness.TestCase):
    def state(self, happened, reason):
        return check_state(happened, "why", reason)[0]

    def test_what_has_to_pass(self):
        self.assertEqual(self.state(PASSED, ""), PASSED)
        self.assertEqual(self.state(FAILED, ""), FAILED)
        self.assertEqual(self.state(SKIPPED, ""), FAILED)

    def test_what_cannot_pass(self):
        self.assertEqual(check_state(SKIPPED, "why", "no such thing"), (SKIPPED, "no such thing"))
        self.assertEqual(self.state(FAILED, "no such thing"), SKIPPED)
        self.assertEqual(self.state(PASSED, "no such thing"), FAILED)

    def test_what_the_machine_decides(self):
        self.assertEqual(self.state(PASSED, "may pass: huge pages"), PASSED)
        self.assertEqual(check_state(SKIPPED, "", "may pass: huge pages"), (SKIPPED, "huge pages"))
        self.assertEqual(self.state(FAILED, "may pass: huge pages"), FAILED)

    def test_what_the_list_does_not_say(self):
        for happened in (PASSED, FAILED, SKIPPED):
            self.assertEqual(self.state(happened, None), FAILED)
            self.assertEqual(self.state(happened, verdict.NO_REASON), FAILED)


class PerftestTable(harness.TestCase):
    UNCALIBRATED = "Correlation coefficient r^2: 0.894013 < 0.9"

    def rows(self, line, err=""):
        return harness.perftest_rows(types.SimpleNamespace(out=f" #bytes #iterations t_min[usec]\n {line}\n", err=err))

    def test_figures(self):
        self.assertEqual(self.rows("2 200 1.5 2.5 0.00"), {2: [200, 1.5, 2.5, 0]})

    def test_no_figures(self):
        for line in ("", "2 0 1.5 2.5 3.5", "2 200 0.00 0.00 0.00", "2 200 inf inf -nan"):
            self.assertRaises(ValueError, self.rows, line)

    def test_a_clock_that_perftest_could_not_calibrate(self):
        self.assertEqual(self.rows("2 200 inf inf inf", self.UNCALIBRATED)[2][0], 200)
        self.assertEqual(self.rows("2 200 0.00 0.00 0.00", self.UNCALIBRATED)[2][0], 200)
        self.assertRaises(ValueError, self.rows, "2 0 inf inf inf", self.UNCALIBRATED)

    def test_a_standard_deviation_that_perftest_overflows(self):
        self.assertEqual(self.rows("2 20 1.5 51000.25 2.5 4000.10 -nan 51000.25 51000.25")[2][0], 20)
        for line in ("2 20 1.5 45000.25 2.5 4000.10 -nan 45000.25 45000.25", "2 20 1.5 51000.25 2.5 -nan -nan 3.5 3.5",
                     "2 20 1.5 51000.25 2.5 4000.10 3.5 -nan 3.5"):
            self.assertRaises(ValueError, self.rows, line)


class ExitStatus(harness.TestCase):
    def suite(self, entries, body, *options):
        """Runs a suite with this list; returns its result."""
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "lists").mkdir()
            (directory / "lists/made_up.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
            program = directory / "suite_made_up.py"
            program.write_text(textwrap.dedent(f"""
                import sys, pathlib
                sys.path.insert(0, {str(verdict.HERE)!r})
                import verdict
                verdict.HERE = pathlib.Path({name!r})
                def no():
                    raise verdict.Refused("no")
                suite = verdict.Verdict("made_up", "")
                """) + body, encoding="utf-8")
            return harness.run([sys.executable, program, *options])

    def test_content(self):
        result = self.suite(["a", "b\tcannot"], "suite.run('a', lambda: None)\nsuite.run('b', no)\nsuite.end()")
        self.assertEqual(result.returncode, 0, str(result))
        self.assertIn("made_up: skipped: b: cannot", result.out)

    def test_what_nothing_follows_from(self):
        result = self.suite(["a", "b\tnot run: speed"],
                            "def ran(): print('b ran')\nsuite.run('a', lambda: None)\nsuite.run('b', ran)\nsuite.end()")
        self.assertEqual(result.returncode, 0, str(result))
        self.assertIn("made_up: skipped: b: not run: speed", result.out)
        self.assertNotIn("b ran", result.out)
        self.assertIn("made_up: 1 passed, 0 failed, 1 skipped", result.out)

    def test_not_content(self):
        for what, entries, body in (
                ("newly fails", ["a", "b"], "suite.run('a', lambda: None)\nsuite.run('b', no)"),
                ("newly passes", ["a", "b\tcannot"], "for n in 'ab': suite.run(n, lambda: None)"),
                ("missing", ["a", "b"], "suite.run('a', lambda: None)"),
                ("not listed", ["a"], "for n in 'ab': suite.run(n, lambda: None)"),
                ("failed in one of two runs", ["a", "b"],
                 "for n in 'abb': suite.report(n, 'failed' if n == 'b' else 'passed')\nsuite.report('b', 'passed')"),
                ("nothing passed", ["b\tcannot"], "suite.run('b', no)")):
            with self.subTest(what):
                self.assertEqual(self.suite(entries, f"{body}\nsuite.end()").returncode, 1)

    def test_a_short_form_needs_only_its_own(self):
        result = self.suite(["a", "b"], "suite.run('a', lambda: None)\nsuite.end(expected=['a'])", "--short")
        self.assertEqual(result.returncode, 0, str(result))


if __name__ == "__main__":
    harness.main()
