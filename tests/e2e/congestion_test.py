"""Congestion control as a user meets it: `urnic cc`, a fixed rate, and what marked packets lead to.

Runs under `urnic run --standalone`: urnic0 and urnic1 on one wire, ib_write_bw from urnic0 to urnic1.
"""

import json
import os
import pathlib

import harness

SIZE = 65536


def urnic(*words):
    return harness.run([harness.URNIC, *words], env=dict(os.environ))


def counters():
    devices = json.loads(urnic("status", "--json").out)["devices"]
    return {device["name"]: device["counters"] for device in devices}


def settings():
    return {device["name"]: device for device in json.loads(urnic("cc", "show", "--json").out)["devices"]}


def hw_counter(device, name):
    path = pathlib.Path(os.environ["URNIC_RUN_DIR"], "sysroot/sys/class/infiniband", device, "ports/1/hw_counters", name)
    return int(path.read_text(encoding="ascii"))


class Congestion(harness.TestCase):
    def setUp(self):
        self.reset()
        self.addCleanup(self.reset)

    def reset(self):
        for device in ("urnic0", "urnic1"):
            self.ok("cc", "set", device, "algorithm=none", "line_rate_mbps=100000", "profile=paper", "burst_bytes=65536")
        self.ok("fault", "clear")

    def ok(self, *words):
        self.assert_ok(urnic(*words), " ".join(words))

    def refused(self, *words):
        result = urnic(*words)
        self.assertEqual(result.returncode, 125, result)
        return result.err

    def write(self, iterations):
        """MB/s of ib_write_bw, headers not counted."""
        port = harness.free_port()
        common = ["ib_write_bw", "-x", "1", "-F", "-m", "1024", "-s", str(SIZE), "-n", str(iterations), "-p", str(port)]
        _, client = self.run_pair([*common, "-d", "urnic1"], [*common, "-d", "urnic0", "127.0.0.1"], port)
        return harness.perftest_rows(client)[SIZE][2] * 1.048576

    def test_a_fixed_rate(self):
        # 20 ms of the rate may be made up for: so long a worker on a busy machine may be kept from running.
        self.ok("cc", "set", "urnic0", "algorithm=fixed", "rate_mbps=100", "burst_bytes=250000")
        self.assertEqual(settings()["urnic0"]["algorithm"], "fixed")
        self.assertEqual(settings()["urnic1"]["algorithm"], "none")
        # perftest's clock may be off by a tenth on a busy machine (or not calibrated at all: harness.perftest_rows()).
        rates = []
        while len(rates) < 8 and not any(98 < rate < 102 for rate in rates):
            before = counters()["urnic0"]["sent_bytes"]
            payload = self.write(600)
            sent = counters()["urnic0"]["sent_bytes"] - before
            rates.append(payload * 8 * sent / (600 * SIZE))  # Mbit/s on the wire
        self.assertTrue(any(98 < rate < 102 for rate in rates), rates)

    def test_marks_slow_the_sender_down(self):
        self.ok("fault", "add", "ecn", "--device", "urnic0")
        self.write(1000)
        before = counters()
        self.assertGreater(before["urnic1"]["np_ecn_marked_roce_packets"], 0)
        self.assertEqual(before["urnic1"]["np_cnp_sent"], 0, "congestion control is off")
        for device in ("urnic0", "urnic1"):
            self.ok("cc", "set", device, "algorithm=dcqcn", "line_rate_mbps=1000", "min_rate_mbps=200")
        self.write(1000)
        after = counters()
        sent = after["urnic1"]["np_cnp_sent"]
        self.assertGreater(sent, 0)
        self.assertEqual(after["urnic0"]["rp_cnp_handled"], sent)
        self.assertEqual(after["urnic0"]["rp_cnp_ignored"], 0)
        self.assertEqual(after["urnic0"]["np_cnp_sent"], 0, "CNPs are not answered")
        self.assertTrue(harness.wait_until(lambda: hw_counter("urnic1", "np_cnp_sent") == sent))

    def test_the_time_of_answers_slows_the_sender_down(self):
        # No answer comes within 1 us, so the rate falls to the least; 1000 Mbit/s are ten times as fast.
        self.ok("cc", "set", "urnic0", "algorithm=timely", "line_rate_mbps=1000", "timely_low_us=0", "timely_high_us=1",
                "timely_min_rate_mbps=100", "burst_bytes=65536")
        # perftest may fail to find out what its clock's ticks are, and prints inf or nan then.
        rates = []
        while len(rates) < 5 and not any(0 < rate < 300 for rate in rates):
            rates.append(self.write(600) * 8)
        self.assertTrue(any(0 < rate < 300 for rate in rates), rates)

    def test_mistakes_are_named(self):
        self.assertIn("it must be one of none, fixed, dcqcn, timely", self.refused("cc", "set", "urnic0", "algorithm=reno"))
        self.assertIn("must not be more than timely_high_us", self.refused("cc", "set", "urnic0", "timely_low_us=501"))
        self.assertIn("unknown setting 'speed'; allowed: algorithm", self.refused("cc", "set", "urnic0", "speed=1"))
        self.assertIn("there are urnic0, urnic1", self.refused("cc", "set", "urnic7", "g=1"))
        self.assertIn("urnic cc show lists them", self.refused("cc", "set", "urnic0/0x5", "g=1"))
        self.assertIn("must be DEVICE or DEVICE/QPN", self.refused("cc", "set", "urnic0/x", "g=1"))
        self.assertIn("must be NAME=VALUE", self.refused("cc", "set", "urnic0", "algorithm"))
        self.assertEqual(settings()["urnic0"]["algorithm"], "none")


if __name__ == "__main__":
    harness.main()
