"""What urnic conform says of priorities: VLAN tags, and pauses, of RNICs that are set up for them."""

import re

import conform_test
import harness
import netns

VLAN = 7
DEVICE, TESTER = "10.70.0.1", "10.70.0.2"


class Judged(conform_test.Hosts):
    def judged(self, *words, **where):
        """The cases by their names. One that was played again, after a pause of this machine, is inconclusive, and resumed."""
        for _ in range(5):
            document = self.results(*words, "--resume", **where)
            if document["counts"]["inconclusive"] == 0:
                break
        return {case["name"]: case for case in document["cases"]}

    def measured(self, case):
        self.assertEqual(case["verdict"], "informational", case)
        return {each["what"]: each["value"] for each in case["measurements"]}


class Vlan(Judged):
    """The kernel of the tester's host has no interface of that VLAN, and need not have one, where the device knows the tester's MAC."""
    @property
    def extra(self):
        return f"""
[[rnic.vlan]]
id = {VLAN}
ipv4 = "{DEVICE}/24"
[[neighbour]]
ip = "{TESTER}"
mac = "02:00:00:00:77:02"
"""

    def setUp(self):
        super().setUp()
        netns.ip("-n", self.b.name, "addr", "add", f"{TESTER}/24", "dev", self.b.interface)
        self.start_agent()

    def test_tags_and_their_priorities(self):
        on_vlan = ("--agent", self.a.ip, "--vlan", VLAN)
        cases = self.judged("LiveHeaders", "ResponderExecution", *on_vlan, "--evidence", self.dir / "captures", peer=DEVICE)
        self.assertEqual(self.measured(cases["LiveHeaders.VlanPriority"]), {"priorities (PCP) of SL 0 to 7": "0, 1, 2, 3, 4, 5, 6, 7"})
        self.assertEqual(cases["LiveHeaders.PriorityTag"]["verdict"], "not applicable")
        self.assertEqual(self.dscps(cases), {"26"})
        # The frames of the evidence have their tags.
        decoded = harness.run([harness.URNIC, "decode", "-v", self.dir / "captures/LiveHeaders.VlanPriority.pcapng"])
        self.assert_ok(decoded, "decode")
        self.assertEqual(set(re.findall(r"vlan_id: (\d+)", decoded.out)), {str(VLAN)}, decoded.out[:2000])
        # On another VLAN there is no such host, and a host that has the VLAN has it there alone.
        for words, peer in ((["--vlan", VLAN + 1], DEVICE), ([], DEVICE), (["--vlan", VLAN], self.a.ip)):
            result = self.conform("LiveHeaders", "--agent", self.a.ip, *words, peer=peer)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn("nobody answers ARP", result.err)
        result = self.conform("LiveHeaders", "--vlan", VLAN, peer="192.0.2.1")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn(f"type vlan id {VLAN}", result.err)

    def dscps(self, cases):
        return set(self.measured(cases["LiveHeaders.TrafficClassOfAnswers"]).values())

    def test_without_a_tag(self):
        cases = self.judged("LiveHeaders")
        self.assertEqual(cases["LiveHeaders.VlanPriority"]["verdict"], "not applicable")
        self.assertIn("--vlan", cases["LiveHeaders.VlanPriority"]["reason"])
        self.assertEqual(self.dscps(cases), {"26"})
        self.assertEqual(cases["LiveHeaders.TrafficClassOfDatagrams"]["verdict"], "passed")
        self.assertEqual(self.measured(cases["LiveHeaders.PriorityTag"]), {
            "a WRITE with a tag of VLAN 0, priority 5": "acknowledged", "priority (PCP) of the ACK's tag": "none"})


class Pauses(Judged):
    """Pauses last 34 seconds, unless they are taken back."""
    extra = "[rnic.pfc]\nrx_priorities = [3, 5]\nlink_mbps = 1\nwatchdog_ms = 0\n"
    stopping = "3"

    def test_priorities_stop_and_go_on(self):
        self.start_agent()
        seen = []

        def is_told():
            (self.dir / "result.json").unlink(missing_ok=True)
            cases = self.judged("LivePause.Priorities", "LivePause.TimesWithoutABit")
            seen[:] = cases, self.measured(cases["LivePause.Priorities"])["a QP with DSCP 24 stops for pauses of priority"]
            return not seen[1].startswith("cannot be told")  # as on a machine that is busy

        self.assertTrue(harness.wait_until(is_told), seen)
        cases, stopping = seen
        self.assertEqual(stopping, self.stopping)
        self.assertEqual(cases["LivePause.TimesWithoutABit"]["verdict"], "passed")


class NoPauses(Pauses):
    """As RNICs of ours are without [rnic.pfc]."""
    extra, stopping = "", "none"


class PausesThatEnd(Judged):
    extra = "[rnic.pfc]\nrx_priorities = [3]\nlink_mbps = 1000\nwatchdog_ms = 0\n"

    def test_they_run_out(self):
        self.start_agent()
        times = self.measured(self.judged("LivePause.RunsOut")["LivePause.RunsOut"])
        # 512 bit times each; what the machine adds comes on top.
        for quanta in (32767, 65535):
            value, unit = times[f"of {quanta} quanta"].split()
            self.assertEqual(unit, "ms", times)
            self.assertGreaterEqual(float(value), quanta * 512 / 1e6 - 0.1, times)


if __name__ == "__main__":
    netns.private()
    harness.main()
