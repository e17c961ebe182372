#!/usr/bin/python3
"""What scripts/bench rxe makes of figures. Measures nothing."""

import unittest

import run


class Table(unittest.TestCase):
    def met(self, what, rxe, urnic):
        found = {name: [] for name in run.TARGETS} | {what: [{"rxe": rxe, "urnic": urnic}]}
        return next(line for line in run.table(found, 1) if line.startswith(f"| {what} |")).endswith("| yes |")

    def test_targets(self):
        self.assertTrue(self.met(run.WRITES, 10.0, 40.0))
        self.assertFalse(self.met(run.WRITES, 10.0, 39.9))
        self.assertTrue(self.met(run.CMTIME, 10.0, 10.1))
        self.assertFalse(self.met(run.CMTIME, 10.0, 10.0))
        latency = "SEND 8 B one way, sleeping, us"
        self.assertTrue(self.met(latency, 10.0, 9.9))
        self.assertFalse(self.met(latency, 9.9, 10.0))

    def test_no_figure_meets_no_target(self):
        self.assertFalse(any(line.endswith("| yes |") for line in run.table({name: [] for name in run.TARGETS}, 1)))


if __name__ == "__main__":
    unittest.main()
