"""The stock programs of ibverbs-utils, under `urnic run --standalone`."""

import re

import harness


class Tools(harness.TestCase):
    def test_ibv_devices(self):
        out = self.run_ok(["ibv_devices"], env=None).out
        self.assertRegex(out, r"urnic0\s+[0-9a-f]{16}")
        self.assertRegex(out, r"urnic1\s+[0-9a-f]{16}")
        self.assertEqual(len(set(re.findall(r"urnic\d\s+([0-9a-f]{16})", out))), 2, "node GUIDs must differ")

    def test_ibv_devinfo(self):
        out = self.run_ok(["ibv_devinfo", "-v"], env=None).out
        for text in ("hca_id:\turnic0", "hca_id:\turnic1", "PORT_ACTIVE", "link_layer:\t\tEthernet",
                     "active_mtu:\t\t4096", "::ffff:198.18.0.1, RoCE v2", "::ffff:198.18.0.2, RoCE v2",
                     "ATOMIC_GLOB"):
            self.assertIn(text, out)
        # The rest of the GID table is zero, and ibv_devinfo shows no zero entry.
        self.assertEqual(len(re.findall(r"GID\[", out)), 4, out)
        self.assertEqual(len(re.findall(r"GID\[\s*0\]:\s+fe80:", out)), 2, out)

    def test_ibv_devinfo_of_one_device(self):
        out = self.run_ok(["ibv_devinfo", "-d", "urnic1"], env=None).out
        self.assertNotIn("urnic0", out)
        result = harness.run(["ibv_devinfo", "-d", "urnic7"], env=None)
        self.assertNotEqual(result.returncode, 0)

    def test_a_program_that_dlopens_libibverbs(self):
        result = self.run_ok([harness.BUILD / "tests/e2e/dlopen_check"], env=None)
        self.assertEqual(result.out, "transferred 4096 bytes\n")


class PingpongCase(harness.TestCase):
    tool = "ibv_rc_pingpong"

    def pingpong(self, *options, gid="1", iterations="100", client_device="urnic1"):
        port = str(harness.free_port())
        common = ["-p", port, "-g", gid, "-n", iterations, *options]
        server, client = self.run_pair([self.tool, "-d", "urnic0", *common],
                                       [self.tool, "-d", client_device, *common, "127.0.0.1"], int(port))
        for result in (server, client):
            self.assertRegex(result.out, rf"{iterations} iters in [0-9.]+ seconds")
            self.assertNotIn("invalid data", result.out + result.err)


class Pingpong(PingpongCase):
    def test_polling_with_validation(self):
        for size in (1, 2, 63, 1023, 1024, 1025, 4096, 65536, 1 << 20):
            with self.subTest(size=size):
                self.pingpong("-c", "-s", str(size))

    def test_no_payload(self):
        self.pingpong("-s", "0")

    def test_events_with_validation(self):
        for size in (1, 4096, 100_000, 1 << 20):
            with self.subTest(size=size):
                self.pingpong("-e", "-c", "-s", str(size))
        self.pingpong("-e", "-s", "0")

    def test_every_path_mtu(self):
        for mtu in (256, 512, 1024, 2048, 4096):
            with self.subTest(mtu=mtu):
                self.pingpong("-c", "-m", str(mtu), "-s", "10001")

    def test_gids(self):
        self.pingpong("-c", gid="0")
        self.pingpong("-c", gid="1")

    def test_new_post_calls(self):
        self.pingpong("-c", "-N")
        self.pingpong("-c", "-N", "-e")

    def test_two_qps_of_one_device(self):
        self.pingpong("-c", client_device="urnic0")

    def test_many_rounds(self):
        self.pingpong("-c", "-s", "8192", iterations="5000")


class UcPingpong(PingpongCase):
    tool = "ibv_uc_pingpong"

    def test_sizes(self):
        for size in (1, 1024, 4097, 1 << 20):
            with self.subTest(size=size):
                self.pingpong("-c", "-s", str(size))
        self.pingpong("-s", "0")

    def test_events(self):
        self.pingpong("-e", "-c", "-s", "100000")

    def test_path_mtus_and_gids(self):
        self.pingpong("-c", "-m", "256", "-s", "10001", gid="0")
        self.pingpong("-c", "-m", "4096", "-s", "10001", client_device="urnic0")


class UdPingpong(PingpongCase):
    tool = "ibv_ud_pingpong"

    def test_sizes(self):
        for size in (1, 1023, 4096):
            with self.subTest(size=size):
                self.pingpong("-c", "-s", str(size))
        self.pingpong("-s", "0")

    def test_events(self):
        self.pingpong("-e", "-c", "-s", "2048")

    def test_gids(self):
        self.pingpong("-c", gid="0")
        self.pingpong("-c", client_device="urnic0")


class SrqPingpong(PingpongCase):
    tool = "ibv_srq_pingpong"

    def test_sizes_and_qps(self):
        for size, qps in ((1, 1), (1024, 16), (4097, 64), (1 << 20, 16)):
            with self.subTest(size=size, qps=qps):
                self.pingpong("-c", "-s", str(size), "-q", str(qps), "-r", str(max(qps, 500)))

    def test_events(self):
        self.pingpong("-e", "-c", "-s", "4096")

    def test_gids_and_own_device(self):
        self.pingpong("-c", gid="0")
        self.pingpong("-c", client_device="urnic0")


class XsrqPingpong(harness.TestCase):
    def pingpong(self, *options, clients=1, iterations="100"):
        port = str(harness.free_port())
        common = ["-p", port, "-g", "1", "-n", iterations, "-c", str(clients), *options]
        server, client = self.run_pair(["ibv_xsrq_pingpong", "-d", "urnic0", *common],
                                       ["ibv_xsrq_pingpong", "-d", "urnic1", *common, "127.0.0.1"], int(port))
        for result in (server, client):
            self.assertNotIn("invalid data", result.out + result.err)
        self.assertIn("success", client.out)

    def test_polling(self):
        for size in (1, 4096, 100_000):
            with self.subTest(size=size):
                self.pingpong("-s", str(size))

    def test_events(self):
        self.pingpong("-e", "-s", "4096")


if __name__ == "__main__":
    harness.main()
