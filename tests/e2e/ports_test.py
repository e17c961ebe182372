"""Two daemons on two hosts (network namespaces) over a veth pair, by packet sockets and by AF_XDP; and over memif.

The kernel of each host uses the same interface meanwhile: programs find each other by TCP over it.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import pathlib
import time

import harness
import netns

PINGPONG_PORT, PERFTEST_PORT = 18515, 18516
FRAMES = pathlib.Path(__file__).with_name("port_frames.py")
# An idle daemon wakes for nothing; what one tick of the clock more or less adds is allowed.
IDLE_S, IDLE_CPU_S = 1.0, 0.1


class Ports(harness.TestCase):
    """What holds for each kind of port. Not run itself."""
    port, workers, extra, mtu, interface_mtu = "", 1, "", 4096, 4200

    def setUp(self):
        self.a, self.b = netns.make_hosts(self, self.port, self.workers, self.extra, self.interface_mtu)

    def start(self):
        for side in (self.a, self.b):
            side.start()
            side.expect_state("ACTIVE")

    def pingpong(self, *words, during=lambda: None, server=None, client=None):
        """ibv_rc_pingpong between the hosts, every byte compared. Both results."""
        server, client = server or self.a, client or self.b
        command = ["ibv_rc_pingpong", "-d", "urnic0", "-g", "1", "-c", "-p", PINGPONG_PORT, "-m", self.mtu, *words]
        return netns.run_pair(self, server.program(*command), client.program(*command, server.ip), PINGPONG_PORT, during)

    def expect_pingpong(self, *words, **options):
        for result in self.pingpong(*words, **options):
            self.assert_ok(result, f"pingpong; a: {self.a.text()} b: {self.b.text()}")
            self.assertNotIn("invalid data", result.out + result.err)

    def replace_interface(self, while_gone=lambda: None):
        netns.ip("-n", self.a.name, "link", "del", self.a.interface)
        for side in (self.a, self.b):
            side.expect_state("DOWN")
            self.assertIn(f"the interface {side.interface} is gone", side.text())
        while_gone()
        netns.join(self.a, self.b)
        for side in (self.a, self.b):
            side.expect_state("ACTIVE")

    def expect_transfer_through(self, trouble):
        """Something happens in the middle of a transfer: 4 s until it sends again, seven times."""
        begun = self.b.counter("sent_pkts")

        def in_the_middle():
            self.assertTrue(harness.wait_until(lambda: self.b.counter("sent_pkts") > begun + 100))
            trouble()
        command = ["ib_write_bw", "-d", "urnic0", "-x", 1, "-F", "-p", PERFTEST_PORT, "-D", 8, "-u", 20]
        for result in netns.run_pair(self, self.a.program(*command), self.b.program(*command, self.a.ip), PERFTEST_PORT,
                                     in_the_middle):
            self.assert_ok(result, f"a: {self.a.text()} b: {self.b.text()}")
        # By a time-out, or by a NAK for what came after the loss.
        self.assertGreater(self.b.counter("retrans_pkts"), 0, f"the transfer did not notice: {self.b.status()['counters']}")

    def expect_idle(self):
        for side in (self.a, self.b):
            before = side.cpu_seconds()
            time.sleep(IDLE_S)
            self.assertLessEqual(side.cpu_seconds() - before, IDLE_CPU_S, "a daemon with nothing to do works")


class Traffic:
    def test_payload_arrives_and_then_the_daemon_sleeps(self):
        self.start()
        self.assertEqual(self.a.status()["port"]["mtu"], self.mtu)
        for size in (1, 4096, 100_001):
            self.expect_pingpong("-n", 20, "-s", size)
        self.assertEqual(self.a.counter("rx_icrc_encapsulated"), 0)
        self.expect_idle()

    def test_perftest_while_tcp_uses_the_interface(self):
        self.start()
        serving = harness.start(netns.inside(self.a.name, "iperf3", "-s", "-1"))
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: netns.listens(5201, serving)))
        tcp = harness.start(netns.inside(self.b.name, "iperf3", "-c", self.a.ip, "-n", "20M"))
        self.addCleanup(harness.end_group, tcp)
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            command = [program, "-d", "urnic0", "-x", 1, "-F", "-p", PERFTEST_PORT, "-n", 5, "-a"]
            served, asked = netns.run_pair(self, self.a.program(*command), self.b.program(*command, self.a.ip), PERFTEST_PORT)
            self.assert_ok(served, program)
            self.assert_ok(asked, program)
            self.assertEqual(len(harness.perftest_rows(asked)), 23)
        self.assert_ok(harness.finish(tcp), "iperf3")
        self.assertLess(self.a.counter("drop_not_roce"), 1000, "20 MB of TCP went through the daemon")
        self.assert_ok(harness.finish(serving), "iperf3")

    def test_a_qp_reaches_its_own_device(self):
        self.start()
        before = self.a.counter("sent_pkts")
        self.expect_pingpong("-n", 50, server=self.a, client=self.a)
        self.assertGreaterEqual(self.a.counter("rcvd_pkts") - before, 100)

    def test_other_peoples_frames(self):
        """Garbage at port 4791 is counted and does no harm to a transfer that runs beside it."""
        self.start()
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}")

        def storm():
            self.run_ok(netns.inside(self.b.name, sys.executable, FRAMES, "storm", self.b.interface, self.b.mac,
                                     self.a.mac, seed))
        self.expect_pingpong("-n", 200, during=storm)
        counters = self.a.status()["counters"]
        for name in ("drop_malformed", "drop_not_for_us", "rx_icrc_encapsulated"):
            self.assertGreater(counters[name], 0, f"{name}: {counters}")

    def test_the_kernel_does_not_answer_4791(self):
        self.start()
        probe = "import socket,sys\n" \
                "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(1); s.connect((sys.argv[1],int(sys.argv[2])))\n" \
                "s.send(b'x'*64)\n" \
                "try: s.recv(1)\n" \
                "except ConnectionRefusedError: print('refused')\n" \
                "except TimeoutError: print('quiet')\n"
        answers = [self.run_ok(netns.inside(self.b.name, sys.executable, "-c", probe, self.a.ip, port)).out.strip()
                   for port in (4792, 4791)]
        self.assertEqual(answers, ["refused", "quiet"])
        # In pieces, which the kernel puts together.
        big = probe.replace("*64", "*6000")
        self.assertEqual(self.run_ok(netns.inside(self.b.name, sys.executable, "-c", big, self.a.ip, 4791)).out.strip(),
                         "quiet")

    def test_a_link_that_goes_and_comes(self):
        self.start()

        def flap():
            netns.ip("-n", self.a.name, "link", "set", self.a.interface, "down")
            self.a.expect_state("DOWN")
            self.b.expect_state("DOWN")  # a veth without a peer that is up has no carrier
            netns.ip("-n", self.a.name, "link", "set", self.a.interface, "up")
            self.a.expect_state("ACTIVE")
            self.b.expect_state("ACTIVE")
        flap()
        self.expect_idle()
        self.expect_transfer_through(flap)

    def test_an_interface_that_goes_and_comes(self):
        self.start()
        self.replace_interface(self.expect_idle)
        self.expect_transfer_through(self.replace_interface)
        self.expect_idle()

    def test_more_frames_than_the_port_has_room_for(self):
        """While the daemon does not look: what the kernel had to throw away is counted, and then all continues."""
        self.start()
        self.assertEqual(self.a.status()["port"]["rx_missed"], 0)
        frame = bytes.fromhex((self.a.mac + self.b.mac).replace(":", "")) + b"\x08\x00" + \
            bytes.fromhex("4500002e0000400040110000" "0a4d0002" "0a4d0001" "c00012b7001a0000") + bytes(18)
        self.a.daemon.send_signal(signal.SIGSTOP)
        try:
            self.run_ok(netns.inside(self.b.name, sys.executable, "-c",
                                     "import socket,sys\ns=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\n"
                                     "s.bind((sys.argv[1],0))\nfor _ in range(8192): s.send(bytes.fromhex(sys.argv[2]))",
                                     self.b.interface, frame.hex()))
        finally:
            self.a.daemon.send_signal(signal.SIGCONT)

        self.assertTrue(harness.wait_until(lambda: self.a.counter("drop_malformed") + self.a.counter("drop_unknown_qp") > 1000),
                        self.a.status())
        self.assertGreater(self.a.status()["port"]["rx_missed"], 0, self.a.status())
        self.expect_pingpong("-n", 20)

    def test_a_killed_daemon_leaves_nothing_in_the_way(self):
        self.start()
        self.a.kill()
        self.a.start()
        self.a.expect_state("ACTIVE")
        self.expect_pingpong("-n", 20)

    def test_an_mtu_that_the_other_end_has_not(self):
        self.start()
        netns.ip("-n", self.b.name, "link", "set", self.b.interface, "mtu", 1500)
        served, asked = self.pingpong("-n", 1, "-s", 4096)
        self.assertIn("transport retry counter exceeded", asked.out + asked.err + served.out + served.err)
        self.assertGreater(self.b.counter("req_transport_retries_exceeded") + self.a.counter("local_ack_timeout_err") +
                           self.b.counter("local_ack_timeout_err"), 0)
        self.assertIn(f"packets of the path MTU {self.mtu} do not fit: ip netns exec {self.b.name} ip link set "
                      f"{self.b.interface} mtu {self.interface_mtu}", self.b.text())
        netns.ip("-n", self.b.name, "link", "set", self.b.interface, "mtu", self.interface_mtu)
        self.expect_pingpong("-n", 20, "-s", 4096)

    def test_jumbo_frames(self):
        """On a network that carries longer frames than any of ours: they have no room, and no worker sees them."""
        for side in (self.a, self.b):
            side.set_interface_up(9000)
        self.start()
        before, seen = self.lost(), self.a.counter("rcvd_pkts")
        frames = int(self.run_ok(netns.inside(self.b.name, sys.executable, FRAMES, "jumbo", self.b.interface, self.b.mac,
                                              self.a.mac, self.longest)).out)
        self.assertTrue(harness.wait_until(lambda: self.lost() >= before + frames), self.a.status())
        self.assertLess(self.a.counter("rcvd_pkts") - seen, frames // 2, "more than what hosts ask each other")
        self.expect_pingpong("-n", 50)


class Mistakes:
    """What is wrong with a set-up, and what mends it."""

    def expect_error(self, *words):
        daemon = self.a.launch()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 1)
        for word in words:
            self.assertIn(word, self.a.text())

    def test_no_such_interface(self):
        self.a.interface = "nosuch0"
        self.expect_error("no network interface \"nosuch0\"", "ip link")

    def test_no_such_namespace(self):
        netns.ip("netns", "add", "other")
        self.addCleanup(netns.ip, "netns", "del", "other")
        name, self.a.name = self.a.name, "nosuch"
        self.expect_error("no network namespace \"nosuch\"", "ip netns add nosuch")
        self.a.name = name

    def test_an_mtu_that_does_not_fit(self):
        self.a.extra = "mtu = 4096"
        netns.ip("-n", self.a.name, "link", "set", self.a.interface, "mtu", 1500)
        self.expect_error(*self.mtu_hint)

    def test_no_rocev2_fits(self):
        netns.ip("-n", self.a.name, "link", "set", self.a.interface, "mtu", 200)
        self.expect_error("too small", f"ip link set {self.a.interface} mtu")

    def test_an_interface_that_is_down(self):
        netns.ip("-n", self.a.name, "link", "set", self.a.interface, "down")
        self.a.start()
        self.assertEqual(self.a.state(), "DOWN")
        self.assertIn(f"ip netns exec {self.a.name} ip link set {self.a.interface} up", self.a.text())
        netns.ip("-n", self.a.name, "link", "set", self.a.interface, "up")
        self.a.expect_state("ACTIVE")


class PacketSockets(Ports, Traffic, Mistakes):
    longest = 4352  # kFrameRoomBytes
    port, mtu_hint = "af_packet", ("mtu = 4096 needs an MTU of 4200", "ip link set", "mtu 4200")

    def test_vlan_tags_come_in_as_they_were_sent(self):
        """AF_XDP gets them as they are: there the kernel takes none off."""
        self.start()
        frame = bytes.fromhex((self.a.mac + self.b.mac).replace(":", "")) + b"\x81\0\x20\x05\x08\0" + \
            bytes.fromhex("4500002e0000400040110000" "0a4d0002" "0a4d0001" "c00012b7001a0000") + bytes(18)
        self.assertEqual(len(frame), 64)
        before = self.a.status()["counters"]
        self.run_ok(netns.inside(self.b.name, sys.executable, "-c",
                                 "import socket,sys\ns=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\n"
                                 "s.bind((sys.argv[1],0))\nfor _ in range(1000): s.send(bytes.fromhex(sys.argv[2]))",
                                 self.b.interface, frame.hex()))

        def arrived():
            return self.a.counter("rcvd_pkts") >= before["rcvd_pkts"] + 1000
        self.assertTrue(harness.wait_until(arrived))
        now = self.a.status()["counters"]
        frames, total = (now[name] - before[name] for name in ("rcvd_pkts", "rcvd_bytes"))
        self.assertGreaterEqual(total, 64 * 1000, f"{frames} frames")


    def lost(self):
        return self.a.counter("drop_malformed")


class OneInterface(Ports):
    """Two RNICs of one daemon on one interface: each reaches the other, and groups, past the wire."""
    port = "af_packet"

    def test_verbs(self):
        self.a.extra = f"""mac = "02:00:00:00:77:11"
