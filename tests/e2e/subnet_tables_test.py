"""What opensm sets at emulated switches and is followed there: partitions, virtual lanes, and tables that go in a circle."""

import re
import threading

import harness
import subnet_test

RETRIES_EXCEEDED = "Failed status 12"  # IBV_WC_RETRY_EXC_ERR


class Tables(subnet_test.Leaves):
    def lids(self):
        return [int(self.port(number, "lid"), 16) for number in range(self.rnics)]

    def perftest(self, server, client, *words, server_words=(), client_words=()):
        """ib_send_bw over RC between two RNICs; returns what the client has done."""
        port = harness.free_port()
        common = ("-F", "-p", port, *words)
        waiting = harness.start(self.here("ib_send_bw", "-d", f"urnic{server}", *common, *server_words))
        self.addCleanup(harness.finish, waiting)
        self.addCleanup(harness.end_group, waiting)
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, waiting.pid) or waiting.poll() is not None))
        result = harness.run(self.here("ib_send_bw", "-d", f"urnic{client}", *common, *client_words, "127.0.0.1"))
        if result.returncode == 0:
            self.assert_ok(harness.finish(waiting))
        harness.end_group(waiting)
        return result

    def assert_lost(self, result):
        self.assertIn(RETRIES_EXCEEDED, result.out + result.err, str(result))

    def counter(self, lid, port, name):
        return int(re.search(rf"{name}:\.+(\d+)", self.ask("perfquery", "-C", "urnic0", lid, port)).group(1))

    def attribute(self, name, *words):
        return int(re.search(rf"{name}:\.+(\d+)", self.ask("smpquery", "-C", "urnic0", *words)).group(1))


class Partitions(Tables):
    """urnic0 and urnic1 share a partition that urnic2 and urnic3 are not in."""

    def start_opensm(self, number=0, priority=5, *options):
        guids = [self.gid(rnic).replace(":", "")[16:] for rnic in range(2)]
        partitions = self.dir / "partitions.conf"
        partitions.write_text("Default=0x7fff, ipoib : ALL=full ;\nlab=0x0012 : " + ", ".join(f"0x{guid}=full" for guid in guids) + " ;\n",
                              encoding="utf-8")
        return super().start_opensm(number, priority, "-P", partitions, "--part_enforce", "both", *options)

    def pkeys(self, lid, port):
        return set(re.findall(r"0x[0-9a-f]{4}\b", self.ask("smpquery", "-C", "urnic0", "pkeys", lid, port))) - {"0x0000"}

    def test_switches_enforce_them(self):
        _, log = self.bring_up()
        switches = self.switch_lids()
        self.assertEqual([self.port(0, f"pkeys/{index}") for index in (0, 1)], ["0xffff", "0x8012"])
        for name in ("InboundPartEnf", "OutboundPartEnf"):
            self.assertEqual(self.attribute(name, "switchinfo", switches["s2"]), 1)
        self.assertTrue(harness.wait_until(lambda: self.pkeys(switches["s1"], 1) == {"0xffff", "0x8012"} and
                                           self.pkeys(switches["s2"], 1) == {"0xffff"} and
                                           all(self.attribute(name, "portinfo", switches["s2"], 1) == 1
                                               for name in ("PartEnforceInb", "PartEnforceOutb")), pause=0.2))
        words = ("-n", 5)
        self.run_pairs(words)
        # Through the default partition both ends talk; a packet of the other one ends at the last switch.
        self.assert_lost(self.perftest(2, 0, *words, client_words=("--pkey_index=1",)))
        self.assertGreater(self.counter(switches["s2"], 1, "PortXmitConstraintErrors"), 0)
        self.assertEqual(self.counter(switches["s1"], 1, "PortRcvConstraintErrors"), 0)
        self.assertEqual(self.attribute("PkeyViolations", "portinfo", self.lids()[2]), 0, "none has come to the RNIC")
        self.assertTrue(harness.wait_until(lambda: re.search(r"num:\s*259\b", log.read_text(encoding="utf-8", errors="replace"))),
                        log.read_text(encoding="utf-8", errors="replace"))

    def run_pairs(self, words):
        self.assert_ok(self.perftest(1, 0, *words, "--pkey_index=1"))
        self.assert_ok(self.perftest(2, 0, *words))


