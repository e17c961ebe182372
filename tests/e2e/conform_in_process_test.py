"""scripts/conform_in_process.py: what the simulator plays of urnic conform's cases, as a device of its table."""

import json
import pathlib
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import harness

sys.path.insert(0, str(harness.SOURCE / "scripts"))
import conform_in_process

PROGRAM = harness.BUILD / "tests/sim/scripts/rc_scripts"
LISTING = "ResponderAck\tLate\t9.7.5.1.2\tit comes in time\nResponderAck\tOther\t9.7\tit is there\n"


class InProcess(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-conform-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def test_it_is_a_device_of_the_table(self):
        files, junit = [], harness.BUILD / "junit"
        junit.mkdir(exist_ok=True)
        for words, early in (([], "discarded"), (["--selective"], "kept")):
            files.append(self.dir / f"{early}.json")
            result = harness.run([sys.executable, harness.SOURCE / "scripts/conform_in_process.py", *words, "--label", f"ours, {early}",
                                  "--junit", junit / f"conform-in-process-{early}.xml", PROGRAM, files[-1]])
            self.assertEqual(result.returncode, 0, result)
            document = json.loads(files[-1].read_text(encoding="utf-8"))
            self.assertEqual({case["verdict"] for case in document["cases"]}, {"passed"})
            cases = ElementTree.parse(junit / f"conform-in-process-{early}.xml").getroot().findall("testcase")
            self.assertEqual([f"{case.get('classname')}.{case.get('name')}" for case in cases], [case["name"] for case in document["cases"]])
            # docs/conform.md says how many.
            self.assertIn(f"{len(document['cases'])} cases are scripts that the simulator plays",
                          (harness.SOURCE / "docs/conform.md").read_text(encoding="utf-8"))
        table = self.dir / "table.md"
        words = [harness.URNIC, "conform", "matrix", *files, "--markdown", table, "--markdown-evidence", self.dir / "seen.md"]
        self.assert_ok(harness.run(words), "matrix")
        text = table.read_text(encoding="utf-8")
        for early in ("discarded", "kept"):
            self.assertRegex(text, rf"\| ours, {early} \| {len(document['cases'])} \| 0 \|")
        self.assertTrue(re.search(r"\| `ResponderAck.NothingUnlessAsked` \| .* \| passed \| passed \|", text), text[:2000])

    def test_a_case_that_fails(self):
        tests = [{"name": "Late", "time": "0.012s", "failures": [{"failure": "expected ACK\n", "type": ""}]},
                 {"name": "Other", "time": "0s"}]
        document = {"testsuites": [{"name": "ResponderAck_", "testsuite": tests},
                                   {"name": "ResponderAck", "testsuite": [{"name": "InsideOut", "time": "0s"}]}]}
        result = conform_in_process.record(document, LISTING, "ours", False)
        cases = result["cases"]
        self.assertEqual([(case["name"], case["verdict"], case["reason"], case["milliseconds"]) for case in cases],
                         [("ResponderAck.Late", "failed", "expected ACK", 12), ("ResponderAck.Other", "passed", "", 0)])
        self.assertEqual(cases[0]["requirement"], "it comes in time")
        suite = conform_in_process.junit(result).getroot()
        self.assertEqual(suite.get("failures"), "1")
        self.assertEqual([case.findtext("failure") for case in suite], ["expected ACK", None])

    def test_a_program_that_does_not_come_to_its_end(self):
        program = self.dir / "program"
        program.write_text("#!/bin/sh\n[ \"$1\" = --list ] || kill -9 $$\n", encoding="ascii")
        program.chmod(0o755)
        result = harness.run([sys.executable, harness.SOURCE / "scripts/conform_in_process.py", program, self.dir / "result.json"])
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("ended with status -9", result.err)
        self.assertFalse((self.dir / "result.json").exists())


if __name__ == "__main__":
    harness.main()
