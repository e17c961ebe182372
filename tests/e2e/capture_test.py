"""`urnic capture`, as its files look to tshark and to urnic decode: what is in them, and how a capture ends."""

import collections
import os
import pwd
import re
import signal
import subprocess
import time
import unittest

import harness
import with_daemon

ITERATIONS = 200


def tshark(file, *fields, display=""):
    """The fields of each packet that tshark chooses."""
    words = ["tshark", "-n", "-r", file, "-T", "fields", *(["-Y", display] if display else [])]
    for field in fields:
        words += ["-e", field]
    out = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in out.splitlines()]


def fates(file, display=""):
    return collections.Counter(re.match(r"fate=(\S+)", comment)[1]
                               for (comment,) in tshark(file, "frame.comment", display=display))


class Captures(with_daemon.WithDaemon):
    """Not run itself."""

    def begin(self, *words, **options):
        """A capture that sees everything from now on."""
        capture = harness.start([harness.URNIC, "capture", "--socket", self.socket, *words], **options)
        self.addCleanup(harness.end_group, capture)
        return capture

    def begin_to(self, file, *words):
        capture = self.begin("-w", file, *words)
        self.assertTrue(harness.wait_until(lambda: file.exists() or capture.poll() is not None))
        self.assertIsNone(capture.poll(), file)
        return capture

    def end(self, capture):
        capture.send_signal(signal.SIGINT)
        result = harness.finish(capture)
        self.assert_ok(result, "urnic capture")
        return result

    def transfer(self, *words, tool="ib_write_bw", iterations=ITERATIONS):
        port = harness.free_port()
        common = [harness.URNIC, "run", "--socket", self.socket, "--", tool, "-F", "-n", iterations, "-p", port, *words]
        common = [str(word) for word in common]
        return self.run_pair([*common, "-d", "urnic1"], [*common, "-d", "urnic0", "127.0.0.1"], port)

    def transfer_until_ended(self, process, *words):
        """Whoever captures has enough after some transfers, and ends."""
        deadline = time.monotonic() + harness.PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            self.transfer(*words)
        self.assertIsNotNone(process.poll(), "it captured on")

    def fault(self, *words):
        self.assert_ok(self.urnic("fault", *words, "--socket", self.socket))


