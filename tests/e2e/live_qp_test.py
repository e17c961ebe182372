"""The daemon's page of one QP in headless Chromium: what it shows while packets flow and are lost, how many QPs are traced for how long,
and what a reader that is too slow is told."""

import json
import os
import pathlib

import browser
import harness
from failure_modes_test import WithStreams
from metrics_test import HOLD_QPS, Metrics

STALLED = "because they came faster than this page reads"


class Traced(Metrics, WithStreams):
    """Not run itself."""

    traces = 2

    def qpns(self, device):
        return [qp["qpn"] for client in self.status()["clients"] for qp in client["qps"] if qp["device"] == device]

    def events(self, device, qpn, **headers):
        answer, text = self.ask(f"/qp/{device}/{qpn:#x}/events", **headers)
        return answer.status, json.loads(text) if answer.status == 200 else text

    def shown(self, device, qpn):
        """What its page gets; the daemon may be busy once."""
        found = []

        def is_answered():
            status, seen = self.events(device, qpn)
            self.assertIn(status, (200, 503), seen)
            found[:] = [seen]
            return status == 200
        self.assertTrue(harness.wait_until(is_answered))
        return found[0]

    def is_tracing(self):
        return "urnic-page" in pathlib.Path(f"/proc/{self.daemon.pid}/maps").read_text(encoding="ascii")

    def fault(self, *words):
        self.assert_ok(self.urnic("fault", *words, "--socket", self.socket))


class InABrowser(Traced):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def text_of(self, name):
        return self.browser.evaluate(f"document.getElementById('{name}').textContent")

    def has_finding(self, name):
        self.browser.wait_for(f"document.querySelector('#findings li[data-finding={name}]') !== null")

    def test_a_qp_of_the_overview(self):
        page, base = self.browser, f"http://127.0.0.1:{self.port}"
        server, client = self.start_stream()
        (sender,) = self.qpns("urnic1")
        self.wait_for_text()
        page.open(f"{base}/")
        link = f"Array.from(document.querySelectorAll('#qps a'), link => link.href).find(href => href.includes('urnic1/{sender:#x}'))"
        page.open(page.wait_for(link))
        # The time-sequence graph, the window, the rate and the distribution, again and again.
        page.wait_for("Number(document.documentElement.dataset.marks) > 100 && Number(document.documentElement.dataset.ready) > 2")
        self.assertEqual(self.text_of("name"), f"urnic1/{sender:#x}")
        self.assertIn("sent", self.text_of("legend"))
        self.assertIn("ACK", self.text_of("legend"))
        page.wait_for("document.getElementById('quantiles').textContent.includes(' messages: median')")
        self.assertIn("completion", self.text_of("messages-title"))
        # Blue, whatever its neighbours make of the edges of its marks.
        blue = ("(() => { const c = document.getElementById('psns'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                "let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i+2] > d[i] + 40) n++; return n; })()")
        page.wait_for(f"{blue} > 20")
        self.assertEqual(page.evaluate("document.querySelectorAll('#findings li[data-finding=packet_loss]').length"), 0)
        # Losses appear while one looks, and a click on the evidence keeps it in place.
        self.fault("add", "drop", "--opcode", "RC WRITE Middle", "--probability", "0.01", "--seed", "3")
        self.has_finding("packet_loss")
        if picture := os.environ.get("URNIC_PICTURE"):  # that of docs/observe.md
            page.screenshot(pathlib.Path(picture), whole=True)
        page.evaluate("document.querySelector('#findings li[data-finding=packet_loss] button').click()")
        page.wait_for("document.documentElement.dataset.evidence !== undefined")
        self.assertFalse(page.evaluate("document.getElementById('live').checked"))
        self.assertTrue(self.is_tracing())
        # A page that asks for nothing costs nothing.
        self.assertTrue(harness.wait_until(lambda: not self.is_tracing()))
        asked = page.evaluate("Number(document.documentElement.dataset.asked)")
        page.evaluate("document.getElementById('live').click()")
        page.wait_for(f"Number(document.documentElement.dataset.asked) > {asked}")
        self.assertTrue(self.is_tracing())
        self.assertEqual([problem for problem in page.problems if "willReadFrequently" not in problem["text"]], [])
        self.assertEqual({url for url in page.requests if not url.startswith("about:")},
                         {f"{base}/qp/urnic1/{sender:#x}", f"{base}/qp/urnic1/{sender:#x}/events"})
        # The QP goes while one looks.
        server.kill()
        client.kill()
        page.wait_for("document.getElementById('state').textContent.includes('destroyed')")
        self.assertIsNone(self.daemon.poll())

    def test_what_cannot_be_shown(self):
        self.browser.open(f"http://127.0.0.1:{self.port}/qp/urnic0/0x11", wait="Number(document.documentElement.dataset.asked) > 0")
        self.assertIn("there is no QP 0x11", self.text_of("state"))
        # The browser tells of an answer that is none; the page does not end with it.
        problems = [problem["text"] for problem in self.browser.problems if f":{self.port}/" in problem.get("url", "")]
        self.assertTrue(all("404" in problem for problem in problems), problems)


