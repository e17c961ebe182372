"""urnic conform over a veth pair: the tester with a packet socket on one host, the agent beside an RNIC on the other."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import socket
import tempfile
import xml.etree.ElementTree as ElementTree

import harness
import netns

TESTER = harness.BUILD / "conform/urnic-conform"
AGENT = harness.BUILD / "conform/urnic-conform-agent"
AGENT_PORT = 18590
SECOND_ADDRESS = "10.77.0.12"
# Python has setns() from 3.12 on.
LIBC, CLONE_NEWNET = ctypes.CDLL(None, use_errno=True), 0x40000000
# One case of each kind, where the point is not the case.
FEW = ["RequesterAcks.Coalesced", "ResponderExecution", "RequesterAcks.Ghost"]


class Hosts(harness.TestCase):
    extra, port = "", "af_packet"

    def setUp(self):
        self.a, self.b = netns.make_hosts(self, self.port, extra=self.extra)
        # Of the tester, for cases with two peers.
        netns.ip("-n", self.b.name, "addr", "add", f"{SECOND_ADDRESS}/24", "dev", self.b.interface)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-conform-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.before_start()
        self.a.start()
        self.a.expect_state("ACTIVE")

    def before_start(self):
        """For what a daemon has to have from its start."""

    def start_agent(self):
        agent = harness.start(self.a.program(AGENT))
        self.addCleanup(harness.end_group, agent)
        self.assertIn("urnic-conform-agent 3", harness.read_line(agent))
        return agent

    def command(self, *words, peer=None, port=None):
        return netns.inside(self.b.name, harness.URNIC, "conform", peer or self.a.ip, "--port",
                            port or f"af_packet:{self.b.interface}", "--yes", *words)

    def conform(self, *words, timeout=250, **where):
        return harness.run(self.command(*words, **where), timeout=timeout)

    def results(self, *words, status=0, **where):
        file = self.dir / "result.json"
        result = self.conform("--json", file, *words, **where)
        if status is not None:
            self.assertEqual(result.returncode, status, result)
        return json.loads(file.read_text(encoding="utf-8"))

    def nothing_is_left(self):
        """No client of the daemon has a QP any more."""
        self.assertTrue(harness.wait_until(lambda: not self.a.qps()), self.a.qps())


class Whole(Hosts):
    def test_an_rnic_of_ours_fails_no_case(self):
        self.start_agent()
        # The summary of a whole run names it.
        xml, captures, page = harness.BUILD / "junit/conform-veth.xml", self.dir / "captures", self.dir / "result.html"
        xml.parent.mkdir(exist_ok=True)
        document = self.results("--junit", xml, "--evidence", captures, "--html", page, status=None)
        # On a machine that does other things a case may be inconclusive; none may fail three times.
        bad = [f"{case['name']}: {case['verdict']}: {case['reason']}" for case in document["cases"]
               if case["verdict"] not in ("passed", "informational", "inconclusive")
               and (case["name"], case["verdict"]) != ("LiveHeaders.VlanPriority", "not applicable")]
        self.assertEqual(bad, [], "\n".join(bad))
        self.assertGreater(document["counts"]["passed"], 300, document["counts"])
        self.assertGreater(document["counts"]["informational"], 10, document["counts"])
        listed = harness.run([TESTER, "--list"]).out.splitlines()
        live = [line.split("\t")[0] for line in listed if line.split("\t")[2] == "live"]
        self.assertEqual([case["name"] for case in document["cases"]], live)
        self.assertGreater(len(live), 300)
        self.assertEqual(len(ElementTree.parse(xml).getroot().findall("testcase")), len(live))
        # The evidence is what urnic decode reads.
        decoded = harness.run([harness.URNIC, "decode", captures / "RequesterAcks.Coalesced.pcapng"])
        self.assert_ok(decoded, "decode")
        self.assertEqual(len(re.findall("RC (?:WRITE|SEND) Only", decoded.out)), 5, decoded.out)
        text = page.read_text(encoding="utf-8")
        for case in document["cases"]:
            self.assertIn(f'id="{case["name"]}"', text)
            self.assertIn(f'href="captures/{case["name"]}.pcapng"', text)
        self.nothing_is_left()
        # docs/conform.md says how many.
        text = (harness.SOURCE / "docs/conform.md").read_text(encoding="utf-8")
        self.assertIn(f"{len(live)} of {len(listed)} cases are played", text)


class Resumed(Hosts):
    def test_a_run_that_was_killed_goes_on_where_it_was(self):
        self.start_agent()
        file = self.dir / "result.json"
        tester = harness.start(self.command("RequesterTimeouts", "ResponderAck", "--json", file))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(file.exists), "nothing was saved")
        harness.end_group(tester)
        harness.finish(tester)
        self.nothing_is_left()
        before = json.loads(file.read_text(encoding="utf-8"))["cases"]
        self.assertTrue(before)
        result = self.conform("RequesterTimeouts", "ResponderAck", "--json", file, "--resume", "--html", self.dir / "page.html")
        self.assertEqual(result.returncode, 0, result)
        kept = [case for case in before if case["verdict"] != "inconclusive"]
        self.assertIn(f"{len(kept)} cases of {file} are judged already", result.out)
        after = json.loads(file.read_text(encoding="utf-8"))["cases"]
        self.assertGreater(len(after), len(kept))
        self.assertEqual(len({case["name"] for case in after}), len(after))
        for case in kept:
            self.assertIn(case, after)
        for words, text in ((["--seed", "7"], "with seed 0"), (["--seed", "0"], "")):
            again = self.conform("ResponderAck", "--json", file, "--resume", *words)
            self.assertEqual(again.returncode, 2 if text else 0, again)
            self.assertIn(text, again.err)
        # What was not asked for this time is kept.
        self.assertEqual(len(json.loads(file.read_text(encoding="utf-8"))["cases"]), len(after))
        file.write_text("{", encoding="utf-8")
        again = self.conform("ResponderAck", "--json", file, "--resume")
        self.assertEqual(again.returncode, 2, again)
        self.assertIn("no file of results", again.err)

    def test_a_matrix_of_two_runs(self):
        self.start_agent()
        files = []
        for name, cases in (("one", ["RequesterAcks.Ghost"]), ("two", ["RequesterAcks", "LiveTimers.AckLatency"])):
            files.append(self.dir / f"{name}.json")
            for _ in range(5):  # a case that was played again, after a pause of this machine, is inconclusive
                result = self.conform("--json", files[-1], "--label", f"device <{name}>", "--evidence", self.dir / name, *cases)
                self.assertEqual(result.returncode, 0, result)
                verdicts = {case["verdict"] for case in json.loads(files[-1].read_text(encoding="utf-8"))["cases"]}
                if "inconclusive" not in verdicts:
                    break
        page, table, evidence = (self.dir / name for name in ("matrix.html", "matrix.md", "seen.md"))
        words = [harness.URNIC, "conform", "matrix", *files]
        self.assert_ok(harness.run([*words, "--html", page, "--markdown", table, "--markdown-evidence", evidence]), "matrix")
        html = page.read_text(encoding="utf-8")
        self.assertIn("<th>device &lt;one&gt;</th><th>device &lt;two&gt;</th>", html)
        self.assertIn('href="one/RequesterAcks.Ghost.pcapng"', html)
        self.assertIn('href="two/RequesterAcks.Ghost.pcapng"', html)
        self.assertEqual(set(re.findall('href="#([^"]+)"', html)), set(re.findall('<details id="([^"]+)"', html)))
        rows = table.read_text(encoding="utf-8")
        self.assertRegex(rows, r"`RequesterAcks.Ghost` .*\| passed \| passed \|")
        self.assertRegex(rows, r"`LiveTimers.AckLatency` .*\| \| \[informational\]\(seen.md#livetimersacklatency\) \|")
        self.assertIn("median of 30", evidence.read_text(encoding="utf-8"))
        files[0].write_text('{"format": 1}', encoding="utf-8")
        for bad, text in (([*words, "--html", page], "of another release"), ([*words], "--html or --markdown"),
                          ([*words[:3], self.dir / "none.json", "--html", page], "cannot read"),
                          ([*words[:3], files[1], "--html", self.dir / "none/x.html"], "cannot write")):
            result = harness.run(bad)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(text, result.err + result.out)


class GoesBackN(Hosts):
    extra = 'recovery = "go-back-n"'

    def test_a_responder_that_discards_early_packets_fails_no_case(self):
        self.start_agent()
        document = self.results("ResponderGap", "ResponderDuplicate", "RequesterLoss")
        self.assertEqual(document["device"]["early_packets"], "discarded")
        self.assertLessEqual({case["verdict"] for case in document["cases"]}, {"passed", "inconclusive"}, document)


class Ipv6(Hosts):
    extra = 'ipv6 = "fd77::1/64"\n[rnic.congestion]\ncnp = true'

    def test_the_same_over_ipv6(self):
        netns.ip("-n", self.b.name, "addr", "add", "fd77::2/64", "dev", self.b.interface)
        self.start_agent()
        file = self.dir / "result.json"
        result = self.conform("ResponderHeader", "ResponderExecution", "RequesterLoss", "LiveCongestion", "LiveHeaders", "LiveUd",
                              "LiveIntegrity", "LiveNeighbour", "--agent", self.a.ip, "--json", file, peer="fd77::1")
        self.assertEqual(result.returncode, 0, result)
        document = json.loads(file.read_text(encoding="utf-8"))
        verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
        self.assertLessEqual(set(verdicts.values()), {"passed", "informational", "not applicable", "inconclusive"}, verdicts)
        self.assertEqual(verdicts["LiveIntegrity.EachBitThatTheIcrcCovers"], "not applicable")
        # The tester has no second address of that family.
        case = next(case for case in document["cases"] if case["name"] == "LiveCongestion.ScopeOfAddresses")
        self.assertEqual(case["verdict"], "not applicable")
        self.assertIn("has one address on the device's network", case["reason"])
        self.assertIn("fd77::2 > fd77::1", "".join(document["cases"][0]["packets"]))
        for peer, text in (("ff02::1", "multicast, broadcast or this host"), ("::1", "multicast, broadcast or this host"),
                           ("fd78::1", "is no host of the network"), ("fd77::9", "nobody answers neighbour discovery"),
                           ("fd77::x", "is no IP address")):
            result = self.conform(*FEW, peer=peer)
            self.assertEqual(result.returncode, 2, result)
            self.assertIn(text, result.err)


class Trouble(Hosts):
    def expect_refusal(self, *texts, **where):
        result = self.conform(*FEW, timeout=60, **where)
        self.assertEqual(result.returncode, 2, result)
        for text in texts:
            self.assertIn(text, result.err)

    def test_what_the_tester_refuses(self):
        self.expect_refusal("multicast, broadcast or this host", peer="224.0.0.1")
        self.expect_refusal("multicast, broadcast or this host", peer="255.255.255.255")
        self.expect_refusal("multicast, broadcast or this host", peer="127.0.0.1")
        self.expect_refusal("is no host of the network", peer="10.77.0.255")
        self.expect_refusal("is no host of the network", peer="192.0.2.1")
        self.expect_refusal("is no host of the network", peer=self.b.ip)
        self.expect_refusal("nobody answers ARP for 10.77.0.77", peer="10.77.0.77")
        self.expect_refusal("there is none of that name", port="af_packet:nosuch0")
        self.expect_refusal("is the loopback", port="af_packet:lo")
        self.expect_refusal("is not known; it is af_packet:INTERFACE", port="dpdk:eth1")
        self.expect_refusal("not by DPDK", "af_packet:INTERFACE", port="pci:ffff:ff:1f.7")
        self.expect_refusal("start urnic-conform-agent beside the device")
        asked = [word for word in self.command(*FEW) if word != "--yes"]
        result = harness.run(asked)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("nobody is there to agree", result.err)
        self.assertIn("no case has such a name", self.conform("NoSuchCase").err)

    def test_a_tester_that_is_killed_leaves_nothing(self):
        self.start_agent()
        tester = harness.start(self.command("RequesterTimeouts.Exhaustion"))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(self.a.qps), "the tester made no QP")
        harness.end_group(tester)
        harness.finish(tester)
        self.nothing_is_left()
        self.assertTrue(self.results(*FEW)["cases"], "the agent serves the next tester")

    def test_an_agent_that_is_killed_ends_the_run(self):
        agent = self.start_agent()
        tester = harness.start(self.command("RequesterTimeouts"))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(self.a.qps), "the tester made no QP")
        harness.end_group(agent)
        result = harness.finish(tester, 60)
        self.assertEqual(result.returncode, 2, result)
        self.assertRegex(result.err, "agent at .* (is gone|has closed the connection)")
        self.nothing_is_left()

    def test_a_device_that_falls_silent_is_no_failure_of_its_own(self):
        """The host is gone from the network: the cases cannot be judged, and none of them hangs."""
        self.start_agent()
        tester = harness.start(self.command("ResponderExecution", "--json", self.dir / "result.json"))
        self.addCleanup(harness.end_group, tester)
        self.assertTrue(harness.wait_until(self.a.qps), "the tester made no QP")
        netns.ip("-n", self.a.name, "link", "set", self.a.interface, "down")
        result = harness.finish(tester, 120)
        self.assertEqual(result.returncode, 2, result)
        self.assertNotIn("(failed)", result.out)

    def test_no_right_to_take_frames(self):
        command = self.command(*FEW)
        at = command.index(str(harness.URNIC))
        result = harness.run([*command[:at], "setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", *command[at:]])
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("needs CAP_NET_RAW", result.err)

    def test_a_connection_to_the_agent_that_is_cut(self):
        """After some requests, in the middle of an answer."""
        self.start_agent()
        code = ("import socket, struct\n"
                f"s=socket.create_server(('{self.a.ip}', {AGENT_PORT + 1}))\n"
                "print('listens', flush=True)\n"
                "c,_=s.accept()\n"
                f"a=socket.create_connection(('{self.a.ip}', {AGENT_PORT}))\n"
                "for i in range(60):\n"
                "    a.sendall(c.recv(1 << 20))\n"
                "    answer=b''\n"
                "    while not answer.endswith(b'\\n'): answer+=a.recv(1 << 20)\n"
                "    c.sendall(answer if i < 59 else answer[:1])\n"
                "c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
                "c.close()\n")
        proxy = harness.start(netns.inside(self.a.name, "/usr/bin/python3", "-c", code))
        self.addCleanup(harness.end_group, proxy)
        self.assertIn("listens", harness.read_line(proxy))
        file = self.dir / "result.json"
        result = self.conform("--agent", f"{self.a.ip}:{AGENT_PORT + 1}", "--json", file, timeout=60)
        self.assertEqual(result.returncode, 2, result)
        self.assertRegex(result.err, "agent at .* (is gone|has closed the connection)")
        self.assertIn("agent at", json.loads(file.read_text(encoding="utf-8"))["ended_by"])
        self.nothing_is_left()

    def test_a_device_that_answers_late(self):
        """Each packet of the device comes 60 ms late: the cases end, and none of those that ask no times fails."""
        self.start_agent()
        self.assert_ok(self.a.urnic("fault", "add", "delay", "--delay-us", "60000"), "fault")
        document = self.results("ResponderAck.AtOnceWhenAsked", "ResponderExecution.SendOnly")
        self.assertLessEqual({case["verdict"] for case in document["cases"]}, {"passed", "inconclusive"}, document)

    def test_a_peer_that_floods(self):
        """Frames for the tester, faster than it can look at them, while it judges: it ends, and says something."""
        self.start_agent()
        code = ("import socket\n"
                "s=socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
                f"s.bind(('{self.a.interface}', 0))\n"
                f"frame=bytes.fromhex('{self.b.mac}{self.a.mac}'.replace(':', ''))+bytes.fromhex('0800'"
                "'4500003c000040004011261cc0a80001c0a80002' 'c00012b700280000' '0a40ffff00000005000007d0')+bytes(24)\n"
                "print('floods', flush=True)\n"
                "while True: s.send(frame)\n")
        flood = harness.start(netns.inside(self.a.name, "/usr/bin/python3", "-c", code))
        self.addCleanup(harness.end_group, flood)
        self.assertIn("floods", harness.read_line(flood))
        result = self.conform(*FEW, timeout=120)
        self.assertIn(result.returncode, (0, 1, 2), result)
        harness.end_group(flood)
        harness.finish(flood)
        self.assertTrue(self.results(*FEW)["cases"], "the next run is as ever")

    def lying_agent(self, answer):
        """Something else than an agent listens; what the tester says of it."""
        code = ("import socket\n"
                f"s=socket.create_server(('{self.a.ip}', {AGENT_PORT}))\n"
                "print('listens', flush=True)\n"
                "c,_=s.accept()\n"
                f"{answer}\n"
                "import time\n"
                "c.settimeout(60)\n"
                "while c.recv(4096): pass\n")
        liar = harness.start(netns.inside(self.a.name, "/usr/bin/python3", "-c", code))
        self.addCleanup(harness.end_group, liar)
        self.assertIn("listens", harness.read_line(liar))
        result = self.conform(*FEW, timeout=60)
        harness.end_group(liar)
        harness.finish(liar)
        self.assertEqual(result.returncode, 2, result)
        return result.err

    def test_agents_that_are_none(self):
        self.assertIn("take the one of the tester's release",
                      self.lying_agent("c.recv(99); c.sendall(b'error 71 hello: take the one of the tester\\'s release\\n')"))
        self.assertIn("speaks another version, or is none", self.lying_agent("c.sendall(b'SSH-2.0-x\\r\\n')"))
        self.assertIn("a line without an end", self.lying_agent("c.sendall(b'x' * 3000000)"))
        self.assertIn("did not answer in time", self.lying_agent("pass"))
        self.assertIn("where a number belongs",
                      self.lying_agent("c.sendall(b'ok\\nok name=x mtu=many\\n')"))


class HostileTester(Hosts):
    """What the agent makes of requests that no tester sends."""

    def talk(self, lines, answers=True):
        with socket.create_connection((self.a.ip, AGENT_PORT), 10) as connection:
            connection.settimeout(20)
            with connection.makefile("rwb") as stream:
                replies = []
                for line in lines:
                    stream.write(line if isinstance(line, bytes) else f"{line}\n".encode())
                    stream.flush()
                    if answers:
                        replies.append(stream.readline().decode())
                return replies

    def in_b(self, function):
        """In a child process in the tester's namespace."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with open(f"/run/netns/{self.b.name}", "rb") as namespace:
                    LIBC.setns(namespace.fileno(), CLONE_NEWNET)
                os.write(write, json.dumps(function()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else None

    def test_every_bad_request_is_refused_and_leaves_nothing(self):
        agent = self.start_agent()
        gid = "00000000000000000000ffff" + socket.inet_aton(self.a.ip).hex()
        good = ["hello 3", f"open - {gid}", "arena 1048576", "mr 0 4096 15", "qp 2 16 16 1 0 0 16",
                "qp 10 1 16 1 0 0 16", "srq 1 16 1", "srq_recv 0 7", "qp 9 16 16 1 0 0 16"]
        bad = ["", " ", "hello", "hello 2", "hello -1", "nosuch", "open", f"open - {gid}", "arena 0", "arena 99999999999",
               "arena 18446744073709551616", "fill 0 1048577 1", "fill 1048576 1 1", "fill 18446744073709551615 2 1",
               "put 0 0", "put 0 zz", "put 1048576 00", "put 0 " + "00" * 40000, "get 0 32769", "get 1048575 2",
               "get 18446744073709551615 1", "mr 0 0 15", "mr 0 2097152 15", "mr 1048575 2 15", "mr 0 4096 4096", "dereg 63",
               f"ah {gid} 256", f"ah {gid} 0 16", f"ah {gid} 0 x", f"ah {gid}",
               "dereg 64", "dereg -1", "mw 0", "mw 3", "qp 1 1 1 1 1 1 1", "qp 2 99999 1 1 0 0 1", "qp 2 1 1 17 0 0 1",
               "qp 2 1 1 1 0 0 0", "modify 63 state=1", "modify 0 state=7", "modify 0 nosuch=1", "modify 0 state", "modify 0 gid=00",
               "modify 0 dest_qp=16777216", "query 5", "query x", "send 0 2", "send 0 99:0:0:0:0:0:0:0", "send 0 8:0:0:0:0:0:0:0:0:63:0",
               "send 0 2:8:1:0:0:0:0:0:-:-:-,4096:8:0", "send 0 " + ",".join(["2:0:1:0:0:0:0:0:-:-:-"] + ["1:1:1"] * 17),
               "send 9 2:0:1:0:0:0:0:0", "recv 0", "recv 0 x", "recv 0 1,1:1", "recv 5 1", "poll 0 2", "poll 7 0",
               # XRC: an initiator takes no receives, a target posts nothing, only its domain has SRQs.
               "qp 5 1 1 1 0 0 1", "qp 8 1 1 1 0 0 1", "qp 11 1 1 1 0 0 1", "srq", "srq 0 16 1", "srq 2 16 1", "srq 63 16 1",
               "srq 1 99999 1", "srq 1 16 17", "srq_recv", "srq_recv 1 7", "srq_recv 64 7", "srq_recv 0", "srq_recv 0 x",
               "srq_recv 0 1,1:1", "recv 1 7", "recv 2 7", "send 1 2:0:1:0:0:0:0:0:0:-:-",
               "send 2 2:0:1:0:0:0:0:0:-:-:-", "send 2 2:0:1:0:0:0:0:0:4294967296:-:-"]
        replies = self.in_b(lambda: self.talk(good + bad + ["get 0 4"]))
        self.assertEqual([reply.split()[0] for reply in replies[:len(good)]], ["ok"] * len(good), replies[:len(good)])
        for request, reply in zip(bad, replies[len(good):-1]):
            self.assertTrue(reply.startswith("error "), f"{request[:80]!r} was answered {reply!r}")
        self.assertEqual(replies[-1], "ok 00000000\n")
        self.nothing_is_left()
        # No end of a line, and zero bytes: the session ends, the agent continues.
        for garbage in (b"x" * 300_000, b"hello\0 1\n", bytes(range(256)) * 100):
            self.in_b(lambda garbage=garbage: self.talk([garbage], answers=False))
        self.assertEqual(self.in_b(lambda: self.talk(["hello 3"])), ["ok urnic-conform-agent 3\n"])
        self.assertIsNone(agent.poll())

    def test_one_tester_at_a_time(self):
        self.start_agent()

        def two():
            with socket.create_connection((self.a.ip, AGENT_PORT), 10) as first:
                first.sendall(b"hello 3\n")
                first.recv(100)
                return self.talk(["hello 3"])
        self.assertIn("another tester is connected", self.in_b(two)[0])


if __name__ == "__main__":
    netns.private()
    harness.main()
