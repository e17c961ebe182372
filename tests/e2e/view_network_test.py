"""The network page of `urnic view`: traces of experiments with pauses, marks, drops and waits for credit in headless Chromium and in
--text; and what large, cut and hostile files make of it."""

import json
import os
import pathlib
import shutil
import tempfile

import harness
from view_test import HEADER, Pages

# Four senders and a victim share the link of the two switches, which has room for all: the victim's way ends at a port of its own.
VICTIM = """
name = "victim"
duration_us = 400
[topology]
kind = "custom"
rate_gbit = 40
delay_ns = 1000
hosts = ["h1", "h2", "h3", "h4", "h5", "h6"]
switches = ["s1", "s2"]
link = [{between = ["h1", "s1"]}, {between = ["h2", "s1"]}, {between = ["h3", "s1"]}, {between = ["h4", "s1"]},
        {between = ["s1", "s2"], rate_gbit = 100}, {between = ["s2", "h5"]}, {between = ["s2", "h6"]}]
[congestion]
algorithm = "none"
[[flow]]
name = "victim"
from = "h1"
to = "h6"
[[flow]]
name = "incast"
from = ["h2", "h3", "h4"]
to = "h5"
"""
ETHERNET = ("--set", "switch.xoff_kb=60", "--set", "switch.kmin_kb=20", "--set", "switch.kmax_kb=80", "--set", "switch.pmax=0.2")
INFINIBAND = ("--set", "link_layer='infiniband'", "--set", "subnet.vls=1", "--set", "subnet.vl_buffer_bytes=65536")
# How many points of the queue's canvas are as this condition of their colour says; what is drawn thinly has its colour, too.
POINTS = ("(() => {{ const c = document.getElementById('queue'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
          "let n = 0;"
          "for (let i = 0; i < d.length; i += 4) {{ const [r, g, b] = d.slice(i, i + 3); if ({condition}) n++; }} return n; }})()")
QUEUE = "Math.abs(r - 53) < 30 && Math.abs(g - 116) < 30 && Math.abs(b - 181) < 30"
MARKED = "r === 224 && g === 138 && b === 0"
PAUSED = "Math.abs(r - 96) < 4 && Math.abs(g - 125) < 4 && Math.abs(b - 139) < 4"
WAITS = "Math.abs(r - 184) < 4 && Math.abs(g - 51) < 4 && Math.abs(b - 106) < 4"


