"""Priority flow control on real ports: a raw socket at the other end of the link pauses priorities, and watches what still
comes. Quanta are of a link of 1 Mbit/s, so that one pause lasts half a minute: longer than any test looks.
"""

import json
import signal
import socket
import struct
import threading

import harness
import netns
import raw_link

PAUSE_ADDRESS = bytes.fromhex("0180c2000001")
MAC_CONTROL, PFC = 0x8808, 0x0101
FOR_EVER = 0xFFFF
QUANTUM_US = 512
TCLASS = {0: 0, 3: 96}
SLOW = """
[rnic.congestion]
algorithm = "fixed"
rate_mbps = 20
line_rate_mbps = 1000
"""
PATIENT = "[rnic.pfc]\nrx_priorities = [0, 1, 2, 3, 4, 5, 6, 7]\nlink_mbps = 1\nwatchdog_ms = 0\n"


class Link(raw_link.RawLink):
    def pause(self, times, destination=PAUSE_ADDRESS, opcode=PFC):
        classes = sum(1 << priority for priority in times)
        quanta = [times.get(priority, 0) for priority in range(8)]
        frame = destination + self.mac + struct.pack(">HHH8H", MAC_CONTROL, opcode, classes, *quanta)
        self.socket.send(frame.ljust(60, b"\0"))

    def count(self, priority, number):
        """Waits for so many large packets of the priority; how many came of each meanwhile."""
        seen = dict.fromkeys(range(8), 0)
        for frame in self.frames():
            if frame[12:14] == b"\x08\x00" and frame[36:38] == b"\x12\xb7" and len(frame) > 1000:
                seen[frame[15] >> 5] += 1
                if seen[priority] == number:
                    return seen

    def next_pause(self):
        """The next pause frame: its classes and their times."""
        for frame in self.frames():
            if frame[12:14] == b"\x88\x08":
                self.test.assertEqual(frame[:6], PAUSE_ADDRESS)
                self.test.assertEqual(len(frame), 60)
                opcode, classes, *quanta = struct.unpack(">HH8H", frame[14:34])
                self.test.assertEqual(opcode, PFC)
                return classes, quanta


