"""`urnic view`: planted troubles, each named by the page in headless Chromium and by --text; and what large, cut and hostile files make
of the page."""

import json
import os
import pathlib
import shutil
import tempfile

import browser
import harness
from capture_test import Captures

VERBS_CHECK = harness.BUILD / "tests/e2e/verbs_check"
HEADER = json.dumps({"qlog_version": "0.4", "qlog_format": "NDJSON", "title": "urnic trace", "trace": {
    "vantage_point": {"type": "host"}, "common_fields": {"time_format": "relative_to_epoch", "reference_time": {"epoch_ns": "1"}}}})


class Pages(harness.TestCase):
    """Not run itself."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def view(self, file, *words, **wait):
        """Makes its page and opens it."""
        page = file.with_suffix(".html")
        # By its name alone, which is what the page shows.
        result = harness.run([harness.URNIC, "view", file.name, "-o", page, *words], cwd=file.parent)
        self.assert_ok(result)
        self.open(page, **wait)
        return result

    def open(self, page, place="", **wait):
        self.browser.open(page.as_uri() + place, **wait)
        self.assertEqual(self.browser.problems, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith(("file:", "about:"))], [])

    def shown(self, name):
        return self.browser.evaluate(f"document.documentElement.dataset.{name}")

    def drawings(self):
        return int(self.shown("ready"))


class Planting(Captures, Pages):
    """Not run itself."""
    keys = ""

    def setUp(self):
        super().setUp()
        self.number = 0

    def traced(self, run):
        """The trace of what `run` does."""
        self.number += 1
        file = self.dir / f"transfer-{self.number}.ndjson"
        tracer = harness.start([harness.URNIC, "trace", file, "--socket", self.socket])
        self.addCleanup(harness.end_group, tracer)
        self.assertTrue(harness.wait_until(lambda: "urnic-capture" in
                                           open(f"/proc/{self.daemon.pid}/maps", encoding="ascii").read()))
        run()
        self.end(tracer)
        self.assertTrue(harness.wait_until(lambda: "urnic-capture" not in
                                           open(f"/proc/{self.daemon.pid}/maps", encoding="ascii").read()))
        return file

    def check(self, test):
        """One case of verbs_check."""
        return lambda: self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", VERBS_CHECK, f"--gtest_filter=Errors.{test}"])

    def panel(self):
        """The sentences on show, of each QP in turn."""
        sentences = {}
        for index in range(self.browser.evaluate("document.querySelectorAll('#overview tbody tr').length")):
            before = self.drawings()
            self.browser.evaluate(f"location.hash = '#{index}'")
            self.browser.wait_for(f"Number(document.documentElement.dataset.ready) > {before} "
                                  f"&& document.querySelectorAll('#overview tbody tr')[{index}].classList.contains('chosen')")
            for name, sentence in self.browser.evaluate(
                    "Array.from(document.querySelectorAll('#findings li[data-finding]'), item => [item.dataset.finding, item.textContent])"):
                sentences.setdefault(name, []).append(sentence)
        return sentences

    def expect(self, run, *expected, absent=()):
        """Each finding is on the page and in --text. Returns the trace."""
        file = self.traced(run)
        self.view(file)
        seen = self.panel()
        text = self.urnic("view", "--text", file)
        self.assert_ok(text)
        for name in expected:
            self.assertIn(name, seen)
            self.assertIn(f" {name}: ", text.out)
        for name in absent:
            self.assertNotIn(name, seen)
        return file

    def check_messages(self, iterations):
        """Of a transfer of WRITEs: the sender's WQEs have all times, in their order."""
        messages = self.browser.evaluate("JSON.parse(document.getElementById('data').textContent).connections"
                                         ".map(one => one.messages).find(one => one.has_wqes)")
        order = ("fetched", "first", "last", "acknowledged")
        whole = [times for times in zip(*(messages[name] for name in order)) if None not in times]
        self.assertGreaterEqual(len(whole), iterations)
        for times in whole:
            self.assertEqual(list(times), sorted(times))
        signaled = [times for times in zip(messages["acknowledged"], messages["completed"]) if None not in times]
        self.assertGreater(len(signaled), 0)
        for acknowledged, completed in signaled:
            self.assertLessEqual(acknowledged, completed)

    def plant(self, *words):
        self.fault("clear")
        if words:
            self.fault("add", *words)


