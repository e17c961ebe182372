"""RNICs whose link layer is InfiniBand: stock programs by LIDs, with and without a GRH, as they run on NICs of InfiniBand."""

import re

import harness
import with_daemon

# perftest's tool, its connection.
TOOLS = [
    ("ib_write_bw", "RC"), ("ib_write_bw", "UC"), ("ib_write_bw", "XRC"), ("ib_write_lat", "RC"),
    ("ib_read_bw", "RC"), ("ib_read_lat", "XRC"),
    ("ib_send_bw", "RC"), ("ib_send_bw", "UC"), ("ib_send_bw", "UD"), ("ib_send_bw", "XRC"),
    ("ib_send_lat", "RC"), ("ib_send_lat", "UD"),
    ("ib_atomic_bw", "RC"), ("ib_atomic_lat", "XRC"),
]
PINGPONGS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_xsrq_pingpong")


class InfiniBand(with_daemon.WithDaemon):
    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        text = re.sub(r'ipv4 = "198.18.0.1/24"', 'link_layer = "infiniband"', text)
        text = re.sub(r'ipv4 = "198.18.0.2/24"', 'link_layer = "infiniband"\nlid = 0x4d', text)
        config.write_text(text, encoding="utf-8")
        return super().daemon_command()

    def here(self, *words):
        return [str(harness.URNIC), "run", "--socket", str(self.socket), "--", *(str(word) for word in words)]

    def pair(self, tool, *options, port_option="-p"):
        port = harness.free_port()
        common = [tool, *options, port_option, port]
        return self.run_pair(self.here(*common, "-d", "urnic1"), self.here(*common, "-d", "urnic0", "127.0.0.1"), port)

    def test_what_programs_see(self):
        text = self.run_ok(self.here("ibv_devinfo", "-v")).out
        self.assertEqual(re.findall(r"link_layer:\s+(\S+)", text), ["InfiniBand"] * 2)
        self.assertEqual(sorted(re.findall(r"port_lid:\s+(\d+)", text)), ["1", "77"])
        self.assertEqual(re.findall(r"\s+state:\s+(\S+)", text), ["PORT_ACTIVE"] * 2)
        self.assertEqual(sorted(re.findall(r"GID\[\s+0\]:\s+(\S+)", text)),
                         [f"fe80:0000:0000:0000:0000:c6ff:fe12:000{number}" for number in (1, 2)])

    def test_pingpongs(self):
        for tool in PINGPONGS:
            with self.subTest(tool=tool):
                with harness.xrc_domain_files([tool]):
                    _, client = self.pair(tool, *([] if tool == "ibv_xsrq_pingpong" else ["-n", 200]))
                self.assertRegex(client.out, r"LID (0x)?0001")

    def test_pingpongs_with_a_grh(self):
        for tool in PINGPONGS[:4]:
            with self.subTest(tool=tool):
                _, client = self.pair(tool, "-n", 200, "-g", 0)
                self.assertRegex(client.out, r"LID 0x0001.*GID fe80::c6ff:fe12:1")

    def test_perftest(self):
        for tool, connection in TOOLS:
            for size in ([] if "atomic" in tool else [["-s", 100], ["-s", 10_000]]) or [[]]:
                if connection == "UD" and size == ["-s", 10_000]:
                    size = ["-s", 4096]
                with self.subTest(tool=tool, connection=connection, size=size):
                    _, client = self.pair(tool, "-F", "-c", connection, "-n", 200, *size)
                    self.assertIn("Link type       : IB", client.out)
                    self.assertTrue(harness.perftest_rows(client), str(client))

    def test_verbs(self):
        self.run_ok(self.here(harness.BUILD / "tests/e2e/ib_link_check"))

    def test_two_workers(self):
        """The switch hands packets to the worker of their QP."""
        self.stop_daemon(self.daemon)
        config = self.dir / "urnicd.toml"
        config.write_text(config.read_text(encoding="utf-8").replace("workers = 1", "workers = 2"), encoding="utf-8")
        self.start_daemon()
        self.run_ok(self.here(harness.BUILD / "tests/e2e/ib_link_check"))
        self.pair("ib_write_bw", "-F", "-n", 200, "-q", 8)

    def test_port_down_and_up(self):
        self.assert_ok(self.urnic("port", "urnic1", "down", "--socket", self.socket))
        self.assertIn("PORT_DOWN", self.run_ok(self.here("ibv_devinfo", "-d", "urnic1")).out)
        self.assert_ok(self.urnic("port", "urnic1", "up", "--socket", self.socket))
        self.pair("ibv_rc_pingpong", "-n", 200)

    def test_what_is_for_ethernet_alone(self):
        fault = self.urnic("fault", "add", "drop", "--device", "urnic0", "--probability", "0.1", "--socket", self.socket)
        self.assertNotEqual(fault.returncode, 0, str(fault))
        self.assertIn("faults are for RNICs on Ethernet", fault.err + fault.out)
        congestion = self.urnic("cc", "set", "urnic0", "algorithm=dcqcn", "--socket", self.socket)
        self.assertNotEqual(congestion.returncode, 0, str(congestion))
        self.assertIn("InfiniBand", congestion.err + congestion.out)
        # A GID of InfiniBand is no address of librdmacm's.
        rping = harness.run(self.here("rping", "-s", "-a", "fe80::c6ff:fe12:1", "-C", 1))
        self.assertNotEqual(rping.returncode, 0, str(rping))


