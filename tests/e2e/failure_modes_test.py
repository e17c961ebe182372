"""Applications and daemons that end in the middle of things. The daemon here is a long-running one, urnicd --config."""

import os
import pwd
import signal
import tempfile
import time

import harness
import with_daemon

STREAM = harness.BUILD / "tests/e2e/stream"
RETRY_EXC_ERR, FLUSH_ERR, FATAL_ERR = 12, 5, 19


class WithStreams(with_daemon.WithDaemon):
    def start_stream(self):
        """A running transfer from urnic1 to urnic0: (server, client)."""
        port = str(harness.free_port())
        server = self.start(STREAM, "server", port, "urnic0")
        listening = harness.wait_until(lambda: harness.listening(int(port), server.pid) or server.poll() is not None)
        self.assertTrue(listening and server.poll() is None)
        client = self.start(STREAM, "client", port, "urnic1")
        self.expect_line(client, "running")
        return server, client

    def assert_working(self):
        server, client = self.start_stream()
        client.kill()
        self.expect_line(server, "done")
        self.assertEqual(server.wait(harness.PATIENCE_S), 0)
        client.wait()


class KilledApplications(WithStreams):
    def test_the_peer_gets_retry_exceeded_and_others_notice_nothing(self):
        server, client = self.start_stream()
        other_server, other_client = self.start_stream()
        server.kill()
        server.wait()
        self.expect_line(client, f"status {RETRY_EXC_ERR}")
        self.expect_line(client, "done")
        self.assertEqual(client.wait(harness.PATIENCE_S), 0)
        before = sum(device["counters"]["sent_pkts"] for device in self.status()["devices"])
        moved = harness.wait_until(lambda: sum(device["counters"]["sent_pkts"] for device in self.status()["devices"])
                                   > before + 100, pause=0.05)
        self.assertTrue(moved, "the other connection stopped")
        self.assertIsNone(other_client.poll())
        self.assertIsNone(other_server.poll())

    def test_two_hundred_times_without_growth(self):
        def round_trip(number):
            server, client = self.start_stream()
            victim, other = (server, client) if number % 2 else (client, server)
            victim.kill()
            victim.wait()
            if victim is server:
                self.expect_line(client, f"status {RETRY_EXC_ERR}")
            self.expect_line(other, "done")
            self.assertEqual(other.wait(harness.PATIENCE_S), 0)

        for number in range(20):
            round_trip(number)
        self.assertTrue(harness.wait_until(lambda: self.objects() == (0, 0)), self.objects())
        before = harness.Footprint(self.daemon.pid)
        for number in range(200):
            round_trip(number)
        self.assertTrue(harness.wait_until(lambda: self.objects() == (0, 0)), self.objects())
        after = harness.Footprint(self.daemon.pid)
        self.assertLessEqual(after.descriptors, before.descriptors + 4)  # connections that are closing
        self.assertLessEqual(after.mappings, before.mappings + 8)
        self.assertLessEqual(after.resident_kb, before.resident_kb + 128)


