"""Two nodes of one GUID, and opensm: what it says, and that all others go on, and all are served once one of the two is gone."""

import re

import harness
import subnet_test


class Duplicate(subnet_test.Leaves):
    """urnic3, behind leaf s2, says that it is urnic1, which is behind s1."""

    def keys_of(self, number):
        return 'duplicate_guid_of = "urnic1"\n' if number == 3 else ""

    def text(self, log):
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def set_link(self, state):
        self.assert_ok(self.urnic("port", "urnic3", state, "--socket", self.socket))

    def wait_for(self, process, log, words):
        self.assertTrue(harness.wait_until(lambda: words in self.text(log) or process.poll() is not None), self.text(log)[-4000:])

    def test_opensm_ends(self):
        process, log = self.start_opensm()
        self.wait_for(process, log, "Found duplicated node GUID")
        result = harness.finish(process)
        self.assertNotEqual(result.returncode, 0, str(result))
        self.assertRegex(self.text(log), r"ERR 0D01: Found duplicated node GUID.\s+Node 0xc6fffe120002 port 1 is reachable from ")
        self.assertNotIn("SUBNET UP", self.text(log))

    def test_others_go_on(self):
        """opensm that stays does not come to the end of a sweep that finds both; what works by then goes on."""
        self.set_link("down")
        process, log = self.start_opensm(0, 5, "-y")
        self.wait_for(process, log, "SUBNET UP")
        active = ["4: ACTIVE"] * 3
        self.assertEqual(self.states()[:3], active)
        self.set_link("up")
        self.wait_for(process, log, "Found duplicated node GUID")
        self.assertIsNone(process.poll(), self.text(log)[-4000:])
        for far in ("urnic1", "urnic2"):
            port = harness.free_port()
            common = ["-n", 100, "-p", port]
            self.run_pair(self.here("ibv_rc_pingpong", *common, "-d", far),
                          self.here("ibv_rc_pingpong", *common, "-d", "urnic0", "127.0.0.1"), port)
        self.assertEqual(self.states(), [*active, "2: INIT"])

    def test_all_are_served_once_one_of_them_is_gone(self):
        process, log = self.start_opensm(0, 5, "-y")
        self.wait_for(process, log, "Found duplicated node GUID")
        self.set_link("down")
        self.wait_for(process, log, "SUBNET UP")
        self.assertEqual(self.states(), ["4: ACTIVE"] * 3 + ["1: DOWN"])


class MacsOfSwitches(subnet_test.Subnet):
    """RNICs whose MACs differ in the bits by which GUIDs of switches and idle hosts differ from the first RNIC's."""

    subnet_manager = "builtin"

    def keys_of(self, number):
        return f'mac = "{2 + 4 * number:02x}:00:c6:12:00:01"\n'

    def test_each_node_has_a_guid_of_its_own(self):
        net = self.ask("ibnetdiscover", "-C", "urnic0")
        guids = re.findall(r"(?m)^(?:switch|ca)guid=(0x[0-9a-f]+)", net)
        self.assertEqual(len(guids), self.rnics + 1, net)
        self.assertEqual(len(set(guids)), len(guids), net)


if __name__ == "__main__":
    harness.main()
