"""The short form of scripts/interop conform: Linux rxe of this machine's release, judged by a few cases of each kind.

Its JUnit is build/junit/conform-rxe.xml, which the summary of a whole run names.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import guest as guests
import harness

JUNIT = harness.BUILD / "junit/conform-rxe.xml"
# What docs/conformance/devices.md has of Debian 12's kernel, and of Debian 13's.
GOOD = ["RequesterPackets.SendOfEachLength", "RequesterPackets.ReadOfEachLength", "RequesterPackets.Atomics", "RequesterAcks.Coalesced",
        "RequesterAcks.Ghost", "RequesterLoss.MiddleOfSend", "RequesterLoss.ReadRequest", "ResponderExecution",
        "ResponderAck.AtOnceWhenAsked", "ResponderHeader.WrongIcrc", "ResponderHeader.WrongPkey", "ResponderGap.OneNakThenSilence",
        "LiveUc.ExecutesWithoutAnAnswer", "LiveUd.WrongQkey", "LiveHeaders.IpHeader", "LiveNeighbour"]
# Explained there by the kernel's source: a tester that finds these no more has become blind.
BAD = ["BadResponse.LengthOfOnly", "RequesterAcks.NakNeverSent", "RequesterCredits.OneAtATime"]
# rxe has no XRC.
ABSENT = ["XrcTarget.EachMessageGoesToTheSrqItNames", "XrcInitiator.SendNamesTheSrq"]
# On a busy machine a case may be left open.
OPEN = "inconclusive"
PATIENCE_S = 1800


class LinuxRxe(harness.TestCase):
    def test_the_short_form(self):
        JUNIT.parent.mkdir(parents=True, exist_ok=True)
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-conform-rxe-")))
        words = [sys.executable, HERE / "run_conform.py", "--label", "Linux rxe", "--json", directory / "result.json", "--junit", JUNIT,
                 *GOOD, *BAD, *ABSENT]
        result = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertIn(result.returncode, (0, 1), f"{result.stdout}\n{result.stderr}")
        verdicts = {case["name"]: case["verdict"]
                    for case in json.loads((directory / "result.json").read_text(encoding="utf-8"))["cases"]}
        for names, wanted in ((GOOD, ("passed", "informational", "not-strict")), (BAD, ("failed",)), (ABSENT, ("not applicable",))):
            for name in names:
                found = {case: verdict for case, verdict in verdicts.items() if name in (case, case.split(".")[0])}
                self.assertTrue(found, f"{name} was not played")
                self.assertLessEqual(set(found.values()), {*wanted, OPEN}, found)
        open_ = [name for name, verdict in verdicts.items() if verdict == OPEN]
        self.assertLess(len(open_), len(verdicts) / 2, open_)
        cases = ElementTree.parse(JUNIT).getroot().findall("testcase")
        self.assertEqual({f"{case.get('classname')}.{case.get('name')}" for case in cases}, set(verdicts))


if __name__ == "__main__":
    if not guests.installable():
        print(f"there is no {guests.QEMU} here")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
