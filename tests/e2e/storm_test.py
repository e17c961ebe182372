"""A storm of hostile frames on a daemon's interface, beside transfers that are verified: none of them may notice.

URNIC_STORM_FRAMES: how many frames; the default takes a quarter of a minute on two cores.
"""

import os
import re

import harness
import netns

FRAMES = int(os.environ.get("URNIC_STORM_FRAMES", "1000000"))
CAPTURES = sorted((harness.SOURCE / "tests/golden").glob("*.pcap"))
# Every way out that a frame can take without reaching a QP, and the two that look further.
COUNTED = ("drop_malformed", "drop_not_for_us", "drop_unknown_qp", "rx_icrc_encapsulated")


class Storm(harness.TestCase):
    def transfers(self, a, b):
        """Every kind of verified RC transfer, once."""
        peer = harness.BUILD / "tests/interop/peer"
        for name in ("send_imm", "write", "read", "fetch_add"):
            port = harness.free_port()
            common = [peer, "--test", name, "--port", port, "--device", "urnic0", "--gid", 1, "--timeout", 16]
            results = netns.run_pair(self, a.program(*common), b.program(*common, "--connect", a.ip), port)
            self.assertEqual([result.returncode for result in results], [0, 0], f"{name}: {results[0]} {results[1]}")

    def begin_pingpong(self, a, b):
        """A pingpong that validates and does not end by itself."""
        port = harness.free_port()
        common = ["ibv_rc_pingpong", "-d", "urnic0", "-g", 1, "-c", "-p", port, "-n", 1_000_000_000]
        server = harness.start(a.program(*common))
        self.addCleanup(harness.end_group, server)
        self.assertTrue(harness.wait_until(lambda: netns.listens(port, server)))
        client = harness.start(b.program(*common, a.ip))
        self.addCleanup(harness.end_group, client)
        self.assertTrue(harness.wait_until(lambda: any(qp["state"] == "RTS" for qp in a.qps())))
        return server, client

    def test_spoils_nothing(self):
        a, b = netns.make_hosts(self, "af_packet")
        a.start()
        b.start()
        pingpong = self.begin_pingpong(a, b)
        resident = a.resident_bytes()
        aims = [word for qp in a.qps() for word in ("--qp", qp["qpn"])]
        # Where they compete for a processor it does not outrun the worker: what finds no slot of the ring is lost, the pingpong's as well.
        storm = harness.start(netns.inside(b.name, "nice", "-n", "10", harness.BUILD / "tests/e2e/storm", "--interface", b.interface, "--mac",
                                           a.mac, "--ip", a.ip, "--peer", b.ip, "--frames", FRAMES, *aims, "--", *CAPTURES))
        self.addCleanup(harness.end_group, storm)
        rounds = 0
        while storm.poll() is None:
            self.transfers(a, b)
            rounds += 1
        done = harness.finish(storm)
        self.assertEqual(done.returncode, 0, done)
        print(done.out.strip(), f"beside {rounds} rounds of transfers")
        self.assertGreaterEqual(int(re.match(r"sent (\d+) frames", done.out)[1]), FRAMES)
        for process in pingpong:
            self.assertIsNone(process.poll(), "the pingpong ended in the storm")
        counters = a.status()["counters"]
        for name in COUNTED:
            self.assertGreater(counters[name], 0, f"{name}: {counters} {done.out}")
        self.assertLess(a.resident_bytes(), resident + (16 << 20), done.out)
        self.transfers(a, b)
        self.assertIsNone(a.daemon.poll(), a.text())


if __name__ == "__main__":
    netns.private()
    harness.main()