class Lanes(Tables):
    """opensm's quality of service: at RNICs all VLs are served; at switches VL 2 is in no arbitration table, and SL 4 has no VL."""

    network = subnet_test.Leaves.network + "vls = 4\n"
    opensm_keys = ("qos TRUE\nqos_max_vls 4\nqos_high_limit 3\nqos_vlarb_high 1:64\nqos_vlarb_low 0:10,1:20,2:30,3:40\n"
                   "qos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\n"
                   "qos_swe_max_vls 4\nqos_swe_high_limit 5\nqos_swe_vlarb_high 1:64\nqos_swe_vlarb_low 0:11,1:21,3:41\n"
                   "qos_swe_sl2vl 0,1,2,3,15,1,2,3,0,1,2,3,0,1,2,0\n")

    def sl_to_vl(self, *words):
        """The last of the tables that are printed."""
        rows = re.findall(r"(?m)^ports: in.*?: \|(.*)\|", self.ask("smpquery", "-C", "urnic0", *words))
        return [int(vl) for vl in rows[-1].split("|")]

    def arbitration(self, *words):
        """Entries with a weight: of low priority, and of high priority. They come in two blocks each."""
        def numbers(row):
            return [int(cell, 16) for cell in row.strip().strip("|").split("|")]
        text = self.ask("smpquery", "-C", "urnic0", *words)
        blocks = [[entry for entry in zip(numbers(vls), numbers(weights), strict=True) if entry[1] != 0]
                  for vls, weights in re.findall(r"(?m)^VL +: *\|(.*)\nWEIGHT: *\|(.*)", text)]
        self.assertEqual(len(blocks), 4, text)
        return [blocks[0] + blocks[1], blocks[2] + blocks[3]]

    def test_opensm_sets_them_and_packets_follow(self):
        # What the configuration has, until a subnet manager sets something else.
        self.assertEqual(self.sl_to_vl("-D", "sl2vl", "0"), [sl % 4 for sl in range(16)])
        self.assertEqual(self.arbitration("-D", "vlarb", "0", 1), [[(vl, 64) for vl in range(15)], []])
        self.bring_up()
        switches = self.switch_lids()
        lids = self.lids()
        low = [(0, 10), (1, 20), (2, 30), (3, 40)]
        self.assertTrue(harness.wait_until(lambda: self.arbitration("vlarb", lids[0], 1) == [low, [(1, 64)]], pause=0.2))
        self.assertEqual(self.attribute("VLHighLimit", "portinfo", lids[0]), 3)
        self.assertEqual(self.sl_to_vl("sl2vl", lids[0]), [0, 1, 2, 3] * 4)
        self.assertTrue(harness.wait_until(lambda: self.arbitration("vlarb", switches["s1"], 3) == [[(0, 11), (1, 21), (3, 41)], [(1, 64)]],
                                           pause=0.2))
        self.assertEqual(self.attribute("VLHighLimit", "portinfo", switches["s1"], 3), 5)
        self.assertEqual(self.sl_to_vl("sl2vl", switches["s1"], 3), [0, 1, 2, 3, 15, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 0])
        for sl in (0, 1, 3, 15):
            self.assert_ok(self.perftest(2, 0, "-n", 100, "-S", sl))
        self.assertEqual(self.counter(switches["s1"], 1, "PortRcvSwitchRelayErrors"), 0)
        self.assert_lost(self.perftest(2, 0, "-n", 5, "-S", 4))
        self.assertGreater(self.counter(switches["s1"], 1, "PortRcvSwitchRelayErrors"), 0)
        # VL 2 waits at the switch for its turn until its lifetime ends; so little that none of it waits in the RNIC.
        before = sum(trunk["port_xmit_discards"] for trunk in self.trunks().values())
        self.assert_lost(self.perftest(2, 0, "-n", 5, "-s", 256, "-S", 2))
        self.assertTrue(harness.wait_until(lambda: sum(trunk["port_xmit_discards"] for trunk in self.trunks().values()) > before, pause=0.2))
        self.assert_ok(self.perftest(2, 0, "-n", 100, "-S", 1))


