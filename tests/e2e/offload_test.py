"""`offload`: where all packets are frames programs see no difference, and whoever looks at packets sees frames anyway."""

import signal

import harness
import with_daemon


OFF = "off: 'offload' in the configuration of its fabric"


class Offload(with_daemon.WithDaemon):
    # Of the two RNICs; None: as it comes, which all other tests have.
    rnics = (None, None)

    def start_daemon(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        for number, offload in enumerate(self.rnics):
            name = f'name = "urnic{number}"\n'
            self.assertIn(name, text)
            if offload is not None:
                text = text.replace(name, f'{name}offload = "{offload}"\n')
        config.write_text(text, encoding="utf-8")
        super().start_daemon()

    def offloads(self):
        """Of both RNICs."""
        return {device["port"]["offload"] for device in self.status()["devices"]}

    def local_packets(self):
        """Received by the two, and no frames."""
        return sum(device["counters"]["rcvd_local_pkts"] for device in self.status()["devices"])

    def run_check(self, program, *words):
        result = harness.run([harness.URNIC, "run", "--socket", self.socket, "--", harness.BUILD / "tests/e2e" / program, *words], timeout=250)
        self.assert_ok(result, program)


class Frames(Offload):
    rnics = ("off", "off")

    def test_every_verb(self):
        self.assertEqual(self.offloads(), {OFF})
        # But for those that make as many objects as there can be.
        self.run_check("verbs_check", "--gtest_filter=-DeviceLimits.*:MulticastNumbers.*:DatagramPeers.*")
        self.assertEqual(self.local_packets(), 0)

    def test_connections(self):
        self.run_check("cm_check")

    def test_processes_that_die(self):
        self.run_check("app_crash", "--gtest_filter=*WhatWasSentBeforeTheEndArrives")


class Observers(Offload):
    def test_nobody_looks(self):
        self.assertEqual(self.offloads(), {"on"})
        self.transfer()
        self.assertGreater(self.local_packets(), 200, "packets of 100 WRITEs of 8 KB")

    def test_a_fault_sees_frames(self):
        self.assert_ok(self.urnic("fault", "add", "drop", "--probability", "0.001", "--socket", self.socket))
        self.assertEqual(self.offloads(), {"off while somebody looks at frames"})
        self.assert_ok(self.urnic("fault", "clear", "--socket", self.socket))
        # The injector goes when it holds no frame any more.
        self.assertTrue(harness.wait_until(lambda: self.offloads() == {"on"}))

    def test_a_capture_sees_frames(self):
        file = self.dir / "seen.pcapng"
        capture = harness.start([harness.URNIC, "capture", "-w", file, "--socket", self.socket])
        self.addCleanup(harness.end_group, capture)
        self.assertTrue(harness.wait_until(lambda: self.offloads() == {"off while somebody looks at frames"}))
        before = self.local_packets()
        self.transfer()
        self.assertEqual(self.local_packets(), before)
        capture.send_signal(signal.SIGINT)
        self.assert_ok(harness.finish(capture), "urnic capture")
        lines = self.run_ok([harness.URNIC, "decode", file]).out.splitlines()
        writes = [line for line in lines if "RC WRITE" in line]
        self.assertGreater(len(writes), 100)
        self.assertEqual([line for line in writes if "icrc=good" not in line], [])
        self.assertTrue(harness.wait_until(lambda: self.offloads() == {"on"}))

    def transfer(self):
        port = harness.free_port()
        common = [str(harness.URNIC), "run", "--socket", str(self.socket), "--", "ib_write_bw", "-F", "-n", "100", "-s", "8192", "-p", str(port)]
        self.run_pair([*common, "-d", "urnic1"], [*common, "-d", "urnic0", "127.0.0.1"], port)


class OneThatDoesNot(Offload):
    rnics = ("auto", "off")

    def test_the_whole_fabric_is_frames(self):
        self.assertEqual(self.offloads(), {OFF})


if __name__ == "__main__":
    harness.main()
