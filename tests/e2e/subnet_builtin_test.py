"""The built-in subnet manager and administrator, by stock tools: queries, groups, notices, and a manager beside it."""

import ipaddress
import os
import pathlib
import re
import signal
import struct

import harness
import subnet_test
from subnet_test import RNICS, short_gid


class Builtin(subnet_test.Subnet):
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
        # Its port says so, and no other, and its record is what sminfo says.
        self.assertRegex(self.ask("smpquery", "-C", "urnic1", "portinfo", 1), r"\sIsSM\s")
        self.assertNotRegex(self.ask("smpquery", "-C", "urnic1", "portinfo", 2), r"\sIsSM\s")
        record = self.ask("saquery", "-C", "urnic1", "SMIR")
        self.assertEqual(len(re.findall("SMInfoRecord dump", record)), 1)
        for line in (r"LID\.+1\s", rf"(?i)GUID\.+0x0*{guid[2:]}\s", r"Priority\.+0\s", r"SMState\.+3\s"):
            self.assertRegex(record, line)

    def hand_over(self, priority):
        """opensm at the second port finds a master, stands by, and is handed the subnet."""
        process, log = self.start_opensm(1, priority)
        lid = self.port(1, "lid")

        def text():
            return log.read_text(encoding="utf-8", errors="replace") if log.exists() else "no log"
        self.assertTrue(harness.wait_until(lambda: {self.port(number, "sm_lid") for number in range(RNICS)} == {lid}), text())
        self.assertRegex(text(), r"Entering STANDBY state[\s\S]*Entering MASTER state")
        self.assertRegex(self.ask("sminfo", "-C", "urnic2"), rf"sm lid {int(lid, 16)} .* priority {priority} state 3 SMINFO_MASTER")
        return process, text

    def test_a_program_becomes_the_manager(self):
        """The built-in one gives way to it, is silent from then on, and nobody looks for a manager at its port."""
        process, text = self.hand_over(5)
        home = int(self.port(0, "lid"), 16)
        refused = harness.run(self.here("sminfo", "-C", "urnic2", "-t", 100, home))
        self.assertNotEqual(refused.returncode, 0, str(refused))
        self.assertNotRegex(self.ask("smpquery", "-C", "urnic2", "portinfo", home), r"\sIsSM\s")
        # It sweeps on, once a second, and stays what it is.
        before = self.activity(self.port(1, "sm_lid"))
        self.assertTrue(harness.wait_until(lambda: self.activity(self.port(1, "sm_lid")) > before + 10, pause=0.2), text())
        self.assertIsNone(process.poll(), text())
        self.assertEqual(len(re.findall("SMInfoRecord dump", self.ask("saquery", "-C", "urnic2", "SMIR"))), 1)
        self.assertEqual(text().count("Entering MASTER state"), 1, text())

    def test_a_program_of_no_priority_becomes_the_manager(self):
        """opensm as it starts by itself: its GUID is the greater one, too."""
        _, text = self.hand_over(0)
        self.assertEqual(text().count("Entering MASTER state"), 1, text())

    def test_a_trap_is_reported(self):
        """A program opens issm: the capability mask of its port has changed (trap 144)."""
        program = self.watch(1)
        hold = "import os, sys; os.open('/dev/infiniband/issm2', os.O_RDWR); print('open', flush=True); sys.stdin.read()"
        holder = harness.start(self.here("/usr/bin/python3", "-c", hold))
        self.addCleanup(harness.finish, holder)
        self.addCleanup(harness.end_group, holder)
        self.assertEqual(harness.read_line(holder), "open\n")
        told = harness.read_line(program).split()
        self.assertEqual((told[0], told[-1]), ("144", short_gid(self.gid(2))))
        # No manager answers there, and the subnet stays where it is.
        self.assertRegex(self.ask("sminfo", "-C", "urnic1"), "sm lid 1 .* state 3 SMINFO_MASTER")

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

    def test_open_devices_are_bounded(self):
        """Eight programs may have every port open, as ibacm does, and 64 more one of them; who asks for more is told, and no one else."""
        ask = """if True:
            import errno, itertools, os, signal
            fds = []
            try:
                for number in itertools.count():
                    fds.append(os.open(f"/dev/infiniband/umad{number % 3}", os.O_RDWR))
            except OSError as error:
                print(len(fds), errno.errorcode[error.errno], flush=True)
            signal.pause()"""
        programs = []
        for opened in (64, 8 * RNICS):  # one process opens 64 at most
            programs.append(harness.start(self.here("/usr/bin/python3", "-c", ask)))
            self.addCleanup(harness.finish, programs[-1])
            self.addCleanup(harness.end_group, programs[-1])
            self.assertEqual(harness.read_line(programs[-1]), f"{opened} EMFILE\n")
        query = self.here("saquery", "-C", "urnic1", "-c")
        refused = harness.run(query)
        self.assertNotEqual(refused.returncode, 0, str(refused))
        harness.end_group(programs[0])
        self.assertTrue(harness.wait_until(lambda: harness.run(query).returncode == 0, pause=0.1))

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


