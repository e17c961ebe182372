"""Addresses of RNICs on kernel interfaces: borrowed from the kernel and followed, or their own, with ARP and neighbour
discovery. Two hosts (network namespaces) joined by a veth pair, and a router where one is needed."""

import contextlib
import ctypes
import os
import pathlib
import re
import socket
import struct
import threading

import harness
import netns

SOL_PACKET, PACKET_AUXDATA, CLONE_NEWNET = 263, 8, 0x40000000


@contextlib.contextmanager
def in_namespace(name):
    """This thread, inside the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(there)
        os.close(home)


class Capture:
    """RoCEv2 packets that an interface receives, as (VLAN tag or None, frame without it)."""

    def __init__(self, namespace, interface):
        with in_namespace(namespace):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        with contextlib.suppress(PermissionError):
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        self.socket.bind((interface, 3))
        self.socket.setblocking(False)

    def packets(self):
        found = []
        while True:
            try:
                frame, ancillary, _, address = self.socket.recvmsg(9000, 128)
            except BlockingIOError:
                self.socket.close()
                return found
            tag = None
            for _, kind, data in ancillary:
                status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", data[:20])
                tag = tci if kind == PACKET_AUXDATA and status & 0x10 else tag
            is_udp = frame[12:14] == b"\x08\x00" and frame[23] == 17 or frame[12:14] == b"\x86\xdd" and frame[20] == 17
            header = 34 if frame[12:14] == b"\x08\x00" else 54
            # Not what this host sends (4: PACKET_OUTGOING).
            if address[2] != 4 and is_udp and frame[header + 2:header + 4] == struct.pack("!H", 4791):
                found.append((tag, frame))


class Host(netns.Side):
    """A host whose RNIC has the interface's addresses, or its own (`rnic`: lines of the configuration)."""

    def __init__(self, test, number, port, rnic):
        super().__init__(test, number, port)
        self.rnic = rnic

    def config(self):
        return f"""
[daemon]
run_dir = "{self.dir}/run"
workers = 1
hugepages = false
[[rnic]]
name = "urnic0"
port = "{self.port}"
interface = "{self.interface}"
netns = "{self.name}"
{self.rnic}
"""

    def trouble(self):
        counters = {name: count for name, count in self.status()["counters"].items() if count}
        return f"{self.text()} {counters}"

    def gids(self):
        """Index of each GID, as programs see them."""
        out = harness.run(self.program("ibv_devinfo", "-v")).out
        found = re.findall(r"GID\[\s*(\d+)\]:\s+(\S+?),", out)
        return {gid.removeprefix("::ffff:"): int(index) for index, gid in found}

    def gid_index(self, address):
        found = {}

        def there():
            found.update(self.gids())
            return address in found
        self.test.assertTrue(harness.wait_until(there, pause=0.1), f"no GID {address}: {self.gids()} {self.text()}")
        return found[address]

    def set(self, *words):
        netns.ip("-n", self.name, *words)


class TwoHosts(harness.TestCase):
    port, mtu, rnic = "af_packet", 4200, ("", "")

    def setUp(self):
        self.a, self.b = (Host(self, number, self.port, self.rnic[number]) for number in (0, 1))
        for host in (self.a, self.b):
            netns.add_namespace(self, host.name)
        self.connect()
        for host in (self.a, self.b):
            host.start()

    def connect(self):
        netns.join(self.a, self.b)
        for number, host in enumerate((self.a, self.b), 1):
            host.set("link", "set", host.interface, "mtu", self.mtu)
            host.set("addr", "add", f"fd77::{number}/64", "dev", host.interface, "nodad")

    def pingpong(self, a_gid, b_gid, *options, iterations=1000, server="10.77.0.1", ok=True, during=lambda: None,
                 tool="ibv_rc_pingpong"):
        port = str(harness.free_port())
        words = [tool, "-d", "urnic0", "-p", port, "-n", str(iterations), "-c", *options]
        results = netns.run_pair(self, self.a.program(*words, "-g", str(self.a.gid_index(a_gid))),
                                 self.b.program(*words, "-g", str(self.b.gid_index(b_gid)), server), int(port), during)
        for result in results if ok else ():
            self.assertIn(f"{iterations} iters in", result.out, f"{result} {self.a.trouble()} {self.b.trouble()}")
            self.assertNotIn("invalid data", result.out + result.err)
        return results


