"""IP over InfiniBand: links of urnic ipoib in namespaces of their own, over the RNICs of one daemon."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time

import harness
import netns
from with_daemon import WithDaemon


class Member:
    """One link: a namespace with ib0, and the program that makes it."""

    def __init__(self, test, rnic, number, *options):
        self.test, self.rnic, self.number = test, rnic, number
        self.namespace = f"ipoib{os.getpid()}{number}"
        self.ip = f"10.9.0.{number}"
        netns.add_namespace(test, self.namespace)
        self.program = None
        self.start(*options)
        test.addCleanup(self.stop)

    def start(self, *options):
        self.program = harness.start(netns.inside(self.namespace, harness.BUILD / "urnic", "run", "--socket", self.test.socket, "--",
                                                  harness.BUILD / "urnic", "ipoib", "-d", self.rnic, "-i", "ib0", *options))
        self.line = harness.read_line(self.program)
        self.test.assertIn(f"ib0: {self.rnic}", self.line)
        netns.ip("-n", self.namespace, "address", "add", f"{self.ip}/24", "dev", "ib0")
        netns.ip("-n", self.namespace, "route", "add", "multicast", "224.0.0.0/4", "dev", "ib0")
        self.test.assertTrue(harness.wait_until(lambda: self.link_local() is not None), "no link-local address")

    def stop(self):
        if self.program is not None:
            self.program.terminate()
            result = harness.finish(self.program, 30)
            self.program = None
            self.test.assertEqual(result.returncode, 0, str(result))

    def kill(self):
        self.program.kill()
        harness.finish(self.program, 30)
        self.program = None

    def described(self, pattern):
        """What the line says that the program begins with."""
        return re.search(pattern, self.line).group(1)

    def own_counters(self):
        """What the program prints at SIGUSR1."""
        self.program.send_signal(signal.SIGUSR1)
        found = {}
        while "mtu" not in found:
            line = self.program.stderr.readline()
            self.test.assertTrue(line, "urnic ipoib ended")
            name, value = line.split()
            found[name] = int(value)
        return found

    def link_local(self):
        shown = subprocess.run(["ip", "-n", self.namespace, "-6", "address", "show", "dev", "ib0"], check=True, capture_output=True,
                               text=True).stdout
        found = re.search(r"inet6 (fe80::[0-9a-f:]+)/64 scope link\s*(tentative)?", shown)
        return None if found is None or found.group(2) else found.group(1)

    def inside(self, *words):
        return netns.inside(self.namespace, *words)

    def python(self, program, *words):
        return self.inside(sys.executable, "-c", program, *words)

    def counters(self):
        """As `ip -s link` has them: packets that the link has given to the kernel, and taken."""
        shown = subprocess.run(["ip", "-n", self.namespace, "-s", "-j", "link", "show", "dev", "ib0"], check=True, capture_output=True,
                               text=True).stdout
        return json.loads(shown)[0]["stats64"]


RECEIVE = """
import hashlib, socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
peer, _ = server.accept()
digest = hashlib.sha256()
while data := peer.recv(1 << 16):
    digest.update(data)
print(digest.hexdigest(), flush=True)
"""
SEND = """
import hashlib, os, random, socket, sys
data = random.Random(int(sys.argv[3])).randbytes(int(sys.argv[3]))
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as peer:
    peer.sendall(data)
print(hashlib.sha256(data).hexdigest(), flush=True)
"""
# Datagrams: how long they are, and what their first octet is.
RECEIVE_UDP = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", int(sys.argv[1])))
print("listening", flush=True)
for _ in range(int(sys.argv[2])):
    data = s.recv(65536)
    print(len(data), data[0], flush=True)
"""
# One call, which UDP_SEGMENT (103) makes datagrams of 1000 octets of.
SEND_UDP = """
import socket, sys
where = socket.getaddrinfo(sys.argv[1], int(sys.argv[2]), type=socket.SOCK_DGRAM)[0]
s = socket.socket(where[0], socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, 1000)
s.sendto(b"".join(bytes([number]) * 1000 for number in range(11))[:10500], where[4])
"""
# Joins a group, says so, and prints what arrives until it is "end".
LISTEN = """
import socket, struct, sys
group, port = sys.argv[1], int(sys.argv[2])
index = socket.if_nametoindex("ib0")
if ":" in group:
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("", port))
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index))
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("@4s4si", socket.inet_aton(group), b"\\0" * 4, index))
print("joined", flush=True)
while (data := s.recv(65536)) != b"end":
    print(data.decode(), flush=True)
"""
SAY = """
import socket, sys
group, port = sys.argv[1], int(sys.argv[2])
index = socket.if_nametoindex("ib0")
s = socket.socket(socket.AF_INET6 if ":" in group else socket.AF_INET, socket.SOCK_DGRAM)
if ":" in group:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
else:
    s.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: without DF
for word in sys.argv[3:]:
    s.sendto(word.encode(), (group, port) if ":" not in group else (group, port, 0, index))
"""


