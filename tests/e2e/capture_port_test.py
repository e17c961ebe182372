"""`urnic capture` on RNICs whose port is a kernel interface: two hosts (network namespaces) over a veth pair."""

import signal

import harness
import netns
import ports_test


class PacketSockets(ports_test.Ports):
    port = "af_packet"

    def test_a_live_capture(self):
        self.start()
        file = self.a.dir / "capture.pcapng"
        capture = harness.start([harness.URNIC, "capture", "--socket", self.a.socket, "-w", file])
        self.addCleanup(harness.end_group, capture)
        self.assertTrue(harness.wait_until(file.exists))
        self.expect_pingpong("-n", 20, "-s", 10_000)
        capture.send_signal(signal.SIGINT)
        self.assert_ok(harness.finish(capture))
        lines = [line for line in self.run_ok([harness.URNIC, "decode", file]).out.splitlines() if " RC SEND " in line]
        # Three packets a message, twenty messages, to and fro.
        for fate, source in (("sent", self.a.ip), ("delivered", self.b.ip)):
            of_fate = [line for line in lines if f"(fate={fate} " in line]
            self.assertEqual(len(of_fate), 60, lines[:5])
            self.assertTrue(all(f" {source} > " in line and "icrc=good" in line for line in of_fate))


if __name__ == "__main__":
    netns.private()
    harness.main()
