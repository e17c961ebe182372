#!/usr/bin/python3
"""What scripts/bench cmtime makes of cmtime's words. Measures nothing."""

import unittest

import run

TABLE = """creating id
connecting
step              total ms     max ms     min us  us / conn
create id    :       46.47       6.32      13.00      92.95
resolve addr :      215.89     151.55   66120.00     431.79
resolve route:      187.03     148.89   23564.00     374.05
create qp    :      613.76      18.80      61.00    1227.52
connect      :     1926.25    1753.80  198133.00    3852.49
disconnect   :        0.00       0.001000000000.00       0.02
destroy      :       31.28       5.84      19.00      62.55
"""


class Words(unittest.TestCase):
    def test_steps(self):
        steps = run.steps_of(TABLE, 500)
        self.assertEqual(list(steps), list(run.STEPS))
        self.assertAlmostEqual(steps["connect"], 3852.5)
        self.assertAlmostEqual(steps["disconnect"], 0)

    def test_connections_that_failed(self):
        for words in ("event: RDMA_CM_EVENT_REJECTED, error: 8\n", "failure creating qp: Cannot allocate memory\n"):
            with self.assertRaises(run.Failure):
                run.steps_of(words + TABLE, 500)

    def test_a_step_that_is_missing(self):
        with self.assertRaises(run.Failure):
            run.steps_of(TABLE.replace("destroy ", "destroyed"), 500)

    def test_the_target_is_judged(self):
        self.assertTrue(run.row("made", [4000.0, 5001.0, 6000.0], "a second", 5000).endswith("| a second | 5,000 | yes |"))
        self.assertTrue(run.row("made", [4000.0, 4999.0, 6000.0], "a second", 5000).endswith("| a second | 5,000 | **no** |"))
        self.assertTrue(run.row("its step", [1.0], "us").endswith("| us | - | - |"))


if __name__ == "__main__":
    unittest.main()