class Keys(subnet_test.Subnet):
    """Packets with a wrong P_Key or Q_Key: their port counts them and tells the subnet manager, once in its time."""

    subnet_manager = "builtin"
    rnic_keys = "pkeys = [0xffff, 0x8012]\n"

    def told(self, program):
        """Trap, key, SL, both QPs, and who says so."""
        trap, details, issuer = harness.read_line(program).split()
        key, first, second = struct.unpack(">III", ipaddress.ip_address(details).packed[:12])
        return int(trap), key, first >> 28, first & 0xFFFFFF, second, issuer

    def counted(self, name):
        """Of the second RNIC's port, as libibverbs and subnet management have it."""
        return int(re.search(rf"{name}:\.+(\d+)", self.ask("smpquery", "-C", "urnic0", "portinfo", 2)).group(1))

    def test_a_wrong_qkey(self):
        program = self.watch(2)
        self.run_ok(self.here(harness.BUILD / "tests/e2e/ib_link_check", "--gtest_filter=IbKeys.AWrongQkeyIsDroppedAndCounted"))
        trap, key, sl, source, destination, issuer = self.told(program)
        self.assertEqual((trap, key, sl, issuer), (258, 0x1234, 3, short_gid(self.gid(1))))
        self.assertGreater(source, 1)
        self.assertGreater(destination, 1)
        self.assertEqual((self.counted("QkeyViolations"), self.counted("PkeyViolations")), (1, 0))

    def test_a_wrong_pkey(self):
        """perftest's client has another partition; each of its requests is repeated, and one trap tells of all."""
        program = self.watch(2)
        port = harness.free_port()
        words = ("-F", "-n", 5, "-p", port)
        server = harness.start(self.here("ib_send_bw", "-d", "urnic1", "--pkey_index=0", *words))
        self.addCleanup(harness.finish, server)
        self.addCleanup(harness.end_group, server)
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, server.pid) or server.poll() is not None))
        client = harness.run(self.here("ib_send_bw", "-d", "urnic0", "--pkey_index=1", *words, "127.0.0.1"))
        self.assertIn("Failed status 12", client.out + client.err, str(client))  # IBV_WC_RETRY_EXC_ERR
        trap, key, _, source, _, issuer = self.told(program)
        self.assertEqual((trap, key, source, issuer), (257, 0x8012, 0, short_gid(self.gid(1))))
        self.assertGreater(self.counted("PkeyViolations"), 1)
        self.assertEqual(self.counted("QkeyViolations"), 0)


class Planned(subnet_test.Subnet):
    """Emulated switches whose routes the daemon has planned: no program takes the built-in manager's place."""

    subnet_manager = "builtin"
    rnics = 4
    network = subnet_test.LeafSpine.network

    def told(self, program):
        """Trap number, and the GID of the node that it came from."""
        words = harness.read_line(program).split()
        return words[0], words[-1]

    def test_traps_of_nodes_are_reported(self):
        program = self.watch(1)
        nodes = self.ask("saquery", "-C", "urnic0", "-N")
        guids = dict(re.findall(r"port_guid\.+0x(\w+)[\s\S]*?NodeDescription\.+urnic switch (s\d) of", nodes))
        gids = {name: short_gid("fe80::" + ":".join(re.findall("....", guid))) for guid, name in guids.items()}
        self.assertEqual(sorted(gids), ["s1", "s2", "s3", "s4"], nodes)
        # A link between switches: both its ends tell of it.
        self.assert_ok(self.urnic("port", "lab:s1>s3", "down", "--socket", self.socket))
        self.assertEqual({self.told(program), self.told(program)}, {("128", gids["s1"]), ("128", gids["s3"])})
        # Nobody sets an attribute: it has a wrong M_Key.
        lid = int(self.port(2, "lid"), 16)
        refused = harness.run(self.here("ibportstate", "-C", "urnic0", "-t", 100, lid, 1, "disable"))
        self.assertNotEqual(refused.returncode, 0, str(refused))
        self.assertEqual(self.told(program), ("256", short_gid(self.gid(2))))

    def test_opensm_stands_by(self):
        process, log = self.start_opensm(1, 15)

        def text():
            return log.read_text(encoding="utf-8", errors="replace") if log.exists() else "no log"
        self.assertTrue(harness.wait_until(lambda: "Entering STANDBY state" in text() or process.poll() is not None), text())
        beside = int(self.port(1, "lid"), 16)
        self.assertRegex(self.ask("sminfo", "-C", "urnic0", beside), "priority 15 state 2 SMINFO_STANDBY")
        # It polls the master, and that answers.
        before = self.activity(1)
        self.assertTrue(harness.wait_until(lambda: self.activity(1) > before + 10, pause=0.2))
        self.assertIsNone(process.poll(), text())
        self.assertNotIn("Entering MASTER state", text())
        self.assertEqual({self.port(number, "sm_lid") for number in range(self.rnics)}, {"0x1"})
        self.assertEqual(self.states(), ["4: ACTIVE"] * self.rnics)
        self.assertRegex(self.ask("saquery", "-C", "urnic3", "SMIR"), r"LID\.+1\s")


if __name__ == "__main__":
    harness.main()
