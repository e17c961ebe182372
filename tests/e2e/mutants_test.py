"""The tester tested: a daemon with deliberate defects, one switched on at a time, each found by its case over a veth pair."""

import json
import pathlib
import sys

import conform_cm_test
import conform_test
import harness
import netns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mutants"))
import mutants


# What a peer without an agent finds of them.
CM_CASES = {"P_Keys are not compared": "WrongPkey", "packets of other addresses are taken": "FromAnotherAddress",
            "the ICRC is not looked at": "EachBitThatTheIcrcCovers", "the header version is not looked at": "WrongTver",
            "First, Middle, Last and Only in any order": "MiddleAlone", "invalid requests get the NAK of access errors": "ReservedOpcode",
            "duplicate SENDs are not acknowledged": "DuplicateWrite", "duplicate READs are not answered": "DuplicateRead",
            "each packet behind a gap gets a NAK": "Gap"}


# What a client finds of them that connects.
ACTIVE_CASES = {"the ICRC is not looked at": "ActiveReply.Spoilt", "the ACK timer is too short": "ActiveTransport.ComesAgain",
                "the wait behind an RNR NAK is left out": "ActiveTransport.WaitsBehindAnRnrNak"}


def has_active_case(mutant):
    """It is found by a client of librdmacm, which needs no agent."""
    return mutant.case.startswith("Active")


class Defects(conform_cm_test.Hosts):
    # A pause of 65535 quanta lasts 1.7 s.
    extra = "[rnic.pfc]\nrx_priorities = [0, 1, 2, 3, 4, 5, 6, 7]\nlink_mbps = 20\nwatchdog_ms = 0\n[rnic.congestion]\ncnp = true"

    def before_start(self):
        self.switch = self.dir / "mutant"
        self.switch_on(0)
        self.a.binary = harness.BUILD / "tests/mutants/urnicd_mutants"
        self.a.environment = {"URNIC_MUTANT": str(self.switch)}

    def switch_on(self, number):
        with self.switch.open("r+b" if self.switch.exists() else "wb") as file:
            file.write(number.to_bytes(4, sys.byteorder))

    def conform(self, *words, **more):
        """Until the tester can judge: rping ends where a connection was spoilt, and is started again."""
        results = []

        def is_judged():
            results.append(super(Defects, self).conform(*words, **more))
            return results[-1].returncode != 2

        self.assertTrue(harness.wait_until(is_judged), results[-1:])
        return results[-1]

    def verdicts(self, *cases):
        file = self.dir / "result.json"
        result = self.conform("--json", file, *cases)
        self.assertIn(result.returncode, (0, 1), result)
        return {case["name"]: case for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}

    def unseen(self, cases, *words):
        """What is not found, of the cases of mutants by their numbers."""
        unseen = []
        for number, name in cases.items():
            self.switch_on(number)
            for _ in range(10):  # a busy machine may leave it open, or hold up the packet that gives the defect away
                case = self.verdicts("--attempts", "1", *words, name)[name]
                if case["verdict"] == "failed":
                    break
            if case["verdict"] != "failed":
                unseen.append(f"{mutants.MUTANTS[number - 1].name}: {name} is {case['verdict']}: {case['reason'][:400]}")
        self.switch_on(0)
        return unseen


class Mutants(Defects):
    def test_the_document_lists_them(self):
        text = (harness.SOURCE / "docs/conformance/mutation.md").read_text(encoding="utf-8")
        for mutant in mutants.MUTANTS:
            self.assertIn(f"| {mutant.name} | `{mutant.file}` | `{mutant.case}` |\n", text)
        self.assertIn(f"{len(mutants.MUTANTS)} pieces of text", text)

    def test_each_defect_is_found_by_its_case(self):
        self.start_agent()
        self.assertGreaterEqual(len(mutants.MUTANTS), 40)
        # Without a defect none of them fails; on a busy machine one may have to be played again.
        played = {number: mutant.case for number, mutant in enumerate(mutants.MUTANTS, 1) if not has_active_case(mutant)}
        for name, case in self.verdicts("--attempts", "6", *played.values()).items():
            self.assertIn(case["verdict"], ("passed", "informational", "inconclusive"), f"{name}: {case['reason']}")
        unseen = self.unseen(played)
        self.assertEqual(unseen, [], "\n".join(unseen))
        self.nothing_is_left()


class Listeners(Defects):
    def test_each_defect_is_found_without_an_agent(self):
        self.start_listener()
        names = {mutant.name: number for number, mutant in enumerate(mutants.MUTANTS, 1)}
        cases = {names[name]: f"CmTransport.{case}" for name, case in CM_CASES.items()}
        for name, case in self.verdicts("--attempts", "6", "--cm", *cases.values()).items():
            self.assertIn(case["verdict"], ("passed", "informational", "inconclusive"), f"{name}: {case['reason']}")
        unseen = self.unseen(cases, "--cm")
        self.assertEqual(unseen, [], "\n".join(unseen))


class Clients(Defects):
    def test_each_defect_is_found_by_a_client_that_connects(self):
        self.start_client()
        cases = {number: ACTIVE_CASES.get(mutant.name, mutant.case) for number, mutant in enumerate(mutants.MUTANTS, 1)
                 if has_active_case(mutant) or mutant.name in ACTIVE_CASES}
        for name, case in self.verdicts("--attempts", "6", "--cm-listen", *cases.values()).items():
            self.assertIn(case["verdict"], ("passed", "informational", "inconclusive"), f"{name}: {case['reason']}")
        unseen = self.unseen(cases, "--cm-listen")
        self.assertEqual(unseen, [], "\n".join(unseen))


if __name__ == "__main__":
    netns.private()
    harness.main()
