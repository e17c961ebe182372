"""urnic decode as a program: expected text for captures, every file format, cut and damaged files, wrong use."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import harness

GOLDEN = harness.SOURCE / "tests/golden"


def decode(*arguments, **options):
    return harness.run([harness.URNIC, "decode", *arguments], **options)


class Golden(harness.TestCase):
    """tests/golden/decoded/NAME.txt and NAME.full.txt hold what `urnic decode` and `urnic decode -v` print."""

    def compare(self, name, *arguments):
        path = GOLDEN / "decoded" / name
        done = decode(*arguments, GOLDEN / f"{name.split('.')[0]}.pcap")
        self.assertEqual((done.returncode, done.err), (0, ""))
        self.assertEqual(done.out, path.read_text(encoding="utf-8"), f"differs from {path}")

    def test_lines(self):
        names = [path.name for path in sorted((GOLDEN / "decoded").glob("*.txt")) if ".full." not in path.name]
        self.assertGreaterEqual(len(names), 5)
        for name in names:
            self.compare(name)

    def test_full(self):
        self.compare("udaddy_sidr.full.txt", "-v")
        self.compare("rping.full.txt", "-v", "-c", "6")

    def test_every_capture_is_good(self):
        for path in sorted(GOLDEN.glob("*.pcap")):
            out = decode(path).out
            self.assertIn("icrc=good", out)
            for word in ("BAD", "malformed", "not captured", "cut in"):
                self.assertNotIn(word, out, path)

    def test_json(self):
        packets = [json.loads(line) for line in decode("--json", GOLDEN / "rping.pcap").out.splitlines()]
        self.assertEqual([packet["number"] for packet in packets], list(range(1, len(packets) + 1)))
        layers = {layer["name"]: layer["fields"] for layer in packets[0]["layers"]}
        self.assertEqual(list(layers), ["Ethernet", "IPv4", "UDP", "BTH", "DETH", "MAD", "CM REQ", "IP CM", "payload", "checks"])
        self.assertEqual(layers["CM REQ"]["starting_psn"], 4263611)
        self.assertEqual(layers["DETH"]["qkey"], 0x80010000)
        self.assertEqual(len(layers["payload"]["bytes"]), 512)


class Formats(harness.TestCase):
    """The same packets in different files, most of them written by Wireshark's editcap."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-decode-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def convert(self, source, *arguments):
        path = self.dir / "converted"
        subprocess.run(["editcap", *arguments, source, path], check=True, capture_output=True, timeout=harness.PATIENCE_S)
        return path

    def test_each_format_decodes_alike(self):
        source = GOLDEN / "rping.pcap"
        expected = decode(source).out
        for form in ("pcap", "nsecpcap", "pcapng"):
            self.assertEqual(decode(self.convert(source, "-F", form)).out, expected, form)

    def test_every_kind_of_packet_from_pcap_and_erf(self):
        done = harness.run([harness.BUILD / "tests/e2e/write_samples", self.dir])
        self.assertEqual(done.returncode, 0, done)
        for link, least in (("ethernet", 700), ("infiniband", 200)):
            from_pcap = decode(self.dir / f"{link}.pcap").out.splitlines()
            from_erf = decode(self.dir / f"{link}.erf").out.splitlines()
            self.assertGreater(len(from_pcap), least)
            # The two count time in different units.
            self.assertEqual([line.split()[2:] for line in from_pcap], [line.split()[2:] for line in from_erf])
            for line in from_pcap:
                self.assertNotIn("BAD", line)
                self.assertNotIn("malformed", line)
                self.assertTrue("icrc=good" in line or "PFC" in line or "raw" in line or "next header" in line, line)
                self.assertEqual("vcrc=good" in line, link == "infiniband", line)

    def test_from_standard_input(self):
        source = GOLDEN / "rping.pcap"
        with open(source, "rb") as stream:
            done = subprocess.run([harness.URNIC, "decode", "-"], stdin=stream, capture_output=True, text=True, check=False,
                                  timeout=harness.PATIENCE_S, env=harness.clean_environment())
        self.assertEqual((done.returncode, done.stdout), (0, decode(source).out))

    def test_snap_length(self):
        for snap in (10, 30, 44, 60, 100):
            path = self.convert(GOLDEN / "rc_write.pcap", "-s", str(snap))
            lines = [line for line in decode(path).out.splitlines() if f"[{snap} of 1" in line]
            self.assertGreater(len(lines), 10)
            for line in lines:
                self.assertNotIn("BAD", line)
                self.assertNotIn("malformed", line)
                if snap >= 60 and " RC " in line:
                    self.assertIn("icrc=not captured", line)
        self.assertIn("[cut in Ethernet]", decode(self.convert(GOLDEN / "rc_write.pcap", "-s", "10")).out)
        self.assertIn("[cut in BTH]", decode(self.convert(GOLDEN / "rc_write.pcap", "-s", "44")).out)

    def test_a_damaged_icrc_is_bad(self):
        data = bytearray((GOLDEN / "udaddy_sidr.pcap").read_bytes())
        data[-1] ^= 1
        path = self.dir / "damaged.pcap"
        path.write_bytes(data)
        lines = decode(path).out.splitlines()
        self.assertTrue(lines[-1].endswith("icrc=BAD"), lines[-1])
        self.assertTrue(lines[0].endswith("icrc=good"), lines[0])

    def test_a_file_that_ends_too_early(self):
        path = self.dir / "short.pcap"
        path.write_bytes((GOLDEN / "rping.pcap").read_bytes()[:1000])
        done = decode(path)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.out.splitlines()), 2)
        self.assertEqual(done.err, f"urnic decode: {path}: offset 716: the file ends in the middle of packet 3: 284 of 322 "
                                   "bytes are there\n")


class WrongUse(harness.TestCase):
    def test_no_capture(self):
        for path, message in ((harness.SOURCE / "README.md", "no pcap, pcapng or ERF file: it begins with"),
                              ("/no/such/file", "/no/such/file: cannot be opened: No such file or directory"),
                              ("/dev/null", "/dev/null: offset 0: the file is empty"),
                              ("/", "offset 0: the file")):
            done = decode(path)
            self.assertEqual((done.returncode, done.out), (1, ""), path)
            self.assertIn(message, done.err)
            self.assertEqual(len(done.err.splitlines()), 1, done.err)

    def test_the_other_files_are_still_decoded(self):
        done = decode("/no/such/file", GOLDEN / "rping.pcap")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rping.pcap:\n1 0.000000000 10.77.0.12 > 10.77.0.11 UD SEND Only", done.out)

    def test_command_line(self):
        self.assertEqual(decode().returncode, 125)
        self.assertIn("FILE", decode().err)
        self.assertEqual(decode("--frobnicate", "x").returncode, 125)
        shown = decode("--help")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("not captured", shown.out)
        self.assertIn("decode", harness.run([harness.URNIC, "--help"]).out)

    def test_decoder_is_missing(self):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="urnic-decode-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        shutil.copy(harness.URNIC, directory / "urnic")
        done = harness.run([directory / "urnic", "decode", "x"])
        self.assertEqual(done.returncode, 125)
        self.assertIn("decoder of captures was found neither at", done.err)

    def test_a_closed_pipe_ends_it(self):
        script = f"{harness.URNIC} decode -v {GOLDEN}/write_loss.pcap | head -n 1"
        done = harness.run(["sh", "-c", script])
        self.assertEqual((done.returncode, done.err), (0, ""))


if __name__ == "__main__":
    harness.main()
