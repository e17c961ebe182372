"""The daemon's page of metrics: what Prometheus' own parser and prometheus-node-exporter make of it and of sysfs, and what hostile
clients of HTTP can do."""

import contextlib
import http.client
import math
import os
import random
import re
import socket

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

import browser
import harness
import with_daemon


class Metrics(with_daemon.WithDaemon):
    workers = 2
    port = 0
    histograms = "false"
    traces = 0

    def setUp(self):
        self.port = harness.free_port()
        self.keys = f'http = "127.0.0.1:{self.port}"\nhttp_qps = 3\nhttp_traces = {self.traces}\nhistograms = {self.histograms}'
        super().setUp()

    def ask(self, path="/metrics", method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer, answer.read().decode()

    def families(self):
        self.wait_for_text()
        answer, text = self.ask()
        self.assertEqual(answer.status, 200, text)
        self.assertEqual(answer.getheader("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
        return {family.name: family for family in text_string_to_metric_families(text)}

    def wait_for_text(self):
        """The first question has a limit of time, behind which it is answered with 503; the others have the text before them."""
        self.assertTrue(harness.wait_until(lambda: self.ask()[0].status == 200))

    def fresh_families(self):
        """Those of a text that was made after this call."""
        def uptime():
            return self.families()["urnic_uptime_seconds"].samples[0].value
        before = uptime()
        self.assertTrue(harness.wait_until(lambda: uptime() > before, pause=0.2))
        return self.families()

    def perftest(self, program, *words):
        """urnic0 asks urnic1."""
        port = harness.free_port()
        command = [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", program, "-F", "-p", port, *words)]
        self.run_pair([*command, "-d", "urnic1"], [*command, "-d", "urnic0", "127.0.0.1"], port)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=harness.PATIENCE_S)
        self.addCleanup(connection.close)
        return connection


class Page(Metrics):
    def test_it_agrees_with_status(self):
        self.perftest("ib_write_bw", "-n", 100, "-s", 1000)
        status = self.status()
        families = self.families()
        for device in status["devices"]:
            for name, value in device["counters"].items():
                samples = [sample for sample in families[f"urnic_{name}"].samples if sample.labels["device"] == device["name"]]
                self.assertEqual({sample.labels["worker"] for sample in samples}, {"0", "1"})
                self.assertEqual(sum(sample.value for sample in samples), value, name)
            self.assertIn(device["name"], [sample.labels["device"] for sample in families["urnic_port_up"].samples])
        self.assertEqual(families["urnic_build_info"].samples[0].labels["version"], status["daemon"]["version"])
        self.assertEqual([(sample.labels["fabric"], sample.value) for sample in families["urnic_fabric_unknown_destinations"].samples],
                         [(fabric["fabric"], fabric["unknown_destinations"]) for fabric in status["fabrics"]])
        self.assertEqual([fabric["fabric"] for fabric in status["fabrics"]], ["lab"])
        # A counter is one, and every family says what it is.
        self.assertEqual(families["urnic_sent_bytes"].type, "counter")
        self.assertEqual({sample.labels["turn"] for sample in families["urnic_control_turn_seconds"].samples}, {"requests", "step", "round"})
        self.assertTrue(all(family.documentation for family in families.values()))
        self.assertFalse([name for name in families if name.startswith("urnic_message_")])  # histograms are off

    def test_qps(self):
        families = self.families()
        self.assertEqual(families["urnic_qps_without_series"].samples[0].value, 0)
        holder = self.start("/usr/bin/python3", "-c", HOLD_QPS)
        self.expect_line(holder, "held")
        # The page is made once a second.
        self.assertTrue(harness.wait_until(lambda: "urnic_qp_info" in self.families(), pause=0.2))
        families = self.families()
        infos = families["urnic_qp_info"].samples
        self.assertEqual(len(infos), 3)
        self.assertEqual(families["urnic_qps_without_series"].samples[0].value, 2)
        self.assertEqual({sample.labels["state"] for sample in infos}, {"INIT"})
        self.assertEqual(len({sample.labels["qpn"] for sample in infos}), 3)

    def test_the_dashboard_asks_for_what_there_is(self):
        text = (harness.SOURCE / "docs/examples/grafana-urnic.json").read_text(encoding="utf-8")
        asked = set(re.findall(r"\burnic_[a-z_]*[a-z]\b", " ".join(re.findall(r'"expr": "(.*)"', text)))) - {"urnic_drop_"}
        self.assertGreater(len(asked), 15)
        names = {sample.name for family in self.families().values() for sample in family.samples}
        self.assertEqual(asked - names, {"urnic_qp_rate_bits_per_second",  # of QPs alone
                                         "urnic_message_size_bytes_bucket", "urnic_message_latency_seconds_bucket"})  # see Histograms

    def test_other_pages_and_methods(self):
        self.assertEqual(self.ask("/index.html")[0].status, 404)
        self.assertEqual(self.ask("/metrics/../etc/passwd")[0].status, 404)
        self.assertEqual(self.ask(method="POST")[0].status, 405)
        self.assertEqual(self.ask(method="DELETE")[0].status, 405)
        answer, text = self.ask(method="HEAD")
        self.assertEqual((answer.status, text), (200, ""))

    def test_foreign_names_are_not_served(self):
        # As a browser asks that was led to 127.0.0.1 by a name of somebody else's.
        for path in ("/", "/metrics"):
            for host, status in (("evil.example", 421), (f"evil.example:{self.port}", 421), (f"localhost:{self.port}", 200)):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=harness.PATIENCE_S)
                with contextlib.closing(connection):
                    connection.putrequest("GET", path, skip_host=True)
                    connection.putheader("Host", host)
                    connection.endheaders()
                    answer = connection.getresponse()
                    self.assertEqual(answer.status, status, (path, host))
                    self.assertEqual("urnic" in answer.read().decode(), status == 200)

    def test_off_unless_told(self):
        self.stop_daemon(self.daemon)
        config = self.dir / "urnicd.toml"
        lines = config.read_text(encoding="utf-8").splitlines()
        config.write_text("\n".join(line for line in lines if not line.startswith("http")), encoding="utf-8")
        self.start_daemon()
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        names = harness.thread_files(self.daemon.pid, "comm").values()
        self.assertNotIn("urnic-http\n", names)

    def test_wrong_addresses(self):
        for text in ("localhost:80", "127.0.0.1", "8471x", "[::1:8471", "127.0.0.1:0", "127.0.0.1:70000", "eth0:1"):
            config = self.dir / "wrong.toml"
            config.write_text(f'[daemon]\nhttp = "{text}"\n', encoding="utf-8")
            result = harness.run([harness.BUILD / "urnicd", "--config", config, "--check"])
            self.assertNotEqual(result.returncode, 0, text)
            self.assertIn("'http' in [daemon] must be ADDRESS:PORT", result.err)
        # A port of somebody else's.
        config = self.dir / "taken.toml"
        text = (self.dir / "urnicd.toml").read_text(encoding="utf-8").replace(str(self.run_dir), str(self.dir / "other"))
        config.write_text(text, encoding="utf-8")
        result = harness.run([harness.BUILD / "urnicd", "--config", config])
        self.assertIn(f"http: cannot listen on 127.0.0.1 port {self.port}: Address already in use", result.err)


class OpenMetrics(Metrics):
    # As Prometheus 2.45 asks.
    PROMETHEUS = ("application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
                  "text/plain;version=0.0.4;q=0.3,*/*;q=0.1")
    histograms = "true"

    def test_who_prefers_it_gets_it(self):
        self.perftest("ib_write_bw", "-n", 100, "-s", 1000)
        self.wait_for_text()
        for accept, is_openmetrics in ((self.PROMETHEUS, True), ("application/openmetrics-text", True), ("*/*", False), ("text/plain", False)):
            answer, text = self.ask(Accept=accept)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.getheader("Vary"), "Accept")
            self.assertEqual(answer.getheader("Content-Type"), "application/openmetrics-text; version=1.0.0; charset=utf-8"
                             if is_openmetrics else "text/plain; version=0.0.4; charset=utf-8", accept)
            self.assertEqual(text.endswith("\n# EOF\n"), is_openmetrics)
        # Its parser is strict: order, suffixes, units and the end.
        families = {family.name: family for family in openmetrics_families(self.ask(Accept=self.PROMETHEUS)[1])}
        types = {family.type for family in families.values()}
        self.assertEqual(types, {"counter", "gauge", "histogram", "info"})
        self.assertEqual(families["urnic_build"].type, "info")
        self.assertEqual(families["urnic_sent_bytes"].unit, "bytes")
        self.assertEqual(families["urnic_message_latency_seconds"].unit, "seconds")
        self.assertTrue(all(family.documentation for family in families.values()))
        # A series is the same one in both formats.
        def series(some):
            return {(sample.name, tuple(sorted(sample.labels.items()))) for family in some.values() for sample in family.samples
                    if not sample.name.startswith("urnic_qp_")}  # the daemon may be taking down those of perftest
        self.assertEqual(series(families), series(self.families()))


class Histograms(Metrics):
    histograms = "true"

    def histogram(self, families, name, operation, device="urnic0"):
        """Values up to each bound, and their sum."""
        samples = [sample for sample in families[name].samples if (sample.labels["device"], sample.labels["operation"]) == (device, operation)]
        buckets = {float(sample.labels["le"]): sample.value for sample in samples if sample.name == name + "_bucket"}
        by_name = {sample.name: sample.value for sample in samples}
        self.assertEqual(list(buckets), sorted(buckets))
        self.assertEqual(list(buckets.values()), sorted(buckets.values()))
        self.assertEqual(buckets[math.inf], by_name[name + "_count"])
        return buckets, by_name[name + "_sum"]

    def test_messages_of_perftest(self):
        self.perftest("ib_write_bw", "-n", 1000, "-s", 5000)
        self.perftest("ib_write_bw", "-n", 500, "-s", 64, "-c", "UC")
        self.perftest("ib_send_bw", "-n", 300, "-s", 65)
        self.perftest("ib_send_bw", "-n", 200, "-s", 100, "-c", "UD")
        self.perftest("ib_read_bw", "-n", 100, "-s", 1 << 20)
        self.perftest("ib_atomic_bw", "-n", 400)
        families = self.fresh_families()
        # Messages by bytes, and those of them that somebody acknowledges.
        expected = {"write": ({5000: 1000, 64: 500}, 1000), "send": ({65: 300, 100: 200}, 300), "read": ({1 << 20: 100}, 100),
                    "atomic": ({8: 400}, 400), "flush": ({}, 0)}
        for operation, (messages, acknowledged) in expected.items():
            with self.subTest(operation):
                sizes, total_bytes = self.histogram(families, "urnic_message_size_bytes", operation)
                self.assertEqual(total_bytes, sum(size * number for size, number in messages.items()))
                for bound, count in sizes.items():
                    self.assertEqual(count, sum(number for size, number in messages.items() if size <= bound), bound)
                latencies, total_s = self.histogram(families, "urnic_message_latency_seconds", operation)
                self.assertEqual(latencies[math.inf], acknowledged)
                # However slow the machine, the sum and the buckets are of the same values.
                bounds = sorted(latencies)
                least = sum((latencies[bound] - latencies[before]) * before for before, bound in zip(bounds, bounds[1:]))
                self.assertGreaterEqual(total_s, least)
                self.assertLessEqual(total_s if latencies[bounds[-2]] == acknowledged else 0,
                                     latencies[bounds[0]] * bounds[0] + 2 * least)
                # Whom urnic0 writes to, sends to and reads from has no messages of its own.
                self.assertEqual(self.histogram(families, "urnic_message_size_bytes", operation, "urnic1")[0][math.inf], 0)

    def test_the_dashboard_asks_for_them(self):
        text = (harness.SOURCE / "docs/examples/grafana-urnic.json").read_text(encoding="utf-8")
        asked = set(re.findall(r"\burnic_message_[a-z_]*[a-z]\b", text))
        self.assertEqual(len(asked), 2)
        self.assertLessEqual(asked, {sample.name for family in self.families().values() for sample in family.samples})


class Live(Metrics):
    """The page for people, in a browser."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def test_rates_and_troubles(self):
        page = self.browser
        self.wait_for_text()
        page.open(f"http://127.0.0.1:{self.port}/")
        rows = "Array.from(document.querySelectorAll('#rnics tbody tr'), row => Array.from(row.cells, cell => cell.textContent))"
        self.assertEqual([row[:2] for row in page.evaluate(rows)], [["urnic0", "ACTIVE"], ["urnic1", "ACTIVE"]])
        self.assertIn("Nothing since", page.evaluate("document.getElementById('troubles').textContent"))
        self.assertTrue(page.evaluate("document.getElementById('network').hidden"), "there is no emulated network")
        # A program whose name is markup, and a port that goes down.
        (self.dir / MARKUP).symlink_to("/usr/bin/python3")
        holder = self.start(self.dir / MARKUP, "-c", HOLD_QPS)
        self.expect_line(holder, "held")
        page.wait_for("document.querySelectorAll('#qps tbody tr').length === 3")
        self.assertEqual(page.evaluate("document.querySelectorAll('#qps tbody tr')[0].cells[3].textContent"), MARKUP)
        self.assertEqual(page.evaluate("document.querySelectorAll('#qps b').length"), 0)
        self.assertIn("2 more are not shown", page.evaluate("document.getElementById('qps_left_out').textContent"))
        self.assert_ok(self.urnic("port", "urnic1", "down", "--socket", self.socket))
        page.wait_for(f"{rows}[1][1] === 'DOWN'")
        self.assert_ok(self.urnic("port", "urnic1", "up", "--socket", self.socket))
        page.wait_for(f"{rows}[1][1] === 'ACTIVE'")
        # Losses are named, and traffic has a rate while it flows.
        self.assert_ok(self.urnic("fault", "add", "drop", "--probability", "0.05", "--seed", "3", "--socket", self.socket))
        port = harness.free_port()
        words = [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", "ib_write_bw", "-F", "-D", 4, "-s", 20_000, "-u", 17,
                                        "-p", port)]
        self.run_pair([*words, "-d", "urnic1"], [*words, "-d", "urnic0", "127.0.0.1"], port)
        page.wait_for("document.getElementById('troubles').textContent.includes('urnic0: ') && "
                      "document.getElementById('troubles').textContent.includes(' retransmissions since')")
        self.assertEqual(page.problems, [])
        self.assertEqual({url for url in page.requests if not url.startswith("about:")},
                         {f"http://127.0.0.1:{self.port}/", f"http://127.0.0.1:{self.port}/metrics"})
        # A daemon that is gone is said to be.
        self.stop_daemon(self.daemon)
        page.wait_for("document.body.className === 'stale'")


# As the name of a program.
MARKUP = "<b>fat<b>&amp;"

# Five QPs in INIT, by pyverbs' stock modules.
HOLD_QPS = """
import sys, pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPInitAttr, QPAttr, QPCap
context = Context(name="urnic0"); pd = PD(context); cq = CQ(context, 10)
attr = QPAttr(port_num=1); attr.qp_access_flags = 0
qps = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)), attr) for _ in range(5)]
print("held", flush=True)
import time
while True: time.sleep(60)
"""


class Hostile(Metrics):
    def test_a_thousand_connections(self):
        # More than are served at once, and more than the kernel keeps waiting. Some have begun a request.
        before = harness.Footprint(self.daemon.pid).descriptors
        crowd = []
        for number in range(1000):
            one = socket.socket()
            self.addCleanup(one.close)
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", self.port))
            if number % 32 == 0:
                with contextlib.suppress(OSError):
                    one.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
            crowd.append(one)
        # Of the 64, less what may have been closed since: the client that asked whether the daemon is up may have been counted.
        self.assertTrue(harness.wait_until(lambda: harness.Footprint(self.daemon.pid).descriptors >= before + 60))
        # The daemon has few descriptors of them, and serves its own clients meanwhile.
        for _ in range(20):
            self.assertLessEqual(harness.Footprint(self.daemon.pid).descriptors, before + 64 + 16)
            self.status()
        for one in crowd:
            one.close()
        self.assertIn("urnic_sent_pkts", self.families())
        self.assertTrue(harness.wait_until(lambda: harness.Footprint(self.daemon.pid).descriptors <= before + 1))

    def test_a_client_that_drips_is_cut(self):
        slow = self.connect()
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
        slow.settimeout(0.1)

        def is_cut():
            try:
                slow.send(b"x")
                return slow.recv(100) == b""
            except TimeoutError:
                return False
            except OSError:
                return True
        self.assertTrue(harness.wait_until(is_cut))

    def test_a_client_that_does_not_read(self):
        lazy = [self.connect() for _ in range(64)]
        for connection in lazy:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            for _ in range(20):
                with contextlib.suppress(OSError):
                    connection.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn("urnic_sent_pkts", self.families())

    def test_garbage(self):
        seed = int(os.environ.get("URNIC_TEST_SEED", random.randrange(1 << 32)))
        print(f"URNIC_TEST_SEED={seed}")
        dice = random.Random(seed)
        good = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        for round_number in range(300):
            text = bytearray(good)
            for _ in range(dice.randrange(1, 20)):
                kind, at = dice.randrange(3), dice.randrange(len(text))
                if kind == 0:
                    text[at] = dice.randrange(256)
                elif kind == 1:
                    del text[at:at + dice.randrange(10)]
                else:
                    text[at:at] = dice.randbytes(dice.randrange(1, 200))
                text = text or bytearray(b"x")
            # It is not waited for what is no request: that is cut after some seconds.
            with contextlib.closing(self.connect()) as connection, contextlib.suppress(OSError):
                connection.sendall(bytes(text) if round_number else b"A" * 100_000)
                connection.settimeout(0.02)
                connection.recv(1 << 16)
        self.assertIn("urnic_sent_pkts", self.families())
        self.assertIsNone(self.daemon.poll())


def standard_series(counters):
    """What node_exporter makes of ports/1/counters and the port's states, and the value that `urnic status` has for each."""
    def total(*names):
        return sum(counters[name] for name in names)
    values = {
        "port_data_transmitted_bytes_total": counters["sent_bytes"] // 4 * 4, "port_data_received_bytes_total": counters["rcvd_bytes"] // 4 * 4,
        "port_packets_transmitted_total": counters["sent_pkts"], "port_packets_received_total": counters["rcvd_pkts"],
        "unicast_packets_transmitted_total": counters["sent_pkts"] - counters["sent_multicast_pkts"],
        "unicast_packets_received_total": counters["rcvd_pkts"] - counters["rcvd_multicast_pkts"],
        "multicast_packets_transmitted_total": counters["sent_multicast_pkts"],
        "multicast_packets_received_total": counters["rcvd_multicast_pkts"],
        "port_errors_received_total": total("drop_malformed", "rx_icrc_encapsulated", "drop_steering_full"),
        "port_discards_transmitted_total": total("drop_tx_full", "drop_no_neighbour", "xmit_discard_port_down"),
        "port_transmit_wait_total": counters["xmit_wait_ns"], "link_downed_total": counters["link_downed"],
        "info": 1, "state_id": 4, "physical_state_id": 5, "rate_bytes_per_second": 12.5e9}
    # An RNIC without a physical link, and no switch, has none of these.
    return {**values, **dict.fromkeys((
        "symbol_error_total", "link_error_recovery_total", "local_link_integrity_errors_total", "excessive_buffer_overrun_errors_total",
        "port_constraint_errors_transmitted_total", "port_constraint_errors_received_total", "port_receive_remote_physical_errors_total",
        "port_receive_switch_relay_errors_total", "vl15_dropped_total"), 0)}


