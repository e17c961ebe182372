"""A service of rpcgen's, its stubs unchanged, over TCP and over RPC-over-RDMA: 64 threads on one CLIENT, messages up to 64 MB,
each octet verified; servers and clients that are killed; calls that a server refuses. A daemon of its own for each case."""

import contextlib
import subprocess

import harness
import with_daemon

SERVER, CLIENT = (harness.BUILD / "tests/e2e" / name for name in ("file_server", "file_client"))
ADDRESS = {"tcp": "127.0.0.1", "rdma1": "198.18.0.1", "rdma2": "198.18.0.1"}
RDMA = ("rdma1", "rdma2")
LARGEST = 64 << 20
THREADS = 64
ROUNDS = 16


class FileService(with_daemon.WithDaemon):
    def start_server(self, transport, threads):
        command = [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", SERVER, transport,
                                          ADDRESS[transport], 0, threads)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=harness.clean_environment(), start_new_session=True)
        self.addCleanup(self.end, server)
        line = harness.read_line(server)
        if not line.startswith("listening "):
            harness.end_group(server)
            self.fail(f"the server does not listen: {line!r} {server.communicate()}")
        return server, line.split()[1]

    @staticmethod
    def end(process):
        harness.end_group(process)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def statistics(self, server):
        """Ends the server in order. Returns calls, replies, octets read and written by RDMA."""
        out, err = server.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual((server.returncode, err), (0, ""))
        return [int(word) for word in out.split()[1:]]

    def client(self, transport, port, *command, timeout=harness.PATIENCE_S):
        return self.run_ok(self.client_command(transport, port, *command), timeout)

    def client_command(self, transport, port, *command):
        return [harness.URNIC, "run", "--socket", self.socket, "--", CLIENT, transport, ADDRESS[transport], port, *command]

    def test_the_same_stubs_over_tcp(self):
        server, port = self.start_server("tcp", 0)
        self.client("tcp", port, "work", 8, ROUNDS)
        self.client("tcp", port, "large", LARGEST)
        self.client("tcp", port, "errors")
        self.end(server)

    def test_svc_run(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 0)
                self.client(transport, port, "work", THREADS, ROUNDS)
                self.end(server)

    def test_many_threads_at_both_ends(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 8)
                self.client(transport, port, "work", THREADS, ROUNDS)
                calls, replies, read, written = self.statistics(server)
                # Lists grow: some Calls came again with more room, and each was answered once.
                self.assertGreater(calls, replies)
                self.assertEqual(replies, THREADS * ROUNDS * 6 + 3)
                # What is eligible went by RDMA READ and WRITE.
                self.assertGreater(read, THREADS * ROUNDS * 10_000)
                self.assertGreater(written, THREADS * ROUNDS * 10_000)

    def test_large_messages(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 2)
                for octets in (1 << 20, LARGEST - 3, LARGEST):
                    self.client(transport, port, "large", octets)
                _, _, read, written = self.statistics(server)
                self.assertGreaterEqual(read, 4 * LARGEST)
                self.assertGreaterEqual(written, 4 * LARGEST)

    def test_what_a_server_refuses(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 2)
                self.client(transport, port, "errors")
                self.client(transport, port, "work", 2, 2)
                self.statistics(server)

    def hold(self, transport, port):
        held = self.start(CLIENT, transport, ADDRESS[transport], port, "hold", 100)
        self.expect_line(held, "holding")
        return held

    def test_a_killed_server(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 2)
                held = self.hold(transport, port)
                self.end(server)
                self.expect_line(held, "RPC: Unable to receive")
                self.assert_ok(harness.finish(held))

    def test_a_killed_client(self):
        for transport in RDMA:
            with self.subTest(transport):
                server, port = self.start_server(transport, 8)
                for _ in range(3):
                    harness.end_group(self.hold(transport, port))
                # Others are served on.
                self.client(transport, port, "work", 4, 4)
                self.end(server)
                gone = harness.wait_until(lambda: self.objects() == (0, 0))
                self.assertTrue(gone, self.status())


if __name__ == "__main__":
    harness.main()
