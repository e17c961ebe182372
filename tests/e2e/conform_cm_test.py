"""urnic conform --cm and --cm-listen over a veth pair: a librdmacm listener or client beside an RNIC, and no agent."""

import json
import xml.etree.ElementTree as ElementTree

import conform_test
import harness
import netns

LISTENER_PORT = 7174
GOOD = ("passed", "informational", "inconclusive")


class Hosts(conform_test.Hosts):
    def listens(self):
        clients = json.loads(self.a.status_text())["clients"]
        return any(client.get("cm_listeners", 0) > 0 for client in clients)

    def start_listener(self, port=LISTENER_PORT):
        # rping ends when a connection that it has accepted is rejected, or never is established.
        command = f"while :; do rping -s -P -a {self.a.ip} -p {port}; sleep 0.05; done"
        listener = harness.start(self.a.program("sh", "-c", command))
        self.addCleanup(harness.end_group, listener)
        self.assertTrue(harness.wait_until(lambda: self.listens() or listener.poll() is not None), "rping does not listen")
        self.assertIsNone(listener.poll())
        return listener

    def start_client(self, port=LISTENER_PORT):
        # rping ends when its connection does, whatever became of it.
        client = harness.start(self.a.program("sh", "-c", f"while :; do rping -c -C 1 -a {self.b.ip} -p {port}; sleep 0.05; done"))
        self.addCleanup(harness.end_group, client)
        return client


class Listener(Hosts):
    def test_an_rnic_of_ours_fails_no_case(self):
        self.start_listener()
        # The summary of a whole run names it.
        xml, captures, page = harness.BUILD / "junit/conform-cm.xml", self.dir / "captures", self.dir / "result.html"
        xml.parent.mkdir(exist_ok=True)
        document = self.results("--cm", "--junit", xml, "--evidence", captures, "--html", page, status=None)
        bad = [f"{case['name']}: {case['verdict']}: {case['reason']}" for case in document["cases"] if case["verdict"] not in GOOD]
        self.assertEqual(bad, [], "\n".join(bad))
        listed = [line.split("\t") for line in harness.run([conform_test.TESTER, "--list", "--cm"]).out.splitlines()]
        self.assertEqual([case["name"] for case in document["cases"]], [line[0] for line in listed])
        self.assertEqual({line[2] for line in listed}, {"live"})
        self.assertGreater(document["counts"]["passed"], 25, document["counts"])
        self.assertEqual(len(ElementTree.parse(xml).getroot().findall("testcase")), len(listed))
        decoded = harness.run([harness.URNIC, "decode", captures / "CmReject.UnknownService.pcapng"])
        self.assert_ok(decoded, "decode")
        self.assertIn("REJ", decoded.out)
        self.assertIn('id="CmReject.UnknownService"', page.read_text(encoding="utf-8"))
        # docs/conform.md says how many.
        self.assertIn(f"{len(listed)} cases need no agent", (harness.SOURCE / "docs/conform.md").read_text(encoding="utf-8"))
        # What the tester opened is released again.
        self.assertTrue(harness.wait_until(lambda: not self.a.qps()), self.a.qps())

    def test_where_nothing_listens(self):
        """Another port than the listener's, no listener at all, no connection manager at all."""
        self.start_listener()
        result = self.conform("--cm", "--cm-port", "7175", timeout=60)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("nothing listens at port 7175 (REJ reason 8)", result.err)
        result = self.conform("--cm", "--agent", self.a.ip, timeout=60)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("--agent excludes --cm", result.err + result.out)
        self.assertIn("no case has such a name", self.conform("--cm", "ResponderGap").err)
        self.a.end(self.a.daemon)
        result = self.conform("--cm", timeout=60)
        self.assertEqual(result.returncode, 2, result)

    def test_a_listener_that_ends(self):
        """In the middle of a run: the run ends and says why; with the next listener it goes on."""
        listener, file = self.start_listener(), self.dir / "result.json"
        tester = harness.start(self.command("--cm", "--json", file))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(file.exists), "nothing was judged")
        harness.end_group(listener)
        result = harness.finish(tester, 120)
        self.assertEqual(result.returncode, 2, result)
        self.assertRegex(result.err, r"ended after \d+ of \d+ cases: the listener has taken no connection for 10 s")
        self.start_listener()
        document = self.results("--cm", "CmTransport.Gap", "CmTransport.DuplicateWrite", "--resume")
        named = {case["name"]: case["verdict"] for case in document["cases"]}
        self.assertIn(named["CmTransport.Gap"], GOOD)
        self.assertIn(named["CmTransport.DuplicateWrite"], GOOD)


class Client(Hosts):
    def test_an_rnic_of_ours_fails_no_case(self):
        self.start_client()
        xml, captures, page = harness.BUILD / "junit/conform-cm-listen.xml", self.dir / "captures", self.dir / "result.html"
        xml.parent.mkdir(exist_ok=True)
        document = self.results("--cm-listen", "--junit", xml, "--evidence", captures, "--html", page, status=None)
        bad = [f"{case['name']}: {case['verdict']}: {case['reason']}" for case in document["cases"] if case["verdict"] not in GOOD]
        self.assertEqual(bad, [], "\n".join(bad))
        listed = [line.split("\t") for line in harness.run([conform_test.TESTER, "--list", "--cm-listen"]).out.splitlines()]
        self.assertEqual([case["name"] for case in document["cases"]], [line[0] for line in listed])
        self.assertEqual({line[2] for line in listed}, {"live"})
        self.assertGreater(document["counts"]["passed"], 10, document["counts"])
        decoded = harness.run([harness.URNIC, "decode", captures / "ActiveReply.RtuNamesBothIds.pcapng"])
        self.assert_ok(decoded, "decode")
        for message in ("REQ", "REP", "RTU"):
            self.assertIn(message, decoded.out)
        self.assertIn('id="ActiveReply.RtuNamesBothIds"', page.read_text(encoding="utf-8"))
        # docs/conform.md says how many.
        self.assertIn(f"{len(listed)} cases judge a client", (harness.SOURCE / "docs/conform.md").read_text(encoding="utf-8"))

    def test_where_nobody_connects(self):
        """No client at all, one that connects to another port, and options that do not go together."""
        self.start_client(port=7175)
        result = self.conform("--cm-listen", "ActiveReply")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("no client has asked for a connection for 30 s; on the device's host, start a client that connects to port 7174",
                      result.err)
        self.assertIn("no case has such a name", self.conform("--cm-listen", "CmReject").err)
        result = self.conform("--cm-listen", "--cm", timeout=60)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("excludes", result.err + result.out)

    def test_a_client_that_ends(self):
        """In the middle of a run: the run ends and says why."""
        client, file = self.start_client(), self.dir / "result.json"
        tester = harness.start(self.command("--cm-listen", "--json", file))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(file.exists), "nothing was judged")
        harness.end_group(client)
        result = harness.finish(tester, 250)
        self.assertEqual(result.returncode, 2, result)
        self.assertRegex(result.err, r"ended after \d+ of \d+ cases: no client has asked for a connection for 30 s")


if __name__ == "__main__":
    netns.private()
    harness.main()
