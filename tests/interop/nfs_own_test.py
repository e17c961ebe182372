"""nfs_client against nfs_server over two RNICs of one daemon: both versions of RPC-over-RDMA, and TCP. Needs no guest."""

import hashlib
import os
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness

PROGRAMS = harness.BUILD / "tests/interop"
# urnic0 of `urnic run --standalone`. No interface of the kernel has it, so MOUNT goes by the loopback.
RDMA_ADDRESS, TCP_ADDRESS = "198.18.0.1", "127.0.0.1"
TESTS = {"null", "lookup", "create", "sizes", "write", "read", "symlinks", "names", "listing"}


class Nfs(harness.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-nfs-own-")))
        self.tcp_port = harness.free_port()
        self.server = harness.start([PROGRAMS / "nfs_server", "--address", RDMA_ADDRESS, "--tcp-address", TCP_ADDRESS,
                                     "--tcp-port", self.tcp_port], env=dict(os.environ))
        self.addCleanup(harness.end_group, self.server)
        self.assertEqual(harness.read_line(self.server).strip(), "ready")

    def run_client(self, *options):
        """All tests; returns what the transport counted. The server ends in order behind it."""
        data, back = self.directory / "data", self.directory / "back"
        data.write_bytes(os.urandom(20_000_321))
        client = self.run_ok([PROGRAMS / "nfs_client", "--mount-server", TCP_ADDRESS, "--mount-port", self.tcp_port, "--data", data,
                              "--back", back, "--files", "1000", *options], env=dict(os.environ))
        passed = {line.split()[0] for line in client.out.splitlines() if " passed " in line}
        self.assertEqual(passed, TESTS, client)
        self.assertEqual(*(hashlib.sha256(path.read_bytes()).hexdigest() for path in (data, back)))
        self.server.send_signal(signal.SIGTERM)
        self.assert_ok(harness.finish(self.server), "nfs_server")
        return client.out.rpartition("transport: ")[2]

    def test_version_2(self):
        self.assertIn("version=2 ", self.run_client("--server", RDMA_ADDRESS))

    def test_version_1(self):
        self.assertIn("version=1 ", self.run_client("--server", RDMA_ADDRESS, "--versions", "2"))

    def test_tcp(self):
        self.run_client("--server", TCP_ADDRESS, "--port", self.tcp_port, "--rdma", "no")


if __name__ == "__main__":
    harness.main()