SUBNET = """
[daemon]
run_dir = "{run_dir}"
socket_mode = "0666"
workers = {workers}
hugepages = false
[[network]]
fabric = "lab"
{keys}
"""
RNIC = """
[[rnic]]
name = "urnic{number}"
port = "fabric"
fabric = "lab"
link_layer = "infiniband"
ipv4 = "198.18.2.{address}/24"
{keys}
"""
LEAF_SPINE = """topology = "leaf-spine"
leaves = 2
spines = 2
link_mbps = 10000"""


class Subnet(InfiniBand):
    """The same programs through leaves and spines: urnic0 and urnic1 are on different leaves (s1 and s2; the spines are s3 and s4)."""

    network = LEAF_SPINE
    workers = 1
    lid_of_1 = "lid = 0x4d"

    def daemon_command(self):
        text = SUBNET.format(run_dir=self.run_dir, workers=self.workers, keys=self.network)
        for number in (0, 2, 1, 3):
            text += RNIC.format(number=number, address=number + 1, keys=self.lid_of_1 if number == 1 else "")
        (self.dir / "urnicd.toml").write_text(text, encoding="utf-8")
        return [harness.BUILD / "urnicd", "--config", self.dir / "urnicd.toml"]

    def subnet(self):
        (network,) = self.status()["networks"]
        return ({port["device"]: port for port in network["ports"]}, {trunk["port"]: trunk for trunk in network["trunks"]})

    def set_link(self, link, state):
        self.assert_ok(self.urnic("port", link, state, "--socket", self.socket))

    def test_what_programs_see(self):
        text = self.run_ok(self.here("ibv_devinfo", "-v")).out
        self.assertEqual(sorted(re.findall(r"port_lid:\s+(\d+)", text)), ["1", "2", "3", "77"])
        self.assertEqual(re.findall(r"\s+state:\s+(\S+)", text), ["PORT_ACTIVE"] * 4)

    def test_perftest(self):
        for tool, connection in (("ib_write_bw", "RC"), ("ib_read_bw", "RC"), ("ib_send_bw", "UD"), ("ib_send_lat", "UC")):
            with self.subTest(tool=tool, connection=connection):
                _, client = self.pair(tool, "-F", "-c", connection, "-n", 200, "-s", 4096)
                self.assertTrue(harness.perftest_rows(client), str(client))
        ports, trunks = self.subnet()
        for port in [*ports.values(), *trunks.values()]:
            self.assertEqual((port["state"], port["port_xmit_discards"], port["port_rcv_errors"]), ("ACTIVE", 0, 0), port)
        self.assertGreater(ports["urnic1"]["port_xmit_packets"], 600)

    def test_two_workers(self):
        self.stop_daemon(self.daemon)
        self.workers = 2
        self.start_daemon()
        self.test_verbs()

    def ask(self, tool, *words):
        # Some of infiniband-diags are in sbin, and a user's PATH is without it.
        return self.run_ok(self.here("env", "PATH=/usr/sbin:/sbin:/usr/bin:/bin", tool, "-C", "urnic0", *words)).out

    def test_management(self):
        """infiniband-diags see the switches, their tables and what becomes of their links; nobody changes what the daemon has planned."""
        network = self.ask("ibnetdiscover")
        self.assertEqual(len(re.findall(r"(?m)^Switch\s", network)), 4, network)
        self.assertEqual(len(re.findall(r"(?m)^Ca\s", network)), 4, network)
        links = self.ask("iblinkinfo")
        self.assertEqual(len(re.findall(r"Active/\s+LinkUp", links)), 2 * (4 + 4), links)
        route = self.ask("ibtracert", 1, 0x4d)
        self.assertEqual(route.count("-> switch port"), 3, route)
        path = self.ask("saquery", "-t", 10_000, "--src-to-dst", f"1:{0x4d}")
        self.assertIn(f"dlid....................{0x4d}\n", path)
        self.assertEqual(self.ask("saquery", "-t", 10_000, "-N").count("NodeRecord dump"), 8)
        first_switch = re.search(r'(?m)^Switch\s.*"urnic switch s1 of lab".* lid (\d+)', network).group(1)
        self.pair("ibv_rc_pingpong", "-n", 100)
        self.assertGreater(int(re.search(r"PortXmitPkts:\.+(\d+)", self.ask("perfquery", "-x", first_switch, 1)).group(1)), 100)
        # s1's ports: two RNICs, then the spines.
        refused = harness.run(self.here("env", "PATH=/usr/sbin:/sbin:/usr/bin:/bin", "ibportstate", "-C", "urnic0", first_switch, 3, "disable"))
        self.assertNotEqual(refused.returncode, 0, str(refused))
        self.assertRegex(self.ask("smpquery", "portinfo", first_switch, 3), r"LinkState:\.+Active\n")
        for spine in ("s3", "s4"):
            self.set_link(f"lab:s1>{spine}", "down")
            links = self.ask("iblinkinfo")
            self.assertEqual(len(re.findall(r"Active/\s+LinkUp", links)), 2 * (4 + 3), links)
            self.assertNotIn(f"switch {spine} of lab", self.ask("ibtracert", 1, 0x4d))
            self.set_link(f"lab:s1>{spine}", "up")

    def test_connections(self):
        """librdmacm finds paths and groups by the built-in administrator."""
        server = harness.start(self.here("rping", "-s", "-a", "198.18.2.2", "-C", 3))
        self.addCleanup(harness.end_group, server)
        self.assertTrue(harness.wait_until(lambda: any(each.get("cm_listeners") for each in self.status()["clients"]) or server.poll() is not None))
        self.run_ok(self.here("rping", "-c", "-a", "198.18.2.2", "-C", 3))
        self.assert_ok(harness.finish(server))
        receiver = harness.start(self.here("mckey", "-m", "239.1.2.3", "-b", "198.18.2.2", "-C", 8))
        self.addCleanup(harness.end_group, receiver)
        self.assertTrue(harness.wait_until(lambda: any(device["mcast_groups"] for device in self.status()["devices"]), pause=0.05))
        # One sender is a full member of the group, too, and one sends alone.
        self.run_ok(self.here("mckey", "-m", "239.1.2.3", "-b", "198.18.2.4", "-s", "-C", 4))
        self.run_ok(self.here("mckey", "-m", "239.1.2.3", "-b", "198.18.2.4", "-s", "-C", 4, "-o"))
        self.assert_ok(harness.finish(receiver))

    def test_port_down_and_up(self):
        super().test_port_down_and_up()
        self.set_link("urnic1", "down")
        self.assertEqual(self.subnet()[0]["urnic1"]["state"], "DOWN")
        self.set_link("urnic1", "up")
        self.assertEqual(self.subnet()[0]["urnic1"]["state"], "ACTIVE")

    def test_packets_go_round_links_that_are_down(self):
        for spine in ("s3", "s4"):
            self.set_link(f"lab:s1>{spine}", "down")
            before = self.subnet()[1]
            self.assertEqual(before[f"s1>{spine}"]["state"], "DOWN")
            self.assertEqual(before[f"{spine}>s1"]["state"], "DOWN")
            self.pair("ibv_rc_pingpong", "-n", 100)
            self.assertEqual(self.subnet()[1][f"s1>{spine}"]["port_xmit_packets"], before[f"s1>{spine}"]["port_xmit_packets"])
            self.set_link(f"lab:s1>{spine}", "up")
        self.pair("ibv_rc_pingpong", "-n", 100)
        nobody = self.urnic("port", "lab:s1>s2", "down", "--socket", self.socket)
        self.assertNotEqual(nobody.returncode, 0, str(nobody))


class PathBits(Subnet):
    """Four LIDs for each RNIC."""

    network = LEAF_SPINE + "\nlmc = 2\nsl_to_vl = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 15]\nvls = 4"
    lid_of_1 = ""

    def test_what_programs_see(self):
        text = self.run_ok(self.here("ibv_devinfo", "-v")).out
        self.assertEqual(sorted(re.findall(r"port_lid:\s+(\d+)", text), key=int), ["4", "8", "12", "16"])
        self.assertEqual(re.findall(r"port_lmc:\s+(\S+)", text), ["0x02"] * 4)

    def test_pingpongs(self):
        self.pair("ibv_rc_pingpong", "-n", 100)
        self.pair("ibv_rc_pingpong", "-n", 100, "-l", 14, port_option="-p")

    test_verbs = test_perftest = test_two_workers = test_pingpongs_with_a_grh = test_management = None
    test_port_down_and_up = test_packets_go_round_links_that_are_down = test_what_is_for_ethernet_alone = None


if __name__ == "__main__":
    harness.main()
