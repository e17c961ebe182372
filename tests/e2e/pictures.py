"""The pictures of docs/observe.md that no test makes beside its checks: programs with windows and terminals of a display that nobody sees
(Xvfb), and the daemon's page. `scripts/pictures` runs one case for each, which writes the file that URNIC_PICTURE names."""

import os
import pathlib
import subprocess
import tempfile

import browser
import harness
import network_metrics_test
from capture_test import Captures
from failure_modes_test import WithStreams
from wireshark_test import LUA, analysed

PICTURE = pathlib.Path(os.environ.get("URNIC_PICTURE", "picture.png")).resolve()
# A window fills its display from the upper left corner: there is no window manager.
WIRESHARK_SIZE = (1180, 770)
# What the dissector has found, and NAKs.
TROUBLES = "urnic.missing || urnic.out_of_order || urnic.retransmission || infiniband.aeth.syndrome >= 0x60"
WIRESHARK_RECENT = "privs.warn_if_elevated: FALSE\n" + "".join(
    f"gui.geometry_main_{name}: {value}\n" for name, value in
    (("x", 0), ("y", 0), ("width", WIRESHARK_SIZE[0]), ("height", WIRESHARK_SIZE[1]), ("maximized", "FALSE")))
# One pane above the other, and none for bytes.
WIRESHARK_OPTIONS = ("-o", "gui.layout_type:1", "-o", "gui.layout_content_3:NONE")
XTERM = ("xterm", "-u8", "-b", "6", "-bw", "0", "+sb", "-fa", "DejaVu Sans Mono", "-fs", "11", "-bg", "#1c1c1c", "-fg", "#e4e4e4")


class Display:
    def __init__(self, test, width, height):
        directory = tempfile.TemporaryDirectory(prefix="urnic-e2e-")
        test.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.test = test
        reading, writing = os.pipe()
        # It takes a free number, and writes it once it serves. It does not begin anew when its last client goes, who may be one that looks.
        server = harness.start(["Xvfb", "-noreset", "-displayfd", writing, "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp"],
                               pass_fds=(writing,))
        os.close(writing)
        test.addCleanup(harness.finish, server)
        test.addCleanup(harness.end_group, server)
        with os.fdopen(reading, encoding="ascii") as number:
            name = number.readline().strip()
        # Neither the settings nor the language of whoever runs this are in the picture.
        self.environment = {**harness.clean_environment(), "DISPLAY": f":{name}", "HOME": str(self.directory),
                            "XDG_RUNTIME_DIR": str(self.directory), "LC_ALL": "C.UTF-8"}

    def start(self, *words):
        process = harness.start(words, env=self.environment)
        self.test.addCleanup(harness.finish, process)
        self.test.addCleanup(harness.end_group, process)

    def call(self, *words):
        return subprocess.run([str(word) for word in words], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=harness.PATIENCE_S, check=False)

    def call_ok(self, *words):
        result = self.call(*words)
        self.test.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def window(self, title):
        """Of a window that has this in its title, once it is there: its number."""
        search = ("xdotool", "search", "--onlyvisible", "--name", title)
        self.test.assertTrue(harness.wait_until(lambda: self.call(*search).stdout, pause=0.2), f"there is no window {title}")
        return self.call_ok(*search).split()[0]

    def shoot(self, window):
        self.call_ok("import", "-window", window, self.directory / "now.ppm")
        return (self.directory / "now.ppm").read_bytes()

    def wait_until_still(self, window):
        """It has drawn all that it has to draw. Three times the same, half a second apart."""
        shots = [self.shoot(window)]

        def is_still():
            shots.append(self.shoot(window))
            return shots[-3:].count(shots[-1]) == 3
        self.test.assertTrue(harness.wait_until(is_still, pause=0.5))

    def picture(self, window):
        self.call_ok("import", "-window", window, PICTURE)


class Wireshark(Captures):
    def test_a_capture_with_losses(self):
        self.fault("add", "drop", "--opcode", "RC WRITE Middle", "--probability", "0.02", "--seed", "3")
        file = self.dir / "loss.pcapng"
        capture = self.begin_to(file)
        self.transfer("-s", 20_000, "-u", 12, iterations=50)
        self.end(capture)
        again = analysed(file, "frame.number", display="urnic.retransmission")[0][0]
        display = Display(self, *WIRESHARK_SIZE)
        settings = display.directory / ".config/wireshark"
        settings.mkdir(parents=True)
        (settings / "recent_common").write_text(WIRESHARK_RECENT, encoding="ascii")
        display.start("wireshark", "-n", *WIRESHARK_OPTIONS, "-X", f"lua_script:{LUA}", "-r", file, "-Y", TROUBLES, "-g", again)
        window = display.window(file.name)
        display.wait_until_still(window)
        # The last tree of the packet, ours, is opened: the focus goes to the lower pane, and from its first line to the last.
        display.call_ok("xdotool", "windowfocus", window, "mousemove", "--window", window, WIRESHARK_SIZE[0] // 2, WIRESHARK_SIZE[1] - 60,
                        "click", 1, "key", "Home", "End", "Right")
        display.wait_until_still(window)
        display.picture(window)


class Terminals(WithStreams):
    def open(self, height, *command):
        """In a terminal of 80 columns."""
        display = Display(self, 900, 560)
        display.start(*XTERM, "-T", "terminal", "-geometry", f"80x{height}+0+0", "-e", *command)
        return display, display.window("terminal")

    def setUp(self):
        super().setUp()
        self.assert_ok(self.urnic("fault", "add", "drop", "--opcode", "RC WRITE Middle", "--probability", "0.001", "--seed", "3",
                                  "--socket", self.socket))
        self.start_stream()
        self.start_stream()

    def test_top(self):
        display, window = self.open(24, harness.URNIC, "top", "--interval", "1", "--socket", self.socket)
        # Rates are of two looks.
        self.assertTrue(harness.wait_until(lambda: self.resent() > 0))
        before = display.shoot(window)
        for _ in range(3):
            self.assertTrue(harness.wait_until(lambda: display.shoot(window) != before, pause=0.2))
            before = display.shoot(window)
        display.picture(window)

    def resent(self):
        return sum(device["counters"]["retrans_pkts"] for device in self.status()["devices"])

    def test_status(self):
        text = self.urnic("status", "--socket", self.socket).out
        before = self.resent()
        self.assertTrue(harness.wait_until(lambda: self.resent() > before + 10, pause=0.2))
        script = 'echo "$ urnic status"; "$1" status --socket "$2"; exec sleep 1000'
        display, window = self.open(len(text.splitlines()) + 3, "sh", "-c", script, "sh", harness.URNIC, self.socket)
        display.wait_until_still(window)
        display.picture(window)


class Overview(network_metrics_test.Network, WithStreams):
    wire = network_metrics_test.NETWORK

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser(cls)

    def test_the_page_of_a_daemon(self):
        self.wait_for_text()
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1000, height=610, deviceScaleFactor=1, mobile=False)
        self.browser.open(f"http://127.0.0.1:{self.port}/")
        self.assert_ok(self.urnic("fault", "add", "drop", "--opcode", "RC WRITE Middle", "--probability", "0.001", "--seed", "3",
                                  "--socket", self.socket))
        self.start_stream()
        self.browser.wait_for("document.getElementById('troubles').textContent.includes(' retransmissions since')")
        self.browser.wait_for("document.querySelectorAll('#qps tbody tr').length === 2")
        self.browser.screenshot(PICTURE, whole=True)


if __name__ == "__main__":
    harness.main()
