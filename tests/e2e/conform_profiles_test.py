"""RNICs with the ways of other RNICs (docs/conform.md, "Peers like other RNICs"), as urnic conform measures them over a veth pair,
and compares them with a profile."""

import json
import xml.etree.ElementTree as ElementTree

import conform_test
import harness
import netns

CASES = ("LiveHeaders.IpHeader", "LiveHeaders.UdpSourcePort", "LiveRecovery.FirstLost", "LiveRecovery.ResponderHoldsOrDiscards",
         "LiveCongestion.CnpOfAMark", "LiveCongestion.CnpOfAGap", "LiveCongestion.GapOfCnps", "LiveCongestion.ScopeOfTheGap",
         "LiveCongestion.ScopeOfAddresses", "ResponderHeader.MigReq")
# What these cases always show. The gap between CNPs and its scope are seen where the daemon takes marks fast enough.
SHOWN = {"mig_req", "early_packets", "repetition", "udp_source_port", "cnp", "nak_triggers_cnp"}


class Own(conform_test.Hosts):
    """An RNIC without a profile; `ways`: MigReq, packets kept of three behind a gap, CNP of a mark, CNPs beside a NAK."""
    profile, ways, mig_req = "", ("1", "3 kept", False, "0"), "passed"

    @property
    def extra(self):
        return f'profile = "{self.profile}"\n' if self.profile else ""

    def judged(self, profile, *words):
        """The results. A case that was played again, after a pause of this machine, is inconclusive, measures nothing, and is resumed."""
        words = [*words, "--resume", *(["--profile", profile] if profile else [])]
        for _ in range(5):
            document = self.results(*CASES, *words, status=None)
            verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
            self.assertEqual(set(verdicts), set(CASES))
            for name, verdict in verdicts.items():
                right = {self.mig_req} if name == "ResponderHeader.MigReq" else {"informational", "passed"}
                self.assertIn(verdict, right | {"inconclusive"}, document)
            if "inconclusive" not in verdicts.values():
                break
        return document

    def test_its_ways(self):
        self.start_agent()
        document = self.judged(self.profile)
        measured = {each["what"]: each["value"] for case in document["cases"] for each in case["measurements"]}
        mig_req, kept, cnp, beside_a_nak = (
            measured.get(what) for what in ("MigReq", "of 3 packets behind the gap", "CNP", "CNPs beside a NAK"))
        self.assertEqual((mig_req, kept, cnp != "none", beside_a_nak), self.ways)
        self.assertEqual(self.a.status().get("profile", ""), self.profile)
        if self.profile:
            self.assertEqual(document["profile"]["name"], self.profile)
            self.assertEqual(document["profile"]["differs"], [], document)
            self.assertLessEqual(SHOWN, set(document["profile"]["agrees"]), document)
        else:
            self.assertNotIn("profile", document)
            (self.dir / "result.json").unlink()
            self.assertEqual(set(self.judged("strict")["profile"]["differs"]), {"early_packets", "repetition"})


class Strict(Own):
    profile, ways = "strict", ("1", "0 kept", False, "0")


class ConnectX(Own):
    profile, ways = "connectx", ("1", "0 kept", True, "1")

    def test_beside_another_profile(self):
        self.start_agent()
        xml, page, table = self.dir / "result.xml", self.dir / "result.html", self.dir / "table.md"
        document = self.judged("rxe", "--junit", xml, "--html", page)
        self.assertEqual(set(document["profile"]["differs"]), {"mig_req", "cnp", "nak_triggers_cnp"}, document)
        self.assertEqual(set(document["profile"]["agrees"]), {"early_packets", "repetition", "udp_source_port"}, document)
        # What differs is named in every report, with where the profile has it from, and no verdict is another for it.
        text = "MigReq: 1 (differs from rxe: 0, by Linux, drivers/infiniband/sw/rxe)"
        line = "profile rxe: agrees in 3, differs in 3: mig_req, cnp, nak_triggers_cnp; not compared: ack_coalescing"
        suite = ElementTree.parse(xml).getroot()
        self.assertEqual(suite.find("properties/property[@name='profile']").get("value"), line)
        self.assertIn(text, suite.find("testcase[@name='IpHeader']/system-out").text)
        self.assertIn(text, page.read_text(encoding="utf-8"))
        self.assertIn(line, page.read_text(encoding="utf-8"))
        file = self.dir / "result.json"
        matrix = harness.run([harness.URNIC, "conform", "matrix", file, "--markdown", table, "--markdown-evidence", self.dir / "seen.md"])
        self.assert_ok(matrix, "matrix")
        self.assertIn(f"| {line} |", table.read_text(encoding="utf-8"))
        again = self.conform(*CASES, "--json", file, "--resume", "--profile", "e810")
        self.assertEqual(again.returncode, 2, again)
        self.assertIn("is of a run with --profile rxe", again.err)
        self.assertEqual(json.loads(file.read_text(encoding="utf-8"))["profile"], document["profile"])

    def test_a_profile_that_there_is_none_of(self):
        result = self.conform(*CASES, "--profile", "mlx5")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn('--profile mlx5 is not known; it is one of "strict", "connectx", "e810", "rxe"', result.err)


