"""`urnic view` of an incast: two RNICs send to a third over an emulated switch, whose links are far below what any machine sustains."""

import os
import pathlib

import harness
from failure_modes_test import STREAM, WithStreams
from view_test import Planting


class Incast(Planting, WithStreams):
    wire = """
[[rnic]]
name = "urnic2"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.3/24"
[[network]]
fabric = "lab"
link_mbps = 200
delay_us = 10
buffer_bytes = 450000
ecn_kmin_bytes = 40000
ecn_kmax_bytes = 150000
ecn_pmax = 0.2
"""

    def setUp(self):
        super().setUp()
        for device in ("urnic0", "urnic1", "urnic2"):
            self.assert_ok(self.urnic("cc", "set", device, "algorithm=dcqcn", "line_rate_mbps=200", "min_rate_mbps=5",
                                      "--socket", self.socket))

    def send(self, *devices):
        """Each to urnic2, until all have heard of marks, at the same time."""
        clients = []
        for device in devices:
            port = str(harness.free_port())
            server = self.start(STREAM, "server", port, "urnic2")
            self.assertTrue(harness.wait_until(lambda port=port, server=server: harness.listening(int(port), server.pid)))
            clients.append(self.start(STREAM, "client", port, device))
            self.expect_line(clients[-1], "running")
        before = self.cnps()
        self.assertTrue(harness.wait_until(lambda: all(self.cnps()[device] >= before[device] + 3 for device in devices), pause=0.05))
        for client in clients:
            client.kill()
            client.wait()

    def cnps(self):
        return {device["name"]: device["counters"]["rp_cnp_handled"] for device in self.status()["devices"]}

    def test_both_senders_and_the_sink_are_told(self):
        file = self.expect(lambda: self.send("urnic0", "urnic1"), "incast", "ecn_marks", "cnps_cut_rate")
        lines = self.urnic("view", "--text", file).out.splitlines()
        told = {finding: [] for finding in ("incast", "cnps_cut_rate")}
        for line in lines:
            if not line.startswith(" "):
                group = line.split("/")[0]
            for finding, devices in told.items():
                if f" {finding}: " in line:
                    devices.append(group)
        self.assertEqual(told, {"incast": ["urnic2", "urnic2"], "cnps_cut_rate": ["urnic0", "urnic1"]})
        if picture := os.environ.get("URNIC_PICTURE"):  # that of docs/observe.md
            index = self.browser.evaluate("JSON.parse(document.getElementById('data').textContent).connections"
                                          ".findIndex(one => one.findings.some(finding => finding.id === 'cnps_cut_rate'))")
            self.open(file.with_suffix(".html"), f"#{index}")
            self.browser.screenshot(pathlib.Path(picture), whole=True)


if __name__ == "__main__":
    harness.main()