class LinkTest(WithDaemon):
    def ping(self, member, *words):
        return harness.run(member.inside("ping", *words), 60)

    def assert_reaches(self, member, *words):
        self.assertTrue(harness.wait_until(lambda: self.ping(member, "-c", "1", "-W", "1", *words).returncode == 0, pause=0.1),
                        f"no answer to ping {' '.join(words)}")

    def transfer(self, sender, receiver, octets, port=5001):
        receiving = harness.start(receiver.python(RECEIVE, str(port)))
        self.addCleanup(harness.end_group, receiving)
        self.assertEqual(harness.read_line(receiving).strip(), "listening")
        sent = self.run_ok(sender.python(SEND, receiver.ip, str(port), str(octets)))
        received = harness.finish(receiving)
        self.assertEqual(sent.out.strip(), received.out.strip().splitlines()[-1])


class Links(LinkTest):
    def test_ping_and_mtu(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        self.assert_reaches(b, "-6", f"{a.link_local()}%ib0")
        # 28 octets of headers: 2044 in all pass, one more does not.
        self.assert_reaches(a, "-M", "do", "-s", "2016", b.ip)
        too_long = self.ping(a, "-c", "1", "-M", "do", "-s", "2017", b.ip)
        self.assertNotEqual(too_long.returncode, 0)
        self.assertIn("2044", too_long.out + too_long.err)
        # Longer ones are cut by IP.
        self.assert_reaches(a, "-s", "9000", b.ip)

    def test_tcp(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.transfer(a, b, 20_000_000)
        self.transfer(b, a, 5_000_001)
        # The kernels have handed over and taken more than a packet at a time.
        for member in (a, b):
            counters = member.own_counters()
            self.assertGreater(counters["tx_segmented"], 0)
            self.assertGreater(counters["rx_merged"], 0)

    def test_udp_in_one_piece(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        self.assert_reaches(a, "-6", f"{b.link_local()}%ib0")
        for address in (b.ip, f"{b.link_local()}%ib0"):
            receiving = harness.start(b.python(RECEIVE_UDP, "6001", "11"))
            self.addCleanup(harness.end_group, receiving)
            self.assertEqual(harness.read_line(receiving).strip(), "listening")
            self.run_ok(a.python(SEND_UDP, address, "6001"))
            lines = harness.finish(receiving).out.splitlines()
            self.assertEqual(lines, [f"1000 {number}" for number in range(10)] + ["500 10"])
        # Where the kernel has USO (Linux 6.2) it has not cut them itself.
        counters = a.own_counters()
        release = tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups()))
        self.assertEqual(counters["tx_segmented"], 2 if release >= (6, 2) else 0, str(counters))

    def test_two_links_on_one_rnic(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic0", 2)
        self.assert_reaches(a, b.ip)
        self.transfer(a, b, 1_000_000)

    def test_multicast_reaches_members_alone(self):
        a, b, c = Member(self, "urnic0", 1), Member(self, "urnic1", 2), Member(self, "urnic1", 3)
        for group in ("239.255.1.2", "ff05::1:3"):
            listeners = [harness.start(member.python(LISTEN, group, "7000")) for member in (a, b)]
            for listener in listeners:
                self.addCleanup(harness.end_group, listener)
                self.assertEqual(harness.read_line(listener).strip(), "joined")
            # The link follows a report; a datagram of before may be lost, so it is said until it is heard.
            for listener in listeners:
                lines = []
                thread = threading.Thread(target=lambda: lines.append(listener.stdout.readline()))
                thread.start()
                self.assertTrue(harness.wait_until(
                    lambda: self.run_ok(c.python(SAY, group, "7000", "hello")) and not thread.is_alive(), pause=0.1), f"{group}: nothing heard")
                thread.join()
                self.assertEqual(lines[0].strip(), "hello")
            self.run_ok(c.python(SAY, group, "7000", "end"))
            for listener in listeners:
                self.assert_ok(harness.finish(listener))
        # Who is no member sees none of it: neither his program nor his kernel.
        before = c.counters()["rx"]["packets"]
        listener = harness.start(a.python(LISTEN, "239.255.9.9", "7001"))
        self.addCleanup(harness.end_group, listener)
        self.assertEqual(harness.read_line(listener).strip(), "joined")
        sends = 50
        self.run_ok(b.python(SAY, "239.255.9.9", "7001", *["hello"] * sends, "end"))
        harness.wait_until(lambda: b.counters()["tx"]["packets"] >= sends)
        self.assertLess(c.counters()["rx"]["packets"] - before, sends, "frames of a group that was not joined")
        harness.end_group(listener)

    def test_peer_restarts_with_another_qpn(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        first = re.search("QPN (0x[0-9a-f]+)", b.line).group(1)
        b.stop()
        b.start()
        self.assertNotEqual(re.search("QPN (0x[0-9a-f]+)", b.line).group(1), first)
        # By its gratuitous ARP, long before the neighbour entry of the kernel is stale.
        self.assert_reaches(a, b.ip)
        entry = subprocess.run(["ip", "-n", a.namespace, "neighbour", "show", b.ip], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("FAILED", entry)

    def test_with_loss(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        added = self.urnic("fault", "add", "drop", "--probability", "0.05", "--socket", self.socket)
        self.assert_ok(added)
        self.transfer(a, b, 500_000)
        self.assert_reaches(b, a.ip)

    def test_a_member_that_lies(self):
        """With ARP of thousands of forged senders, among others."""
        a, b, third = Member(self, "urnic0", 1), Member(self, "urnic1", 2), Member(self, "urnic0", 3)
        self.assert_reaches(a, b.ip)
        self.assert_reaches(b, a.ip)
        self.assert_reaches(third, a.ip)
        hostile = harness.start([harness.BUILD / "urnic", "run", "--socket", self.socket, "--", harness.BUILD / "tests/e2e/ipoib_member", "urnic1",
                                 "0x80001b0b", a.described("QPN (0x[0-9a-f]+)"), a.described("GID ([0-9a-f:]+)"),
                                 a.described("broadcast group ([0-9a-f:]+)"), a.ip])
        self.addCleanup(harness.end_group, hostile)
        rounds = []
        thread = threading.Thread(target=lambda: rounds.extend(iter(hostile.stdout.readline, "")))
        thread.start()
        # As long as the attack continues; a datagram that finds no receive is lost, so not each is answered.
        answered, answered_third = 0, 0
        self.assertTrue(harness.wait_until(lambda: len(rounds) >= 2 or hostile.poll() is not None, pause=0.1) and hostile.poll() is None,
                        "the hostile member ended")
        seen = len(rounds)
        deadline = time.monotonic() + harness.PATIENCE_S
        while (len(rounds) < seen + 2 or 0 in (answered, answered_third)) and hostile.poll() is None and time.monotonic() < deadline:
            answered += self.ping(a, "-c", "1", "-W", "1", b.ip).returncode == 0
            answered_third += self.ping(third, "-c", "1", "-W", "1", a.ip).returncode == 0
        harness.end_group(hostile)
        thread.join()
        self.assertGreater(min(answered, answered_third), 0, f"pings between honest members: {answered} and {answered_third} were answered")
        # Who says that he is somebody puts nobody out who has been heard himself: no neighbour is asked for again.
        self.assertEqual(self.ping(a, "-c", "3", "-i", "0.2", "-W", "5", b.ip).returncode, 0)
        self.assertEqual(self.ping(third, "-c", "3", "-i", "0.2", "-W", "5", a.ip).returncode, 0)
        flooded = a.own_counters()
        self.assertEqual(flooded["neighbours"], 4096)
        self.assertGreater(flooded["neighbour_evictions"], 0)
        for member in (a, b):
            counters = member.own_counters()
            self.assertLessEqual(counters["neighbours"], 4096)
            for name in ("rx_too_short", "rx_other_type", "rx_malformed"):
                self.assertGreater(counters[name], 0, name)
        self.transfer(a, b, 1_000_000)

    def test_the_daemon_goes(self):
        a = Member(self, "urnic0", 1)
        self.daemon.terminate()
        harness.finish(self.daemon, 30)
        # The link says so and ends: its QP will never carry anything again.
        result = harness.finish(a.program, 60)
        a.program = None
        self.assertEqual(result.returncode, 1, str(result))
        self.assertIn("gone", result.err)


class ConnectedLinks(LinkTest):
    """Connected mode (RFC 4755): RC connections beside datagrams."""

    def connected(self, *numbers):
        return [Member(self, f"urnic{number - 1}", number, "--mode", "connected") for number in numbers]

    def test_ping_and_mtu(self):
        a, b = self.connected(1, 2)
        self.assertIn("connected mode, MTU 65520", a.line)
        # 28 octets of headers, 48 over IPv6.
        self.assert_reaches(a, "-M", "do", "-s", "65492", b.ip)
        self.assert_reaches(b, "-6", "-M", "do", "-s", "65472", f"{a.link_local()}%ib0")
        too_long = self.ping(a, "-c", "1", "-M", "do", "-s", "65493", b.ip)
        self.assertNotEqual(too_long.returncode, 0)
        self.assertIn("65520", too_long.out + too_long.err)
        for member in (a, b):
            counters = member.own_counters()
            self.assertEqual(counters["connections"], 1, str(counters))
            self.assertGreater(counters["tx_connected"], 1)
            self.assertGreater(counters["rx_connected"], 1)
            # What has come by the connection is no more than that: ARP goes by datagrams.
            self.assertGreater(counters["rx_packets"], counters["rx_connected"])

    def test_tcp(self):
        a, b = self.connected(1, 2)
        self.transfer(a, b, 40_000_000)
        self.transfer(b, a, 5_000_001)
        counters = a.own_counters()
        self.assertLess(counters["tx_connected"], 10_000, "segments of 64 KB")
        self.assertGreater(counters["tx_connected"], 600)

    def test_first_packet_waits_for_the_connection(self):
        a, b = self.connected(1, 2)
        self.assert_reaches(a, b.ip)
        self.assertTrue(harness.wait_until(lambda: a.own_counters()["connections"] == 1))
        b.stop()
        b.start("--mode", "connected")
        # A short one finds the neighbour; a long one is then the first to the other's new address.
        self.assert_reaches(b, "-M", "do", "-s", "60000", a.ip)
        self.assertEqual(self.ping(b, "-c", "3", "-i", "0.2", "-M", "do", "-s", "60000", a.ip).returncode, 0)

    def test_peer_that_takes_datagrams_alone(self):
        a = self.connected(1)[0]
        b = Member(self, "urnic1", 2)
        # The first long one is answered by "fragmentation needed", which the kernel remembers.
        self.assert_reaches(a, b.ip)
        told = self.ping(a, "-c", "1", "-W", "5", "-M", "do", "-s", "9000", b.ip)
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("2044", told.out + told.err)
        self.assert_reaches(a, "-M", "do", "-s", "2016", b.ip)
        routes = subprocess.run(["ip", "-n", a.namespace, "route", "get", b.ip], check=True, capture_output=True, text=True).stdout
        self.assertIn("mtu 2044", routes)
        told = self.ping(a, "-6", "-c", "1", "-W", "5", "-M", "do", "-s", "9000", f"{b.link_local()}%ib0")
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("2044", told.out + told.err)
        self.assertEqual(a.own_counters()["tx_too_big"], 2)
        # Without DF it arrives, each time.
        self.assert_reaches(a, "-M", "dont", "-s", "9000", b.ip)
        self.transfer(a, b, 3_000_000)
        self.transfer(b, a, 3_000_000)
        self.assertEqual(a.own_counters()["connections"], 0)

    def test_without_df_the_link_fragments(self):
        a = self.connected(1)[0]
        b = Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        # The kernel knows no path MTU yet.
        self.assertEqual(self.ping(a, "-c", "1", "-W", "10", "-M", "dont", "-s", "30000", b.ip).returncode, 0)
        counters = a.own_counters()
        self.assertEqual((counters["tx_fragmented"], counters["tx_too_big"]), (1, 0), str(counters))

    def test_killed_peer_comes_back_with_another_qpn(self):
        a, b = self.connected(1, 2)
        self.assert_reaches(a, "-M", "do", "-s", "60000", b.ip)
        first = b.described("QPN (0x[0-9a-f]+)")
        b.kill()
        b.start("--mode", "connected")
        self.assertNotEqual(b.described("QPN (0x[0-9a-f]+)"), first)
        self.assert_reaches(a, b.ip)
        self.assert_reaches(a, "-M", "do", "-s", "60000", b.ip)
        self.transfer(b, a, 5_000_000)
        # The connection of before ends, since its peer answers no more or since it is idle; datagrams never stopped.
        self.assertEqual(b.own_counters()["connections"], 1)

    def test_killed_in_a_transfer(self):
        a, b = self.connected(1, 2)
        self.assert_reaches(a, b.ip)
        receiving = harness.start(b.python(RECEIVE, "5001"))
        self.addCleanup(harness.end_group, receiving)
        self.assertEqual(harness.read_line(receiving).strip(), "listening")
        sending = harness.start(a.python(SEND, b.ip, "5001", "60000000"))
        self.addCleanup(harness.end_group, sending)
        self.assertTrue(harness.wait_until(lambda: a.own_counters()["tx_connected"] > 50))
        b.kill()
        broken = harness.wait_until(lambda: a.own_counters()["connections"] == 0)
        self.assertTrue(broken, "the connection to a peer that is gone is still there")
        # Both ends of the TCP connection are still there: it continues over the next connection.
        b.start("--mode", "connected")
        sent = harness.finish(sending, 120)
        received = harness.finish(receiving, 120)
        self.assertEqual(sent.out.strip(), received.out.strip().splitlines()[-1])

    def test_idle_connections_end(self):
        a, b = [Member(self, f"urnic{number - 1}", number, "--mode", "connected", "--idle", "1") for number in (1, 2)]
        self.assert_reaches(a, "-M", "do", "-s", "60000", b.ip)
        for member in (a, b):
            self.assertTrue(harness.wait_until(lambda: member.own_counters()["connections"] == 0), "an idle connection stays")
        ended = [member.own_counters() for member in (a, b)]
        self.assertGreaterEqual(sum(counters["connections_idle"] for counters in ended), 1, str(ended))
        self.assertEqual(sum(counters["connections_broken"] for counters in ended), 0, str(ended))
        self.assert_reaches(b, "-M", "do", "-s", "60000", a.ip)

    def test_more_peers_than_connections(self):
        a = Member(self, "urnic0", 1, "--mode", "connected", "--connections", "1")
        b, c = Member(self, "urnic1", 2, "--mode", "connected"), Member(self, "urnic1", 3, "--mode", "connected")
        for _ in range(2):
            for peer in (b, c):
                self.assert_reaches(a, "-M", "do", "-s", "60000", peer.ip)
        counters = a.own_counters()
        self.assertEqual(counters["connections"], 1, str(counters))
        self.assertGreaterEqual(counters["connections_evicted"], 1, str(counters))

    def test_with_loss(self):
        a, b = self.connected(1, 2)
        self.assert_reaches(a, b.ip)
        added = self.urnic("fault", "add", "drop", "--probability", "0.05", "--socket", self.socket)
        self.assert_ok(added)
        self.transfer(a, b, 5_000_000)
        self.assert_reaches(b, "-M", "do", "-s", "60000", a.ip)

    def test_multicast_goes_by_datagrams(self):
        a, b = self.connected(1, 2)
        self.assert_reaches(a, b.ip)
        listener = harness.start(b.python(LISTEN, "239.255.1.2", "7000"))
        self.addCleanup(harness.end_group, listener)
        self.assertEqual(harness.read_line(listener).strip(), "joined")
        lines = []
        thread = threading.Thread(target=lambda: lines.append(listener.stdout.readline()))
        thread.start()
        # Longer than a datagram, and without DF: the link fragments it.
        long = "x" * 9000
        self.assertTrue(harness.wait_until(lambda: self.run_ok(a.python(SAY, "239.255.1.2", "7000", long)) and not thread.is_alive(), pause=0.1),
                        "nothing heard")
        thread.join()
        self.assertEqual(lines[0].strip(), long)
        self.assertGreater(a.own_counters()["tx_multicast"], 4)


class SetUp(WithDaemon):
    def refused(self, text, *options):
        result = harness.run([harness.BUILD / "urnic", "run", "--socket", self.socket, "--", harness.BUILD / "urnic", "ipoib", *options], 60)
        self.assertEqual(result.returncode, 1, str(result))
        self.assertIn(text, result.err)

    def test_what_is_wrong_is_said(self):
        self.refused("there are urnic0, urnic1", "-d", "mlx5_0")
        self.refused("--gid-index", "-d", "urnic0", "-g", "77")
        self.refused("longer than", "-i", "a-name-of-more-characters")
        self.refused("less than that of datagrams", "-m", "4092", "--mode", "connected", "--connected-mtu", "2044")
        self.refused("needs a link of MTU 256", "-m", "252", "--mode", "connected")
        self.refused("cannot make TAP device lo", "-i", "lo")
        without = harness.run([harness.BUILD / "urnic", "ipoib"], 60)
        self.assertEqual(without.returncode, 1)
        self.assertIn("no RDMA device", without.err)


if __name__ == "__main__":
    netns.private()
    harness.main()
