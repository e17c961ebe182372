"""RNICs with the ways of other RNICs (docs/conform.md, "Peers like other RNICs"), as urnic conform measures them over a veth pair."""

import conform_test
import harness
import netns

CASES = ("LiveHeaders.IpHeader", "LiveRecovery.ResponderHoldsOrDiscards", "LiveCongestion.CnpOfAMark",
         "LiveCongestion.CnpOfAGap", "ResponderHeader.MigReq")


class Profiles(conform_test.Hosts):
    def measured(self):
        """{what: value} of the cases, whose verdicts are no failures, but for MigReq."""
        self.start_agent()
        document = self.results(*CASES, status=None)
        verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
        self.assertEqual(set(verdicts), set(CASES))
        self.mig_req = verdicts.pop("ResponderHeader.MigReq")
        self.assertLessEqual(set(verdicts.values()), {"informational", "passed", "inconclusive"}, document)
        return {each["what"]: each["value"] for case in document["cases"] for each in case["measurements"]}

    def ways(self):
        measured = self.measured()
        return {"MigReq": measured["MigReq"], "kept": measured["of 3 packets behind the gap"], "CNP": measured["CNP"] != "none",
                "beside a NAK": measured["CNPs beside a NAK"]}


class Own(Profiles):
    def test_its_own_ways(self):
        self.assertEqual(self.ways(), {"MigReq": "1", "kept": "3 kept", "CNP": False, "beside a NAK": "0"})
        self.assertEqual(self.mig_req, "passed")
        self.assertNotIn("profile", self.a.status())


class Strict(Profiles):
    extra = 'profile = "strict"\n'

    def test_its_ways(self):
        self.assertEqual(self.ways(), {"MigReq": "1", "kept": "0 kept", "CNP": False, "beside a NAK": "0"})
        self.assertEqual(self.mig_req, "passed")


class ConnectX(Profiles):
    extra = 'profile = "connectx"\n'

    def test_its_ways(self):
        self.assertEqual(self.ways(), {"MigReq": "1", "kept": "0 kept", "CNP": True, "beside a NAK": "1"})
        self.assertEqual(self.a.status()["profile"], "connectx")


class E810(Profiles):
    extra = 'profile = "e810"\n'

    def test_its_ways(self):
        self.assertEqual(self.ways(), {"MigReq": "0", "kept": "0 kept", "CNP": True, "beside a NAK": "0"})
        self.assertEqual(self.mig_req, "not-strict")


class Rxe(Profiles):
    extra = 'profile = "rxe"\n'

    def test_its_ways(self):
        self.assertEqual(self.ways(), {"MigReq": "0", "kept": "0 kept", "CNP": False, "beside a NAK": "0"})
        self.assertEqual(self.mig_req, "not-strict")


if __name__ == "__main__":
    netns.private()
    harness.main()
