"""Events of `urnic trace` that are no packets of a transfer: rates, timers, errors without a packet, receives of XRC; and what the
page draws of them."""

import collections
import json

import browser
import harness
from failure_modes_test import RETRY_EXC_ERR, WithStreams
from trace_test import VALIDATOR, Traces

MBIT = 1_000_000
# How many points of a canvas have a colour of KINDS in model.js, or a mixture of it with the white around.
COUNT = ("(() => {{ const c = document.getElementById('{canvas}'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
         "let n = 0; for (let i = 0; i < d.length; i += 4) {{ const [r, g, b] = d.slice(i, i + 3); if ({colour}) n++; }} return n; }})()")
LIMIT = {"canvas": "window", "colour": "r > 205 && r - b > 60 && g < 200"}
TIMER = {"canvas": "psns", "colour": "r > 220 && r - g > 60 && b - g > 25"}


class Events(Traces, WithStreams):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def check(self, text):
        """As Traces.check(), but the schema is for some events of each kind: there are very many."""
        lines = [json.loads(line) for line in text.splitlines()]
        kinds = collections.defaultdict(list)
        for line in lines:
            kinds[line.get("name")].append(line)
        problems = [(line, error.message) for some in kinds.values() for line in some[:20] for error in VALIDATOR.iter_errors(line)]
        self.assertEqual(problems[:3], [])
        times = [line["time"] for line in lines[1:]]
        self.assertEqual(times, sorted(times))
        return lines[1:]

    def of(self, events, name):
        return [event for event in events if event["name"] == "rdma:" + name]

    def read(self, tracer, file):
        self.end(tracer)
        return self.check(file.read_text(encoding="utf-8"))

    def points(self, file, group, colour):
        """Of that colour in the drawing of that QP."""
        page = file.with_suffix(".html")
        self.assert_ok(self.urnic("view", file, "-o", page))
        self.browser.open(page.as_uri())
        index = self.browser.evaluate("JSON.parse(document.getElementById('data').textContent).connections"
                                      f".findIndex(one => one.name === {json.dumps(group)})")
        self.browser.open(f"{page.as_uri()}#{index}")
        self.assertEqual(self.browser.problems, [])
        return self.browser.evaluate(COUNT.format(**colour))

    def test_marks_change_the_rate(self):
        for device in ("urnic0", "urnic1"):
            self.assert_ok(self.urnic("cc", "set", device, "algorithm=dcqcn", "line_rate_mbps=1000", "min_rate_mbps=200",
                                      "--socket", self.socket))
        tracer, file = self.trace()
        self.transfer("-s", 65536, "-m", 4096, "-u", 18, iterations=100)
        quiet = self.of(self.read(tracer, file), "rate_changed")
        # QPs begin at the full rate; nothing else changed it.
        self.assertEqual({(event["data"]["cause"], event["data"]["bits_per_s"]) for event in quiet}, {("settings", 1000 * MBIT)})
        self.fault("add", "ecn", "--device", "urnic0")
        tracer, file = self.trace()
        self.transfer("-s", 65536, "-m", 4096, "-u", 18, iterations=100)
        events = self.read(tracer, file)
        sender = self.group_of_rate(events, "cnp")
        changes = [event["data"] for event in self.of(events, "rate_changed") if event["group_id"] == sender]
        # Each begins where the one before it ended.
        self.assertNotIn("old_bits_per_s", changes[0])
        for before, after in zip(changes, changes[1:]):
            self.assertEqual(before["bits_per_s"], after["old_bits_per_s"])
        cuts = [change for change in changes if change["cause"] == "cnp"]
        self.assertEqual(cuts[0]["old_bits_per_s"], 1000 * MBIT)
        for change in changes[1:]:
            falls = change["bits_per_s"] < change["old_bits_per_s"]
            self.assertEqual(falls, change["cause"] == "cnp", change)
            self.assertGreaterEqual(change["bits_per_s"], 200 * MBIT)
            self.assertLessEqual(change["bits_per_s"], 1000 * MBIT)
            self.assertGreaterEqual(change["target_bits_per_s"], change["bits_per_s"])
        received = [event["time"] for event in self.of(events, "cnp_received") if event["group_id"] == sender]
        first_cut = next(event["time"] for event in self.of(events, "rate_changed") if event["data"]["cause"] == "cnp")
        self.assertLessEqual(received[0], first_cut)
        self.assertIn("at the least", self.urnic("view", "--text", file).out)
        # Points on the edge of a line have other colours, too.
        self.assertGreater(self.points(file, sender, LIMIT), 0)
        self.assertGreater(int(self.browser.evaluate("document.documentElement.dataset.limits")), 2)

    def group_of_rate(self, events, cause):
        groups = {event["group_id"] for event in self.of(events, "rate_changed") if event["data"]["cause"] == cause}
        self.assertEqual(len(groups), 1, groups)
        return groups.pop()

    def test_nothing_comes_through(self):
        _, client = self.start_stream()
        self.fault("add", "drop", "--device", "urnic1")
        tracer, file = self.trace("urnic1")
        self.expect_line(client, f"status {RETRY_EXC_ERR}")
        self.expect_line(client, "done")
        events = self.read(tracer, file)
        expiries = [event["data"] for event in self.of(events, "timer_expired") if event["data"]["timer"] == "ack"]
        limit = expiries[0]["retry_limit"]
        self.assertGreater(len(expiries), 0)
        # The trace may begin behind the first; the last finds no retry left.
        self.assertEqual([expiry["retries"] for expiry in expiries], list(range(limit + 1))[-len(expiries):])
        groups = {event["group_id"] for event in self.of(events, "timer_expired")}
        self.assertEqual(len(groups), 1)
        # The QP goes to ERR without a packet that would tell.
        failed = next(event for event in self.of(events, "completion_written") if event["data"]["status"] == "RETRY_EXC_ERR")
        self.assertRegex(failed["data"]["wr_id"], r"^0x[0-9a-f]+$")
        states = [event for event in self.of(events, "state_changed") if event["data"]["new"] == "ERR"]
        self.assertEqual([event["group_id"] for event in states], [failed["group_id"]])
        last = max(event["time"] for event in self.of(events, "timer_expired"))
        self.assertLessEqual(last, failed["time"])
        self.assertGreater(self.points(file, groups.pop(), TIMER), 0)

    def test_receives_of_xrc(self):
        tracer, file = self.trace("urnic1")
        self.transfer("-s", 1000, "-u", 18, "-c", "XRC", tool="ib_send_bw", iterations=50)
        events = self.read(tracer, file)
        completed = [event for event in self.of(events, "completion_written") if event["data"]["queue"] == "receive"]
        fetched = [event for event in self.of(events, "wqe_fetched") if event["data"]["queue"] == "receive"]
        self.assertEqual(len(completed), 50)
        self.assertEqual({event["group_id"] for event in fetched}, {completed[0]["group_id"]})
        self.assertEqual([event["data"]["wqe_index"] for event in fetched], list(range(50)))
        for one, other in zip(fetched, completed):
            self.assertLessEqual(one["time"], other["time"])


if __name__ == "__main__":
    harness.main()