class E810(Own):
    profile, ways, mig_req = "e810", ("0", "0 kept", True, "0"), "not-strict"


class Rxe(Own):
    profile, ways, mig_req = "rxe", ("0", "0 kept", False, "0"), "not-strict"

    def test_each_request_has_an_ack_of_its_own(self):
        self.start_agent()
        case, file = "LiveTimers.AcksOfABurst", self.dir / "result.json"
        for _ in range(5):  # see Own.judged()
            result = self.conform(case, "--profile", "rxe", "--json", file, "--resume")
            self.assertEqual(result.returncode, 0, result)
            document = json.loads(file.read_text(encoding="utf-8"))
            if document["counts"]["inconclusive"] == 0:
                break
        self.assertEqual((document["profile"]["agrees"], document["profile"]["differs"]), (["ack_coalescing"], []), document)
        self.assertEqual([each["value"] for each in document["cases"][0]["measurements"]], ["64 ACKs"], document)


class ScopeOfThePort(conform_test.Hosts):
    """Whose the gap between CNPs is, with one so long that it shows on any machine: told by two QPs, and by peers of two addresses."""
    scope, of_qps, of_addresses = "port", "one CNP for both QPs", "one CNP for both addresses"
    # One way alone is compared: the others' cases are not played. connectx has one gap for the port, e810 one for each QP.
    alike = {"connectx": {"cnp_scope", "cnp_scope_of_addresses"}, "e810": set()}

    @property
    def extra(self):
        return f'[rnic.congestion]\ncnp = true\ncnp_scope = "{self.scope}"\nmin_time_between_cnps_us = 5000\n'

    def test_it_is_told(self):
        self.start_agent()
        cases = ("LiveCongestion.ScopeOfTheGap", "LiveCongestion.ScopeOfAddresses")
        for profile, alike in self.alike.items():
            file = self.dir / f"{profile}.json"
            for _ in range(5):  # see Own.judged()
                result = self.conform(*cases, "--profile", profile, "--json", file, "--resume")
                self.assertEqual(result.returncode, 0, result)
                document = json.loads(file.read_text(encoding="utf-8"))
                if document["counts"]["inconclusive"] == 0:
                    break
            measured = {each["what"]: each["value"] for case in document["cases"] for each in case["measurements"]}
            self.assertEqual(measured, {"marks of two QPs at once": self.of_qps, "marks of two addresses at once": self.of_addresses})
            self.assertEqual(set(document["profile"]["agrees"]), alike, document)
            self.assertEqual(set(document["profile"]["differs"]), {"cnp_scope", "cnp_scope_of_addresses"} - alike, document)


class ScopeOfAnAddress(ScopeOfThePort):
    """As those ConnectX models send them that have one gap for each address."""
    scope, of_addresses = "dst-ip", "a CNP for each address"
    alike = {"connectx": {"cnp_scope"}, "e810": {"cnp_scope_of_addresses"}}


class ScopeOfEachQp(ScopeOfAnAddress):
    scope, of_qps = "flow", "a CNP for each QP"
    alike = {"connectx": set(), "e810": {"cnp_scope", "cnp_scope_of_addresses"}}


if __name__ == "__main__":
    netns.private()
    harness.main()