class Files(Captures):
    workers = 2

    def test_both_ends_of_a_transfer(self):
        file = self.dir / "both.pcapng"
        capture = self.begin_to(file)
        self.transfer("-s", 10_000, "-u", 18)  # patience for a worker that does not run: nothing is sent twice
        text = self.end(capture).err
        rows = tshark(file, "frame.interface_name", "frame.packet_flags_direction", "infiniband.bth.opcode", "frame.comment",
                      "frame.encap_type", display="infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 11")
        sent = [row for row in rows if row[1] == "2" or row[1].endswith("02")]
        received = [row for row in rows if row not in sent]
        self.assertEqual({row[0] for row in sent}, {"urnic0"})
        self.assertEqual({row[0] for row in received}, {"urnic1"})
        # perftest's warm-up and its own messages are more.
        self.assertGreaterEqual(len(sent), 3 * ITERATIONS)
        self.assertEqual(len(sent), len(received))
        for row in sent:
            self.assertRegex(row[3], r"^fate=sent qpn=0x[0-9a-f]+ state=RTS expected_psn=\d+ next_psn=\d+$")
        for row in received:
            self.assertRegex(row[3], r"^fate=delivered qpn=0x[0-9a-f]+ state=RT[RS] expected_psn=\d+ next_psn=\d+$")
        self.assertRegex(text, r"urnic capture: urnic0: \d+ packets, urnic1: \d+ packets; \d+ are in .*both\.pcapng")
        # Each worker's in the order of time (one that does not run may hand over later than the reader waits), with every right check,
        # also to our own eyes.
        rows = tshark(file, "frame.interface_name", "frame.time_epoch")
        for device in ("urnic0", "urnic1"):
            times = [float(time) for name, time in rows if name == device]
            self.assertEqual(times, sorted(times))
        lines = self.run_ok([harness.URNIC, "decode", file]).out.splitlines()
        self.assertEqual(len(lines), len(rows))
        self.assertEqual([line for line in lines if " RC " in line and "icrc=good" not in line], [])
        self.assertRegex(lines[-1], r"\(fate=\S+.*\)$")

    def test_what_became_of_packets(self):
        self.fault("add", "drop", "--probability", "0.05", "--seed", "3")
        self.fault("add", "duplicate", "--probability", "0.05", "--seed", "4")
        file = self.dir / "faults.pcapng"
        before = self.counters()
        capture = self.begin_to(file, "--snaplen", 96)
        self.transfer("-s", 20_000, "-u", 17)
        self.end(capture)
        after = self.counters()
        grown = {name: after[name] - before[name] for name in after}
        seen = fates(file)
        self.assertEqual(seen["retransmission"], grown["retrans_pkts"])
        self.assertEqual(seen["duplicate"], grown["duplicate_request"])
        self.assertGreater(seen["retransmission"], 0)
        self.assertGreater(seen["duplicate"], 0)
        self.assertGreater(seen["early-kept"], 0)
        self.assertEqual(seen["sent"] + seen["retransmission"], grown["sent_pkts"])
        # A retransmission has a PSN that went out before.
        first = {}
        for psn, queue, comment in tshark(file, "infiniband.bth.psn", "infiniband.bth.destqp", "frame.comment",
                                          display="infiniband.bth.opcode <= 11 && infiniband.bth.opcode >= 6"):
            if "fate=sent" in comment:
                self.assertNotIn((queue, psn), first, "sent twice without saying so")
                first[queue, psn] = True
            elif "fate=retransmission" in comment:
                self.assertIn((queue, psn), first)
        lengths = {int(length) for (length,) in tshark(file, "frame.cap_len")}
        self.assertLessEqual(max(lengths), 96)

    def counters(self):
        names = ("retrans_pkts", "duplicate_request", "sent_pkts")
        devices = self.status()["devices"]
        return {name: sum(device["counters"][name] for device in devices) for name in names}

    def test_drops_have_reasons(self):
        self.fault("add", "corrupt", "--count", "1", "--offset", "payload")
        file = self.dir / "drops.pcapng"
        capture = self.begin_to(file, "urnic1")
        self.transfer("-s", 100, "-u", 17)
        self.end(capture)
        drops = [comment for (comment,) in tshark(file, "frame.comment") if "fate=dropped" in comment]
        self.assertEqual([re.search(r"drop=(\S+)", drop)[1] for drop in drops], ["rx_icrc_encapsulated"])
        self.assertEqual({name for (name,) in tshark(file, "frame.interface_name")}, {"urnic1"})

    def test_filters(self):
        file = self.dir / "filter.pcapng"
        capture = self.begin_to(file, "--filter", "opcode=RC READ Request,peer=198.18.0.2")
        self.transfer("-s", 10_000, tool="ib_read_bw")
        self.end(capture)
        rows = tshark(file, "frame.interface_name", "infiniband.bth.opcode", "ip.dst")
        self.assertEqual({tuple(row) for row in rows}, {("urnic0", "12", "198.18.0.2")})
        self.assertGreaterEqual(len(rows), ITERATIONS)
        for words, what in ((["--filter", "qpn=0x1000000"], "a QP number is"), (["--filter", "opcode=Sends"], "urnic opcode"),
                            (["--filter", "port=4"], "qpn=N, peer=ADDRESS"), (["--filter", "peer=here"], "address"),
                            (["mlx5_0"], "there is no RNIC \"mlx5_0\"; there are urnic0, urnic1"),
                            (["--ring", "3"], "FILES,MB"), (["--ring", "3,1"], "-w FILE")):
            result = self.urnic("capture", "--socket", self.socket, *words)
            self.assertEqual(result.returncode, 125, result)
            self.assertIn(what, result.err)

    def test_text(self):
        capture = self.begin("-c", 20)
        self.transfer_until_ended(capture, "-s", 100)
        result = harness.finish(capture)
        self.assert_ok(result)
        lines = result.out.splitlines()
        self.assertEqual(len(lines), 20)
        self.assertRegex(lines[-1], r"^20 .* RC .*icrc=good.* \(fate=\S+ qpn=0x")

    def test_a_ring_of_files(self):
        capture = self.begin("-w", self.dir / "ring.pcapng", "--ring", "2,1")
        first = self.dir / "ring_00001.pcapng"
        self.assertTrue(harness.wait_until(first.exists))
        self.transfer("-s", 65536, iterations=100)
        self.end(capture)
        files = sorted(self.dir.glob("ring_*.pcapng"))
        self.assertEqual(len(files), 2)
        self.assertFalse(first.exists())
        for file in files:
            self.assertLessEqual(file.stat().st_size, 1_001_000)
        self.assertGreater(len(tshark(files[0], "frame.number")), 100)
        self.assertGreater(len(tshark(files[1], "frame.number")), 0)