class Planted(Planting):
    def test_faults_of_the_network(self):
        common = ("-s", 20_000, "-u", 12)
        clean = lambda: self.transfer(*common, iterations=50)
        file = self.traced(clean)
        self.view(file)
        self.assertEqual(set(self.panel()) - {"slow_messages"}, set())
        self.check_messages(50)
        self.plant("drop", "--opcode", "RC WRITE Middle", "--probability", "0.05", "--seed", "3")
        file = self.expect(clean, "packet_loss", "early_packets", absent=("reordering", "path_mtu"))
        if picture := os.environ.get("URNIC_PICTURE"):  # that of docs/observe.md
            self.open(file.with_suffix(".html"))
            self.browser.screenshot(pathlib.Path(picture), whole=True)
        self.plant("corrupt", "--opcode", "RC WRITE Middle", "--offset", "payload", "--probability", "0.05", "--seed", "3")
        self.expect(clean, "damaged_packets", "packet_loss")
        self.plant("reorder", "--probability", "0.05", "--seed", "3")
        self.expect(clean, "reordering", absent=("packet_loss", "timeouts"))
        self.plant("duplicate", "--opcode", "RC WRITE Middle", "--probability", "0.05", "--seed", "3")
        self.expect(clean, "duplicate_requests", absent=("packet_loss", "timeouts"))
        self.plant("drop", "--opcode", "RC Acknowledge", "--count", "2")
        file = self.expect(lambda: self.transfer("-s", 1000, "-u", 12, "-t", 1, iterations=5), "timeouts", "duplicate_requests")
        self.assertIn("although the requests had arrived", self.urnic("view", "--text", file).out)
        self.plant("ecn", "--device", "urnic0")
        self.assert_ok(self.urnic("cc", "set", "urnic0", "algorithm=dcqcn", "--socket", self.socket))
        self.assert_ok(self.urnic("cc", "set", "urnic1", "algorithm=dcqcn", "--socket", self.socket))
        self.expect(clean, "cnps_cut_rate", "ecn_marks")

    def test_troubles_of_programs(self):
        self.expect(self.check("WrongRemoteKey"), "access_error", "refused", "error_state")
        self.expect(self.check("ReceiveBufferTooSmall"), "invalid_request")
        self.expect(self.check("APeerThatIsGone"), "nothing_answered")
        # More than once: a worker that is kept from running finds the receive posted, late as it was.
        file = self.expect(lambda: [self.check("AReceiverThatIsLateIsWaitedFor")() for _ in range(3)], "rnr_waits", "no_receives")
        # The evidence: a click moves the graph to it.
        index = self.browser.evaluate("JSON.parse(document.getElementById('data').textContent).connections"
                                      ".findIndex(one => one.findings.some(finding => finding.id === 'rnr_waits'))")
        self.open(file.with_suffix(".html"), f"#{index}")
        whole = float(self.shown("to")) - float(self.shown("from"))
        before = self.drawings()
        self.browser.evaluate("document.querySelector('[data-finding=rnr_waits] button').click()")
        self.browser.wait_for(f"Number(document.documentElement.dataset.ready) > {before}")
        begin, end, evidence = (float(self.shown(name)) for name in ("from", "to", "evidence"))
        self.assertLess(begin, evidence)
        self.assertLess(evidence, end)
        self.assertLess(end - begin, whole)
        first = next(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if "rnr_nak_received" in line)
        self.assertEqual(evidence, first["time"])
        self.assertIn("RNR NAK", self.browser.evaluate("document.getElementById('nearest').textContent"))


class PeerThatGoesBackN(Planting):
    wire = 'recovery = "go-back-n"\n'  # a key of the RNIC above it, urnic1, which receives

    def test_it_is_seen_to_discard(self):
        self.plant("drop", "--opcode", "RC WRITE Middle", "--probability", "0.05", "--seed", "3")
        file = self.expect(lambda: self.transfer("-s", 20_000, "-u", 12, iterations=50), "go_back_n", "early_discarded",
                           absent=("early_packets", "path_mtu"))
        self.assertIn("Go-back-N: the peer discards early packets", self.urnic("view", "--text", file).out)