[[rnic]]
name = "urnic1"
port = "af_packet"
interface = "{self.a.interface}"
netns = "{self.a.name}"
mac = "02:00:00:00:77:12"
ipv4 = "10.77.0.12/24"
"""
        self.a.start()
        result = harness.run(self.a.program(harness.BUILD / "tests/e2e/verbs_check",
                                            "--gtest_filter=*Multicast*:*Transfer*:*Uc*:*Ud*:Srq*:PortEvents*"), timeout=400)
        self.assert_ok(result)
        self.assertNotIn(" 0 tests", result.out)


class TwoWorkers(Ports):
    port, workers = "af_packet", 2

    def test_payload_arrives(self):
        self.start()
        self.expect_pingpong("-n", 50)
        # QPs go to the workers in turn.
        command = ["ib_write_bw", "-d", "urnic0", "-x", 1, "-F", "-p", PERFTEST_PORT, "-n", 50, "-q", 2]
        for result in netns.run_pair(self, self.a.program(*command), self.b.program(*command, self.a.ip), PERFTEST_PORT):
            self.assert_ok(result)
        for side in (self.a, self.b):
            per_worker = [worker["rcvd_pkts"] for worker in side.status()["counters_per_worker"]]
            self.assertTrue(all(per_worker), f"a worker received nothing: {per_worker}")
        self.expect_idle()


# Frames of AF_XDP that have several buffers.
HAS_LONG_FRAMES = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 6)


class Xdp(Ports, Traffic, Mistakes):
    port = "af_xdp"
    if HAS_LONG_FRAMES:
        longest, mtu_hint = PacketSockets.longest, PacketSockets.mtu_hint
    else:
        mtu, interface_mtu = 2048, 2200
        longest = 3840  # a chunk of the kernel's
        mtu_hint = ("at most 3840 bytes", "mtu = 2048")

    def lost(self):
        return self.a.status()["port"]["rx_missed"]

    def xdp_of(self, side):
        return subprocess.run(["ip", "-n", side.name, "link", "show", side.interface], check=True, text=True,
                              capture_output=True).stdout

    def test_in_the_kernels_general_way(self):
        """As on a NIC whose driver has no XDP: a veth's has none where the peer sends by more queues than it receives by."""
        for side in (self.a, self.b):
            self.run_ok(netns.inside(side.name, "ethtool", "-L", side.interface, "tx", "2"))
        self.start()
        self.assertIn("xdpgeneric", self.xdp_of(self.a))
        self.expect_pingpong("-n", 50)

    def test_frames_of_one_buffer(self):
        """Where the interface's MTU has no others."""
        self.mtu = 2048
        for side in (self.a, self.b):
            side.set_interface_up(2200)
        self.start()
        self.assertEqual(self.a.status()["port"]["mtu"], self.mtu)
        self.expect_pingpong("-n", 50, "-s", 100_001)

    def test_the_program_goes_with_the_daemon(self):
        for ending in (signal.SIGTERM, signal.SIGKILL):
            self.a.start()
            self.assertIn("prog/xdp", self.xdp_of(self.a))
            self.a.daemon.send_signal(ending)
            self.a.daemon.wait()
            self.assertTrue(harness.wait_until(lambda: "prog/xdp" not in self.xdp_of(self.a)), ending)

    def test_somebody_elses_program(self):
        """The smallest there is, loaded by iproute2: it passes everything."""
        source, program = self.a.dir / "pass.c", self.a.dir / "pass.o"
        source.write_text('__attribute__((section("xdp"), used)) int pass_all(void *frame) { return 2; }\n'
                          'char _license[] __attribute__((section("license"), used)) = "GPL";\n', encoding="utf-8")
        self.run_ok(["clang-14", "-O2", "-target", "bpf", "-c", source, "-o", program])
        for side in (self.a, self.b):
            side.set_interface_up(2200)  # it knows frames of one buffer
        netns.ip("-n", self.a.name, "link", "set", "dev", self.a.interface, "xdp", "obj", program, "sec", "xdp")
        self.expect_error("has an XDP program already (pass_all)", f"ip link set dev {self.a.interface} xdp off")
        netns.ip("-n", self.a.name, "link", "set", "dev", self.a.interface, "xdp", "off")
        self.a.start()

    def test_two_daemons_of_one_interface(self):
        self.start()
        other = netns.Side(self, 0, self.port)
        other.name, other.interface = self.a.name, self.a.interface
        daemon = other.launch()
        self.assertEqual(daemon.wait(harness.PATIENCE_S), 1)
        self.assertIn("another urnicd has the interface", other.text())
        self.expect_pingpong("-n", 5)


