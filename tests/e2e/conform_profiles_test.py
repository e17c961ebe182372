"""RNICs with the ways of other RNICs (docs/conform.md, "Peers like other RNICs"), as urnic conform measures them over a veth pair."""

import conform_test
import harness
import netns

CASES = ("LiveHeaders.IpHeader", "LiveRecovery.ResponderHoldsOrDiscards", "LiveCongestion.CnpOfAMark",
         "LiveCongestion.CnpOfAGap", "ResponderHeader.MigReq")


class Own(conform_test.Hosts):
    """An RNIC without a profile; `ways`: MigReq, packets kept of three behind a gap, CNP of a mark, CNPs beside a NAK."""
    profile, ways, mig_req = "", ("1", "3 kept", False, "0"), "passed"

    @property
    def extra(self):
        return f'profile = "{self.profile}"\n' if self.profile else ""

    def judged(self):
        """(verdicts, ways) of one run."""
        document = self.results(*CASES, status=None)
        verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
        self.assertEqual(set(verdicts), set(CASES))
        for name, verdict in verdicts.items():
            right = {self.mig_req} if name == "ResponderHeader.MigReq" else {"informational", "passed"}
            self.assertIn(verdict, right | {"inconclusive"}, document)
        measured = {each["what"]: each["value"] for case in document["cases"] for each in case["measurements"]}
        return verdicts, tuple(measured.get(what) for what in ("MigReq", "of 3 packets behind the gap", "CNP", "CNPs beside a NAK"))

    def test_its_ways(self):
        self.start_agent()
        for _ in range(5):  # a case that was played again, after a pause of this machine, is inconclusive and measures nothing
            verdicts, (mig_req, kept, cnp, beside_a_nak) = self.judged()
            if "inconclusive" not in verdicts.values():
                break
        self.assertEqual((mig_req, kept, cnp != "none", beside_a_nak), self.ways)
        self.assertEqual(self.a.status().get("profile", ""), self.profile)


class Strict(Own):
    profile, ways = "strict", ("1", "0 kept", False, "0")


class ConnectX(Own):
    profile, ways = "connectx", ("1", "0 kept", True, "1")


class E810(Own):
    profile, ways, mig_req = "e810", ("0", "0 kept", True, "0"), "not-strict"


class Rxe(Own):
    profile, ways, mig_req = "rxe", ("0", "0 kept", False, "0"), "not-strict"


if __name__ == "__main__":
    netns.private()
    harness.main()
