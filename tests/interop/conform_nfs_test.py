"""urnic conform --cm beside an NFS server that listens for RPC-over-RDMA: it is judged without an agent, and serves on."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import conform_cm_test
import harness
import netns

NFS_PORT = 20049
PROGRAMS = harness.BUILD / "tests/interop"


class NfsServer(conform_cm_test.Hosts):
    def start_server(self):
        server = harness.start(self.a.program(PROGRAMS / "nfs_server", "--address", self.a.ip, "--port", NFS_PORT,
                                              "--tcp-address", self.a.ip, "--tcp-port", "2049"))
        self.addCleanup(harness.end_group, server)
        self.assertEqual(harness.read_line(server).strip(), "ready")
        self.assertTrue(harness.wait_until(self.listens), "nfs_server does not listen")
        return server

    def test_it_fails_no_case_and_serves_on(self):
        server = self.start_server()
        document = self.results("--cm", "--cm-port", NFS_PORT, status=None)
        bad = [f"{case['name']}: {case['verdict']}: {case['reason']}" for case in document["cases"]
               if case["verdict"] not in conform_cm_test.GOOD]
        self.assertEqual(bad, [], "\n".join(bad))
        listed = harness.run([conform_cm_test.conform_test.TESTER, "--list", "--cm"]).out.splitlines()
        self.assertEqual([case["name"] for case in document["cases"]], [line.split("\t")[0] for line in listed])
        self.assertGreater(document["counts"]["passed"], 25, document["counts"])
        # One process has lived through it, and a client of NFS finds its files.
        self.assertIsNone(server.poll())
        client = self.a.program(PROGRAMS / "nfs_client", "--server", self.a.ip, "--mount-server", self.a.ip, "--mount-port", "2049",
                                "--data", self.data(), "--back", self.dir / "back", "--files", "10")
        self.assert_ok(harness.run(client), "nfs_client")
        self.assertEqual((self.dir / "back").read_bytes(), self.data().read_bytes())

    def data(self):
        file = self.dir / "data"
        if not file.exists():
            file.write_bytes(bytes(range(256)) * 1000)
        return file


if __name__ == "__main__":
    netns.private()
    harness.main()
