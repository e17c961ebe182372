"""Multicast through a bridge that snoops: RNICs report their groups by IGMP and MLD, and the bridge passes them."""

import json
import socket
import subprocess

import harness
import netns
from ipoib_test import Member
from with_daemon import WithDaemon

BRIDGE = "bridge"
# To a group of nobody, ff15::1234:5678: eight octets without a next header (59).
STRAY = bytes.fromhex("333312345678" "0200000000ee" "86dd" "60000000" "0008" "3b" "40" "fe80000000000000" "00000000000000ee"
                      "ff15000000000000" "0000000012345678" "0000000000000000")

RNIC = """
[[rnic]]
name = "urnic{number}"
port = "af_packet"
interface = "v{number}"
mac = "02:00:00:00:88:0{number}"
ipv4 = "10.88.0.{address}/24"
mtu = 4096
multicast_reports = {reports}
"""


class Snooping(WithDaemon):
    reports = "true"

    def setUp(self):
        netns.ip("netns", "add", BRIDGE)
        self.addCleanup(netns.ip, "netns", "del", BRIDGE)
        # Queries each second, and members that do not answer are forgotten after four.
        netns.ip("-n", BRIDGE, "link", "add", "br0", "mtu", 4200, "type", "bridge", "mcast_snooping", 1, "mcast_querier", 1, "mcast_query_interval",
                 100, "mcast_query_response_interval", 50, "mcast_membership_interval", 400, "mcast_startup_query_interval", 100,
                 "mcast_last_member_interval", 50)
        for number in range(3):
            netns.ip("link", "add", f"v{number}", "mtu", 4200, "type", "veth", "peer", "name", f"p{number}", "netns", BRIDGE, "mtu", 4200)
            self.addCleanup(subprocess.run, ["ip", "link", "del", f"v{number}"], stderr=subprocess.DEVNULL, check=False)
            # The kernel on the RNIC's side is silent.
            with open(f"/proc/sys/net/ipv6/conf/v{number}/disable_ipv6", "w", encoding="ascii") as file:
                file.write("1")
            netns.ip("-n", BRIDGE, "link", "set", f"p{number}", "master", "br0", "up")
            netns.ip("link", "set", f"v{number}", "up")
        netns.ip("-n", BRIDGE, "link", "set", "br0", "up")
        super().setUp()
        self.assertTrue(harness.wait_until(self.is_snooping, pause=0.1), "the bridge floods")

    def start_daemon(self):
        config = self.dir / "urnicd.toml"
        head = config.read_text(encoding="utf-8").split("[[rnic]]", maxsplit=1)[0]
        config.write_text(head + "".join(RNIC.format(number=number, address=number + 1, reports=self.reports) for number in range(3)),
                          encoding="utf-8")
        super().start_daemon()

    def received(self, number):
        shown = subprocess.run(["ip", "-s", "-j", "link", "show", "dev", f"v{number}"], check=True, capture_output=True, text=True).stdout
        return json.loads(shown)[0]["stats64"]["rx"]["packets"]

    def is_snooping(self):
        """Whether frames of a group without members stay away: there is a querier, and it has been heard long enough."""
        before, count = self.received(2), 50
        # The queries that come meanwhile are few.
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("v0", 0))
            for _ in range(count):
                sender.send(STRAY)
        return self.received(2) - before < count

    def entries(self):
        """{(port, group): seconds until it is forgotten}"""
        shown = subprocess.run(netns.inside(BRIDGE, "bridge", "-s", "-j", "mdb", "show"), check=True, capture_output=True, text=True).stdout
        return {(entry["port"], entry["grp"]): float(entry["timer"]) for bridge in json.loads(shown) for entry in bridge["mdb"]}

    def wait_for(self, port, group, is_there=True):
        self.assertTrue(harness.wait_until(lambda: ((port, group) in self.entries()) == is_there, pause=0.1),
                        f"{group} on {port}: {self.entries()}")


class Reports(Snooping):
    def test_ipv6_groups(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        broadcast = a.described("broadcast group ([0-9a-f:]+)")
        for port in ("p0", "p1"):
            self.wait_for(port, broadcast)
        self.assertNotIn(("p2", broadcast), self.entries())
        # ARP goes to the group: the answer shows that frames of it arrive.
        self.assertTrue(harness.wait_until(lambda: harness.run(a.inside("ping", "-c", "1", "-W", "1", b.ip), 60).returncode == 0), "no answer")
        # Queries are answered, time after time: the bridge's timer goes up again.
        seen, rises, last = [], 0, 0.0

        def is_refreshed():
            nonlocal rises, last
            timer = self.entries().get(("p0", broadcast), 0.0)
            seen.append(timer)
            rises += timer > last
            last = timer
            return rises > 5

        self.assertTrue(harness.wait_until(is_refreshed, pause=0.1), f"queries are not answered: {seen}")
        b.stop()
        self.wait_for("p1", broadcast, False)
        self.wait_for("p0", broadcast)

    def test_ipv4_groups(self):
        group = "239.7.7.7"
        mckey = [harness.BUILD / "urnic", "run", "--socket", self.socket, "--", "mckey", "-m", group, "-C", "1"]
        receiver = harness.start([*mckey, "-b", "10.88.0.1"])
        self.addCleanup(harness.end_group, receiver)
        self.wait_for("p0", group)
        self.assertNotIn(("p2", group), self.entries())
        # It hears the first message that is sent while it listens.
        self.assertTrue(harness.wait_until(lambda: self.run_ok([*mckey, "-b", "10.88.0.2", "-s"]) and receiver.poll() is not None, pause=0.1),
                        "nothing heard")
        self.assert_ok(harness.finish(receiver))
        self.wait_for("p0", group, False)


class WithoutReports(Snooping):
    reports = "false"

    def test_the_bridge_passes_nothing(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        for _ in range(3):
            self.assertNotEqual(harness.run(a.inside("ping", "-c", "1", "-W", "2", b.ip), 60).returncode, 0, "the bridge floods")
        self.assertNotIn(a.described("broadcast group ([0-9a-f:]+)"), [group for _, group in self.entries()])


if __name__ == "__main__":
    netns.private()
    harness.main()
