"""`urnic top` in a terminal of tmux's: tables, keys, sizes, the daemon's end, and no terminal at all."""

import os
import re
import shlex
import shutil
import signal

import harness
import terminal
import with_daemon


class Top(with_daemon.WithDaemon):
    def open(self, width=80, height=24, before="", words=()):
        """urnic top in a shell that then tells its status and the terminal's settings, and stays."""
        top = shlex.join([str(harness.URNIC), "top", *words, "--interval", "0.2", "--socket", str(self.socket)])
        opened = terminal.Terminal(self.dir, f"{before} {top}; echo status=$?; stty -a; exec cat", width, height)
        self.addCleanup(opened.end)
        return opened

    def pingpong(self, device, port, *words, program="ibv_rc_pingpong"):
        return [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", program, "-d", device, "-g", 1, "-p", port,
                                       *words)]

    def hold(self, command):
        """A program with a QP that waits for its peer."""
        process = harness.start(command)
        self.addCleanup(harness.finish, process)
        self.addCleanup(harness.end_group, process)

    def assert_restored(self, shown, status):
        self.assertRegex(shown, rf"status={status}\n")
        self.assertRegex(shown, r"(?<!-)\bicanon\b")
        self.assertRegex(shown, r"(?<!-)\becho\b")

    def test_tables_and_keys(self):
        self.hold(self.pingpong("urnic1", harness.free_port()))
        self.hold(self.pingpong("urnic0", harness.free_port()))
        top = self.open()
        # A QP that the look before did not have shows no rates, nor a state that programs leave soon.
        shown = top.wait_for(lambda text: len(re.findall(r"\nurnic\d +\d+ RC +INIT +0 +0 +0 +\d+ ibv_rc_ping", text)) == 2 and "0 B/s" in text)
        self.assertRegex(shown, r"\Aurnicd .*, process \d+, up .*; 2 RNICs, 2 QPs\n")
        self.assertRegex(shown, r"\n\*RNIC +port +sent +received +pkt/s +drop/s +resent/s +RNR/s +norecv/s\n")
        self.assertRegex(shown, r"\nurnic0 +ACTIVE +0 B/s +0 B/s +0 +0 +0 +0 +0\nurnic1 ")
        self.assertRegex(shown, r"\nurnic0 +\d+ RC +INIT +0 +0 +0 +\d+ ibv_rc_ping\nurnic1 ")
        self.assertLessEqual(max(map(len, shown.splitlines())), 80, shown)
        top.press("r")
        top.wait_for(lambda text: re.search(r"\nurnic1 +ACTIVE .*\nurnic0 +ACTIVE ", text))
        top.press("Right", "s")
        top.wait_for(lambda text: "*QP" in text)
        top.press("h")
        top.wait_for(lambda text: "QPs here wait for receives there" in text)
        top.press("h", "p")
        top.wait_for(lambda text: "PAUSED" in text and "*QP" in text)
        top.press("q")
        self.assert_restored(top.wait_for(lambda text: "status=" in text and "icanon" in text), 0)
        self.assertEqual(top.value("alternate_on"), "0")

    def test_rates(self):
        top = self.open()
        port = harness.free_port()
        self.hold(self.pingpong("urnic0", port, "-n", 100_000_000))
        self.hold(["sh", "-c", f"until {shlex.join(self.pingpong('urnic1', port, '-n', 100_000_000, '127.0.0.1'))}; do sleep 0.1; done"])
        top.wait_for(lambda text: re.search(r"\nurnic0 +ACTIVE +[\d.]+ [kMG]B/s +[\d.]+ [kMG]B/s +[\d.]+ ?[kM]? +", text))
        top.wait_for(lambda text: re.search(r"\nurnic0 +\d+ RC +RTS +\d+ +[1-9][\d.]*(?: k| M)? +[1-9][\d.]*(?: k| M)? +\d+ ibv", text))

    def test_one_rnic(self):
        self.hold(self.pingpong("urnic0", harness.free_port()))
        self.hold(self.pingpong("urnic1", harness.free_port()))
        top = self.open(words=["urnic1"])
        shown = top.wait_for(lambda text: re.search(r"\nurnic1 +\d+ RC +INIT .* ibv_rc_ping", text))
        self.assertRegex(shown, r"\Aurnicd .*; urnic1, 1 QP\n")
        self.assertNotIn("urnic0", shown)
        result = harness.run([harness.URNIC, "top", "urnic7", "--socket", self.socket])
        self.assertEqual(result.returncode, 125)
        self.assertIn("there is no RNIC urnic7: the daemon has urnic0, urnic1", result.err)

    def test_sizes(self):
        top = self.open(20, 5)
        shown = top.wait_for(lambda text: "urnic0" in text and "q quit" in text)
        self.assertEqual([line[:6] for line in shown.splitlines()], ["urnicd", "*RNIC ", "urnic0", "urnic1", "q quit"])
        top.press("Left")
        top.wait_for(lambda text: "no QP" in text and "urnic0" not in text)
        top.press("Left")
        for size in ((1, 1), (200, 50), (20, 3), (80, 24)):
            top.resize(*size)
        top.wait_for(lambda text: "norecv/s" in text and "h help" in text and "no QP" in text)
        top.press("q")
        top.wait_for(lambda text: "status=0" in text)

    def test_names_of_programs_are_text(self):
        evil = self.dir / "\x1b[31mX\x1b]2;Y\x07"
        shutil.copy(shutil.which("ibv_rc_pingpong"), evil)
        self.hold(self.pingpong("urnic0", harness.free_port(), program=evil))
        top = self.open()
        title = top.value("pane_title")
        top.wait_for(lambda text: re.search(r"RC +INIT .* \?\[31mX\?\]2;", text))
        self.assertNotIn("\x1b[31m", top.screen("-e"))
        self.assertEqual(top.value("pane_title"), title)

    def test_the_daemon_ends(self):
        top = self.open()
        top.wait_for(lambda text: "urnic1" in text)
        self.daemon.send_signal(signal.SIGKILL)
        shown = top.wait_for(lambda text: "status=" in text and "icanon" in text)
        self.assertRegex(shown.replace("\n", ""), r"urnic: (urnicd at \S+control\.sock has ended|.*takes no request|.*closed the connection|.*ended)")
        self.assert_restored(shown, 125)
        self.assertEqual(top.value("alternate_on"), "0")

    def test_ctrl_c_restores_the_terminal(self):
        top = self.open(before="trap : INT;")
        top.wait_for(lambda text: "urnic1" in text)
        top.press("C-c")
        self.assertRegex(top.wait_for(lambda text: "icanon" in text), r"(?<!-)\becho\b")

    def test_no_terminal(self):
        command = [harness.URNIC, "top", "--socket", self.socket]
        result = harness.run(command)
        self.assertEqual(result.returncode, 125)
        self.assertIn("urnic top needs a terminal", result.err)
        self.assertEqual(result.out, "")
        top = self.open(before="TERM=no-such-type")
        self.assertIn("terminals of type 'no-such-type'", top.wait_for(lambda text: "status=125" in text).replace("\n", ""))
        self.stop_daemon(self.daemon)
        self.assertIn("no urnicd at", harness.run(command).err)

    def test_the_terminal_ends(self):
        top = self.open()
        top.wait_for(lambda text: "urnic1" in text)
        shell = int(top.value("pane_pid"))
        children = harness.pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii").split()
        top.end()
        self.assertTrue(harness.wait_until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children)), children)


if __name__ == "__main__":
    harness.main()
