"""Emulated networks on the daemon's page of metrics and on its page for people: each port of each switch."""

import os

import browser
import harness
import metrics_test

PORTS = {"urnic0", "urnic1", "s1>s2", "s2>s1"}
# A metric, and what `urnic status --json` calls it.
OF_EVERY_PORT = {"port_bytes": "delivered_bytes", "port_packets": "delivered_packets", "port_queue_bytes": "queue_bytes",
                 "port_most_queue_bytes": "max_queue_bytes"}
OF_ETHERNET = {"port_dropped": "dropped", "port_marked": "marked", "port_pauses_sent": "pauses_sent", "port_pauses_received": "pauses_received"}
OF_INFINIBAND = {"port_xmit_wait_nanoseconds": "port_xmit_wait_ns", "port_xmit_discards": "port_xmit_discards"}
# The queue is at s1, in front of the link between the switches.
NETWORK = '[[network]]\nfabric = "lab"\ntopology = "dumbbell"\nlink_mbps = 1000\ntrunk_mbps = 200\n'


class Network(metrics_test.Metrics):
    workers = 1

    def send(self, *words):
        port = harness.free_port()
        command = [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", "ib_write_bw", "-F", "-n", 100, "-s", 20_000, "-p", port,
                                          *words)]
        self.run_pair([*command, "-d", "urnic1"], [*command, "-d", "urnic0", "127.0.0.1"], port)

    def ports_of_status(self):
        (network,) = self.status()["networks"]
        return {port.get("device") or port["port"]: port for port in network["ports"] + network["trunks"]}

    def expect_agreement(self, there, absent):
        """The page is made once a second."""
        ports = self.ports_of_status()
        self.assertEqual(set(ports), PORTS)
        self.assertGreater(ports["s1>s2"]["max_queue_bytes"], 4096)

        def agree():
            families = self.families()
            return all({sample.labels["port"]: sample.value for sample in families[f"urnic_network_{name}"].samples} ==
                       {port: values[key] for port, values in ports.items()} for name, key in there.items())
        self.assertTrue(harness.wait_until(agree, pause=0.2), (ports, self.ask()[1]))
        families = self.families()
        self.assertEqual({sample.labels["fabric"] for sample in families["urnic_network_port_bytes"].samples}, {"lab"})
        self.assertEqual([name for name in absent if f"urnic_network_{name}" in families], [])
        self.assertEqual(families["urnic_network_ports_without_series"].samples[0].value, 0)


    def start_writing(self, *words):
        """Two connected QPs, as long as the test takes."""
        port = harness.free_port()
        command = [harness.URNIC, "run", "--socket", self.socket, "--", "ib_write_bw", "-F", "--run_infinitely", "-p", port, *words]
        for rest in (["-d", "urnic1"], ["-d", "urnic0", "127.0.0.1"]):
            program = harness.start([*command, *rest], env=dict(os.environ))
            self.addCleanup(harness.finish, program)
            self.addCleanup(harness.end_group, program)
            if len(rest) == 2:
                self.assertTrue(harness.wait_until(lambda: harness.listening(port, program.pid)))

    def expect_paths(self):
        def paths():
            family = self.families().get("urnic_qp_path")
            return {sample.labels["device"]: sample.labels["ports"] for sample in family.samples} if family else {}
        self.assertTrue(harness.wait_until(lambda: len(paths()) == 2, pause=0.2), self.ask()[1])
        self.assertEqual(paths(), {"urnic0": "s1>s2 urnic1", "urnic1": "s2>s1 urnic0"})
        families = self.families()
        self.assertEqual({(sample.labels["device"], sample.labels["qpn"]) for sample in families["urnic_qp_path"].samples},
                         {(sample.labels["device"], sample.labels["qpn"]) for sample in families["urnic_qp_info"].samples})


class Ethernet(Network):
    wire = NETWORK

    def test_paths(self):
        self.assertNotIn("urnic_qp_path", self.families())
        self.start_writing("-x", "1")
        self.expect_paths()

    def test_it_agrees_with_status(self):
        self.send("-x", "1")
        self.expect_agreement({**OF_EVERY_PORT, **OF_ETHERNET}, OF_INFINIBAND)


class Infiniband(Network):
    wire = NETWORK

    def setUp(self):
        self.wire = NETWORK.replace("[[network]]", 'link_layer = "infiniband"\n[[network]]')
        super().setUp()

    def start_daemon(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace('name = "urnic0"\n', 'name = "urnic0"\nlink_layer = "infiniband"\n'), encoding="utf-8")
        super().start_daemon()

    def test_paths(self):
        self.start_writing()
        self.expect_paths()

    def test_it_agrees_with_status(self):
        self.send()
        self.expect_agreement({**OF_EVERY_PORT, **OF_INFINIBAND}, OF_ETHERNET)


class Live(Network):
    """The page for people, in a browser."""

    wire = NETWORK

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def test_queues_are_shown(self):
        self.wait_for_text()
        self.browser.open(f"http://127.0.0.1:{self.port}/")
        rows = "Array.from(document.querySelectorAll('#ports tbody tr'), row => Array.from(row.cells, cell => cell.textContent))"
        self.browser.wait_for(f"{rows}.length === {len(PORTS)}")
        self.assertEqual({row[0] for row in self.browser.evaluate(rows)}, {f"lab/{port}" for port in PORTS})
        self.assertFalse(self.browser.evaluate("document.getElementById('network').hidden"))
        self.send("-x", "1")
        # The buffer holds 1,000 KB, and may be full.
        most = f"Number({rows}.find(row => row[0] === 'lab/s1>s2')[4].replaceAll(',', ''))"
        self.browser.wait_for(f"{most} > 4")
        self.assertTrue(self.browser.evaluate("document.getElementById('paths_title').hidden"))
        self.start_writing("-x", "1")
        paths = rows.replace("#ports", "#paths")
        self.browser.wait_for(f"{paths}.length === 2")
        self.assertEqual({row[0] for row in self.browser.evaluate(paths)}, {"lab: s1>s2 urnic1", "lab: s2>s1 urnic0"})
        links = "Array.from(document.querySelectorAll('#paths a'), link => link.textContent)"
        self.assertEqual({link.split("/")[0] for link in self.browser.evaluate(links)}, {"urnic0", "urnic1"})
        self.assertEqual(self.browser.problems, [])


if __name__ == "__main__":
    harness.main()