class Borrowed(TwoHosts):
    def test_of_the_interface(self):
        gids = self.a.gids()
        self.assertEqual(gids["fe80::ff:fe00:7701"], 0)
        self.assertIn("10.77.0.1", gids)
        self.assertIn("fd77::1", gids)
        self.assertEqual(self.a.status()["mac"], self.a.mac)
        for own, peer in (("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2"),
                          ("fe80::ff:fe00:7701", "fe80::ff:fe00:7702")):
            with self.subTest(own=own):
                self.pingpong(own, peer)
        self.pingpong("10.77.0.1", "10.77.0.2", tool="ibv_ud_pingpong")

    def test_come_and_go(self):
        index = self.a.gid_index("10.77.0.1")
        watch = harness.start(self.a.program("stdbuf", "-oL", "ibv_asyncwatch", "-d", "urnic0"))
        self.addCleanup(harness.end_group, watch)
        harness.read_line(watch)  # says which device it watches
        self.a.set("addr", "add", "10.88.0.1/24", "dev", self.a.interface)
        self.b.set("addr", "add", "10.88.0.2/24", "dev", self.b.interface)
        added = self.a.gid_index("10.88.0.1")
        self.assertIn("GID", harness.read_line(watch))
        self.assertEqual(self.a.gids()["10.77.0.1"], index)
        self.pingpong("10.88.0.1", "10.88.0.2")
        self.a.set("addr", "del", "10.77.0.1/24", "dev", self.a.interface)
        self.assertTrue(harness.wait_until(lambda: "10.77.0.1" not in self.a.gids(), pause=0.1))
        self.assertEqual(self.a.gids()["10.88.0.1"], added)
        self.pingpong("10.88.0.1", "10.88.0.2", server="10.88.0.1")
        # The freed place is used again.
        self.a.set("addr", "add", "10.89.0.1/24", "dev", self.a.interface)
        self.assertEqual(self.a.gid_index("10.89.0.1"), index)

    def test_vlan(self):
        if harness.run(["ip", "-n", self.a.name, "link", "add", "link", self.a.interface, "name", "v8", "type", "vlan", "id",
                        "8"]).returncode != 0:
            self.skipTest("the kernel has no VLAN sub-interfaces")
        for number, host in enumerate((self.a, self.b), 1):
            host.set("link", "add", "link", host.interface, "name", "v7", "type", "vlan", "id", "7")
            host.set("link", "set", "v7", "up")
            host.set("addr", "add", f"10.70.0.{number}/24", "dev", "v7")
            host.gid_index(f"10.70.0.{number}")
        capture = Capture(self.b.name, self.b.interface)
        self.pingpong("10.70.0.1", "10.70.0.2", "-l", "3")
        tags = {tag for tag, _ in capture.packets()}
        self.assertEqual(tags, {3 << 13 | 7})
        capture = Capture(self.b.name, self.b.interface)
        self.pingpong("10.77.0.1", "10.77.0.2", "-l", "3")
        self.assertEqual({tag for tag, _ in capture.packets()}, {None})
        self.a.set("link", "del", "v7")
        self.assertTrue(harness.wait_until(lambda: "10.70.0.1" not in self.a.gids(), pause=0.1))

    def test_another_mac_in_mid_transfer(self):
        def change():
            self.assertTrue(harness.wait_until(lambda: self.a.counter("rcvd_pkts") > 200), self.a.text())
            self.a.set("link", "set", self.a.interface, "address", "02:00:00:00:77:99")
        self.pingpong("10.77.0.1", "10.77.0.2", iterations=3000, during=change)
        self.assertTrue(harness.wait_until(lambda: self.a.status()["mac"] == "02:00:00:00:77:99"), self.a.text())
        # Frames of a host to itself go by no wire.
        program = self.a.program("ibv_rc_pingpong", "-d", "urnic0", "-c", "-g", str(self.a.gid_index("10.77.0.1")))
        port = harness.free_port()
        for result in netns.run_pair(self, [*program, "-p", str(port)], [*program, "-p", str(port), "10.77.0.1"], port):
            self.assert_ok(result, self.a.trouble())

    def test_its_address_goes_and_comes_in_mid_transfer(self):
        begun = self.b.counter("sent_pkts")

        def change():
            self.assertTrue(harness.wait_until(lambda: self.b.counter("sent_pkts") > begun + 100), self.b.trouble())
            self.b.set("addr", "del", "10.77.0.2/24", "dev", self.b.interface)
            self.assertTrue(harness.wait_until(lambda: "10.77.0.2" not in self.b.gids(), pause=0.1), self.b.trouble())
            self.b.set("addr", "add", "10.77.0.2/24", "dev", self.b.interface)
        port = harness.free_port()
        # 4 s until it sends again, seven times.
        command = ["ib_write_bw", "-d", "urnic0", "-F", "-p", port, "-D", 8, "-u", 20, "-x"]
        server, client = self.a.program(*command, self.a.gid_index("10.77.0.1")), \
            self.b.program(*command, self.b.gid_index("10.77.0.2"), "10.77.0.1")
        for result in netns.run_pair(self, server, client, port, change):
            self.assert_ok(result, f"{self.a.trouble()} {self.b.trouble()}")
        self.assertGreater(self.b.counter("retrans_pkts"), 0, f"the transfer did not notice: {self.b.trouble()}")

    def test_nobody_there(self):
        # On the way from b to a's GID is a gateway that does not exist.
        self.a.set("addr", "add", "10.88.0.1/32", "dev", self.a.interface)
        self.b.set("route", "add", "10.88.0.1/32", "via", "10.77.0.250", "dev", self.b.interface)
        _, client = self.pingpong("10.88.0.1", "10.77.0.2", ok=False)
        self.assertIn("transport retry counter exceeded", client.out + client.err)
        self.assertTrue(harness.wait_until(lambda: self.b.counter("drop_no_neighbour") > 0), self.b.trouble())

    def test_no_route(self):
        self.a.set("addr", "add", "10.99.0.1/32", "dev", self.a.interface)
        _, client = self.pingpong("10.99.0.1", "10.77.0.2", ok=False)
        self.assertIn("Failed to modify QP to RTR", client.out + client.err)


