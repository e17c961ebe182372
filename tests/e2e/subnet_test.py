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

    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8").split("[[rnic]]")[0]
        text += self.network
        for number in range(self.rnics):
            text += (f'[[rnic]]\nname = "urnic{number}"\nport = "fabric"\nfabric = "lab"\nlink_layer = "infiniband"\n'
                     f'subnet_manager = "{self.subnet_manager}"\n{self.rnic_keys}')
        config.write_text(text, encoding="utf-8")
        return super().daemon_command()

    def here(self, name, *words):
        return [str(harness.URNIC), "run", "--socket", str(self.socket), "--", tool(name) or name, *(str(word) for word in words)]

    def port(self, number, name):
        file = self.run_dir / f"sysroot/sys/class/infiniband/urnic{number}/ports/1/{name}"
        return file.read_text(encoding="utf-8").strip()

    def states(self):
        return [self.port(number, "state") for number in range(self.rnics)]

    def start_opensm(self, number=0, priority=5, *options):
        """In a folder of its own; returns the process and its log."""
        folder = self.dir / f"opensm{number}"
        folder.mkdir(exist_ok=True)
        guid = self.port(number, "gids/0").replace(":", "")[16:]
        log = folder / "opensm.log"
        (folder / "opensm.conf").write_text("sweep_interval 1\nsminfo_polling_timeout 500\npolling_retry_number 2\nforce_log_flush TRUE\n", encoding="utf-8")
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


class LeafSpine(Subnet):
    """opensm rules emulated switches: urnic0 and urnic1 are on leaf s1, urnic2 and urnic3 on s2; the spines are s3 and s4."""

    rnics = 4
    network = '[[network]]\nfabric = "lab"\ntopology = "leaf-spine"\nleaves = 2\nspines = 2\nlink_mbps = 10000\n'

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

    def trunks(self):
        (network,) = self.status()["networks"]
        return {trunk["port"]: trunk for trunk in network["trunks"]}

    def switch_lids(self):
        net = self.ask("ibnetdiscover", "-C", "urnic0")
        return {name: int(lid) for name, lid in re.findall(r'(?m)^Switch\s.*"urnic switch (s\d) of lab".* lid (\d+)', net)}

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


