"""DCQCN live: two stock ib_write_bw into one RNIC over an emulated wire, whose links of 200 Mbit/s are far below what
any machine sustains. Everything is judged by the daemon's counters over the same stretch of bytes.
"""

import contextlib
import json
import pathlib
import shutil
import tempfile

import harness

KMIN, KMAX, BUFFER = 40_000, 150_000, 450_000
CONFIG = """
[daemon]
run_dir = "{run_dir}"
workers = 1
hugepages = false
""" + "".join(f"""
[[rnic]]
name = "urnic{i}"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.{i + 1}/24"
[rnic.congestion]
algorithm = "{{algorithm}}"
line_rate_mbps = 200
min_rate_mbps = 1
cnp_gap_us = 2500
alpha_period_us = 2750
increase_period_us = 2750
additive_increase_mbps = 1
hyper_increase_mbps = 10
burst_bytes = 16384
""" for i in range(3)) + f"""
[[wire]]
fabric = "lab"
link_mbps = 200
delay_us = 10
buffer_bytes = {BUFFER}
ecn_kmin_bytes = {KMIN}
ecn_kmax_bytes = {KMAX}
ecn_pmax = 0.2
"""
SOURCES, SINK = (0, 1), 2
MB = 1_000_000


class Incast(harness.TestCase):
    def start_daemon(self, algorithm):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.socket = directory / "run/control.sock"
        config = directory / "urnicd.toml"
        config.write_text(CONFIG.format(run_dir=directory / "run", algorithm=algorithm), encoding="utf-8")
        daemon = harness.start([harness.BUILD / "urnicd", "--config", config])
        self.addCleanup(self.stop_daemon, daemon)
        up = harness.wait_until(lambda: daemon.poll() is not None
                                or self.urnic("status", "--socket", self.socket).returncode == 0, pause=0.1)
        self.assertTrue(up and daemon.poll() is None, "urnicd did not come up")

    @staticmethod
    def stop_daemon(daemon):
        with contextlib.suppress(ProcessLookupError):
            daemon.terminate()
        result = harness.finish(daemon, 30)
        assert result.returncode == 0, f"urnicd: {result}"

    def urnic(self, *words):
        return harness.run([harness.URNIC, *words])

    def start(self, *words):
        process = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", *words])
        self.addCleanup(harness.finish, process)
        self.addCleanup(harness.end_group, process)
        return process

    def start_writer(self, source):
        """ib_write_bw from that RNIC into the sink, for longer than any test."""
        port = harness.free_port()
        common = ["ib_write_bw", "-F", "-N", "-x", "1", "-m", "1024", "-s", "65536", "-n", "10000000", "-p", str(port)]
        server = self.start(*common, "-d", f"urnic{SINK}")
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, server.pid) or server.poll() is not None))
        client = self.start(*common, "-d", f"urnic{source}", "127.0.0.1")
        return server, client

    def start_writers(self):
        self.programs = [program for source in SOURCES for program in self.start_writer(source)]
        self.wait_for(lambda: all(self.sent(self.ports(), source) > MB for source in SOURCES), "both to send")

    def wait_for(self, condition, what):
        def ended():
            return [program for program in self.programs if program.poll() is not None]
        self.assertTrue(harness.wait_until(lambda: ended() or condition(), pause=0.05), f"waited in vain for {what}")
        self.assertEqual([str(harness.finish(program)) for program in ended()], [], "a program ended early")

    def status(self):
        result = self.urnic("status", "--json", "--socket", self.socket)
        self.assert_ok(result)
        return json.loads(result.out)

    def ports(self):
        """What the emulated switch counts, by RNIC: one reading, in which the numbers fit each other."""
        (wire,) = self.status()["wires"]
        self.assertEqual([port["device"] for port in wire["ports"]], ["urnic0", "urnic1", "urnic2"])
        return wire["ports"]

    def counters(self, device):
        return self.status()["devices"][device]["counters"]

    @staticmethod
    def sent(ports, source):
        return ports[source]["sent_bytes"]

    def stretch(self, size):
        """Lets that many bytes through the bottleneck: what part each source sent, and the queue's mean."""
        before = now = self.ports()
        queue = []
        def over():
            nonlocal now
            now = self.ports()
            queue.append(now[SINK]["queue_bytes"])
            return now[SINK]["delivered_bytes"] - before[SINK]["delivered_bytes"] >= size
        self.wait_for(over, f"{size} bytes")
        sent = [self.sent(now, source) - self.sent(before, source) for source in SOURCES]
        return [part / sum(sent) for part in sent], sum(queue) / len(queue)

    def test_with_dcqcn_two_share_and_nothing_is_dropped(self):
        self.start_daemon("dcqcn")
        self.start_writers()
        seen = []
        for _ in range(8):  # until the rates have settled
            shares, queue = self.stretch(100 * MB)
            seen.append((shares, queue))
            if max(shares) < 0.525:
                break
        sink = self.ports()[SINK]
        report = f"shares and mean queues: {seen}; {sink}"
        print(report)
        self.assertLess(max(seen[-1][0]), 0.525, report)
        self.assertTrue(KMIN / 2 < seen[-1][1] < KMAX, report)
        self.assertEqual(sink["dropped"], 0, report)
        self.assertGreater(sink["marked"], 0, report)
        self.assertLess(sink["most_queue_bytes"], BUFFER, report)
        self.assertGreater(self.counters(SINK)["np_cnp_sent"], 0)
        for source in SOURCES:
            counters = self.counters(source)
            self.assertGreater(counters["rp_cnp_handled"], 0)
            self.assertEqual((counters["rp_cnp_ignored"], counters["retrans_pkts"]), (0, 0))

    def test_without_it_the_switch_drops(self):
        self.start_daemon("none")
        self.start_writers()
        self.wait_for(lambda: self.ports()[SINK]["dropped"] > 100, "drops")
        sink = self.ports()[SINK]
        self.assertEqual(sink["marked"], 0, "nobody says that it understands marks")
        self.assertGreater(sink["most_queue_bytes"], BUFFER * 0.9)
        self.assertEqual(self.counters(SINK)["np_cnp_sent"], 0)


if __name__ == "__main__":
    harness.main()