class Network(Pages):
    """Not run itself."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def experiment(self, *words):
        config, file = self.dir / "victim.toml", self.dir / "victim.ndjson"
        config.write_text(VICTIM, encoding="utf-8")
        self.assert_ok(harness.run([harness.URNIC, "experiment", config, "--out", self.dir, "--no-draw", "--quiet", *words,
                                    "--trace", file]))
        return file

    def write(self, events, name="network.ndjson"):
        file = self.dir / name
        lines = [json.dumps({"time": time, "name": f"rdma:{what}", "group_id": group, "data": data}) for time, what, group, data in events]
        file.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
        return file

    @staticmethod
    def port(node, neighbour, node_type="switch", name=None):
        return (0, "port_added", name or f"{node}>{neighbour}", {
            "node": node, "node_type": node_type, "neighbour": neighbour, "link_layer": "ethernet", "bits_per_s": 40_000_000_000,
            "delay": 0.001})

    def findings(self):
        """(finding, port) with the sentence of each."""
        return {(name, port): sentence for name, port, sentence in self.browser.evaluate(
            "Array.from(document.querySelectorAll('#network-findings li[data-finding]'),"
            "item => [item.dataset.finding, item.dataset.port, item.querySelector('span').textContent])")}

    def rows(self, table):
        return self.browser.evaluate(f"Array.from(document.querySelectorAll('#{table} tbody tr'),"
                                     "row => Array.from(row.cells, cell => cell.textContent))")

    def choose(self, name):
        """The port, by a click on its row."""
        before = int(self.shown("networkReady"))
        self.browser.evaluate("Array.from(document.querySelectorAll('#ports tbody tr'))"
                              f".find(row => row.cells[0].textContent === {json.dumps(name)}).click()")
        self.drawn(before)
        self.assertEqual(self.browser.evaluate("document.getElementById('port').textContent"), name)

    def drawn(self, before):
        self.browser.wait_for(f"Number(document.documentElement.dataset.networkReady) > {before}")

    def points(self, condition):
        return self.browser.evaluate(POINTS.format(condition=condition))


class Experiments(Network):
    def test_an_incast_with_pauses(self):
        file = self.experiment(*ETHERNET)
        result = self.view(file)
        self.assertIn("8 QPs and 14 ports", result.err)
        found = self.findings()
        for finding, port in (("queue_builds_up", "s2>h5"), ("victim_of_pause", "s1>s2"), ("port_paused", "s1>s2"),
                              ("port_paused", "h1>s1"), ("port_marks", "s2>h5")):
            self.assertIn((finding, port), found)
        self.assertNotIn(("queue_builds_up", "s2>h6"), found)
        self.assertRegex(found["port_paused", "s1>s2"], r"^The port s1>s2 was paused \d+\.\d % of the time \(PFC, priority 3: ")
        self.assertRegex(found["victim_of_pause", "s1>s2"], r"^A victim: victim \(h1/0x11\) had to wait at s1>s2.*queue of s2>h5")
        text = self.urnic_text(file)
        for sentence in found.values():
            self.assertIn(sentence, text)
        self.assertIn("network: 14 ports, 4 flows\n  warning queue_builds_up: A queue builds up at s2>h5: ", text)
        # What the table says, and what the graphs show.
        rows = {row[0]: row for row in self.rows("ports")}
        self.assertEqual(len(rows), 14)
        self.assertGreater(float(rows["s2>h5"][3]), 60)
        self.assertEqual((rows["s2>h6"][6], rows["s2>h5"][5], rows["s2>h5"][8]), ("0", "0", "3"))
        self.choose("s2>h5")
        self.assertEqual(self.points(PAUSED), 0)
        self.assertGreater(self.points(QUEUE), 200)
        self.assertGreater(self.points(MARKED), 5)
        self.choose("s1>s2")
        self.assertGreater(self.points(PAUSED), 2000)
        if picture := os.environ.get("URNIC_PICTURE"):  # that of docs/observe.md
            self.browser.evaluate("document.getElementById('network').scrollIntoView()")
            self.browser.screenshot(pathlib.Path(picture))
        self.choose("s2>h6")
        self.assertEqual((self.points(PAUSED), self.points(MARKED)), (0, 0))

    def urnic_text(self, file):
        result = harness.run([harness.URNIC, "view", "--text", file])
        self.assert_ok(result)
        return result.out

    def test_paths_lead_to_qps_and_ports(self):
        self.view(self.experiment(*ETHERNET))
        paths = self.rows("paths")
        self.assertEqual(paths[0], ["h1>s1s1>s2s2>h6", "payload", "victim (h1/0x11)"])
        self.assertEqual([row[1] for row in paths], ["payload"] * 4 + ["answers"] * 4)
        before = self.drawings()
        self.browser.evaluate("Array.from(document.querySelectorAll('#paths a')).find(a => a.textContent === 'incast.2 (h3/0x11)').click()")
        self.browser.wait_for(f"Number(document.documentElement.dataset.ready) > {before}")
        self.assertEqual(self.browser.evaluate("document.getElementById('name').textContent"), "h3/0x11")
        before = int(self.shown("networkReady"))
        self.browser.evaluate("Array.from(document.querySelectorAll('#paths a')).find(a => a.textContent === 's2>h6').click()")
        self.drawn(before)
        self.assertEqual(self.browser.evaluate("document.getElementById('port').textContent"), "s2>h6")
        # The QP stays on show, and the flows of the port are marked.
        self.assertEqual(self.browser.evaluate("document.getElementById('name').textContent"), "h3/0x11")
        flows = "Array.from(document.querySelectorAll('#paths tr.chosen'), row => row.cells[2].textContent)"
        self.assertEqual(self.browser.evaluate(flows), ["victim (h1/0x11)"])
        # Evidence: the graph goes to it.
        before, whole = int(self.shown("networkReady")), float(self.shown("networkTo")) - float(self.shown("networkFrom"))
        self.browser.evaluate("document.querySelector('[data-finding=port_paused][data-port=\"s1>s2\"] button').click()")
        self.drawn(before)
        self.assertLess(float(self.shown("networkTo")) - float(self.shown("networkFrom")), whole)
        self.assertIn("paused (priority 3)", self.browser.evaluate("document.getElementById('at').textContent"))

    def test_waits_for_credit(self):
        file = self.experiment(*INFINIBAND)
        self.view(file)
        found = self.findings()
        self.assertRegex(found["credit_waits", "s1>s2"], r"^The port s1>s2 had no credit for what it had to send \d+\.\d % of the time")
        self.assertIn("which had no credit", found["victim_of_pause", "s1>s2"])
        self.assertFalse([port for finding, port in found if finding in ("port_paused", "port_marks")])
        self.choose("s1>s2")
        self.assertGreater(self.points(WAITS), 500)
        self.assertEqual(self.points(PAUSED), 0)

    def test_a_lane_of_its_own_makes_no_victim(self):
        self.view(self.experiment(*INFINIBAND, "--set", "subnet.vls=2", "--set", "flow.victim.sl=1"))
        found = self.findings()
        self.assertIn(("credit_waits", "h2>s1"), found)
        self.assertIn(("credit_waits", "s1>s2"), found)
        self.assertNotIn(("victim_of_pause", "s1>s2"), found)

    def test_drops(self):
        self.view(self.experiment("--set", "switch.pfc=false", "--set", "switch.buffer_kb=100"))
        found = self.findings()
        self.assertRegex(found["port_drops", "s2>h5"], r"^The port s2>h5 dropped \d+ packets \(dropped \d+\)")
        self.assertFalse([port for finding, port in found if finding in ("port_paused", "victim_of_pause")])


class Files(Network):
    def test_a_hundred_thousand_events_in_bounded_frames(self):
        events = [self.port("s1", "h1")]
        for number in range(25_000):
            time = number * 0.008
            events += [(time, "queue_updated", "s1>h1", {"bytes": number * 37 % 90_000, "most_bytes": 90_000}),
                       (time + 0.001, "packets_marked", "s1>h1", {"count": 1}),
                       (time + 0.002, "pfc_paused", "s1>h1", {"priority": 3, "direction": "received"}),
                       (time + 0.005, "pfc_resumed", "s1>h1", {"priority": 3, "direction": "received"})]
        self.view(self.write(events), wait="Number(document.documentElement.dataset.networkReady) > 0")
        # Spans of pauses are drawn beside the events.
        self.assertGreaterEqual(int(self.shown("networkDrawn")), 100_000)
        self.assertGreaterEqual(int(self.shown("networkFrames")), 6)
        self.assertLessEqual(int(self.shown("networkMostInAFrame")), 20_000)
        # A narrow range costs what is in it.
        before = int(self.shown("networkReady"))
        self.browser.evaluate("document.querySelector('[data-finding=port_paused] button').click()")
        self.drawn(before)
        self.assertLess(int(self.shown("networkDrawn")), 20_000)

    def test_hostile_names(self):
        evil = "</script><script>document.documentElement.dataset.owned=1</script><img src=x onerror=\"document.title='owned'\">"
        events = [self.port(evil, evil, name=evil), self.port(evil, evil, "host", name=evil + "2"),
                  (0, "path_assigned", evil, {"peer": evil, "flow": evil, "payload": True, "priority": 3, "ports": [evil + "2", evil]}),
                  (1, "queue_updated", evil, {"bytes": 9_000_000, "most_bytes": 9_000_000}),
                  (1, "packets_dropped", evil, {"count": 1, "trigger": "dropped"}),
                  (1, "pfc_paused", evil, {"priority": 3, "direction": "received"}), (9, "state_changed", evil, {"new": "RTS"})]
        self.view(self.write(events), wait="Number(document.documentElement.dataset.networkReady) > 0")
        self.assertIsNone(self.shown("owned"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.browser.evaluate("document.getElementById('port').textContent"), evil)
        self.assertEqual(self.rows("paths")[0][2], f"{evil} ({evil})")
        self.assertIn(f"The port {evil} dropped 1 packet", self.findings()["port_drops", evil])

    def test_a_cut_file(self):
        text = self.experiment(*ETHERNET).read_bytes()
        place = text.index(b"rdma:pfc_paused")
        for cut, ports in ((place + 20, 14), (text.index(b"rdma:port_added", 2000) + 5, None)):
            file = self.dir / "cut.ndjson"
            file.write_bytes(text[:cut])
            self.view(file)
            self.assertIn("cut in its last line", self.browser.evaluate("document.getElementById('shortfall').textContent"))
            shown = len(self.rows("ports"))
            self.assertTrue(shown == 14 if ports else 0 < shown < 14, shown)

    def test_traces_without_a_network_have_no_such_page(self):
        events = [(0, "state_changed", "urnic0/0x11", {"new": "RTS"}),
                  (1, "pfc_paused", "urnic0", {"priority": 3, "direction": "received"})]
        file = self.write(events)
        self.view(file)
        self.assertTrue(self.browser.evaluate("document.getElementById('network').hidden"))
        self.assertNotIn("network:", harness.run([harness.URNIC, "view", "--text", file]).out)


if __name__ == "__main__":
    harness.main()
