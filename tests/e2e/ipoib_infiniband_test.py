"""IP over InfiniBand on InfiniBand: groups and paths from the subnet administrator, the built-in one or opensm."""

import re
import unittest

import harness
import ipoib_test
import netns
import subnet_test
from ipoib_test import Member

BROADCAST = "ff12:401b:ffff::ffff:ffff"


class Links(subnet_test.Subnet, ipoib_test.LinkTest):
    def groups(self):
        return re.findall(r"MGID\.+(\S+)", self.ask("saquery", "-C", "urnic0", "-g"))

    def members(self, group):
        """Of a group, as a trusted program sees them."""
        records = self.ask("saquery", "-C", "urnic0", "--smkey", 1, "MCMR", "--mgid", group)
        return set(re.findall(r"PortGid\.+(\S+)", records)) - {"::"}

    def gid(self, number):
        return subnet_test.short_gid(self.port(number, "gids/0"))

    def refused(self, *options):
        done = harness.run(self.here(harness.BUILD / "urnic", "ipoib", *options))
        self.assertEqual(done.returncode, 1, str(done))
        return done.err


class Builtin(Links):
    subnet_manager = "builtin"

    def test_datagrams(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assertIn(f"MTU 2044, broadcast group {BROADCAST}", a.line)
        # One packet is enough: neither it nor its answer is lost while ways are asked for.
        self.assert_ok(self.ping(a, "-c", "1", "-W", "10", b.ip))
        self.assert_reaches(b, "-6", f"{a.link_local()}%ib0")
        self.assert_reaches(a, "-M", "do", "-s", "2016", b.ip)
        self.assertNotEqual(self.ping(a, "-c", "1", "-M", "do", "-s", "2017", b.ip).returncode, 0)
        self.transfer(a, b, 5_000_000)
        self.transfer(b, a, 1_000_001)

    def test_groups(self):
        a, b, c = (Member(self, f"urnic{number}", number + 1) for number in range(3))
        listeners = []
        for member in (a, b):
            listeners.append(harness.start(member.python(ipoib_test.LISTEN, "239.255.1.2", "6000")))
            self.addCleanup(harness.end_group, listeners[-1])
            self.assertEqual(harness.read_line(listeners[-1]).strip(), "joined")
        group = "ff12:401b:ffff::fff:102"
        self.assertTrue(harness.wait_until(lambda: group in self.groups() and self.members(group) == {self.gid(0), self.gid(1)}))
        # Who sends is no member of it, and need not be. The links hear of their membership a moment after it is seen here.
        def heard():
            self.run_ok(c.python(ipoib_test.SAY, "239.255.1.2", "6000", "hello", "end"))
            return all(listener.poll() is not None for listener in listeners)
        self.assertTrue(harness.wait_until(heard, pause=0.2))
        for listener in listeners:
            self.assertLessEqual(set(harness.finish(listener).out.split()), {"hello"})
        # The kernel leaves with its listener, and the group ends with its last full member.
        self.assertTrue(harness.wait_until(lambda: group not in self.groups()))
        # To a group of nobody nothing goes, and it is not made.
        before = c.own_counters()
        self.run_ok(c.python(ipoib_test.SAY, "239.255.7.7", "6000", "hello"))
        self.assertTrue(harness.wait_until(lambda: c.own_counters()["tx_no_handle"] > before["tx_no_handle"]))
        self.assertNotIn("ff12:401b:ffff::fff:707", self.groups())
        for member in (a, b, c):
            member.stop()
        self.assertTrue(harness.wait_until(lambda: self.groups() == [BROADCAST] and not self.members(BROADCAST)), self.groups())

    def test_connected_mode(self):
        a, b = (Member(self, f"urnic{number}", number + 1, "--mode", "connected") for number in range(2))
        self.assert_reaches(a, "-M", "do", "-s", "65000", b.ip)
        self.transfer(a, b, 5_000_000)
        self.assertGreater(a.own_counters()["tx_connected"], 0)

    def test_a_link_goes_down_and_comes(self):
        """The administrator has forgotten the port's memberships meanwhile."""
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        self.assert_ok(self.urnic("port", "urnic1", "down", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: self.members(BROADCAST) == {self.gid(0)}))
        self.assert_ok(self.urnic("port", "urnic1", "up", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: self.members(BROADCAST) == {self.gid(0), self.gid(1)}))
        self.assert_reaches(b, a.ip)
        self.run_ok(netns_flush(a))
        self.assert_reaches(a, b.ip)

    def test_the_daemon_goes(self):
        a = Member(self, "urnic0", 1)
        self.daemon.terminate()
        harness.finish(self.daemon, 30)
        result = harness.finish(a.program)
        a.program = None
        self.assertEqual(result.returncode, 1, str(result))
        self.assertRegex(result.err, "urnic ipoib: .*start again when it is back")

    def test_a_receiver_that_starts_anew(self):
        """The group that b's neighbours ask for it by ends and is made again, while a only sends there."""
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, "-6", f"{b.link_local()}%ib0")
        b.kill()
        b.start()
        self.assert_reaches(a, "-6", f"{b.link_local()}%ib0")

    def test_what_is_wrong_is_said(self):
        self.assertIn("the broadcast group of urnic0 port 1 has Q_Key 2843 and MTU 2044: on InfiniBand a link takes them from there",
                      self.refused("-d", "urnic0", "--mtu", 4092))
        self.assertIn("urnic1 has no P_Key at index 7", self.refused("-d", "urnic1", "--pkey-index", 7))
        self.assertTrue(harness.wait_until(lambda: not self.members(BROADCAST)), "what cannot be made is no member")