class Loop(Tables):
    """opensm takes its forwarding tables from a file, in which s1, s3, s2 and s4 send the LID of urnic5 round."""

    rnics = 6  # the first three on s1, the others on s2

    def table(self, lid):
        return self.ask("ibroute", "-C", "urnic0", lid)

    def ports(self, table):
        return {int(lid, 16): int(port) for lid, port in re.findall(r"(?mi)^(0x[0-9a-f]{4}) (\d{3})", table)}

    def loop_of(self, tables, lids):
        """By switch: the port that leads to the next one. Leaves have their spines at their last two ports."""
        towards_s1, towards_s2 = lids[0], lids[3]
        last = self.rnics // 2 + 2
        return {"s1": last - 1, "s3": self.ports(tables["s3"])[towards_s2], "s2": last, "s4": self.ports(tables["s4"])[towards_s1]}

    def discards(self):
        return sum(trunk["port_xmit_discards"] for trunk in self.trunks().values())

    def test_packets_end_and_the_rest_goes_on(self):
        master, _ = self.bring_up()
        switches = self.switch_lids()
        lids = self.lids()
        tables = {name: self.table(lid) for name, lid in switches.items()}
        loop = self.loop_of(tables, lids)
        file = self.dir / "lfts"
        file.write_text("".join(re.sub(rf"(?mi)^0x{lids[5]:04x} \d{{3}}", f"0x{lids[5]:04x} {loop[name]:03d}", text)
                                for name, text in tables.items()), encoding="utf-8")
        harness.end_group(master)
        harness.finish(master)
        master, _ = self.start_opensm(0, 5, "-R", "file", "-U", file)
        self.assertTrue(harness.wait_until(lambda: {name: self.ports(self.table(lid))[lids[5]] for name, lid in switches.items()} == loop,
                                           pause=0.2))
        self.assertEqual(self.discards(), 0)
        # A few end by the number of their hops, MADs, too.
        self.assert_lost(self.perftest(5, 0, "-n", 5, "-s", 256))
        self.assertTrue(harness.wait_until(lambda: self.discards() > 0, pause=0.2))
        self.assertNotEqual(harness.run(self.here("ibping", "-C", "urnic0", "-c", 1, lids[5])).out.count("1 received"), 1)
        # Many fill the buffers round the loop; who does not go that way has nothing of it.
        before = self.discards()
        results = []
        flood = threading.Thread(target=lambda: results.append(self.perftest(5, 0, "-n", 1000)))
        flood.start()
        self.addCleanup(flood.join)
        rounds = 0
        while flood.is_alive() or rounds == 0:
            self.assert_ok(self.perftest(2, 1, "-n", 50))
            rounds += 1
        flood.join()
        self.assert_lost(results[0])
        self.assertTrue(harness.wait_until(lambda: self.discards() > before, pause=0.2))
        # Lanes that were stalled come back, and so does who had no way.
        self.assertTrue(harness.wait_until(lambda: self.perftest(3, 0, "-n", 50).returncode == 0, pause=0.2))
        harness.end_group(master)
        harness.finish(master)
        self.start_opensm()
        self.assertTrue(harness.wait_until(lambda: self.ports(self.table(switches["s2"]))[lids[5]] == 3, pause=0.2))
        self.assertTrue(harness.wait_until(lambda: self.perftest(5, 0, "-n", 50).returncode == 0, pause=0.2))


if __name__ == "__main__":
    harness.main()
