"""RNICs as interfaces of Wireshark (`urnic extcap`), and the post-dissector urnic.lua, by tshark."""

import collections
import json
import os
import re
import stat
import subprocess
import tempfile
import pathlib

import harness
from capture_test import Captures

LUA = harness.SOURCE / "cli/wireshark/urnic.lua"
GOLDEN = harness.SOURCE / "tests/golden"


def analysed(file, *fields, display=""):
    """The fields of each packet that tshark with our dissector chooses."""
    words = ["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", file, "-T", "fields"]
    for field in fields:
        words += ["-e", field]
    words += ["-Y", display] if display else []
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    if "Lua" in run.stderr:
        raise AssertionError(run.stderr)
    return [line.split("\t") for line in run.stdout.splitlines()]


class Extcap(Captures):
    def setUp(self):
        super().setUp()
        folder = self.dir / "extcap"
        folder.mkdir()
        script = folder / "urnic-extcap"
        script.write_text(f'#!/bin/sh\nexec {harness.URNIC} extcap "$@"\n', encoding="ascii")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        self.environment = {**harness.clean_environment(), "WIRESHARK_EXTCAP_DIR": str(folder), "HOME": str(self.dir),
                            "URNIC_RUN_DIR": str(self.run_dir)}
        self.before = []
        if os.geteuid() == 0:
            # Of root's tshark the folder is the installed one.
            listed = self.run_ok(["tshark", "-G", "folders"]).out
            installed = re.search(r"^Extcap path:\s+(\S+)$", listed, re.MULTILINE)[1]
            self.before = ["unshare", "-m", "sh", "-c", f'mount --bind {folder} {installed} && exec "$@"', "sh"]

    def tshark(self, *words):
        return harness.start([*self.before, "tshark", "-n", *words], env=self.environment)

    def test_interfaces(self):
        listed = harness.finish(self.tshark("-D"))
        self.assertRegex(listed.out, r"\d+\. urnic0 \(RNIC of urnicd, RoCE v2\)\n\d+\. urnic1 \(RNIC of urnicd, RoCE v2\)\n")
        types = harness.finish(self.tshark("-i", "urnic1", "-L"))
        self.assertIn("EN10MB (Ethernet)", types.out)
        # Without a daemon there are none, and nothing goes wrong.
        self.daemon.terminate()
        harness.finish(self.daemon)
        result = harness.run([harness.URNIC, "extcap", "--extcap-interfaces", "--extcap-version=4.0"], env=self.environment)
        self.assert_ok(result)
        self.assertEqual(len(result.out.splitlines()), 1)
        result = harness.run([harness.URNIC, "extcap", "--extcap-interface=urnic0", "--extcap-dlts"], env=self.environment)
        self.assertEqual(result.returncode, 125)

    def test_options(self):
        result = harness.run([harness.URNIC, "extcap", "--extcap-interface=urnic0", "--extcap-config"], env=self.environment)
        self.assert_ok(result)
        self.assertEqual(re.findall(r"{call=(--\w+)}", result.out), ["--filter", "--snaplen", "--buffer"])

    def test_a_capture(self):
        live = self.tshark("-i", "urnic0", "-f", "opcode=RC WRITE Only", "-c", 50, "-l", "-T", "fields", "-e", "infiniband.bth.opcode",
                           "-e", "frame.comment")
        self.addCleanup(harness.end_group, live)
        # It captures once the daemon knows of it; then the writes that are seen are 50 and more.
        self.transfer_until_ended(live, "-s", 100)
        result = harness.finish(live)
        self.assert_ok(result)
        rows = [line.split("\t") for line in result.out.splitlines()]
        self.assertEqual(len(rows), 50)
        for opcode, comment in rows:
            self.assertEqual(opcode, "10")
            self.assertRegex(comment, r"^fate=sent ")