class Planned(Links):
    """Through leaves and spines that nobody manages."""
    subnet_manager = "builtin"
    rnics = subnet_test.LeafSpine.rnics
    network = subnet_test.LeafSpine.network

    def test_datagrams(self):
        a, b = Member(self, "urnic0", 1), Member(self, "urnic2", 2)
        self.assert_reaches(a, b.ip)
        self.transfer(a, b, 1_000_001)
        self.assertEqual(self.members(BROADCAST), {self.gid(0), self.gid(2)})


class BuiltinPartitions(Links):
    """Each partition with full members has a broadcast group."""
    subnet_manager = "builtin"
    rnic_keys = "pkeys = [0xffff, 0x8012]\n"

    def test_a_link_of_its_own(self):
        a, b = (Member(self, f"urnic{number}", number + 1, "--pkey-index", 1) for number in range(2))
        self.assertIn("MTU 2044, broadcast group ff12:401b:8012::ffff:ffff", a.line)
        self.assert_reaches(a, b.ip)
        self.assertEqual(self.members("ff12:401b:8012::ffff:ffff"), {self.gid(0), self.gid(1)})
        self.assertEqual(self.members(BROADCAST), set())


class External(Links):
    def test_subnet_managers(self):
        """None, one, and another one after it, which knows nothing of what was joined."""
        self.assertIn("the subnet administrator of urnic0 port 1 does not answer", self.refused("-d", "urnic0"))
        process, _ = self.bring_up()
        a, b = Member(self, "urnic0", 1), Member(self, "urnic1", 2)
        self.assert_reaches(a, b.ip)
        process.kill()
        harness.finish(process)
        _, log = self.start_opensm(2)
        self.assertTrue(harness.wait_until(lambda: log.exists() and "SUBNET UP" in log.read_text(encoding="utf-8", errors="replace")))
        self.assertTrue(harness.wait_until(lambda: {self.gid(0), self.gid(1)} <= self.members(BROADCAST)))
        for member in (a, b):
            self.run_ok(netns_flush(member))
        self.assert_reaches(b, a.ip)


def netns_flush(member):
    """Forgets neighbours: they are asked for anew."""
    return member.inside("ip", "neigh", "flush", "dev", "ib0")


@unittest.skipIf(subnet_test.tool("opensm") is None, "opensm is not installed")
class Partitions(Links):
    def start_opensm(self, number=0, priority=5):
        partitions = self.dir / "partitions.conf"
        partitions.write_text("Default=0x7fff, ipoib : ALL=full ;\nlab=0x0012, ipoib, mtu=5 : ALL=full ;\n"
                              "mute=0x0013 : ALL=full ;\n", encoding="utf-8")
        return super().start_opensm(number, priority, "-P", partitions)

    def test_a_link_of_its_own(self):
        self.bring_up()
        pkeys = [self.port(0, f"pkeys/{index}") for index in range(3)]
        self.assertEqual(sorted(pkeys), ["0x8012", "0x8013", "0xffff"])
        lab = pkeys.index("0x8012")
        a, b = (Member(self, f"urnic{number}", number + 1, "--pkey-index", lab) for number in range(2))
        self.assertIn("MTU 4092, broadcast group ff12:401b:8012::ffff:ffff", a.line)
        self.assert_reaches(a, "-M", "do", "-s", "4064", b.ip)
        other = Member(self, "urnic2", 3)
        self.assertNotEqual(self.ping(other, "-c", "1", "-W", "1", a.ip).returncode, 0)
        self.assertIn("refuses the broadcast group ff12:401b:8013::ffff:ffff", self.refused("--pkey-index", pkeys.index("0x8013")))


if __name__ == "__main__":
    netns.private()
    harness.main()