class Pfc(harness.TestCase):
    def begin(self, port="af_packet", workers=1, extra=""):
        """`self.a` is the RNIC that is paused, `self.link` the other end."""
        self.a, self.b = netns.make_hosts(self, port, workers, mtu=2200 if port == "af_xdp" else 4200)
        # The link's socket sees what leaves together as one frame.
        self.a.extra = ('segmentation_offload = "off"\n' if port == "af_packet" else "") + extra
        self.b.port = "af_packet"  # an XDP program would take the frames before the link's socket sees them
        for side in (self.a, self.b):
            side.start()
            side.expect_state("ACTIVE")
        self.link = Link(self, self.b)

    def begin_stream(self, tclass):
        return raw_link.begin_stream(self, self.a, self.b, f"--tclass={tclass}", "-u", 20)

    def pingpong(self):
        port = harness.free_port()
        # Packets wait, and the answers of a peer that does not run: a timeout of 4 s.
        command = ["ib_send_lat", "-F", "-d", "urnic0", "-x", 1, "-u", 20, "-p", port, "-n", 100]
        for result in netns.run_pair(self, self.b.program(*command), self.a.program(*command, self.b.ip), port):
            self.assert_ok(result, "pingpong")

    def of(self, priority):
        return self.a.status()["pfc"]["priorities"][priority]

    def expect(self, priority, **wanted):
        reached = lambda: all(self.of(priority)[name] == value for name, value in wanted.items())
        self.assertTrue(harness.wait_until(reached, pause=0.05), f"{wanted} of priority {priority}: {self.of(priority)}")

    def check_priorities(self, port, workers=1):
        self.begin(port, workers, SLOW + PATIENT)
        streams = [self.begin_stream(tclass) for tclass in TCLASS.values()]
        for priority in TCLASS:
            self.link.count(priority, 20)

        self.link.pause({3: FOR_EVER})
        self.expect(3, rx_pause=1, paused=True)
        self.link.count(0, 50)  # what was on its way is here
        seen = self.link.count(0, 200)
        self.assertEqual(seen, {**dict.fromkeys(range(8), 0), 0: 200}, "something of a paused priority came")
        self.link.pause({3: 0})
        self.link.count(3, 50)
        self.expect(3, rx_resume=1, paused=False)

        before = self.of(3)["paused_us"]
        self.link.pause({3: 1000, 5: 10})
        self.expect(3, rx_pause=2, paused=False)
        self.assertEqual(self.of(3)["paused_us"] - before, 1000 * QUANTUM_US)
        self.assertEqual(self.of(5)["paused_us"], 10 * QUANTUM_US)
        self.link.count(3, 50)
        self.assertEqual(self.of(0)["paused_us"], 0)
        for stream in streams:
            for process in stream:
                self.assertIsNone(process.poll(), "a stream ended")

    def test_packet_sockets(self):
        self.check_priorities("af_packet")

    def test_two_workers(self):
        self.check_priorities("af_packet", workers=2)

    def test_af_xdp(self):
        if not netns.is_real_root():
            self.skipTest("AF_XDP needs root")
        self.check_priorities("af_xdp")

    def trace(self, *target):
        """The file and the tracer, once it has seen a packet."""
        file = self.a.dir / f"events{len(target)}.ndjson"
        tracer = harness.start([harness.URNIC, "trace", file, *target, "--socket", self.a.socket])
        self.addCleanup(harness.end_group, tracer)
        self.assertTrue(harness.wait_until(lambda: file.exists() and "packet_sent" in file.read_text(encoding="utf-8")))
        return file, tracer

    def test_traces_of_all_and_of_one_qp_have_pauses(self):
        self.begin(extra=SLOW + PATIENT)
        stream = self.begin_stream(TCLASS[3])
        self.link.count(3, 20)
        (qpn,) = [qp["qpn"] for qp in self.a.qps()]
        traces = [self.trace(), self.trace(f"urnic0/{qpn:#x}")]
        self.link.pause({3: FOR_EVER})
        self.expect(3, paused=True)
        self.link.pause({3: 0})
        self.expect(3, paused=False)
        self.link.count(3, 50)
        for file, tracer in traces:
            tracer.send_signal(signal.SIGINT)
            self.assert_ok(harness.finish(tracer), "urnic trace")
            events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
            pauses = [(event["group_id"], event["name"], event["data"]) for event in events if ":pfc_" in event["name"]]
            data = {"priority": 3, "direction": "received"}
            self.assertEqual(pauses, [("urnic0", "rdma:pfc_paused", data), ("urnic0", "rdma:pfc_resumed", data)])
            self.assertIn(" paused: ", harness.run([harness.URNIC, "view", "--text", file]).out)
        for process in stream:
            self.assertIsNone(process.poll(), "a stream ended")

    def test_a_storm(self):
        """Somebody pauses all priorities for ever: the watchdog lets go, and counts."""
        self.begin(extra="[rnic.pfc]\nrx_priorities = [0, 1, 2, 3, 4, 5, 6, 7]\nlink_mbps = 1\nwatchdog_ms = 200\n")
        over = threading.Event()

        def storm():
            while not over.wait(0.005):
                self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        thread = threading.Thread(target=storm)
        thread.start()
        try:
            self.assertTrue(harness.wait_until(lambda: self.of(0)["rx_pause"] > 0))
            self.pingpong()
        finally:
            over.set()
            thread.join()
        pauses = self.of(0)
        self.assertEqual(pauses["watchdog"], 1)
        self.assertEqual(pauses["paused_us"], 200_000)
        self.assertGreater(pauses["rx_ignored"], 0)
        # It is over, and after as long again pauses are honoured.
        def is_honoured():
            self.link.pause(dict.fromkeys(range(8), 0))
            self.link.pause({0: 100})
            return self.of(0)["paused_us"] > 200_000
        self.assertTrue(harness.wait_until(is_honoured, pause=0.05), str(self.of(0)))
        self.assertEqual(self.of(0)["watchdog"], 1)

    def test_a_storm_with_resumes(self):
        """Each pause is resumed before the watchdog's time, and renewed at once: it counts over resumes."""
        self.begin(extra="[rnic.pfc]\nrx_priorities = [0, 1, 2, 3, 4, 5, 6, 7]\nlink_mbps = 1\nwatchdog_ms = 100\n")
        self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        over = threading.Event()

        def storm():
            while not over.wait(0.005):
                self.link.pause(dict.fromkeys(range(8), 0))
                self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        thread = threading.Thread(target=storm)
        thread.start()
        try:
            self.assertTrue(harness.wait_until(lambda: self.of(0)["watchdog"] > 0), str(self.of(0)))
            self.pingpong()
        finally:
            over.set()
            thread.join()
        self.assertGreater(self.of(0)["rx_resume"], 0)

    def test_by_default_nobody_pauses(self):
        self.begin(extra="[rnic.pfc]\nlink_mbps = 1\nwatchdog_ms = 0\n")
        self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        self.expect(0, rx_pause=1)
        self.assertEqual((self.of(0)["paused"], self.of(0)["paused_us"]), (False, 0))
        self.pingpong()

    def test_programs_and_the_daemon_end_while_paused(self):
        self.begin(extra=PATIENT)
        streams = [self.begin_stream(tclass) for tclass in TCLASS.values()]
        for priority in TCLASS:
            self.link.count(priority, 20)
        self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        self.expect(0, paused=True)
        for process in (process for stream in streams for process in stream):
            harness.end_group(process)
        self.assertTrue(harness.wait_until(lambda: not self.a.qps()), "QPs stayed")
        self.assertTrue(self.of(0)["paused"])
        self.link.pause(dict.fromkeys(range(8), 0))
        self.pingpong()
        # The daemons end in order when the test does.
        self.link.pause(dict.fromkeys(range(8), FOR_EVER))
        self.expect(0, paused=True)

    def test_what_is_no_pause(self):
        self.begin(extra=PATIENT)
        everything = dict.fromkeys(range(8), FOR_EVER)
        self.link.pause(everything, opcode=0x0001)
        self.link.pause(everything, destination=raw_link.mac_bytes(self.a.mac))
        self.assertTrue(harness.wait_until(lambda: self.a.status()["pfc"]["rx_malformed"] == 2), str(self.a.status()["pfc"]))
        self.assertEqual([priority["paused"] for priority in self.a.status()["pfc"]["priorities"]], [False] * 8)
        self.pingpong()

    def test_priorities_that_do_not_pause(self):
        self.begin(extra="[rnic.pfc]\nlink_mbps = 1\nrx_priorities = [3]\n")
        self.link.pause({0: FOR_EVER})
        self.expect(0, rx_pause=1, paused=False)
        self.pingpong()

    def test_its_own_backlog(self):
        """Frames wait while the daemon stands still; when it continues it asks for a pause, and ends it when they are gone."""
        self.begin(extra='[rnic.pfc]\ntx_priorities = [3, 5]\nxoff_frames = 300\nxon_frames = 20\n')
        self.a.daemon.send_signal(signal.SIGSTOP)
        try:
            frame = raw_link.mac_bytes(self.a.mac) + self.link.mac + bytes.fromhex("0800450000200000400040110000") + \
                socket.inet_aton(self.b.ip) + socket.inet_aton(self.a.ip) + bytes.fromhex("c00012b7000c0000deadbeef")
            for _ in range(1000):
                self.link.socket.send(frame.ljust(60, b"\0"))
        finally:
            self.a.daemon.send_signal(signal.SIGCONT)
        expected = [FOR_EVER if priority in (3, 5) else 0 for priority in range(8)]
        self.assertEqual(self.link.next_pause(), (0x28, expected))
        resume = self.link.next_pause()
        while resume == (0x28, expected):  # renewed: the machine is slow
            resume = self.link.next_pause()
        self.assertEqual(resume, (0x28, [0] * 8))
        self.expect(3, tx_resume=1)
        self.assertGreaterEqual(self.of(5)["tx_pause"], 1)
        self.assertEqual(self.of(0)["tx_pause"], 0)


if __name__ == "__main__":
    netns.private()
    harness.main()