class Routed(TwoHosts):
    """a - router - b."""

    def connect(self):
        router = f"u{os.getpid()}r"
        netns.ip("netns", "add", router)
        self.addCleanup(netns.ip, "netns", "del", router)
        for number, host in enumerate((self.a, self.b), 1):
            netns.ip("link", "add", host.interface, "netns", host.name, "type", "veth", "peer", "name", f"r{number}", "netns",
                     router)
            netns.ip("-n", router, "addr", "add", f"10.7{number}.0.254/24", "dev", f"r{number}")
            netns.ip("-n", router, "link", "set", f"r{number}", "mtu", "4200", "up")
            host.set("link", "set", host.interface, "address", host.mac, "mtu", "4200", "up")
            host.set("addr", "add", f"10.7{number}.0.1/24", "dev", host.interface)
            host.set("route", "add", "default", "via", f"10.7{number}.0.254")
        harness.run(netns.inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1"))

    def test_through_a_gateway(self):
        capture = Capture(self.b.name, self.b.interface)
        self.pingpong("10.71.0.1", "10.72.0.1", server="10.71.0.1")
        hops = {frame[22] for _, frame in capture.packets()}
        self.assertEqual(hops, {63})


class Own(TwoHosts):
    rnic = ('mac = "02:00:00:00:aa:01"\nipv4 = "10.77.0.101/24"\nipv6 = "fd77::101/64"',
            'mac = "02:00:00:00:aa:02"\nipv4 = "10.77.0.102/24"\nipv6 = "fd77::102/64"\nudp_checksum = true\necn = true')

    def test_answers_and_asks(self):
        with in_namespace(self.b.name):
            for family, target in ((socket.AF_INET, "10.77.0.101"), (socket.AF_INET6, "fd77::101")):
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.sendto(b"who is there", (target, 9))

        def known():
            table = harness.run(["ip", "-n", self.b.name, "neigh"]).out
            return table.count("02:00:00:00:aa:01") >= 2
        self.assertTrue(harness.wait_until(known), harness.run(["ip", "-n", self.b.name, "neigh"]).out)
        for own, peer in (("10.77.0.101", "10.77.0.102"), ("fd77::101", "fd77::102")):
            with self.subTest(own=own):
                capture = Capture(self.a.name, self.a.interface)
                self.pingpong(own, peer)
                frames = [frame for _, frame in capture.packets() if frame[6:12] == b"\x02\0\0\0\xaa\x02"]
                self.assertTrue(frames)
                for frame in frames:
                    is_ipv4 = frame[12] == 8
                    ecn = frame[15] & 3 if is_ipv4 else frame[15] >> 4 & 3
                    self.assertEqual(ecn, 2)
                    at = (34 if is_ipv4 else 54) + 6
                    self.assertNotEqual(frame[at:at + 2], b"\0\0", "no UDP checksum")
        self.assertEqual(self.a.counter("drop_malformed"), 0)

    def test_flood(self):
        """ARP lies, some ten thousand a second, before and while a transfer runs."""
        stop = threading.Event()
        sent = [0]

        def flood():
            with in_namespace(self.b.name):
                raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                raw.bind((self.b.interface, 0))
            while not stop.is_set():
                n = sent[0]
                for mac, ip, operation in ((n & 0xffff, 0x0a4d0000 | n & 0xffff, 2), (n & 0xff, 0x0a4d0066, 2),
                                           (n & 0xffff, 0x0a4d0000 | n & 0xffff, 1), (n & 0xff, 0x0a4d0065, 2)):
                    sender = b"\x02\xee\0\0" + struct.pack("!H", mac)
                    raw.send(b"\xff" * 6 + sender + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, operation) + sender +
                             struct.pack("!I", ip) + b"\0" * 6 + bytes([10, 77, 0, 101]) + b"\0" * 18)
                sent[0] = n + 1
                if n % 32 == 0:
                    stop.wait(0.01)  # what fills the interface's queue harms everybody, lie or not
            raw.close()

        self.pingpong("10.77.0.101", "10.77.0.102")
        before = self.memory()
        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            self.assertTrue(harness.wait_until(lambda: sent[0] > 2000))
            # The program retries for half a second: too little where lies come before answers on a busy machine.
            said = ""
            for _ in range(4):
                results = self.pingpong("10.77.0.101", "10.77.0.102", ok=False)
                said = f"{results} {self.a.trouble()} {self.b.trouble()}"
                if all("1000 iters in" in result.out for result in results):
                    break
            else:
                self.fail(said)
        finally:
            stop.set()
            flooding.join()
        self.assertLess(self.memory(), before + 4096, "kB")
        self.assertGreater(self.a.counter("rcvd_neighbour_msgs"), 0)
        self.assertIn("claims the address 10.77.0.101", self.a.text())

    def memory(self):
        status = pathlib.Path(f"/proc/{self.a.daemon.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))


def own_vlans(number):
    """Two VLANs with the same prefix; what is on the link of one is not on that of the other."""
    return f"""mac = "02:00:00:00:aa:0{number}"
[[rnic.vlan]]
id = 7
ipv4 = "10.70.0.{number}/24"
ipv6 = "fd70::{number}/64"
[[rnic.vlan]]
id = 8
ipv4 = "10.70.0.{10 + number}/24"
"""


class OwnVlans(TwoHosts):
    rnic = (own_vlans(1), own_vlans(2))

    def test_tags_and_neighbours(self):
        for own, peer, vlan in (("10.70.0.1", "10.70.0.2", 7), ("fd70::1", "fd70::2", 7), ("10.70.0.11", "10.70.0.12", 8)):
            with self.subTest(own=own):
                capture = Capture(self.b.name, self.b.interface)
                self.pingpong(own, peer, "-l", "3", iterations=200)
                self.assertEqual({tag for tag, _ in capture.packets()}, {3 << 13 | vlan})

    def test_one_vlan_is_not_another(self):
        results = self.pingpong("10.70.0.1", "10.70.0.12", iterations=5, ok=False)
        self.assertNotEqual([result.returncode for result in results], [0, 0], results)
        self.assertTrue(harness.wait_until(lambda: any(host.counter("drop_no_neighbour") for host in (self.a, self.b))))


class OverXdp(TwoHosts):
    """The kernel hears ARP here, not the RNIC's queues. One side has its own addresses, one borrows them."""
    port, mtu = "af_xdp", 2200
    rnic = ('mac = "02:00:00:00:aa:01"\nipv4 = "10.77.0.101/24"\nipv6 = "fd77::101/64"', "")

    def setUp(self):
        if not netns.is_real_root():
            self.skipTest("AF_XDP needs root")
        super().setUp()

    def test_own_and_borrowed(self):
        for own, peer in (("10.77.0.101", "10.77.0.2"), ("fd77::101", "fd77::2")):
            with self.subTest(own=own):
                self.pingpong(own, peer, iterations=200)


class OwnVlansOverXdp(TwoHosts):
    """The kernel takes the tag off what it hears, and tells it."""
    port, mtu = "af_xdp", 2200
    rnic = (own_vlans(1), own_vlans(2))

    def setUp(self):
        if not netns.is_real_root():
            self.skipTest("AF_XDP needs root")
        super().setUp()

    def test_neighbours(self):
        for own, peer in (("10.70.0.1", "10.70.0.2"), ("fd70::1", "fd70::2"), ("10.70.0.11", "10.70.0.12")):
            with self.subTest(own=own):
                self.pingpong(own, peer, iterations=200)


if __name__ == "__main__":
    netns.private()
    harness.main()
