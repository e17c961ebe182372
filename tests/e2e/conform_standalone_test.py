"""urnic conform --port standalone: an RNIC of its own to judge, over a veth pair in a network namespace, as root and as a user."""

import json
import os
import pathlib
import shutil
import sys
import tempfile

import harness

sys.path.insert(0, str(harness.SOURCE / "scripts"))
import conform_repeat

NOBODY = 65534
ROOT = os.geteuid() == 0
AS_USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if ROOT else []
CASES = ["RequesterAcks.Coalesced", "ResponderExecution", "LiveHeaders.IpHeader"]


class Standalone(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-conform-"))
        self.dir.chmod(0o777)
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        # The run directory is made here.
        self.environment = {**harness.clean_environment(), "XDG_RUNTIME_DIR": str(self.dir), "TMPDIR": str(self.dir)}
        self.file = self.dir / "result.json"

    def command(self, *words, port="standalone", identity=()):
        return [str(word) for word in (*identity, harness.URNIC, "conform", "--port", port, *words)]

    def results(self, *words, **how):
        self.file.unlink(missing_ok=True)
        result = harness.run(self.command("--json", self.file, *words, **how), env=self.environment)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["result.json"], "something is left")
        return json.loads(self.file.read_text(encoding="utf-8"))

    def test_one_line_judges_it(self):
        for identity in ((), AS_USER) if ROOT else ((),):
            with self.subTest(identity=identity):
                document = self.results(*CASES, identity=identity)
                self.assertEqual(document["counts"]["failed"], 0, document)
                names = {case["name"] for case in document["cases"]}
                self.assertLessEqual({"RequesterAcks.Coalesced", "LiveHeaders.IpHeader"}, names)
                self.assertGreater(len(names), len(CASES))

    def test_an_rnic_with_a_profile(self):
        document = self.results("LiveHeaders.IpHeader", "--profile", "e810", port="standalone:e810")
        self.assertEqual((document["profile"]["agrees"], document["profile"]["differs"]), (["mig_req"], []), document)

    def test_a_listener_or_a_client_beside_it(self):
        for words, case in ((["--cm"], "CmReject.UnknownService"), (["--cm", "--cm-port", "7999"], "CmTransport.Gap"),
                            (["--cm-listen"], "ActiveReply.RtuNamesBothIds")):
            with self.subTest(words=words):
                document = self.results(*words, case)
                self.assertEqual([each["name"] for each in document["cases"]], [case])
                self.assertIn(document["cases"][0]["verdict"], ("passed", "informational", "inconclusive"), document)

    def test_what_is_refused(self):
        # The status of every run of the tester that does not come to its end.
        for words, port, text in (([], "standalone:mlx5", "'profile' in [[rnic]] must be one of \"strict\""),
                                  (["--cm", "--cm-port", "0x7"], "standalone", "'0x7' of --cm-port is no port"),
                                  (["--cm", "--cm-listen"], "standalone", "excludes"),
                                  (["--agent=192.0.2.1"], "standalone", "--agent does not go with --port standalone")):
            result = harness.run(self.command(*words, port=port), env=self.environment)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(text, result.err + result.out)
        result = harness.run(self.command("--cm"), env={**self.environment, "PATH": str(self.dir)})
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("rping is not on PATH", result.err)
        script = "echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all -- \"$@\""
        result = harness.run(["unshare", "--map-root-user", "--user", "sh", "-c", script, "sh", *self.command(*CASES)], env=self.environment)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("allow user namespaces", result.err)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_who_is_killed_leaves_no_process(self):
        process = harness.start(self.command("RequesterTimeouts", "--json", self.file), env=self.environment)
        self.addCleanup(harness.end_group, process)
        mine = lambda: [pid for pid in pathlib.Path("/proc").glob("[0-9]*") if str(self.dir) in self.environment_of(pid)]
        # The daemon, the agent with its session, and the tester are at work.
        self.assertTrue(harness.wait_until(lambda: self.file.exists() and len(mine()) >= 4), mine())
        process.kill()
        process.wait()
        self.assertTrue(harness.wait_until(lambda: not mine()), mine())

    @staticmethod
    def environment_of(pid):
        try:
            return (pid / "environ").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""  # it has ended

    def test_again_and_again_beside_busy_loops(self):
        """What scripts/conform --repeat does, with a few cases; and what it says when verdicts differ."""
        command = [sys.executable, harness.SOURCE / "scripts/conform_repeat.py",
                   "--runs", "2", "--busy", "1", "--json", self.dir / "runs", harness.URNIC, *CASES]
        result = harness.run(command, env=self.environment)
        self.assertEqual(result.returncode, 0, result)
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((self.dir / "runs").iterdir())]
        names = {case["name"] for case in runs[0]["cases"]}
        self.assertEqual(len(runs), 2)
        self.assertIn(f"2 runs of {len(names)} cases: {2 * len(names)} verdicts, 0 of them failed", result.out)
        # The same with a verdict that is another, and one that is missing.
        runs[1]["cases"][0].update(verdict="failed", reason="it did")
        missing = runs[1]["cases"].pop()
        lines, failed = conform_repeat.summary(runs)
        self.assertEqual(failed, 1)
        self.assertIn("1 of them failed; 2 cases were not judged alike", lines[0])
        self.assertIn(f"  {runs[1]['cases'][0]['name']} failed: it did", lines)
        self.assertTrue(any(line.startswith(f"  {missing['name']}: ") for line in lines), lines)
        # A run that does not come to its end is none.
        result = harness.run([*command[:-len(CASES)], "NoSuchCase"], env=self.environment)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("no case has such a name", result.err)

    def test_help_and_list_need_no_rnic(self):
        for word in ("--help", "--list"):
            self.assertIn("standalone" if word == "--help" else "ResponderExecution",
                          harness.run(self.command(word), env=self.environment).out)


if __name__ == "__main__":
    harness.main()