class Ends(Captures):
    def test_a_full_disk(self):
        capture = self.begin("-w", "/dev/full")
        result = harness.finish(capture)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("/dev/full cannot be written any more: No space left on device. The capture has ended", result.err)
        self.transfer("-s", 100)

    def test_a_disk_that_becomes_full(self):
        disk, file = self.dir / "disk", self.dir / "small.pcapng"
        disk.mkdir()
        script = f"""mount -t tmpfs -o size=256k tmpfs {disk} && touch {self.dir}/ready
                     {harness.URNIC} capture --socket {self.socket} -w {disk}/small.pcapng
                     status=$?; cp {disk}/small.pcapng {file}; exit $status"""
        capture = harness.start(["unshare", *(["-m"] if os.geteuid() == 0 else ["-Urm"]), "sh", "-c", script])
        self.addCleanup(harness.end_group, capture)
        self.assertTrue(harness.wait_until((self.dir / "ready").exists))
        self.transfer_until_ended(capture, "-s", 65536)
        result = harness.finish(capture)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("small.pcapng cannot be written any more: No space left on device", result.err)
        # What is there is readable up to the cut.
        decoded = self.urnic("decode", file)
        self.assertGreater(len(decoded.out.splitlines()), 10)
        # Seldom the disk is full just behind a packet.
        is_cut = decoded.returncode == 1
        self.assertIn(decoded.returncode, (0, 1))
        self.assertEqual("small.pcapng: offset " in decoded.err, is_cut)
        shown = harness.run(["tshark", "-n", "-r", file])
        self.assertEqual(len(shown.out.splitlines()), len(decoded.out.splitlines()))
        self.assertEqual("cut short in the middle of a packet" in shown.err, is_cut)

    def test_a_reader_that_stalls(self):
        # Nobody reads the pipe; the RNICs go on, and the buffer fills.
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        capture = harness.start([harness.URNIC, "capture", "--socket", str(self.socket), "-w", "/dev/fd/" + str(write_end),
                                 "--buffer", "1"], pass_fds=[write_end])
        os.close(write_end)
        self.addCleanup(harness.end_group, capture)
        self.assertEqual(os.read(read_end, 4), b"\x0a\x0d\x0d\x0a")
        self.transfer("-s", 65536, iterations=500)
        capture.send_signal(signal.SIGINT)
        text = b"\x0a\x0d\x0d\x0a"
        while part := os.read(read_end, 1 << 16):
            text += part
        result = harness.finish(capture)
        self.assert_ok(result)
        lost = re.search(r"urnic0: (\d+) packets, (\d+) of them lost because this reader was too slow", result.err)
        self.assertIsNotNone(lost, result)
        file = self.dir / "stalled.pcapng"
        file.write_bytes(text)
        written = {name: len(tshark(file, "frame.number", display=f'frame.interface_name == "{name}"')) for name in ("urnic0", "urnic1")}
        self.assertEqual(written["urnic0"], int(lost[1]) - int(lost[2]))
        # The file says it, too: in its statistics.
        statistics = self.run_ok(["capinfos", "-T", "-m", file]).out
        self.assertIn(str(sum(written.values())), statistics)

    def test_the_end_of_the_daemon(self):
        file = self.dir / "end.pcapng"
        capture = self.begin_to(file)
        self.transfer("-s", 100)
        self.daemon.terminate()
        result = harness.finish(capture)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("urnicd has ended, and the capture with it", result.err)
        self.assertGreater(fates(file)["sent"], ITERATIONS)

    def test_a_reader_that_dies_leaves_nothing(self):
        before = harness.Footprint(self.daemon.pid)
        for _ in range(3):
            file = self.dir / "dies.pcapng"
            file.unlink(missing_ok=True)
            capture = self.begin_to(file)
            capture.kill()
            harness.finish(capture)
        self.assertTrue(harness.wait_until(lambda: harness.Footprint(self.daemon.pid).descriptors <= before.descriptors))
        self.assertLessEqual(harness.Footprint(self.daemon.pid).mappings, before.mappings + 2)

    def test_how_many_at_once(self):
        captures = [self.begin_to(self.dir / f"{number}.pcapng") for number in range(4)]
        fifth = self.urnic("capture", "-w", self.dir / "5.pcapng", "--socket", self.socket)
        self.assertEqual(fifth.returncode, 125, fifth)
        self.assertIn("4 captures are running", fifth.err)
        self.transfer("-s", 100)
        for capture in captures:
            self.end(capture)
        counts = [len(tshark(self.dir / f"{number}.pcapng", "frame.number")) for number in range(4)]
        self.assertGreater(counts[0], ITERATIONS)
        self.assertEqual(len(set(counts)), 1)
        modes = {(self.dir / f"{number}.pcapng").stat().st_mode & 0o777 for number in range(4)}
        self.assertEqual(modes, {0o600}, "packets are everybody's data")

    @unittest.skipIf(os.geteuid() != 0, "a second user needs root")
    def test_other_users_may_not(self):
        nobody = pwd.getpwnam("nobody")
        result = self.urnic("capture", "--socket", self.socket, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("nobody may not capture", result.err)
        self.assertTrue(harness.wait_until(lambda: any(user["refusals"] for user in self.status()["users"])))


class InfiniBand(Captures):
    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        text = re.sub(r'ipv4 = "198.18.0.[12]/24"', 'link_layer = "infiniband"', config.read_text(encoding="utf-8"))
        config.write_text(text, encoding="utf-8")
        return super().daemon_command()

    def test_native_packets(self):
        file = self.dir / "native.pcapng"
        capture = self.begin_to(file)
        self.transfer("-s", 10_000)
        self.end(capture)
        rows = tshark(file, "frame.interface_name", "infiniband.lrh.dlid", "frame.comment",
                      display="infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 11")
        self.assertEqual({row[1] for row in rows}, {"2"})
        self.assertEqual({row[0] for row in rows}, {"urnic0", "urnic1"})
        self.assertEqual({re.match(r"fate=(\S+)", row[2])[1] for row in rows}, {"sent", "delivered"})
        lines = self.run_ok([harness.URNIC, "decode", file]).out.splitlines()
        self.assertEqual([line for line in lines if " RC " in line and "vcrc=good" not in line], [])


if __name__ == "__main__":
    harness.main()