class Dissector(Captures):
    def test_icrc_verdicts_of_golden_captures(self):
        for name in ("rc_send", "rc_read", "ud_send", "uc_send", "rc_send_ll6", "send_odd_sizes", "atomic_cas"):
            with self.subTest(capture=name):
                rows = analysed(GOLDEN / f"{name}.pcap", "frame.number", "urnic.icrc", display="urnic")
                lines = self.run_ok([harness.URNIC, "decode", "--json", GOLDEN / f"{name}.pcap"]).out.splitlines()
                ours = {str(packet["number"]): re.search(r"icrc=(good|BAD|not captured)", packet["summary"])[1]
                        for packet in map(json.loads, lines) if "icrc=" in packet["summary"]}
                self.assertEqual(dict(rows), ours)
                self.assertGreater(len(rows), 2)

    def test_losses_of_a_golden_capture(self):
        rows = analysed(GOLDEN / "write_loss.pcap", "urnic.retransmission", "urnic.out_of_order", "urnic.missing",
                        "urnic.first_frame", "infiniband.bth.psn", "frame.number", display="urnic")
        by_frame = {row[5]: row for row in rows}
        again = [row for row in rows if row[0]]
        self.assertGreater(len(again), 5)
        for row in again:
            self.assertEqual(by_frame[row[3]][4], row[4], "the first one has the same PSN")
        # Linux dropped before it captured: what was missing comes out of order, when it is sent again.
        self.assertGreater(sum(int(row[2] or 0) for row in rows), 0)
        self.assertGreater(len([row for row in rows if row[1]]), 0)

    def test_response_times(self):
        rows = analysed(GOLDEN / "rc_send.pcap", "urnic.response_time", "urnic.request_frame", "frame.number",
                        "infiniband.bth.psn", display="urnic.response_time")
        self.assertGreater(len(rows), 0)
        times = dict(analysed(GOLDEN / "rc_send.pcap", "frame.number", "frame.time_epoch"))
        for spent, request, frame, _ in rows:
            self.assertAlmostEqual(float(spent), float(times[frame]) - float(times[request]), places=6)

    def test_what_a_live_capture_has_noted(self):
        self.fault("add", "drop", "--probability", "0.05", "--seed", "3")
        self.fault("add", "duplicate", "--probability", "0.05", "--seed", "4")
        self.fault("add", "corrupt", "--probability", "0.02", "--seed", "5")
        file = self.dir / "live.pcapng"
        capture = self.begin_to(file)
        self.transfer("-s", 20_000, "-u", 12)
        self.end(capture)
        rows = analysed(file, "urnic.fate", "urnic.drop", "urnic.icrc", "urnic.retransmission", "urnic.duplicate", display="urnic")
        fates = collections.Counter(row[0] for row in rows)
        self.assertGreater(fates["retransmission"], 0)
        self.assertGreater(fates["duplicate"], 0)
        # The dissector knows nothing of the RNIC, and finds the same.
        self.assertEqual({row[3] for row in rows if row[0] == "retransmission"}, {"1"})
        self.assertEqual({row[3] for row in rows if row[0] == "sent"}, {""})
        self.assertEqual({row[4] for row in rows if row[0] == "duplicate"}, {"1"})
        bad = [row for row in rows if row[2] == "BAD"]
        self.assertGreater(len(bad), 0)
        self.assertEqual({row[1] for row in bad} - {"drop_malformed", "drop_not_for_us", "drop_unknown_qp"}, {"rx_icrc_encapsulated"})
        self.assertEqual({row[2] for row in rows if row[1] == "rx_icrc_encapsulated"}, {"BAD"})


class NewOpcodes(harness.TestCase):
    def test_flush_and_atomic_write(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(lambda: subprocess.run(["rm", "-r", str(folder)], check=True))
        self.run_ok([harness.BUILD / "tests/e2e/write_samples", folder])
        seen = []
        for file in sorted(folder.glob("*.erf")):
            ours = [json.loads(line) for line in self.run_ok([harness.URNIC, "decode", "--json", file]).out.splitlines()]
            shown = harness.run(["tshark", "-n", "-X", f"lua_script:{LUA}", "-r", file, "-T", "fields", "-e", "frame.number", "-e", "urnic.opcode",
                                 "-e", "urnic.flush.type", "-e", "urnic.flush.level", "-e", "urnic.va", "-e", "urnic.rkey", "-e", "urnic.length",
                                 "-Y", "urnic.opcode"])
            for line in shown.out.splitlines():
                number, opcode, kind, level, va, rkey, length = line.split("\t")
                layers = {layer["name"]: layer["fields"] for layer in ours[int(number) - 1]["layers"]}
                self.assertEqual((int(va, 16), int(rkey, 16), int(length)),
                                 (layers["RETH"]["va"], layers["RETH"]["rkey"], layers["RETH"]["dma_length"]))
                if "FLUSH" in opcode:
                    feth = layers["FETH"]["feth"]
                    self.assertEqual((int(kind, 16), int(level, 16)), (feth & 0xf, feth >> 4 & 3))
                seen.append(opcode)
        self.assertIn("RC FLUSH", seen)
        self.assertIn("RC ATOMIC WRITE", seen)


if __name__ == "__main__":
    harness.main()
