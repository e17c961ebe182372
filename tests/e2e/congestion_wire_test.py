"""DCQCN live: two stock ib_write_bw into one RNIC over an emulated wire, whose links of 200 Mbit/s are far below what
any machine sustains. Everything is judged by the daemon's counters over the same stretch of bytes.
"""

import contextlib
import json
import pathlib
import shutil
import signal
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
min_time_between_cnps_us = 2500
alpha_period_us = 2750
increase_period_us = 2750
additive_increase_mbps = 1
hyper_increase_mbps = 10
burst_bytes = 16384
""" for i in range(3)) + f"""
{{sink}}
[[network]]
fabric = "lab"
link_mbps = {{link_mbps}}
delay_us = 10
buffer_bytes = {BUFFER}
ecn_kmin_bytes = {KMIN}
ecn_kmax_bytes = {KMAX}
ecn_pmax = 0.2
{{wire}}
"""
FLOW_CONTROL = "pfc = [0]\nxoff_bytes = 60000\nxon_bytes = 40000\n"
SOURCES, SINK = (0, 1), 2
MB = 1_000_000


class Incast(harness.TestCase):
    def start_daemon(self, algorithm, sink="", wire="", link_mbps=200):
        """`sink` and `wire` are further lines of the sink's RNIC and of the wire."""
        directory = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        self.directory = directory
        self.socket = directory / "run/control.sock"
        config = directory / "urnicd.toml"
        config.write_text(CONFIG.format(run_dir=directory / "run", algorithm=algorithm, sink=sink, wire=wire,
                                        link_mbps=link_mbps), encoding="utf-8")
        self.daemon = daemon = harness.start([harness.BUILD / "urnicd", "--config", config])
        self.addCleanup(self.stop_daemon, daemon)
        up = harness.wait_until(lambda: daemon.poll() is not None
                                or self.urnic("status", "--socket", self.socket).returncode == 0, pause=0.1)
        self.assertTrue(up and daemon.poll() is None, "urnicd did not come up")

    @staticmethod
    def stop_daemon(daemon):
        if daemon.poll() == 0:
            return
        with contextlib.suppress(ProcessLookupError):
            daemon.terminate()
        result = harness.finish(daemon, 30)
        assert result.returncode == 0, f"urnicd: {result}"

    def urnic(self, *words):
        return harness.run([harness.URNIC, *words])

    def refused(self, message, *words):
        result = self.urnic(*words, "--socket", self.socket)
        self.assertEqual((result.returncode, result.out), (125, ""), result)
        self.assertIn(message, result.err)

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

    def devices(self):
        result = self.urnic("cc", "show", "--json", "--socket", self.socket)
        self.assert_ok(result)
        return json.loads(result.out)["devices"]

    def ports(self):
        """What the emulated switch counts, by RNIC: one reading, in which the numbers fit each other."""
        status = self.status()
        (network,) = status["networks"]
        self.assertEqual(list(network), list(status["wires"][0]), "the old name, for one release")
        self.assertEqual([port["device"] for port in network["ports"]], ["urnic0", "urnic1", "urnic2"])
        return network["ports"]

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
        self.check_trace()
        sink = self.ports()[SINK]
        report = f"shares and mean queues: {seen}; {sink}"
        print(report)
        self.assertLess(max(seen[-1][0]), 0.525, report)
        self.assertTrue(KMIN / 2 < seen[-1][1] < KMAX, report)
        self.assertEqual(sink["dropped"], 0, report)
        self.assertGreater(sink["marked"], 0, report)
        self.assertLess(sink["max_queue_bytes"], BUFFER, report)
        self.assertGreater(self.counters(SINK)["np_cnp_sent"], 0)
        for source in SOURCES:
            counters = self.counters(source)
            self.assertGreater(counters["rp_cnp_handled"], 0)
            self.assertEqual((counters["rp_cnp_ignored"], counters["retrans_pkts"]), (0, 0))

    def check_trace(self):
        """The running transfer, traced and drawn: it says what the counters beside it say."""
        trace = self.directory / "live.json"
        qpn = self.devices()[0]["qps"][0]["qpn"]
        before = self.ports()
        done = self.urnic("cc", "trace", trace, f"urnic0/{qpn:#x}", "urnic1", "--seconds", "2", "--every", "10",
                          "--socket", self.socket)
        after = self.ports()
        self.assert_ok(done)
        (run,) = json.loads(trace.read_text(encoding="utf-8"))["runs"]
        series = run["series"]
        times = series["time_us"]
        self.assertGreater(len(times), 10, "of 200 readings")
        self.assertEqual(times, sorted(set(times)))
        self.assertEqual(sorted(series["goodput_gbit"]), ["urnic0", "urnic1"])
        flows = sorted(series["rate_gbit"])
        self.assertEqual((len(flows), flows[0]), (2, f"urnic0/{qpn:#x}"), flows)
        for values in series["rate_gbit"].values():
            self.assertTrue(all(0 < value <= 0.2 for value in values), values)
            self.assertGreater(len(set(values)), 3, "rates move")
        self.assertTrue(any(0 < value < 1 for value in series["alpha"][flows[0]]))
        queue = series["queue_kb"]["lab>urnic2"]
        self.assertTrue(0 < sum(queue) / len(queue) < KMAX / 1000, queue)
        for name, what, device in (("marks", "marked", SINK), ("drops", "dropped", SINK)):
            self.assertEqual(series[name], sorted(series[name]))
            self.assertLessEqual(series[name][-1], after[device][what] - before[device][what])
        # Bytes within the trace, from the rates of each reading, are among those that the wire counted.
        for source in SOURCES:
            gbit = series["goodput_gbit"][f"urnic{source}"]
            traced = sum(value * (later - earlier) for value, earlier, later in zip(gbit[1:], times, times[1:])) * 125
            self.assertTrue(0 < traced <= self.sent(after, source) - self.sent(before, source) + MB, (traced, before, after))
        lines = {name: (self.directory / f"live-{name}.csv").read_text(encoding="utf-8").splitlines()
                 for name in ("flows", "ports")}
        self.assertEqual(len(lines["flows"]), 1 + 2 * len(times))
        self.assertEqual(len(lines["ports"]), 1 + 3 * len(times))
        self.assert_ok(self.urnic("experiment", trace, "--out", self.directory))
        self.assertIn("lab>urnic2".replace(">", "&gt;"), (self.directory / "live.svg").read_text(encoding="utf-8"))

    def test_a_trace_that_ends_early(self):
        self.start_daemon("dcqcn")
        trace = self.directory / "early.json"
        wrong = (("early.txt", "must end in .json"), ("/no/such/dir/a.json", "a.json cannot be written: No such file"))
        for name, message in wrong:
            self.refused(message, "cc", "trace", name, "--seconds", "1")
        self.refused('there is no RNIC "urnic9"', "cc", "trace", trace, "urnic9")
        self.refused("must be DEVICE or DEVICE/QPN", "cc", "trace", trace, "urnic0/")
        self.refused("more than 50000 readings", "cc", "trace", trace, "--seconds", "86400", "--every", "1")
        self.assertFalse(trace.exists(), "nothing is written before the daemon has answered")
        rows = self.directory / "early-flows.csv"
        process = harness.start([harness.URNIC, "cc", "trace", trace, "--seconds", "3600", "--every", "100", "--socket", self.socket])
        self.addCleanup(harness.finish, process)
        self.assertTrue(harness.wait_until(rows.exists))
        process.send_signal(signal.SIGINT)
        self.assert_ok(harness.finish(process))
        self.assertGreater(len(json.loads(trace.read_text(encoding="utf-8"))["runs"][0]["series"]["time_us"]), 0)
        # The daemon goes: what was read stays.
        rows.unlink()
        process = harness.start([harness.URNIC, "cc", "trace", trace, "--seconds", "3600", "--every", "100", "--socket", self.socket])
        self.assertTrue(harness.wait_until(rows.exists))
        self.stop_daemon(self.daemon)
        result = harness.finish(process)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("the trace ended early: ", result.err)
        self.assertIn("readings of 0 QPs", result.out)
        self.assertGreater(len(json.loads(trace.read_text(encoding="utf-8"))["runs"][0]["series"]["time_us"]), 0)

    def test_without_it_the_switch_drops(self):
        self.start_daemon("none")
        self.start_writers()
        self.wait_for(lambda: self.ports()[SINK]["dropped"] > 100, "drops")
        sink = self.ports()[SINK]
        self.assertEqual(sink["marked"], 0, "nobody says that it understands marks")
        self.assertGreater(sink["max_queue_bytes"], BUFFER * 0.9)
        self.assertEqual(self.counters(SINK)["np_cnp_sent"], 0)

    def pauses(self, device):
        return self.status()["devices"][device]["pfc"]["priorities"][0]

    def test_with_flow_control_the_switch_pauses_the_senders(self):
        self.start_daemon("none", wire=FLOW_CONTROL)
        self.start_writers()
        self.wait_for(lambda: all(self.ports()[source]["pauses_sent"] > 3 for source in SOURCES), "pauses of both senders")
        self.wait_for(lambda: all(self.pauses(source)["rx_resume"] > 3 for source in SOURCES), "both to be told")
        self.stretch(20 * MB)
        trace = self.directory / "pauses.json"
        self.assert_ok(self.urnic("cc", "trace", trace, "--seconds", "2", "--every", "20", "--socket", self.socket))
        (run,) = json.loads(trace.read_text(encoding="utf-8"))["runs"]
        self.assertGreater(run["series"]["pauses"][-1], 0)
        self.assertEqual(run["series"]["pauses"], sorted(run["series"]["pauses"]))
        last = (self.directory / "pauses-ports.csv").read_text(encoding="utf-8").splitlines()[-3:]
        counted = {line.split(",")[2].strip('"'): [int(word) for word in line.split(",")[-2:]] for line in last}
        self.assertEqual(counted["lab>urnic2"], [0, 0])
        for source in SOURCES:
            self.assertGreater(counted[f"lab>urnic{source}"][0], 3)
            self.assertEqual(self.counters(source)["retrans_pkts"], 0)
        sink = self.ports()[SINK]
        self.assertEqual((sink["dropped"], sink["pauses_sent"], self.pauses(SINK)["rx_pause"]), (0, 0, 0), sink)

    def test_a_network_of_several_switches(self):
        """Each RNIC at a switch of its own: what the first sends crosses two trunks, what the second sends one."""
        self.start_daemon("none", wire='topology = "parking-lot"\nswitches = 3\ntrunk_mbps = 100\n' + FLOW_CONTROL)
        self.start_writers()
        self.stretch(10 * MB)
        (network,) = self.status()["networks"]
        sink, trunks = network["ports"][SINK], {trunk["port"]: trunk for trunk in network["trunks"]}
        self.assertEqual(sorted(trunks), ["s1>s2", "s2>s1", "s2>s3", "s3>s2"])
        self.assertGreaterEqual(trunks["s2>s3"]["delivered_bytes"], sink["delivered_bytes"])
        for source, port in zip(SOURCES, network["ports"]):
            self.assertGreater(port["sent_bytes"], MB, source)
        self.assertLessEqual(trunks["s1>s2"]["delivered_bytes"], network["ports"][0]["sent_bytes"])
        self.assertGreater(trunks["s1>s2"]["delivered_bytes"], MB)
        # The bottleneck's queue is there, and its switch pauses who feeds it: the trunk before it, and the RNIC.
        self.wait_for(lambda: self.status()["networks"][0]["trunks"][0]["pauses_received"] > 0
                      and self.ports()[1]["pauses_sent"] > 0, "pauses of a trunk and of an RNIC")
        self.assertEqual([trunk["dropped"] for trunk in trunks.values()], [0] * 4)

    def test_an_rnic_that_cannot_keep_up_pauses_its_switch(self):
        """More than one frame waits for the sink again and again, where a link is far faster than any worker."""
        self.start_daemon("none", sink="[rnic.pfc]\ntx_priorities = [0]\nxoff_frames = 1\nxon_frames = 0\n", wire=FLOW_CONTROL,
                          link_mbps=100000)
        self.start_writers()
        self.wait_for(lambda: self.ports()[SINK]["pauses_received"] > 3 and self.pauses(SINK)["tx_resume"] > 3, "pauses")
        self.stretch(20 * MB)
        sink = self.ports()[SINK]
        self.assertEqual(sink["dropped"], 0, sink)
        # The RNIC counts a frame when it has left.
        self.wait_for(lambda: self.pauses(SINK)["tx_pause"] >= sink["pauses_received"], "the RNIC to count what the switch has got")
        for source in SOURCES:
            self.assertEqual(self.ports()[source]["pauses_received"], 0)


if __name__ == "__main__":
    harness.main()