class Memif(harness.TestCase):
    """Two daemons of ordinary users, joined by shared memory; the programs find each other over the loopback."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.dir], check=True))
        netns.ip("netns", "add", f"u{os.getpid()}m")
        self.addCleanup(netns.ip, "netns", "del", f"u{os.getpid()}m")
        netns.ip("-n", f"u{os.getpid()}m", "link", "set", "lo", "up")
        self.sides = []
        for number, role in enumerate(("server", "client")):
            side = netns.Side(self, number, "memif", extra=f'mac = "02:00:00:00:77:0{number + 1}"\n'
                              f'socket = "{self.dir}/memif.sock"\nrole = "{role}"')
            side.name = f"u{os.getpid()}m"
            whole = side.config
            side.config = lambda whole=whole: "\n".join(line for line in whole().splitlines()
                                                        if not line.startswith(("interface", "netns")))
            self.sides.append(side)

    def pingpong(self):
        a, b = self.sides
        command = ["ibv_rc_pingpong", "-d", "urnic0", "-g", "1", "-c", "-p", PINGPONG_PORT, "-m", 4096, "-n", 50, "-s", 70000]
        for result in netns.run_pair(self, a.program(*command), b.program(*command, "127.0.0.1"), PINGPONG_PORT):
            self.assert_ok(result, f"{a.text()} {b.text()}")
            self.assertNotIn("invalid data", result.out + result.err)

    def test_payload_arrives_and_a_peer_that_is_killed_comes_back(self):
        for side in self.sides:
            side.start()
        for side in self.sides:
            side.expect_state("ACTIVE")
        self.pingpong()
        self.sides[1].kill()
        self.sides[0].expect_state("DOWN")
        self.sides[1].start()
        for side in self.sides:
            side.expect_state("ACTIVE")
        self.pingpong()

    def test_a_backlog_pauses_the_other_daemon(self):
        """DPDK's driver does not tell how many frames wait: they are counted all the same."""
        a, b = self.sides
        a.extra += "\n[rnic.pfc]\ntx_priorities = [0]\nxoff_frames = 1\nxon_frames = 0"
        b.extra += "\n[rnic.pfc]\nrx_priorities = [0]"
        for side in self.sides:
            side.start()
        for side in self.sides:
            side.expect_state("ACTIVE")
        command = ["ib_write_bw", "-d", "urnic0", "-x", 1, "-F", "-p", PERFTEST_PORT, "-N", "-s", 65536, "-n", 10_000_000]
        serving = harness.start(a.program(*command))
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: netns.listens(PERFTEST_PORT, serving)))
        asking = harness.start(b.program(*command, "127.0.0.1"))
        self.addCleanup(harness.end_group, asking)
        pauses = lambda side: side.status()["pfc"]["priorities"][0]
        self.assertTrue(harness.wait_until(lambda: pauses(b)["rx_resume"] > 3 or asking.poll() is not None, pause=0.05))
        self.assertIsNone(asking.poll(), str(asking.poll() is not None and harness.finish(asking)))
        before = b.counter("sent_bytes")
        self.assertTrue(harness.wait_until(lambda: b.counter("sent_bytes") - before > 10_000_000, pause=0.05), "it went on")
        received = pauses(b)["rx_pause"]
        self.assertGreater(received, 0)
        self.assertGreaterEqual(pauses(a)["tx_pause"], received)
        self.assertEqual((pauses(a)["rx_pause"], pauses(b)["tx_pause"]), (0, 0))

    def test_a_threshold_beyond_what_is_counted_is_refused(self):
        side = self.sides[0]
        side.extra += "\n[rnic.pfc]\ntx_priorities = [0]\nxoff_frames = 4096"
        side.launch()
        self.assertTrue(harness.wait_until(lambda: side.daemon.poll() is not None))
        self.assertIn("'xoff_frames' must be less than 4096", side.text())


if __name__ == "__main__":
    netns.private()
    if sys.argv[1:] == ["Xdp"] and not netns.is_real_root():
        print("AF_XDP needs root")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
