"""UDP segmentation offload of packet sockets: frames leave and arrive together over a veth pair, and nobody who is no
observer of the wire sees a difference."""

import socket
import subprocess
import threading

import harness
import netns
import ports_test
import raw_link

OFF = "off: 'segmentation_offload' in the configuration"
REFUSED = "off: the kernel refused it (Linux 6.2 has it)"
# Of one byte, of whole packets and with tails, of more frames than leave at a time.
SIZES = (1, 4096, 4097, 65_536, 100_001, 1_000_003)


class Watch:
    """The longest RoCEv2 frame that comes in at a host. Frames that it has no processor for are lost; others are as long."""

    def __init__(self, test, side):
        with raw_link.within(side.name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # nothing before it is bound
        test.addCleanup(self.socket.close)
        self.socket.bind((side.interface, 3))  # every protocol
        self.socket.settimeout(0.2)
        self.longest, self.is_over = 0, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        test.addCleanup(self.stop)

    def look(self):
        while True:
            try:
                frame, address = self.socket.recvfrom(65536)
            except TimeoutError:
                if self.is_over.is_set():
                    return
                continue
            if address[2] != raw_link.OUTGOING and raw_link.is_rocev2(frame):
                self.longest = max(self.longest, len(frame))

    def stop(self):
        self.is_over.set()
        self.thread.join()
        return self.longest


class Segmentation(ports_test.Ports):
    port = "af_packet"

    def offloads(self):
        return [side.status()["port"].get("segmentation_offload") for side in (self.a, self.b)]

    def longest_in_transfers(self, *words, sizes=SIZES):
        """Transfers, every byte compared; the longest frames that came to each side."""
        watches = [Watch(self, side) for side in (self.a, self.b)]
        for size in sizes:
            self.expect_pingpong("-n", 30, "-s", size, *words)
        for side in (self.a, self.b):
            counters = side.status()["counters"]
            for name in ("rx_icrc_encapsulated", "drop_malformed"):
                self.assertEqual(counters[name], 0, f"{name}: {counters}")
        return [watch.stop() for watch in watches]

    def longest_frame(self):
        return self.interface_mtu + 14

    def test_frames_leave_together(self):
        self.start()
        self.assertEqual(self.offloads(), ["on", "on"])
        for longest in self.longest_in_transfers():
            self.assertGreater(longest, 2 * self.longest_frame(), "frames came one by one")
        self.expect_idle()

    def test_over_ipv6(self):
        self.start()
        for longest in self.longest_in_transfers("-g", 0):
            self.assertGreater(longest, 2 * self.longest_frame(), "frames came one by one")

    def test_one_end_sends_single_frames(self):
        self.a.extra = 'segmentation_offload = "off"'
        self.start()
        self.assertEqual(self.offloads(), [OFF, "on"])
        to_a, to_b = self.longest_in_transfers()
        self.assertLessEqual(to_b, self.longest_frame())
        self.assertGreater(to_a, 2 * self.longest_frame())

    def test_two_workers(self):
        for side in (self.a, self.b):
            side.workers = 2
        self.start()
        self.longest_in_transfers()
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            command = [program, "-d", "urnic0", "-x", 1, "-F", "-p", ports_test.PERFTEST_PORT, "-n", 50, "-q", 4]
            for result in netns.run_pair(self, self.a.program(*command), self.b.program(*command, self.a.ip),
                                         ports_test.PERFTEST_PORT):
                self.assert_ok(result, program)

    def test_a_kernel_that_cuts_for_itself(self):
        """As for an interface of a bridge that takes none: checksums come as it began them."""
        for side in (self.a, self.b):
            subprocess.run(netns.inside(side.name, "ethtool", "-K", side.interface, "tx-udp-segmentation", "off"), check=True,
                           capture_output=True)
        self.start()
        for longest in self.longest_in_transfers():
            self.assertLessEqual(longest, self.longest_frame())
        self.assertEqual(self.offloads(), ["on", "on"])

    def test_a_kernel_that_refuses(self):
        for side in (self.a, self.b):
            side.environment = {"LD_PRELOAD": str(harness.BUILD / "tests/e2e/libno_segmentation.so")}
        self.start()
        for longest in self.longest_in_transfers():
            self.assertLessEqual(longest, self.longest_frame())
        self.assertEqual(self.offloads(), [REFUSED, REFUSED])
        for side in (self.a, self.b):
            said = "the kernel does not cut frames apart that leave together"
            self.assertTrue(harness.wait_until(lambda text=side.text: said in text()))
            self.assertEqual(side.text().count(said), 1)

    def test_an_interface_that_comes_back(self):
        self.start()
        self.replace_interface()
        self.assertEqual(self.offloads(), ["on", "on"])
        self.longest_in_transfers(sizes=SIZES[-2:])

    def test_frames_that_no_longer_fit_do_not_leave_together_either(self):
        self.start()
        netns.ip("-n", self.b.name, "link", "set", self.b.interface, "mtu", 1500)
        self.assertTrue(harness.wait_until(lambda: "do not fit" in self.b.text()))
        watch = Watch(self, self.a)
        served, asked = self.pingpong("-n", 1, "-s", 65_536)
        self.assertIn("transport retry counter exceeded", asked.out + asked.err + served.out + served.err)
        self.assertLess(watch.stop(), 1500 + 15)

    def test_the_other_end_is_af_xdp(self):
        if not netns.is_real_root():
            self.skipTest("AF_XDP needs root")
        for side in (self.a, self.b):
            side.mtu = 2200
            side.set_interface_up()
            side.extra = "mtu = 2048"
        self.mtu = 2048
        self.b.port = "af_xdp"
        self.start()
        self.assertEqual(self.offloads(), ["on", None])
        for size in SIZES:
            self.expect_pingpong("-n", 30, "-s", size)


if __name__ == "__main__":
    netns.private()
    harness.main()
