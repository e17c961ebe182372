#!/usr/bin/python3
"""What scripts/bench ports makes of figures. Measures nothing."""

import unittest

import run


def rounds_of(**changes):
    """Two rounds in which each port has 1,000 MB/s and 1.5 M messages/s, TCP 900 MB/s and the wire 2,000, but for `changes`."""
    def one():
        figures = {figure: 1000.0 if "64 KB" in figure else 1.5 for figure in run.FIGURES}
        ports = dict.fromkeys((*run.VETHS, run.MEMIF), figures) | {run.WIRE: dict.fromkeys(run.FIGURES, 2000.0)}
        return ports | {kind: {kind: 900.0} for kind in run.TCP} | changes
    return [one(), one()]


class Verdicts(unittest.TestCase):
    WRITE = "64 KB `ib_write_bw`"
    RATE = "8 B `ib_send_bw`"

    def test_a_veth_is_compared_with_tcp_over_the_same_mtu(self):
        fast = rounds_of(**{"iperf3, MTU 9000": {"iperf3, MTU 9000": 1100.0}})
        self.assertTrue(run.verdict("af_packet, MTU 4200", self.WRITE, fast)["held"])
        self.assertFalse(run.verdict("af_packet, MTU 9000", self.WRITE, fast)["held"])
        self.assertTrue(run.verdict("af_xdp, MTU 4200", self.WRITE, rounds_of())["held"])
        for figure in (self.WRITE, self.RATE):
            self.assertEqual(run.verdict("af_packet, MTU 4200, single frames", figure, fast)["target"], [])

    def test_memif_is_compared_with_the_wire(self):
        self.assertFalse(run.verdict(run.MEMIF, self.WRITE, rounds_of())["held"])  # half of it
        slow = rounds_of(**{run.WIRE: dict.fromkeys(run.FIGURES, 1600.0)})
        self.assertTrue(run.verdict(run.MEMIF, self.WRITE, slow)["held"])

    def test_rates(self):
        self.assertTrue(run.verdict("af_xdp, MTU 1500", self.RATE, rounds_of())["held"])
        self.assertFalse(run.verdict(run.MEMIF, self.RATE, rounds_of())["held"])

    def test_rounds_without_a_figure_are_left_out(self):
        found = rounds_of()
        found[0]["memif"] = dict.fromkeys(run.FIGURES)
        self.assertEqual(len(run.verdict(run.MEMIF, self.WRITE, found)["ratios"][run.WIRE]["samples"]), 1)
        with self.assertRaises(run.machine.Failure):
            run.verdict(run.MEMIF, self.WRITE, found[:1])

    def test_the_table_has_each_figure_of_each_port(self):
        about = {"date": "d", "commit": "c", "cpu": "x", "cpus": 2, "kernel": "k", "load_before": 0.3}
        lines = run.table(about, rounds_of()).splitlines()
        self.assertEqual(len(lines), 4 + (len(run.VETHS) + 1) * len(run.FIGURES))
        self.assertIn("| - | - |", next(line for line in lines if "`ib_send_lat`, memif" in line))

    def test_the_page_has_its_mark(self):
        self.assertIsNotNone(run.machine.read_between(run.machine.SOURCE / "bench/RESULTS.md", run.MARK))


if __name__ == "__main__":
    unittest.main()