# Those of hw_counters, which node_exporter reads since 1.11.
HW_SERIES = {
    "duplicate_requests_packets_total": "duplicate_request", "implied_nak_seq_errors_total": "implied_nak_seq_err",
    "local_ack_timeout_errors_total": "local_ack_timeout_err", "np_cnp_packets_sent_total": "np_cnp_sent",
    "np_ecn_marked_roce_packets_received_total": "np_ecn_marked_roce_packets", "out_of_buffer_drops_total": "out_of_buffer",
    "out_of_sequence_packets_received_total": "out_of_sequence", "packet_sequence_errors_total": "packet_seq_err",
    "req_cqes_errors_total": "req_cqe_error", "req_cqes_flush_errors_total": "req_cqe_flush_error",
    "req_remote_access_errors_total": "req_remote_access_errors", "req_remote_invalid_request_errors_total": "req_remote_invalid_request",
    "resp_cqes_errors_total": "resp_cqe_error", "resp_cqes_flush_errors_total": "resp_cqe_flush_error",
    "resp_local_length_errors_total": "resp_local_length_error", "resp_remote_access_errors_total": "resp_remote_access_errors",
    "rnr_nak_retry_packets_received_total": "rnr_nak_retry_err", "rp_cnp_packets_handled_total": "rp_cnp_handled",
    "rp_cnp_ignored_packets_received_total": "rp_cnp_ignored", "rx_atomic_requests_total": "rx_atomic_requests",
    "rx_read_requests_total": "rx_read_requests", "rx_write_requests_total": "rx_write_requests",
    "rx_icrc_encapsulated_errors_total": "rx_icrc_encapsulated",
}


