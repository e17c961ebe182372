#!/usr/bin/python3
"""What scripts/bench waiting makes of the programs' words, and where a kernel of another release comes from. Boots nothing."""

import pathlib
import tempfile
import unittest
from unittest import mock

import run

PERFTEST = """ #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 8       300          18.20          91.03        19.66              20.34            4.1
"""


class Words(unittest.TestCase):
    def test_average(self):
        self.assertEqual(run.perftest_average(PERFTEST), 20.34)

    def test_a_clock_that_could_not_be_calibrated(self):
        for word in ("inf", "nan", "-nan", "0.00"):
            self.assertIsNone(run.perftest_average(PERFTEST.replace("20.34", word)))

    def test_a_program_that_failed(self):
        with self.assertRaises(run.guests.GuestError):
            run.perftest_average("Couldn't connect to 127.0.0.1:18701\n")

    def test_answers_without_the_line_that_tells_of_the_connection(self):
        self.assertEqual(run.answers('{"connected": 1}\n{"max_us": 2.5}\na warning\n{"max_us": 3}\n'), [{"max_us": 2.5}, {"max_us": 3}])


class Table(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        # The ratios of the medians would be 1, 4 and 2.
        found = {"rate": [{"before": (1, 2), "now": (1, 4)}, {"before": (2, 2), "now": (1, 1)}, {"before": (4, 12), "now": (3, 6)}]}
        before, now = run.rows("6.12", found)
        self.assertEqual(before, "| 6.12 | rate | before | 2 (1-4) | 2 (2-12) | 2 (1-3) | - |")
        self.assertEqual(now, "| 6.12 | rate | now | 1 (1-3) | 4 (1-6) | 2 (1-4) | 0.5 (0.5-2) |")

    def test_nothing_alone_has_no_ratio(self):
        self.assertEqual(list(run.rows("6.1", {"verdict": [{"now": (0, 98)}]})), ["| 6.1 | verdict | now | 0 (0-0) | 98 (98-98) | - | - |"])

    def test_a_figure_that_no_round_has(self):
        self.assertEqual(list(run.rows("6.1", {"latency": []})), ["| 6.1 | latency | | perftest could not tell the time | | | |"])


class Release(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="urnic-bench-waiting-")
        self.addCleanup(directory.cleanup)
        self.cache = pathlib.Path(directory.name) / "trixie"

    def test_this_machines_lists_stay_as_they_are(self):
        options = run.image.release_options(self.cache, "trixie")
        for place in ("Dir::State::lists", "Dir::State::status", "Dir::Etc::sourcelist", "Dir::Cache"):
            value = next(option.split("=", 1)[1] for option in options if option.startswith(f"-o{place}="))
            self.assertTrue(pathlib.Path(value).is_relative_to(self.cache), value)
        self.assertIn("-oDir::Etc::sourceparts=-", options)
        self.assertRegex((self.cache / "sources.list").read_text(encoding="ascii"), r"^deb \[.*signed-by=\S+\] \S+ trixie main$")

    def test_a_kernel_that_is_there_needs_no_network(self):
        kernel = self.cache / "linux-image-6.12.1-amd64"
        kernel.mkdir(parents=True)
        (kernel / ".complete").touch()
        with mock.patch.object(run.image, "run", side_effect=AssertionError("asked apt")):
            self.assertEqual(run.image.release_kernel(self.cache, "trixie"), kernel)


if __name__ == "__main__":
    unittest.main()