class Bounds(Traced):
    def test_what_is_told_of_a_qp(self):
        self.start_stream()
        (sender,) = self.qpns("urnic1")
        self.shown("urnic1", sender)
        self.assertTrue(harness.wait_until(lambda: self.shown("urnic1", sender)["next"] > 0, pause=0.2))
        seen = self.shown("urnic1", sender)
        self.assertEqual(set(seen), {"first", "next", "lost", "gone", "data"})
        (connection,) = seen["data"]["connections"]
        # Numbers, opcodes and states; neither payload nor keys nor addresses.
        columns = {"time", "kind", "side", "psn", "distance", "value", "text"}
        self.assertEqual(set(connection), {"name", "peer", "peer_qpn", "messages", "findings"} | columns)
        for name in columns:
            self.assertEqual(len(connection[name]), seen["next"] - seen["first"], name)
        self.assertLessEqual(len(connection["time"]), 20_000)

    def test_a_reader_that_is_too_slow(self):
        self.start_stream()
        (sender,) = self.qpns("urnic1")
        self.shown("urnic1", sender)
        # It asks every two seconds, and the stream goes on: what has no room is counted, and what is shown is behind the gap.
        self.assertTrue(harness.wait_until(lambda: self.shown("urnic1", sender)["lost"] > 0, pause=2))
        self.assertTrue(harness.wait_until(lambda: STALLED in self.shown("urnic1", sender)["data"]["shortfall"], pause=2))
        seen = self.shown("urnic1", sender)
        self.assertGreater(seen["lost"], 0)
        before = self.status()["devices"][1]["counters"]["sent_pkts"]
        self.assertTrue(harness.wait_until(lambda: self.status()["devices"][1]["counters"]["sent_pkts"] > before), "the stream waits")

    def test_how_many_and_how_long(self):
        holder = self.start("/usr/bin/python3", "-c", HOLD_QPS)
        self.expect_line(holder, "held")
        one, two, three = self.qpns("urnic0")[:3]
        self.shown("urnic0", one)
        self.shown("urnic0", two)
        status, why = self.events("urnic0", three)
        self.assertEqual(status, 503)
        self.assertIn("2 QPs are looked at, and http_traces allows no more", why)
        # Nobody asks for the others any more.
        self.assertTrue(harness.wait_until(lambda: self.events("urnic0", three)[0] == 200, pause=0.2))
        # Captures have places of their own.
        tracer = harness.start([harness.URNIC, "capture", "-w", self.dir / "all.pcapng", "--socket", self.socket])
        self.addCleanup(harness.finish, tracer)
        self.addCleanup(harness.end_group, tracer)
        self.assertTrue(harness.wait_until((self.dir / "all.pcapng").exists))
        self.assertTrue(harness.wait_until(lambda: not self.is_tracing()))

    def test_what_begins_no_trace(self):
        holder = self.start("/usr/bin/python3", "-c", HOLD_QPS)
        self.expect_line(holder, "held")
        qpn = self.qpns("urnic0")[0]
        status, why = self.events("urnic7", qpn)
        self.assertEqual(status, 404)
        self.assertIn(f'there is no QP {qpn:#x} of an RNIC "urnic7"', why)
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.events("urnic0", qpn, **{"Sec-Fetch-Site": site})[0], 403)
        self.assertEqual(self.events("urnic0", qpn, Host="evil.example")[0], 421)
        self.assertEqual(self.ask(f"/qp/urnic0/{qpn:#x}/other")[0].status, 404)
        self.assertEqual(self.ask(f"/qp/urnic0/{qpn:#x}/events", method="POST")[0].status, 405)
        self.assertEqual(self.ask(f"/qp/urnic0/{qpn:#x}")[0].status, 200)
        self.assertFalse(self.is_tracing())
        self.assertEqual(self.events("urnic0", qpn, **{"Sec-Fetch-Site": "same-origin"})[0], 200)
        self.assertTrue(self.is_tracing())


class Off(Traced):
    traces = 0

    def test_unless_told(self):
        for path in ("/qp/urnic0/0x11", "/qp/urnic0/0x11/events"):
            answer, text = self.ask(path)
            self.assertEqual(answer.status, 404)
            self.assertIn("http_traces in [daemon] of urnicd's configuration is not set", text)


if __name__ == "__main__":
    harness.main()
