"""`urnic status` of a daemon with two RNICs: one screen, views, rates and troubles since the last look, --watch."""

import json
import os
import re
import tempfile

import harness
import with_daemon


class Status(with_daemon.WithDaemon):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="urnic-e2e-")
        self.addCleanup(directory.cleanup)
        os.chmod(directory.name, 0o700)
        self.environment = dict(harness.clean_environment(), XDG_RUNTIME_DIR=directory.name)

    def page(self, *words):
        return self.run_ok([harness.URNIC, "status", *words, "--socket", self.socket], env=self.environment).out

    def pingpong(self, device, port, *words):
        return [str(word) for word in (harness.URNIC, "run", "--socket", self.socket, "--", "ibv_rc_pingpong", "-d", device, "-g", 1,
                                       "-p", port, *words)]

    def exchange_messages(self):
        port = harness.free_port()
        self.run_pair(self.pingpong("urnic0", port), self.pingpong("urnic1", port, "127.0.0.1"), port)

    def test_one_screen(self):
        text = self.page()
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 24, text)
        self.assertLessEqual(max(map(len, lines)), 80, text)
        self.assertRegex(text, r"\n  urnic0 +ACTIVE +198\.18\.0\.1 \(\+1\) ")
        self.assertIn("no program has an RNIC open", text)
        self.assertIn("rates since the daemon's start", text)

    def test_rates_and_troubles_are_since_the_last_look(self):
        self.page()
        self.assertIn("0 B/s", self.page())
        self.exchange_messages()
        self.run_ok([harness.URNIC, "port", "urnic1", "down", "--socket", self.socket])
        text = self.page()
        self.assertRegex(text, r"\n  urnic0 +ACTIVE .* [1-9][0-9.]* k?M?G?B/s +[1-9][0-9.]* k?M?G?B/s\n")
        self.assertIn("rates since the last look, ", text)
        self.assertIn("urnic1: its port is down (urnic port urnic1 up)", text)
        self.run_ok([harness.URNIC, "port", "urnic1", "up", "--socket", self.socket])
        self.assertNotIn("its port is down", self.page())

    def test_views(self):
        held = harness.start(self.pingpong("urnic0", harness.free_port()))
        self.addCleanup(harness.end_group, held)
        found = harness.wait_until(lambda: re.search(r"\n  urnic0 +\d+ +RC +INIT .*ibv_rc_pingpong", self.page("qps")))
        self.assertTrue(found, self.page("qps"))
        self.assertRegex(self.page("qps", "urnic0"), r"\n  urnic0 +\d+ +RC +INIT ")
        self.assertEqual(self.page("qps", "urnic1"), "There are no QPs.\n")
        self.assertRegex(self.page("mrs"), r"\n  urnic0 +0x[0-9a-f]+ +4\.00 KiB +4096 +\w+ +ibv_rc_pingpong")
        self.assertRegex(self.page("cm"), r"\A  connection manager +urnic0 +urnic1\n")
        self.assertRegex(self.page("counters", "urnic1"), r"\A  counter +urnic1\n")
        self.assertIn("no emulated network", self.page("networks"))
        harness.end_group(held)
        harness.finish(held)

    def test_wrong_words(self):
        for words, said in ((("qps", "urnic7"), "there is no RNIC urnic7: the daemon has urnic0, urnic1"),
                            (("everything",), "everything"), (("qps", "--json"), "--json"), (("--interval", "1"), "--watch")):
            result = harness.run([harness.URNIC, "status", *words, "--socket", self.socket], env=self.environment)
            self.assertNotEqual(result.returncode, 0, words)
            self.assertIn(said, result.err, words)

    def test_json_is_all_of_it(self):
        status = json.loads(self.page("--json"))
        self.assertEqual([device["name"] for device in status["devices"]], ["urnic0", "urnic1"])
        self.assertIn("counters_per_worker", status["devices"][0])

    def test_watch(self):
        watching = harness.start([harness.URNIC, "status", "--watch", "--interval", "0.1", "--socket", self.socket],
                                 env=self.environment)
        self.addCleanup(harness.end_group, watching)
        pages = 0
        self.run_ok([harness.URNIC, "port", "urnic0", "down", "--socket", self.socket])
        while "its port is down" not in (line := harness.read_line(watching)):
            self.assertNotEqual(line, "", "it ended")
            pages += line.startswith("urnicd ")
        self.assertGreaterEqual(pages, 1)
        harness.end_group(watching)
        harness.finish(watching)


if __name__ == "__main__":
    harness.main()
