"""A subnet of InfiniBand that a stock subnet manager runs: opensm and infiniband-diags on an in-process fabric."""

import ipaddress
import os
import pathlib
import re
import shutil
import signal

import harness
import with_daemon

NEEDED = ("opensm", "ibstat", "ibnetdiscover", "iblinkinfo", "ibroute", "sminfo", "smpquery", "saquery", "perfquery", "ibtracert", "ibping",
          "ibqueryerrors")
RNICS = 3
SBIN = ("/usr/sbin", "/sbin")


def short_gid(gid):
    """As inet_ntop writes what sysfs has in full."""
    return str(ipaddress.ip_address(gid))


def tool(name):
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))


class Subnet(with_daemon.WithDaemon):
    subnet_manager = "external"
    rnics = RNICS
    network = ""
    rnic_keys = ""
    opensm_keys = ""

    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8").split("[[rnic]]")[0]
        text += self.network
        for number in range(self.rnics):
            text += (f'[[rnic]]\nname = "urnic{number}"\nport = "fabric"\nfabric = "lab"\nlink_layer = "infiniband"\n'
                     f'subnet_manager = "{self.subnet_manager}"\n{self.rnic_keys}{self.keys_of(number)}')
        config.write_text(text, encoding="utf-8")
        return super().daemon_command()

    def keys_of(self, number):
        """Of one RNIC, beside those of all."""
        del number
        return ""

    def here(self, name, *words):
        return [str(harness.URNIC), "run", "--socket", str(self.socket), "--", tool(name) or name, *(str(word) for word in words)]

    def port(self, number, name):
        file = self.run_dir / f"sysroot/sys/class/infiniband/urnic{number}/ports/1/{name}"
        return file.read_text(encoding="utf-8").strip()

    def gid(self, number):
        return self.port(number, "gids/0")

    def states(self):
        return [self.port(number, "state") for number in range(self.rnics)]

    def start_opensm(self, number=0, priority=5, *options):
        """In a folder of its own; returns the process and its log."""
        folder = self.dir / f"opensm{number}"
        folder.mkdir(exist_ok=True)
        guid = self.port(number, "gids/0").replace(":", "")[16:]
        log = folder / "opensm.log"
        (folder / "opensm.conf").write_text("sweep_interval 1\nsminfo_polling_timeout 500\npolling_retry_number 2\nforce_log_flush TRUE\n" +
                                            self.opensm_keys, encoding="utf-8")
        process = harness.start(self.here("opensm", "-g", f"0x{guid}", "-p", priority, "-f", log, "-F", folder / "opensm.conf", *options),
                                env={**harness.clean_environment(), "OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder)})
        self.addCleanup(harness.finish, process)
        self.addCleanup(harness.end_group, process)
        return process, log

    def bring_up(self):
        process, log = self.start_opensm()
        self.assertTrue(harness.wait_until(lambda: process.poll() is not None or self.states() == ["4: ACTIVE"] * self.rnics),
                        "opensm brings no port up")
        self.assertIsNone(process.poll(), log.read_text(encoding="utf-8", errors="replace") if log.exists() else "opensm ended")
        self.assertTrue(harness.wait_until(lambda: "SUBNET UP" in log.read_text(encoding="utf-8", errors="replace")))
        return process, log

    def ask(self, name, *words):
        if name == "saquery":  # its own patience is a second, without another try
            words = ("-t", 10_000, *words)
        return self.run_ok(self.here(name, *words)).out

    def activity(self, lid):
        """ActCount of the master with this LID."""
        return int(re.search(r"activity count (\d+) priority \d+ state 3", self.ask("sminfo", "-C", "urnic2", int(str(lid), 0))).group(1))

    def watch(self, number):
        script = pathlib.Path(__file__).with_name("sa_client.py")
        program = harness.start(self.here("/usr/bin/python3", script, f"urnic{number}", "watch"))
        self.addCleanup(harness.finish, program)
        self.addCleanup(harness.end_group, program)
        self.assertEqual(harness.read_line(program), "status 0x0000\n")
        return program

    @classmethod
    def setUpClass(cls):
        missing = [name for name in NEEDED if tool(name) is None]
        if missing:
            raise AssertionError(f"{', '.join(missing)} not found: scripts/setup installs them")


class External(Subnet):
    def test_ports_wait_for_a_subnet_manager(self):
        self.assertEqual(self.states(), ["2: INIT"] * RNICS)
        self.assertEqual(self.port(0, "lid"), "0x0")
        text = self.ask("ibstat", "urnic1")
        self.assertRegex(text, r"State: Initializing\s+Physical state: LinkUp")
        # Directed routes work before there is any LID.
        self.assertRegex(self.ask("smpquery", "-C", "urnic0", "-D", "nodeinfo", "0,1"), r"NodeType:\.+Switch\s+NumPorts:\.+3")
        self.assertIn("urnic2", self.ask("smpquery", "-C", "urnic0", "-D", "nodedesc", "0,1,3"))
        refused = harness.run(self.here("smpquery", "-C", "urnic0", "-D", "-t", "100", "nodeinfo", "0,1,4"))
        self.assertNotEqual(refused.returncode, 0, str(refused))

    def test_opensm_and_diagnostics(self):
        """One subnet manager for all of them: what each tool prints is compared with what it has set."""
        self.bring_up()
        lids = [int(self.port(number, "lid"), 16) for number in range(RNICS)]
        self.assertEqual(len(set(lids) - {0}), RNICS)
        self.assertEqual({self.port(number, "sm_lid") for number in range(RNICS)}, {hex(lids[0])})
        self.assertRegex(self.ask("ibstat", "urnic1"), rf"State: Active[\s\S]*Base lid: {lids[1]}\n")
        self.assertRegex(self.ask("sminfo", "-C", "urnic1"), rf"sm lid {lids[0]} .*priority 5 state 3 SMINFO_MASTER")
        net = self.ask("ibnetdiscover", "-C", "urnic0")
        self.assertRegex(net, r'(?m)^Switch\s+3 .*"urnic switch of lab"')
        self.assertEqual(sorted(re.findall(r'(?m)^Ca\s+1 .*# "(\w+)"', net)), ["urnic0", "urnic1", "urnic2"])
        self.assertEqual(len(re.findall(r"Active/\s+LinkUp", self.ask("iblinkinfo", "-C", "urnic0"))), 2 * RNICS)
        switch_lid = int(re.search(r"base port 0 lid (\d+)", net).group(1))
        self.assertRegex(self.ask("ibroute", "-C", "urnic0", switch_lid), rf"(?i)0x{lids[2]:04x} 003")
        self.assertRegex(self.ask("ibtracert", "-C", "urnic0", lids[0], lids[2]), r"\[1\] -> .*switch port[\s\S]*\[3\] -> ca port")
        self.assertIn("urnic1", self.ask("smpquery", "-C", "urnic0", "nodedesc", lids[1]))
        self.assertRegex(self.ask("smpquery", "-C", "urnic0", "pkeys", lids[1]), "0xffff")
        nodes = self.ask("saquery", "-C", "urnic2", "-N")
        self.assertEqual(len(re.findall(r"NodeRecord dump", nodes)), RNICS + 1)
        self.assertIn(f"dlid....................{lids[1]}", self.ask("saquery", "-C", "urnic2", "--src-to-dst", f"{lids[2]}:{lids[1]}"))
        self.assertGreaterEqual(len(re.findall("PathRecord dump", self.ask("saquery", "-C", "urnic2", "-p"))), RNICS * RNICS)
        self.assertIn("3 packets transmitted, 3 received", self.ask("ibping", "-C", "urnic0", "-c", 3, lids[1]))
        self.ask("ibqueryerrors", "-C", "urnic0")

    def test_data_and_counters(self):
        self.bring_up()
        port = harness.free_port()
        common = ["-p", port, "-n", 500]
        self.run_pair(self.here("ibv_rc_pingpong", *common, "-d", "urnic1"),
                      self.here("ibv_rc_pingpong", *common, "-d", "urnic0", "127.0.0.1"), port)
        lid = int(self.port(1, "lid"), 16)

        def sent():
            return int(re.search(r"PortXmitPkts:\.*(\d+)", self.ask("perfquery", "-C", "urnic0", "-x", lid, 1)).group(1))
        self.assertGreaterEqual(sent(), 500)
        self.ask("perfquery", "-C", "urnic0", "-x", "-R", lid, 1)
        self.assertEqual(sent(), 0)

    def test_opensm_hears_of_a_wrong_key(self):
        _, log = self.bring_up()
        self.run_ok(self.here(harness.BUILD / "tests/e2e/ib_link_check", "--gtest_filter=IbKeys.AWrongQkeyIsDroppedAndCounted"))
        self.assertTrue(harness.wait_until(lambda: re.search(r"num:\s*258\b", log.read_text(encoding="utf-8", errors="replace"))),
                        log.read_text(encoding="utf-8", errors="replace"))

    def test_a_link_down_and_up(self):
        _, log = self.bring_up()
        self.assert_ok(self.urnic("port", "urnic2", "down", "--socket", self.socket))
        self.assertEqual(self.port(2, "state"), "1: DOWN")
        self.assert_ok(self.urnic("port", "urnic2", "up", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: self.states() == ["4: ACTIVE"] * RNICS), log.read_text(errors="replace"))

    def test_another_subnet_manager_takes_over(self):
        master, _ = self.bring_up()
        lids = [self.port(number, "lid") for number in range(RNICS)]
        standby, log = self.start_opensm(number=1, priority=3)
        self.assertTrue(harness.wait_until(lambda: log.exists() and "STANDBY" in log.read_text(errors="replace")
                                           or standby.poll() is not None))
        self.assertIsNone(standby.poll())
        os.killpg(master.pid, signal.SIGKILL)
        self.assertTrue(harness.wait_until(lambda: self.port(0, "sm_lid") == lids[1]), log.read_text(errors="replace"))
        self.assertEqual(self.states(), ["4: ACTIVE"] * RNICS)


    def test_a_subnet_manager_that_dies_in_its_sweep(self):
        """Killed at its first LID, it leaves ports in any state; the next one brings all of them up."""
        first, _ = self.start_opensm()
        self.assertTrue(harness.wait_until(lambda: any(self.port(number, "lid") != "0x0" for number in range(RNICS)), pause=0))
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        _, log = self.start_opensm(number=1)
        self.assertTrue(harness.wait_until(lambda: self.states() == ["4: ACTIVE"] * RNICS and
                                           {self.port(number, "sm_lid") for number in range(RNICS)} == {self.port(1, "lid")}),
                        log.read_text(encoding="utf-8", errors="replace") if log.exists() else "no log")
        self.assertIn("3 packets transmitted, 3 received", self.ask("ibping", "-C", "urnic2", "-c", 3, int(self.port(0, "lid"), 16)))


class Leaves(Subnet):
    """Emulated switches: urnic0 and urnic1 are on leaf s1, urnic2 and urnic3 on s2; the spines are s3 and s4."""

    rnics = 4
    network = '[[network]]\nfabric = "lab"\ntopology = "leaf-spine"\nleaves = 2\nspines = 2\nlink_mbps = 10000\n'

    def trunks(self):
        (network,) = self.status()["networks"]
        return {trunk["port"]: trunk for trunk in network["trunks"]}

    def switch_lids(self):
        net = self.ask("ibnetdiscover", "-C", "urnic0")
        return {name: int(lid) for name, lid in re.findall(r'(?m)^Switch\s.*"urnic switch (s\d) of lab".* lid (\d+)', net)}


class LeafSpine(Leaves):
    """opensm rules them."""

    def test_others_do_not_change_links(self):
        options = with_daemon.as_nobody()
        if not options:
            self.skipTest("needs another user")
        refused = self.urnic("port", "lab:s1>s3", "down", "--socket", self.socket, **options)
        self.assertNotEqual(refused.returncode, 0, str(refused))
        self.assertIn("may not change ports", refused.err, str(refused))
        self.assertEqual([user["refusals"] for user in self.status()["users"] if user["uid"] == options["user"]], [1])
        self.assertEqual({trunk["state"] for trunk in self.trunks().values()}, {"INIT"})
        self.assert_ok(self.urnic("port", "lab:s1>s3", "--socket", self.socket, **options), "to look is for all")

    def pingpong(self):
        port = harness.free_port()
        common = ["-p", port, "-n", 200]
        self.run_pair(self.here("ibv_rc_pingpong", *common, "-d", "urnic2"),
                      self.here("ibv_rc_pingpong", *common, "-d", "urnic0", "127.0.0.1"), port)

    def test_switches_are_swept_and_routed(self):
        self.assertEqual(self.states(), ["2: INIT"] * self.rnics)
        self.assertEqual({trunk["state"] for trunk in self.trunks().values()}, {"INIT"})
        self.bring_up()
        self.assertEqual({trunk["state"] for trunk in self.trunks().values()}, {"ACTIVE"})
        lids = self.switch_lids()
        self.assertEqual(sorted(lids), ["s1", "s2", "s3", "s4"])
        # Both ends of four links to RNICs and of four between switches.
        self.assertEqual(len(re.findall(r"Active/\s+LinkUp", self.ask("iblinkinfo", "-C", "urnic0"))), 16)
        host = [int(self.port(number, "lid"), 16) for number in range(self.rnics)]
        way = self.ask("ibtracert", "-C", "urnic0", host[0], host[2])
        self.assertEqual(len(re.findall(r"-> switch port", way)), 3, way)
        self.assertRegex(way, r'urnic switch s1 of lab[\s\S]*urnic switch s[34] of lab[\s\S]*urnic switch s2 of lab')
        before = sum(trunk["port_xmit_packets"] for trunk in self.trunks().values())
        self.pingpong()
        self.assertGreaterEqual(sum(trunk["port_xmit_packets"] for trunk in self.trunks().values()), before + 800)
        # The switch's own counters: port 1 of s1 has urnic0.
        counters = self.ask("perfquery", "-C", "urnic0", "-x", lids["s1"], 1)
        self.assertGreaterEqual(int(re.search(r"PortRcvPkts:\.*(\d+)", counters).group(1)), 200)

    def test_a_link_between_switches(self):
        """opensm hears of it by a trap, and finds another way."""
        self.bring_up()
        lids = self.switch_lids()
        host, back = (int(self.port(number, "lid"), 16) for number in (2, 0))

        def port_to(lid, switch="s1"):
            return int(re.search(rf"(?i)0x{lid:04x} (\d+)", self.ask("ibroute", "-C", "urnic0", lids[switch])).group(1))
        # Ports 1 and 2 of a leaf have RNICs, 3 and 4 the spines.
        first = port_to(host)
        self.assertIn(first, (3, 4))
        link = f"lab:s1>s{first}"
        self.assert_ok(self.urnic("port", link, "down", "--socket", self.socket))
        self.assertEqual(self.trunks()[f"s1>s{first}"]["state"], "DOWN")
        self.assertEqual(self.trunks()[f"s{first}>s1"]["state"], "DOWN")

        def has_moved():
            try:
                return port_to(host) == port_to(back, "s2") == 7 - first
            except (AssertionError, AttributeError):  # no way to that switch until opensm has swept
                return False
        self.assertTrue(harness.wait_until(has_moved, pause=0.2))
        self.pingpong()
        self.assert_ok(self.urnic("port", link, "up", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: {trunk["state"] for trunk in self.trunks().values()} == {"ACTIVE"}))
        self.pingpong()
        # And one to an RNIC.
        self.assert_ok(self.urnic("port", "urnic2", "down", "--socket", self.socket))
        self.assertEqual(self.port(2, "state"), "1: DOWN")
        self.assert_ok(self.urnic("port", "urnic2", "up", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: self.states() == ["4: ACTIVE"] * self.rnics))
        self.pingpong()


    def test_groups_go_by_the_tables(self):
        """opensm sets the multicast tables for who has joined, and perftest's datagrams to the group follow them."""
        self.bring_up()
        mgid = "ff150000000000000000000000000abc"
        script = pathlib.Path(__file__).with_name("sa_client.py")

        def join(number, *more):
            gid = self.port(number, "gids/0").replace(":", "")
            return self.ask("/usr/bin/python3", script, f"urnic{number}", "set", mgid, gid, 1, *more).strip()
        self.assertEqual(join(0, "create"), "status 0x0000 mlid 0xc001")
        self.assertEqual(join(2), "status 0x0000 mlid 0xc001")
        lids = self.switch_lids()

        def ports(switch):
            """Of that group; a column of two characters for each port, below its number."""
            text = self.ask("ibroute", "-C", "urnic0", "-M", lids[switch])
            first = text.splitlines()[1].index("0")
            row = next((line for line in text.splitlines() if line.startswith("0xc001")), "")
            return [number for number in range(5) if row[first + 2 * number:first + 2 * number + 1] == "x"]
        # Port 1 of each leaf has a member, 3 or 4 lead to the other leaf, by a spine.
        self.assertTrue(harness.wait_until(lambda: all(ports(leaf) in ([1, 3], [1, 4]) for leaf in ("s1", "s2")) and
                                           any(len(ports(spine)) == 2 for spine in ("s3", "s4")), pause=0.2),
                        f"{[(switch, ports(switch)) for switch in lids]}")
        port = harness.free_port()
        common = ["ib_send_bw", "-F", "-c", "UD", "-g", "-n", 100, "-p", port, "-M", ":".join(str(octet) for octet in bytes.fromhex(mgid))]
        _, client = self.run_pair(self.here(*common, "-d", "urnic2"), self.here(*common, "-d", "urnic0", "127.0.0.1"), port)
        self.assertRegex(client.out, "remote address: LID 0xc001 QPN 0xffffff")


if __name__ == "__main__":
    harness.main()