class Files(Pages):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def write(self, events, name="trace.ndjson"):
        file = self.dir / name
        lines = [json.dumps({"time": time, "name": f"rdma:{what}", "group_id": group, "data": data}) for time, what, group, data in events]
        file.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
        return file

    @staticmethod
    def packet(psn, **more):
        return {"opcode": "RC WRITE Only", "psn": psn, "dest_qpn": 18, "payload_length": 1024, "ack_req": True, **more}

    def test_a_hundred_thousand_events_in_bounded_frames(self):
        events = []
        for number in range(25_000):
            time, psn = number * 0.004, number % (1 << 24)
            events += [(time, "packet_sent", "urnic0/0x11", self.packet(psn)),
                       (time + 0.002, "ack_received", "urnic0/0x11", {"psn": psn, "msn": 1, "credits": 31}),
                       (time + 0.002, "window_updated", "urnic0/0x11", {"packets_in_flight": number % 60, "unacknowledged_psn": psn}),
                       (time + 0.002, "message_acknowledged", "urnic0/0x11", {"opcode": "RC WRITE", "duration": 0.002})]
        self.view(self.write(events))
        # Every event takes part in the first drawing, and no frame does more than its share, whatever the machine.
        self.assertGreaterEqual(int(self.shown("drawn")), 100_000)
        self.assertGreaterEqual(int(self.shown("frames")), 5)
        self.assertLessEqual(int(self.shown("mostInAFrame")), 20_000)
        # Marks are bounded by what the canvas has room for.
        self.assertGreater(int(self.shown("marks")), 500)
        self.assertLess(int(self.shown("marks")), 25_000)
        # A narrow range costs what is in it.
        before = self.drawings()
        self.wheel(-2000)
        self.browser.wait_for(f"Number(document.documentElement.dataset.ready) > {before}")
        self.assertLess(int(self.shown("drawn")), 50_000)
        self.assertLessEqual(int(self.shown("mostInAFrame")), 20_000)
        # A drawing that is overtaken by another gives way: both are asked for at once, one is finished.
        before = self.drawings()
        self.browser.evaluate("for (let i = 0; i < 20; i++) document.getElementById('all').click()")
        self.browser.wait_for(f"Number(document.documentElement.dataset.ready) > {before}")
        self.assertEqual(self.drawings(), before + 1)

    def wheel(self, amount):
        middle = self.browser.evaluate("(() => { const box = document.getElementById('psns').getBoundingClientRect();"
                                       "return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        self.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=middle[0], y=middle[1], deltaX=0, deltaY=amount)

    def test_what_the_canvas_shows(self):
        # A retransmission and a NAK are red, at their places; the graph of a QP without them has no red.
        colours = ("Array.from(new Set(Array.from({length: 1}, () => { const c = document.getElementById('psns');"
                   "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = [];"
                   "for (let i = 0; i < d.length; i += 4) if (d[i] > 180 && d[i+1] < 40 && d[i+2] < 60) seen.push((i / 4) % c.width);"
                   "return seen; }).flat()))")
        events = [(0, "packet_sent", "urnic0/0x11", self.packet(1)), (1, "packet_sent", "urnic0/0x11", self.packet(2)),
                  (10, "ack_received", "urnic0/0x11", {"psn": 2, "msn": 1, "credits": 31})]
        self.view(self.write(events))
        self.assertEqual(self.browser.evaluate(colours), [])
        events[2:2] = [(5, "packet_sent", "urnic0/0x11", self.packet(1, retransmission=True)),
                       (5, "retransmission", "urnic0/0x11", {"psn": 1, "cause": "timeout"})]
        self.view(self.write(events, "again.ndjson"))
        red = self.browser.evaluate(colours)
        width = self.browser.evaluate("document.getElementById('psns').width")
        self.assertGreater(len(red), 0)
        middle = (70 + width - 10) / 2
        self.assertTrue(all(abs(x - middle) < 10 for x in red), (red, width))

    def test_messages_of_wqes(self):
        # The second waits 40 ms before its packet goes; it is the only one that is longer than 10 ms from end to end.
        group, events = "urnic0/0x11", []
        for number, (taken, first, acknowledged, completed) in enumerate(((0, 1, 3, 4), (5, 45, 50, 52), (60, 60.5, 61, 62))):
            events += [(taken, "wqe_fetched", group, {"queue": "send", "wqe_index": number, "opcode": "RDMA_WRITE", "length": 1024,
                                                      "psn": number}),
                       (first, "packet_sent", group, self.packet(number)),
                       (acknowledged, "message_acknowledged", group, {"opcode": "RC WRITE", "duration": acknowledged - first}),
                       (completed, "completion_written", group, {"queue": "send", "wqe_index": number, "status": "SUCCESS",
                                                                 "opcode": "RDMA_WRITE", "byte_len": 1024})]
        events.append((100, "wqe_fetched", group, {"queue": "send", "wqe_index": 3, "opcode": "RDMA_READ", "length": 8, "psn": 3}))
        self.view(self.write(events))
        # The colour of waiting goes from 0, in the first row, to 45 ms, in the second, of the 104 that are shown.
        waiting = ("(() => { const c = document.getElementById('messages');"
                   "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, at = [];"
                   "for (let i = 0; i < d.length; i += 4) if (d[i] === 201 && d[i+1] === 180 && d[i+2] === 88) at.push((i / 4) % c.width);"
                   "const from = Math.min(...at), to = Math.max(...at.filter(x => x < c.width * 0.6)); return [from, to, c.width]; })()")
        begin, end, width = self.browser.evaluate(waiting)
        scale = (width - 80) / 104
        self.assertLess(abs((end - begin) - 45 * scale), 2 * scale)
        self.assertIn("take-up to its completion", self.browser.evaluate("document.getElementById('messages-title').textContent"))
        quantiles = self.browser.evaluate("document.getElementById('quantiles').textContent")
        self.assertIn("3 messages: ", quantiles)
        self.assertIn("median 4,000.0 us", quantiles)
        self.assertIn("longest 47,000.0 us", quantiles)
        # The bar under the pointer says when.
        self.browser.evaluate("(() => { const c = document.getElementById('messages'), box = c.getBoundingClientRect();"
                              "c.dispatchEvent(new MouseEvent('mousemove', {clientX: box.x + 70 + (box.width - 80) * 22 / 104,"
                              "clientY: box.y + 6 + 134 * 1.5 / 4})); })()")
        said = self.browser.evaluate("document.getElementById('message').textContent")
        self.assertIn("WQE taken up at 5.000000 ms", said)
        self.assertIn("first packet +40000.000 us", said)
        self.assertIn("completed +2000.000 us", said)
        # Without WQEs it is what packets tell.
        self.view(self.write([event for event in events if event[1] != "wqe_fetched"], "old.ndjson"))
        self.assertIn("from the first packet", self.browser.evaluate("document.getElementById('messages-title').textContent"))
        self.assertIn("median 2,000.0 us", self.browser.evaluate("document.getElementById('quantiles').textContent"))

    def test_hostile_names(self):
        evil = "</script><script>document.documentElement.dataset.owned=1</script><img src=x onerror=\"document.title='owned'\">"
        events = [(0, "state_changed", evil, {"new": evil}), (1, "nak_received", evil, {"psn": 1, "msn": 1, "code": evil}),
                  (2, "packet_dropped", evil, self.packet(3, trigger=evil)),
                  (3, "message_acknowledged", evil, {"opcode": evil, "duration": 1})]
        self.view(self.write(events))
        self.assertIsNone(self.shown("owned"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.browser.evaluate("document.getElementById('name').textContent"), evil)
        # Even a script that got in would not run, and nothing could be sent anywhere.
        self.browser.evaluate("document.body.appendChild(Object.assign(document.createElement('script'),"
                              "{textContent: 'document.documentElement.dataset.owned = 2'})); 1")
        self.assertIsNone(self.shown("owned"))

    def test_a_cut_file(self):
        file = self.write([(number, "packet_sent", "urnic0/0x11", self.packet(number)) for number in range(100)])
        cut = self.dir / "cut.ndjson"
        cut.write_bytes(file.read_bytes()[:-20])
        result = self.view(cut)
        self.assertIn("99 events of 1 QPs", result.err)
        self.assertIn("cut in its last line", self.browser.evaluate("document.getElementById('shortfall').textContent"))

    def test_captures_of_others(self):
        result = harness.run([harness.URNIC, "view", "--text", harness.SOURCE / "tests/golden/write_loss.pcap"])
        self.assert_ok(result)
        self.assertIn("packet_loss", result.out)
        page = self.dir / "loss.html"
        self.assert_ok(harness.run([harness.URNIC, "view", harness.SOURCE / "tests/golden/write_loss.pcap", "-o", page]))
        self.open(page)

    def test_what_cannot_be_viewed(self):
        nothing = self.dir / "nothing"
        nothing.touch()
        text = self.dir / "text"
        text.write_text("{}\n", encoding="utf-8")
        for file, said in ((nothing, "is empty"), (self.dir / "missing", "No such file"), (text, "is no trace"),
                           (self.dir, "cannot be read"), (harness.URNIC, "")):
            result = harness.run([harness.URNIC, "view", "--text", file])
            self.assertEqual(result.returncode, 125, result)
            self.assertIn(said, result.err)
        file = self.write([])
        self.assertIn("/dev/full cannot be written", harness.run([harness.URNIC, "view", file, "-o", "/dev/full"]).err)


if __name__ == "__main__":
    harness.main()