class NodeExporter(with_daemon.WithDaemon):
    def test_series_of_sysfs(self):
        self.check_series("prometheus-node-exporter", f"--path.sysfs={self.run_dir}/sysroot/sys")

    def test_series_by_mounts(self):
        """As Debian ships it, a program of Go that no preloading reaches, with the paths that it has anywhere."""
        self.check_series(harness.URNIC, "run", "--mount", "--socket", self.socket, "--", "prometheus-node-exporter")

    def transfer(self, program, *words):
        port = harness.free_port()
        command = [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", program, "-F", "-n", 100, "-p", port, *words)]
        self.run_pair([*command, "-d", "urnic1"], [*command, "-d", "urnic0", "127.0.0.1"], port)

    def make_counts(self):
        """Of more than one kind, at urnic0, which asks, and at urnic1, where packets arrive damaged and whose port was down."""
        for words in (("fault", "add", "corrupt", "--opcode", "RC WRITE Middle", "--probability", "0.05", "--seed", "3"),
                      ("port", "urnic1", "down"), ("port", "urnic1", "up")):
            self.assert_ok(self.urnic(*words, "--socket", self.socket))
        self.transfer("ib_write_bw", "-s", 20_000, "-u", 17)
        self.transfer("ib_read_bw", "-s", 1000)
        self.transfer("ib_atomic_bw")

    def check_series(self, *exporter_words):
        self.make_counts()
        listen = harness.free_port()
        exporter = harness.start([*exporter_words, "--collector.disable-defaults", "--collector.infiniband",
                                  f"--web.listen-address=127.0.0.1:{listen}"])
        self.addCleanup(harness.finish, exporter)
        self.addCleanup(harness.end_group, exporter)
        self.assertTrue(harness.wait_until(lambda: harness.listening(listen, exporter.pid)))

        def series():
            connection = http.client.HTTPConnection("127.0.0.1", listen, timeout=harness.PATIENCE_S)
            with contextlib.closing(connection):
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
            return {(sample.name.removeprefix("node_infiniband_"), sample.labels["device"]): sample.value
                    for family in text_string_to_metric_families(text) for sample in family.samples
                    if sample.name.startswith("node_infiniband_") and "device" in sample.labels}

        def expected(with_hw):
            values = {}
            for device in self.status()["devices"]:
                of_one = standard_series(device["counters"])
                if with_hw:
                    of_one["lifespan_seconds"] = 1
                    of_one.update({name: device["counters"][counter] for name, counter in HW_SERIES.items()})
                values.update({(name, device["name"]): value for name, value in of_one.items()})
            return values

        # The daemon writes the files once a second. Every series is one that is named here, and has the value of urnic status.
        has_hw = ("lifespan_seconds", "urnic0") in series()
        self.assertTrue(harness.wait_until(lambda: series() == expected(has_hw), pause=0.2), (series(), expected(has_hw)))
        seen = series()
        self.assertGreaterEqual(len(seen), 2 * (49 if has_hw else 25))
        for name in ("port_errors_received_total", "link_downed_total", "port_data_received_bytes_total"):
            self.assertGreater(seen[name, "urnic1"], 0, name)
        # Whatever reads them: the files are there.
        folder = self.run_dir / "sysroot/sys/class/infiniband/urnic1/ports/1/hw_counters"
        (counters,) = (device["counters"] for device in self.status()["devices"] if device["name"] == "urnic1")
        self.assertEqual({name: int((folder / name).read_text(encoding="ascii")) for name in HW_SERIES.values()},
                         {name: counters[name] for name in HW_SERIES.values()})
        for name in ("rx_icrc_encapsulated", "out_of_sequence", "rx_write_requests", "rx_read_requests", "rx_atomic_requests"):
            self.assertGreater(counters[name], 0, name)


if __name__ == "__main__":
    harness.main()
