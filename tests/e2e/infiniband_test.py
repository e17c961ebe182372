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
        self.assertEqual(re.findall(r"port_lid:\s+(\d+)", text), ["1", "77"])
        self.assertEqual(re.findall(r"\s+state:\s+(\S+)", text), ["PORT_ACTIVE"] * 2)
        self.assertEqual(re.findall(r"GID\[\s+0\]:\s+(\S+)", text),
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


if __name__ == "__main__":
    harness.main()
