"""`rdma` of iproute2 under `urnic run`: devices, links, resources and statistics, as text and as JSON."""

import json
import re

import harness
import with_daemon


class Rdma(with_daemon.WithDaemon):
    def rdma(self, *words, **options):
        return harness.run([harness.URNIC, "run", "--socket", self.socket, "--", "rdma", *words], **options)

    def shown(self, *words, **options):
        result = self.rdma(*words, **options)
        self.assert_ok(result, f"rdma {words}")
        self.assertEqual(result.err, "", words)
        return result.out

    def parsed(self, *words, **options):
        """What -j prints; a few commands print an empty object for what is not there."""
        return [entry for entry in json.loads(self.shown("-j", *words, **options)) if entry]

    def hold_qp(self, program="ibv_rc_pingpong", device="urnic0"):
        """A program with a QP that waits for its peer; its process."""
        held = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", program, "-d", device, "-g", "1", "-p",
                              str(harness.free_port())])
        self.addCleanup(harness.finish, held)
        self.addCleanup(harness.end_group, held)
        found = []

        def has_qp():
            found[:] = [client for client in self.status()["clients"]
                        if client["pid"] == held.pid and any(qp["state"] == "INIT" for qp in client["qps"])]
            return bool(found)

        self.assertTrue(harness.wait_until(has_qp), "it made no QP")
        return found[0]

    def test_devices_and_links(self):
        text = self.shown("dev", "show")
        self.assertRegex(text, r"\A0: urnic0: node_type ca (?:protocol roce )?fw \S+ node_guid [0-9a-f:]{19} sys_image_guid [0-9a-f:]{19} \n1: urnic1: ")
        guids = [device["node_guid"] for device in self.status()["devices"]]
        self.assertEqual([device["node_guid"] for device in self.parsed("dev")], guids)
        self.assertRegex(self.shown("link", "show"),
                         r"\Alink urnic0/1 state ACTIVE physical_state LINK_UP \nlink urnic1/1 state ACTIVE physical_state LINK_UP \n\Z")
        self.assert_ok(self.urnic("port", "urnic1", "down", "--socket", self.socket))
        links = self.parsed("link")
        self.assertEqual([(link["ifname"], link["port"], link["state"]) for link in links],
                         [("urnic0", 1, "ACTIVE"), ("urnic1", 1, "DOWN")])
        self.assertNotEqual(self.rdma("link", "show", "urnic7/1").returncode, 0)

    def test_resources(self):
        self.assertEqual(self.shown("resource", "show", "qp"), "")
        client = self.hold_qp()
        qp = client["qps"][0]
        self.assertRegex(self.shown("resource", "show"), r"\A0: urnic0: pd 1 cq 1 qp 1 cm_id 0 mr 1 ctx 1 srq 0 \n1: urnic1: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 \n\Z")
        text = self.shown("resource", "show", "qp")
        self.assertRegex(text, rf"\Alink urnic0/1 lqpn {qp['qpn']} rqpn 0 type RC state INIT rq-psn \d+ sq-psn \d+ pid {client['pid']} comm ibv_rc_pingpong \n\Z")
        shown = self.parsed("resource", "show", "qp", "link", "urnic0/1", "lqpn", str(qp["qpn"]))
        self.assertEqual([(entry["lqpn"], entry["type"], entry["state"], entry["pid"]) for entry in shown],
                         [(qp["qpn"], "RC", "INIT", client["pid"])])
        self.assertEqual(self.parsed("resource", "show", "qp", "link", "urnic1/1"), [])
        self.assertEqual([entry["mrlen"] for entry in self.parsed("resource", "show", "mr")], [client["mrs"][0]["length"]])
        self.assertEqual([entry["cqe"] for entry in self.parsed("resource", "show", "cq")], [client["cqs"][0]["entries"]])
        (domain,) = self.parsed("resource", "show", "pd")
        self.assertEqual(domain["pid"], client["pid"])
        self.assertEqual([entry["pdn"] for entry in self.parsed("resource", "show", "mr")], [domain["pdn"]])

    def cm_ids(self, *filters):
        """(RNIC, port, state, process, addresses) of each."""
        return sorted((entry["ifname"], entry.get("port", 0), entry["state"], entry["pid"], entry["src-addr"], entry.get("dst-addr", ""))
                      for entry in self.parsed("resource", "show", "cm_id", *filters))

    def start_rping(self, *words):
        rping = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", "rping", *map(str, words)])
        self.addCleanup(harness.finish, rping)
        self.addCleanup(harness.end_group, rping)
        return rping

    def test_connections(self):
        own, everywhere = harness.free_port(), harness.free_port()
        server = self.start_rping("-s", "-a", "198.18.0.1", "-p", own)
        listener = ("urnic0", 1, "LISTEN", server.pid, f"198.18.0.1:{own}", "")
        self.assertTrue(harness.wait_until(lambda: self.cm_ids() == [listener]), self.cm_ids())
        client = self.start_rping("-c", "-a", "198.18.0.1", "-p", own, "-C", 1_000_000_000)

        def connected():
            return [entry for entry in self.cm_ids() if entry[2] == "CONNECT"]
        self.assertTrue(harness.wait_until(lambda: {entry[3] for entry in connected()} == {server.pid, client.pid}), self.cm_ids())
        (_, _, _, _, here, there), (*_, theirs, ours) = connected()
        self.assertEqual((here, there), (ours, theirs))
        self.assertEqual(here, f"198.18.0.1:{own}")
        self.assertEqual({entry["lqpn"] for entry in self.parsed("resource", "show", "cm_id") if entry["state"] == "CONNECT"},
                         {qp["qpn"] for one in self.status()["clients"] for qp in one["qps"]})
        # One for all addresses listens on each RNIC, on no port of its own.
        anywhere = self.start_rping("-s", "-p", everywhere)
        expected = [(f"urnic{number}", 0, "LISTEN", anywhere.pid, f"0.0.0.0:{everywhere}", "") for number in range(2)]
        self.assertTrue(harness.wait_until(lambda: [entry for entry in self.cm_ids() if entry[3] == anywhere.pid] == expected), self.cm_ids())
        self.assertEqual(self.cm_ids("link", "urnic0/1", "state", "LISTEN"), [listener])

    def test_one_sees_the_objects_of_ones_own_programs(self):
        options = with_daemon.as_nobody()
        if not options:
            self.skipTest("needs another user")
        self.hold_qp()
        server = self.start_rping("-s", "-a", "198.18.0.1", "-p", harness.free_port())
        kinds = ("qp", "cq", "mr", "pd", "cm_id")
        self.assertTrue(harness.wait_until(lambda: self.cm_ids() or server.poll() is not None))
        for kind in kinds:
            self.assertNotEqual(self.parsed("resource", "show", kind), [], kind)
        for kind in kinds:
            self.assertEqual(self.parsed("resource", "show", kind, **options), [], kind)
        self.assertEqual(self.shown("resource", "show", "urnic0", **options), "0: urnic0: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 \n")

    def test_more_qps_than_one_message_has(self):
        script = """
import signal
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPInitAttr, QPCap
from pyverbs.enums import IBV_QPT_UD
context = Context(name="urnic0")
domain, queue = PD(context), CQ(context, 16)
qps = [QP(domain, QPInitAttr(qp_type=IBV_QPT_UD, scq=queue, rcq=queue, cap=QPCap(max_send_wr=1, max_recv_wr=1))) for _ in range(300)]
print("ready", flush=True)
signal.pause()
"""
        held = self.start("/usr/bin/python3", "-c", script)
        self.expect_line(held, "ready")
        known = set()

        def has_all():
            # What the daemon says of its state may be a tenth of a second old.
            known.update(qp["qpn"] for client in self.status()["clients"] for qp in client["qps"])
            return len(known) == 300

        self.assertTrue(harness.wait_until(has_all), len(known))
        self.assertEqual({entry["lqpn"] for entry in self.parsed("resource", "show", "qp")}, known)

    def test_statistics(self):
        port = harness.free_port()
        pingpong = [harness.URNIC, "run", "--socket", str(self.socket), "--", "ibv_rc_pingpong", "-g", "1", "-p", str(port), "-d"]
        self.run_pair([*pingpong, "urnic0"], [*pingpong, "urnic1", "127.0.0.1"], port)
        counters, statistics = {}, {}

        def agree():
            # Soon nothing is sent any more.
            counters.update(self.status()["devices"][0]["counters"])
            statistics.update(self.parsed("statistic", "show", "link", "urnic0/1")[0])
            return all(statistics[name] == value for name, value in counters.items())

        self.assertTrue(harness.wait_until(agree), (counters, statistics))
        self.assertGreater(counters["sent_pkts"], 1000)
        self.assertEqual((statistics["ifname"], statistics["port"]), ("urnic0", 1))
        text = self.shown("statistic", "show")
        self.assertRegex(text, rf"\Alink urnic0/1 sent_pkts {counters['sent_pkts']} ")
        self.assertRegex(text, r"\nlink urnic1/1 sent_pkts \d+ ")
        self.assertEqual(self.parsed("statistic", "qp", "show"), [])

    def test_what_it_does_not_do_is_said(self):
        for words in (("link", "add", "x", "type", "rxe", "netdev", "lo"), ("dev", "set", "urnic0", "name", "other"),
                      ("statistic", "qp", "mode"), ("resource", "show", "ctx")):
            result = self.rdma(*words)
            self.assertNotEqual(result.returncode, 0, words)
            self.assertRegex(result.out + result.err, r"(?i)not supported", words)

    def test_others_have_the_kernels_answers(self):
        # libibverbs asks by RDMA netlink first, and finds the RNICs where it is refused; other netlink is the kernel's.
        self.assertIn("urnic1", self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", "ibv_devices"]).out)
        link = ["ip", "-o", "link", "show", "lo"]
        self.assertEqual(self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", *link]).out, self.run_ok(link).out)
        mnl = ["devlink", "dev", "show"]
        mine = harness.run([harness.URNIC, "run", "--socket", self.socket, "--", *mnl])
        kernels = harness.run(mnl)
        self.assertEqual((mine.returncode, mine.out, mine.err), (kernels.returncode, kernels.out, kernels.err))

    def test_no_daemon(self):
        script = f"kill -9 {self.daemon.pid}; while kill -0 {self.daemon.pid} 2>/dev/null && ! grep -q Z /proc/{self.daemon.pid}/stat; do :; done; rdma link"
        result = harness.run([harness.URNIC, "run", "--socket", self.socket, "--", "sh", "-c", script])
        self.assertNotEqual(result.returncode, 0)
        self.assertFalse(result.timed_out)
        self.assertIsNone(re.search("ACTIVE", result.out))


if __name__ == "__main__":
    harness.main()