class KilledDaemon(WithStreams):
    def test_applications_learn_it_and_can_exit(self):
        server, client = self.start_stream()
        watcher = self.start(STREAM, "watch", "urnic0")
        self.expect_line(watcher, "running")
        self.daemon.kill()
        self.expect_line(watcher, "event local catastrophic error")
        self.assertEqual(watcher.wait(harness.PATIENCE_S), 0)
        self.assertIn("the RNIC daemon is gone; outstanding work requests are flushed with errors\n", watcher.stderr.read())
        # The event and the flushed completions come by different ways, in any order.
        out = client.communicate(timeout=harness.PATIENCE_S)[0].splitlines()
        self.assertEqual(out[-1], "done", "the posted requests were not completed")
        status = next(line for line in out if line.startswith("status"))
        self.assertIn(status, (f"status {FLUSH_ERR}", f"status {FATAL_ERR}"))
        self.assertEqual(client.wait(harness.PATIENCE_S), 0)
        self.expect_line(server, "done")
        self.assertEqual(server.wait(harness.PATIENCE_S), 0)

    def test_a_clean_end_looks_the_same(self):
        """But for what both sides say of it."""
        watcher = self.start(STREAM, "watch", "urnic0")
        self.expect_line(watcher, "running")
        self.daemon.terminate()
        self.expect_line(watcher, "event local catastrophic error")
        self.assertEqual(watcher.wait(harness.PATIENCE_S), 0)
        self.assertIn("the RNIC daemon was stopped; outstanding work requests are flushed with errors. Its devices can be opened again",
                      watcher.stderr.read())
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0)
        self.assertIn(f"ending: 1 program loses its RNICs and gets IBV_EVENT_DEVICE_FATAL: stream ({watcher.pid})\n",
                      self.daemon.stderr.read())

    def test_the_log_says_who_loses_his_rnics(self):
        """Of nine programs eight by name."""
        watchers = [self.start(STREAM, "watch", "urnic0") for _ in range(9)]
        for watcher in watchers:
            self.expect_line(watcher, "running")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0)
        log = self.daemon.stderr.read()
        self.assertIn("ending: 9 programs lose their RNICs and get IBV_EVENT_DEVICE_FATAL: ", log)
        self.assertEqual(sum(f"stream ({watcher.pid})" in log for watcher in watchers), 8, log)
        self.assertIn(" and 1 more\n", log)

    def test_the_end_of_a_daemon_that_nobody_uses(self):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0)
        self.assertTrue(self.daemon.stderr.read().endswith("urnicd: ending\n"))

    def test_perftest_ends_when_the_daemon_dies(self):
        port = str(harness.free_port())
        server = self.start("ib_write_bw", "-d", "urnic0", "-p", port, "-D", "60")
        self.assertTrue(harness.wait_until(lambda: harness.listening(int(port), server.pid)))
        client = self.start("ib_write_bw", "-d", "urnic1", "-p", port, "-D", "60", "127.0.0.1")
        self.assertTrue(harness.wait_until(
            lambda: sum(device["counters"]["sent_pkts"] for device in self.status()["devices"]) > 1000, pause=0.05))
        self.daemon.kill()
        self.assertNotEqual(client.wait(harness.PATIENCE_S), 0)
        server.wait(harness.PATIENCE_S)

    def rsockets(self, *how):
        """Both ends of rstream in the middle of a transfer that takes for ever."""
        server = self.start("rstream", "-b", "198.18.0.1", *how)
        for _ in range(100):  # until it listens
            client = self.start("rstream", "-s", "198.18.0.1", *how, "-S", "65536", "-C", "10", "-I", "100000000")
            before = self.sent()
            harness.wait_until(lambda one=client, many=before + 1000: one.poll() is not None or self.sent() > many, pause=0.05)
            if client.poll() is None:
                return server, client
        self.fail("rstream does not get on")

    def assert_client_ends(self, *how):
        """Of rstream: it waits for credit alone, since its peer takes nothing. That peer, which receives, takes the end of file that it
        then gets for a whole message, and goes on."""
        server, client = self.rsockets(*how)
        server.send_signal(signal.SIGSTOP)
        self.assertTrue(harness.wait_until(self.rests))
        self.daemon.kill()
        self.daemon.wait()
        client.wait(harness.PATIENCE_S)

    def test_rsockets_that_block_end(self):
        self.assert_client_ends("-T", "b")

    def test_rsockets_that_poll_end(self):
        self.assert_client_ends("-T", "n")

    def rests(self):
        """Whether nothing is sent for a moment."""
        before = self.sent()
        time.sleep(0.3)
        return self.sent() == before

    def sent(self):
        return sum(device["counters"]["sent_pkts"] for device in self.status()["devices"])

    def test_programs_that_wait_for_connection_events_get_one(self):
        waiting = [self.start("rping", "-s", "-a", "198.18.0.1"), self.start("ucmatose", "-b", "198.18.0.2")]
        listening = lambda: sum(bool(client.get("cm_listeners")) for client in self.status()["clients"])
        self.assertTrue(harness.wait_until(lambda: listening() == 2, pause=0.05), self.status()["clients"])
        self.daemon.kill()
        self.daemon.wait()
        for process in waiting:
            process.wait(harness.PATIENCE_S)
        self.assertIn("device removal", harness.finish(waiting[0]).err)

    def test_another_daemon_takes_the_place_of_one_that_was_killed(self):
        self.assert_working()
        self.daemon.kill()
        self.daemon.wait()
        result = self.urnic("run", "--socket", self.socket, "--", "ibv_devices")
        self.assertEqual(result.returncode, 125)
        self.assertIn("has ended", result.err)
        self.start_daemon()
        self.assert_working()


class KilledPrivateDaemon(harness.TestCase):
    def test_urnic_says_so_and_the_command_goes_on(self):
        script = ("pid=$(" + harness.URNIC + " status --json | /usr/bin/python3 -c "
                  "'import json,sys; print(json.load(sys.stdin)[\"daemon\"][\"pid\"])'); kill -9 $pid; "
                  "while kill -0 $pid 2>/dev/null; do sleep 0.05; done; echo after; ibv_devices; exit 4")
        result = harness.run([harness.URNIC, "run", "--standalone", "--", "bash", "-c", script])
        self.assertEqual(result.returncode, 4, result)
        self.assertIn("after", result.out)
        self.assertIn("urnicd was killed by signal 9", result.err)

    def test_grandchildren_see_the_device_gone(self):
        with tempfile.TemporaryDirectory(prefix="urnic-e2e-") as directory:
            log = os.path.join(directory, "log")
            script = f"{STREAM} watch urnic0 >{log} 2>&1 & while ! grep -q running {log}; do sleep 0.05; done"
            self.run_ok([harness.URNIC, "run", "--standalone", "--", "bash", "-c", script])

            def gone():
                with open(log, encoding="ascii") as file:
                    return "event local catastrophic error" in file.read()

            self.assertTrue(harness.wait_until(gone), "no event in the grandchild")


class Permissions(WithStreams):
    mode = "0600"

    def test_another_user_may_not_connect(self):
        if os.geteuid() != 0:
            # An ordinary user cannot be somebody else; its own daemon's socket without rights is the same to it.
            self.socket.chmod(0)
            result = self.urnic("run", "--socket", self.socket, "--", "ibv_devices")
        else:
            nobody = pwd.getpwnam("nobody")
            result = self.urnic("run", "--socket", self.socket, "--", "ibv_devices", user=nobody.pw_uid,
                                group=nobody.pw_gid, extra_groups=[])
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("may not connect to urnicd", result.err)
        self.assertEqual(result.out, "")


class SeveralUsers(WithStreams):
    def test_clients_of_two_users_at_once(self):
        server, client = self.start_stream()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        else:
            options = {}
        result = self.urnic("run", "--socket", self.socket, "--", harness.BUILD / "tests/e2e/dlopen_check", **options)
        self.assert_ok(result)
        users = {entry["uid"] for entry in self.status()["clients"]}
        self.assertIn(os.geteuid(), users)
        self.assertIsNone(client.poll())
        self.assertIsNone(server.poll())


if __name__ == "__main__":
    harness.main()