class Builtin(Subnet):
    subnet_manager = "builtin"

    def daemon_command(self):
        self.log = self.dir / "urnicd.log"
        return ["sh", "-c", 'exec "$0" "$@" 2>"$LOG"'.replace("$LOG", str(self.log)), *super().daemon_command()]

    def logged(self, *words):
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if all(word in line for word in words)]

    def test_diagnostics_without_a_subnet_manager(self):
        self.assertEqual(self.states(), ["4: ACTIVE"] * RNICS)
        self.assertRegex(self.ask("smpquery", "-C", "urnic0", "portinfo", 3), r"LinkState:\.+Active")
        self.assertIn("3 packets transmitted, 3 received", self.ask("ibping", "-C", "urnic0", "-c", 3, 2))
        self.assertEqual(len(re.findall(r"(?m)^Ca\s", self.ask("ibnetdiscover", "-C", "urnic0"))), RNICS)

    def gid(self, number):
        return self.port(number, "gids/0")

    def test_subnet_administration(self):
        """saquery asks the built-in subnet administrator, which is at the first RNIC's port."""
        self.assertEqual({self.port(number, "sm_lid") for number in range(RNICS)}, {"0x1"})
        self.assertRegex(self.ask("saquery", "-C", "urnic1", "-c"), r"Class version\.+2")
        nodes = self.ask("saquery", "-C", "urnic2", "-N")
        self.assertEqual(re.findall(r"NodeDescription\.+(\S+)", nodes), ["urnic0", "urnic1", "urnic2"])
        self.assertEqual(self.ask("saquery", "-C", "urnic1", "-O", 3).strip(), "urnic2")
        path = self.ask("saquery", "-C", "urnic2", "--src-to-dst", "3:2")
        for line in (f"dgid....................{short_gid(self.gid(1))}", f"sgid....................{short_gid(self.gid(2))}",
                     "dlid....................2", "slid....................3", "pkey....................0xFFFF", "mtu.....................0x85",
                     "rate....................0x90"):
            self.assertIn(line, path)
        self.assertIn("dlid....................1", self.ask("saquery", "-C", "urnic1", "--sgid-to-dgid", f"{self.gid(2)}-{self.gid(0)}"))
        # More than one MAD holds.
        self.assertEqual(len(re.findall("PathRecord dump", self.ask("saquery", "-C", "urnic2", "-p"))), RNICS * RNICS)
        self.assertRegex(self.ask("saquery", "-C", "urnic1", "PIR", "2"), r"EndPortLid\.+2[\s\S]*LinkState:\.+Active")
        refused = harness.run(self.here("saquery", "-C", "urnic1", "PR", "--dgid", "fe80::1"))
        self.assertIn("SA_ERR_REQ_INVALID_GID", refused.out + refused.err, str(refused))

    def test_multicast_members(self):
        """By libibumad, as programs join: MLIDs are given out, groups end with their last full member or its link."""
        mgid = "ff12601bffff00000000000000000abc"

        def change(number, method, state, *more):
            script = pathlib.Path(__file__).with_name("sa_client.py")
            gid = self.gid(number).replace(":", "")
            return self.ask("/usr/bin/python3", script, f"urnic{number}", method, mgid, gid, state, *more).strip()

        def groups():
            return re.findall(r"Mlid\.+(\S+)", self.ask("saquery", "-C", "urnic0", "-g"))
        # IPoIB's broadcast group is there.
        self.assertEqual(groups(), ["0xC000"])
        self.assertEqual(change(1, "set", 1), "status 0x0600 mlid 0x0000")
        self.assertEqual(change(1, "set", 1, "create"), "status 0x0000 mlid 0xc001")
        self.assertEqual(change(2, "set", 1), "status 0x0000 mlid 0xc001")
        self.assertEqual(groups(), ["0xC000", "0xC001"])
        members = self.ask("saquery", "-C", "urnic0", "--smkey", 1, "-m", "0xC001")
        for number in (1, 2):
            self.assertIn(short_gid(self.gid(number)), members)
        self.assertEqual(change(1, "delete", 1), "status 0x0000 mlid 0xc001")
        self.assertEqual(change(1, "delete", 1), "status 0x0200 mlid 0x0000")
        self.assertEqual(groups(), ["0xC000", "0xC001"])
        self.assert_ok(self.urnic("port", "urnic2", "down", "--socket", self.socket))
        self.assertEqual(groups(), ["0xC000"])

    def test_the_manager_says_that_it_is_one(self):
        guid = f"0x{int(self.gid(0).replace(':', '')[16:], 16):x}"

        def activity(*words):
            text = self.ask("sminfo", "-C", "urnic1", *words)
            self.assertRegex(text, rf"sm guid {guid}, activity count \d+ priority 0 state 3 SMINFO_MASTER")
            return int(re.search(r"activity count (\d+)", text).group(1))
        self.assertIn("sm lid 1 ", self.ask("sminfo", "-C", "urnic2"))
        before = activity()
        self.assertGreater(activity("-D", "0,1,1"), before)
        # HANDOVER and the others: it stays what it is.
        for modifier in range(1, 6):
            refused = harness.run(self.here("sminfo", "-C", "urnic1", "--state", 3, 1, modifier))
            self.assertNotEqual(refused.returncode, 0, str(refused))
        self.assertGreater(activity(), before)
        # Behind another port there is none.
        refused = harness.run(self.here("sminfo", "-C", "urnic0", "-t", 100, 2))
        self.assertNotEqual(refused.returncode, 0, str(refused))

    def test_a_program_becomes_the_manager(self):
        """The built-in one is seen by nobody who looks for managers, and is silent from then on."""
        _, log = self.start_opensm(number=1)
        lid = self.port(1, "lid")
        self.assertTrue(harness.wait_until(lambda: {self.port(number, "sm_lid") for number in range(RNICS)} == {lid}),
                        log.read_text(errors="replace") if log.exists() else "no log")
        self.assertIn(f"sm lid {int(lid, 16)} ", self.ask("sminfo", "-C", "urnic2"))
        refused = harness.run(self.here("sminfo", "-C", "urnic2", "-t", 100, int(self.port(0, "lid"), 16)))
        self.assertNotEqual(refused.returncode, 0, str(refused))

    def watch(self, number):
        script = pathlib.Path(__file__).with_name("sa_client.py")
        program = harness.start(self.here("/usr/bin/python3", script, f"urnic{number}", "watch"))
        self.addCleanup(harness.finish, program)
        self.addCleanup(harness.end_group, program)
        self.assertEqual(harness.read_line(program), "status 0x0000\n")
        return program

    def subscribers(self):
        return re.findall(r"SubscriberGID\.+(\S+)", self.ask("saquery", "-C", "urnic0", "-I"))

    def test_notices(self):
        """A program of libibumad hears of ports and groups that come and go (traps 64 to 67)."""
        self.assertEqual(self.subscribers(), [])
        program = self.watch(1)
        self.assertEqual(self.subscribers(), [short_gid(self.gid(1))])
        record = self.ask("saquery", "-C", "urnic2", "IIR", self.gid(1))
        for line in (r"lid_range_begin\.+65535", r"subscribe\.+0x1", r"trap_num\.+65535", r"node_type\.+0xFFFFFF"):
            self.assertRegex(record, line)

        def assert_told(trap, gid):
            self.assertEqual(harness.read_line(program), f"{trap} {short_gid(gid)} {short_gid(self.gid(0))}\n")
        self.assert_ok(self.urnic("port", "urnic2", "down", "--socket", self.socket))
        assert_told(65, self.gid(2))
        self.assert_ok(self.urnic("port", "urnic2", "up", "--socket", self.socket))
        assert_told(64, self.gid(2))
        mgid = "ff12:601b:ffff::abc"
        member = (ipaddress.ip_address(mgid).packed.hex(), self.gid(2).replace(":", ""), 1)
        client = ("/usr/bin/python3", pathlib.Path(__file__).with_name("sa_client.py"), "urnic2")
        self.ask(*client, "set", *member, "create")
        assert_told(66, mgid)
        self.ask(*client, "delete", *member)
        assert_told(67, mgid)
        self.assertEqual(self.subscribers(), [short_gid(self.gid(1))], "it has answered them all")
        # It ends with the port.
        self.assert_ok(self.urnic("port", "urnic1", "down", "--socket", self.socket))
        self.assertEqual(self.subscribers(), [])

    def test_a_subscriber_that_has_died(self):
        program = self.watch(1)
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        self.assert_ok(self.urnic("port", "urnic2", "down", "--socket", self.socket))
        self.assertTrue(harness.wait_until(lambda: self.subscribers() == [], pause=0.5), "reports that nobody answers go on")
        # Another one subscribes anew.
        program = self.watch(1)
        self.assert_ok(self.urnic("port", "urnic2", "up", "--socket", self.socket))
        self.assertEqual(harness.read_line(program), f"64 {short_gid(self.gid(2))} {short_gid(self.gid(0))}\n")

    def test_others_may_not(self):
        """umad is root's and the daemon's user's: with the subnet's management comes all of it."""
        umad = self.run_dir / "sysroot/dev/infiniband/umad0"
        self.assertTrue(umad.is_socket())
        self.assertEqual(umad.stat().st_mode & 0o022, 0)
        if os.geteuid() != 0:
            self.skipTest("the rest needs another user")
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        ask = "import os, sys; os.close(os.open('/dev/infiniband/umad0', os.O_RDWR))"
        self.run_ok(self.here("/usr/bin/python3", "-c", ask))
        for mode in (None, 0o666):  # whatever the socket's mode is
            if mode is not None:
                umad.chmod(mode)
                (pathlib.Path(umad).parent / ".umad_control").chmod(mode)
            self.run_ok([*nobody, *self.here("true")])
            refused = harness.run([*nobody, *self.here("/usr/bin/python3", "-c", ask)])
            self.assertIn("PermissionError", refused.err, str(refused))
        # Of what the mode forbids the daemon does not hear.
        lines = self.logged("user 65534, process ", " is refused to open umad0: ")
        self.assertEqual(len(lines), 1, self.logged())
        (user,) = (user for user in self.status()["users"] if user["uid"] == 65534)
        self.assertEqual(user["refusals"], 1)

    def test_a_program_that_does_not_read_loses_answers_alone(self):
        script = pathlib.Path(__file__).with_name("sa_client.py")
        program = harness.start(self.here("/usr/bin/python3", script, "urnic0", "flood"))
        self.addCleanup(harness.finish, program)
        self.addCleanup(harness.end_group, program)
        self.assertEqual(harness.read_line(program), "flooding\n")
        self.assertTrue(harness.wait_until(lambda: self.logged("does not read its umad device") or program.poll() is not None))
        self.assertIsNone(program.poll(), "it ended")
        self.assertEqual(len(self.status()["devices"]), RNICS)
        for asked in ("urnic0", "urnic1"):
            self.assertRegex(self.ask("saquery", "-C", asked, "-c"), r"Class version\.+2")
        self.assertIsNone(program.poll(), "it ended")
        self.assertEqual(len(self.logged("does not read its umad device")), 1, "once is enough")


if __name__ == "__main__":
    harness.main()
