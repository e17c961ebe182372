"""Floods of messages that are answered or honoured at a bounded pace only: somebody at the wire sends them as fast as he can."""

import struct
import time

import harness
import netns
import raw_link

GAP_S = 0.2
DCQCN = f"""
[rnic.congestion]
algorithm = "dcqcn"
min_time_between_cnps_us = {int(GAP_S * 1e6)}
"""
QP1, QKEY_OF_QP1 = 1, 0x80010000
CM_CLASS, CM_CLASS_VERSION, METHOD_SEND, ATTRIBUTE_DREQ = 0x07, 2, 0x03, 0x0015
BURST = 200
# At most, in any half a second (rnic/cm/manager.h).
MOST_ANSWERS, ANSWERS_S = 1000, 0.5


def disconnect_request(number):
    """A DREQ of a connection that there is not (IBA 12.6.10): it is answered by a DREP."""
    mad = struct.pack(">BBBBHHQHHI", 1, CM_CLASS, CM_CLASS_VERSION, METHOD_SEND, 0, 0, number, ATTRIBUTE_DREQ, 0, 0)
    mad += struct.pack(">III", number, number + 1, 0)
    return struct.pack(">II", QKEY_OF_QP1, QP1) + mad.ljust(256, b"\0")


class WireFloods(harness.TestCase):
    def begin(self, extra=""):
        """`self.a` is flooded by who sits at the other end of the link."""
        self.a, self.b = netns.make_hosts(self, "af_packet")
        self.a.extra = extra
        for side in (self.a, self.b):
            side.start()
            side.expect_state("ACTIVE")
        self.link = raw_link.RawLink(self, self.b)

    def flood(self, frames, is_enough):
        """Sends them again and again until that is so. How long it took."""
        began_at = time.monotonic()

        def is_enough_now():
            for _ in range(BURST):
                for frame in frames:
                    self.link.socket.send(frame)
            return is_enough()
        self.assertTrue(harness.wait_until(is_enough_now), str(self.a.status()))
        return time.monotonic() - began_at

    def test_congestion_notifications(self):
        self.begin(DCQCN)
        stream = raw_link.begin_stream(self, self.a, self.b)
        self.assertTrue(harness.wait_until(lambda: any(qp["state"] == "RTS" for qp in self.a.qps())))
        qpn = self.a.qps()[0]["qpn"]
        frame = self.link.roce(self.a, raw_link.CNP, qpn, bytes(16), raw_link.BECN)
        began_at = time.monotonic()
        self.flood([frame], lambda: self.a.counter("rp_cnp_ignored") >= 10 * BURST and self.a.counter("rp_cnp_handled") >= 2)
        handled = self.a.counter("rp_cnp_handled")
        # One may come early by as much as the one before was late.
        self.assertLessEqual(handled, (time.monotonic() - began_at) / GAP_S + 2)
        for process in stream:
            self.assertIsNone(process.poll(), "the stream ended")

    def test_messages_of_no_connection(self):
        self.begin()
        frames = [self.link.roce(self.a, raw_link.UD_SEND_ONLY, QP1, disconnect_request(number)) for number in range(1, 11)]
        began_at = time.monotonic()
        self.flood(frames, lambda: self.a.status()["cm"]["unanswered"] >= MOST_ANSWERS)
        counts = self.a.status()["cm"]
        self.assertGreater(counts["sent"], 0, counts)
        self.assertLessEqual(counts["sent"], MOST_ANSWERS * ((time.monotonic() - began_at) / ANSWERS_S + 1), counts)
        self.assertEqual(counts["malformed"], 0, counts)


if __name__ == "__main__":
    netns.private()
    harness.main()
