"""`urnic view` of a path whose MTU is less than both its ends believe: a switch between them loses what is longer, and says nothing."""

import signal
import subprocess

import browser
import harness
import netns
from with_daemon import WithDaemon

SWITCH = "switch"
RNIC = """
[[rnic]]
name = "urnic{number}"
port = "af_packet"
interface = "v{number}"
mac = "02:00:00:00:89:0{number}"
ipv4 = "10.89.0.{address}/24"
mtu = 4096
segmentation_offload = "off"  # a bridge looks at the length of what it forwards, but not at that of segments
"""


class NarrowPath(WithDaemon):
    def setUp(self):
        netns.ip("netns", "add", SWITCH)
        self.addCleanup(netns.ip, "netns", "del", SWITCH)
        netns.ip("-n", SWITCH, "link", "add", "br0", "mtu", 4200, "type", "bridge", "mcast_snooping", 0)
        for number in range(2):
            netns.ip("link", "add", f"v{number}", "mtu", 4200, "type", "veth", "peer", "name", f"p{number}", "netns", SWITCH, "mtu", 4200)
            self.addCleanup(subprocess.run, ["ip", "link", "del", f"v{number}"], stderr=subprocess.DEVNULL, check=False)
            netns.ip("-n", SWITCH, "link", "set", f"p{number}", "master", "br0", "up")
            netns.ip("link", "set", f"v{number}", "up")
        netns.ip("-n", SWITCH, "link", "set", "br0", "up")
        netns.ip("-n", SWITCH, "link", "set", "p1", "mtu", 1500)
        super().setUp()

    def start_daemon(self):
        config = self.dir / "urnicd.toml"
        head = config.read_text(encoding="utf-8").split("[[rnic]]", maxsplit=1)[0]
        config.write_text(head + "".join(RNIC.format(number=number, address=number + 1) for number in range(2)), encoding="utf-8")
        super().start_daemon()

    def test_the_size_that_does_not_pass_is_named(self):
        file = self.dir / "trace.ndjson"
        tracer = harness.start([harness.URNIC, "trace", file, "--socket", self.socket])
        self.addCleanup(harness.end_group, tracer)
        self.assertTrue(harness.wait_until(lambda: "urnic-capture" in
                                           open(f"/proc/{self.daemon.pid}/maps", encoding="ascii").read()))
        # All sizes from 2 bytes on, until one of them gets stuck.
        port = harness.free_port()
        words = [harness.URNIC, "run", "--socket", self.socket, "--", "ib_write_bw", "-F", "-a", "-n", 5, "-u", 14, "-m", 4096, "-p", port]
        server, client = netns.run_pair(self, [*words, "-d", "urnic1"], [*words, "-d", "urnic0", "127.0.0.1"], port)
        self.assertNotEqual(client.returncode, 0, server)
        tracer.send_signal(signal.SIGINT)
        self.assert_ok(harness.finish(tracer))
        text = self.urnic("view", "--text", file)
        self.assert_ok(text)
        self.assertIn("path_mtu: Timeouts because the path MTU does not pass: packets with 2048 bytes of payload are never answered, "
                      "those with 1024 are.", text.out)
        # The page says the same.
        page = file.with_suffix(".html")
        self.assert_ok(self.urnic("view", file, "-o", page))
        shown = browser.Browser(type(self))
        shown.open(page.as_uri())
        index = shown.evaluate("JSON.parse(document.getElementById('data').textContent).connections"
                               ".findIndex(one => one.findings.some(finding => finding.id === 'path_mtu'))")
        shown.open(f"{page.as_uri()}#{index}")
        self.assertIn("the path MTU does not pass",
                      shown.evaluate("document.querySelector('#findings [data-finding=path_mtu]').textContent"))
        self.assertEqual(shown.problems, [])


if __name__ == "__main__":
    netns.private()
    harness.main()
