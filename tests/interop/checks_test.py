"""The interop tests' own eyes: that icrc.py and the rest see what they are there for. Needs no guest."""

import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import afterwards
import cases
import harness
import icrc
import run_interop
import sides
import wireshark

GOLDEN = sorted((harness.SOURCE / "tests/golden").glob("*.pcap"))
ETHERNET = 14
# Bytes of the IP header that no check covers: they change on the way.
CHANGING = {b"\x08\x00": {1, 8}, b"\x86\xdd": {1, 2, 3, 7}}
IP_HEADER = {b"\x08\x00": 20, b"\x86\xdd": 40}


class Icrc(harness.TestCase):
    def test_what_rxe_sent_is_right(self):
        seen = 0
        for path in GOLDEN:
            for packet in icrc.read_capture(path)[1]:
                self.assertEqual(packet.faults, [], f"{path.name}: {packet.name}")
                seen += 1
        self.assertGreater(seen, 500)

    def test_each_changed_byte_is_seen(self):
        for path in GOLDEN:
            frame = next((frame for frame in icrc.frames(path) if icrc.read_packet(frame) is not None), None)
            ether_type = frame[12:14]
            size = IP_HEADER[ether_type]
            for at in range(size + 8 + 12, len(frame) - ETHERNET):
                self._changed(path, frame, at)
            for at in set(range(size)) - CHANGING[ether_type]:
                # The nibble of the traffic class beside the version.
                self._changed(path, frame, at, 0x40 if at == 0 else 1)
            for at in set(range(size + 8, size + 8 + 12)) - {size + 8 + 4}:
                self._changed(path, frame, at)

    def _changed(self, path, frame, at, bit=1):
        changed = bytearray(frame)
        changed[ETHERNET + at] ^= bit
        packet = icrc.read_packet(bytes(changed))
        self.assertTrue(packet is None or packet.faults, f"{path.name}: byte {at} of the packet changed unseen")

    def test_tshark_sees_a_cut_packet(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        source = next(path for path in GOLDEN if path.name == "rc_write.pcap")
        whole, cut = directory / "whole.pcap", directory / "cut.pcap"
        data = source.read_bytes()
        whole.write_bytes(data)
        frame = bytearray(next(frame for frame in icrc.frames(source) if icrc.read_packet(frame) is not None)[:60])
        frame[16:18], frame[38:40] = (46).to_bytes(2, "big"), (26).to_bytes(2, "big")
        cut.write_bytes(data[:24] + bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame)
        self.assertEqual(list(wireshark.complaints([("whole", whole)])), [])
        self.assertEqual([where for where, _ in wireshark.complaints([("whole", whole), ("cut", cut)])], ["cut"])


class Afterwards(harness.TestCase):
    OWN, OTHER = b"own ip", b"other."
    SEND, ACK, UD_SEND = 4, 17, 0x64

    def _count(self, *packets):
        """Of (sender, opcode, destination, PSN)."""
        return afterwards.count([icrc.Packet(*packet) for packet in packets], (self.OWN,))

    def test_what_came_behind_the_last_packet(self):
        talk = [(self.OTHER, self.SEND, 1, 100), (self.OWN, self.ACK, 7, 100), (self.OWN, self.SEND, 7, 500)]
        self.assertEqual(self._count(*talk), 0)
        repeated = (self.OTHER, self.SEND, 1, 100)
        self.assertEqual(self._count(*talk, (self.OTHER, self.ACK, 1, 500), repeated), 2)
        self.assertEqual(self._count(*talk, repeated, (self.OWN, self.ACK, 7, 100)), 0)

    def test_not_for_a_qp_that_never_was(self):
        talk = [(self.OTHER, self.SEND, 1, 100), (self.OWN, self.ACK, 7, 100)]
        self.assertEqual(self._count(*talk, (self.OTHER, self.SEND, 2, 100)), 0)
        self.assertEqual(self._count(*talk, (self.OTHER, self.UD_SEND, 1, 101)), 0)

    def test_for_a_qp_that_only_asks(self):
        talk = [(self.OWN, self.SEND, 7, 500), (self.OTHER, self.ACK, 1, 500)]
        self.assertEqual(self._count(*talk), 1)
        self.assertEqual(self._count(*talk, (self.OWN, self.SEND, 7, 500), (self.OTHER, self.ACK, 1, 500)), 1)
        self.assertEqual(self._count(*talk, (self.OTHER, self.ACK, 2, 900)), 1)

    def test_each_qp_by_itself(self):
        self.assertEqual(self._count((self.OTHER, self.SEND, 1, 100), (self.OTHER, self.SEND, 2, 900),
                                     (self.OWN, self.ACK, 7, 100), (self.OTHER, self.SEND, 1, 101),
                                     (self.OWN, self.ACK, 8, 900)), 1)


class Counters(harness.TestCase):
    def _check(self, name, dropped):
        """A message of two packets whose first was refused, the second behind the refusal."""
        own, other = run_interop.MACS["ours"][0], b"other."
        talk = [icrc.Packet(other, 6, 1, 100), icrc.Packet(own, 17, 7, 100), icrc.Packet(other, 8, 1, 101)]
        run_interop.check_counters(cases.find([name])[0], {}, dropped, talk)

    def test_the_rest_of_what_was_refused(self):
        self._check("wrong_key", {"drop_qp_state": 1})
        self._check("wrong_key", {"drop_unknown_qp": 1})
        for name, dropped in (("wrong_key", {"drop_unknown_qp": 2}), ("wrong_key", {"drop_malformed": 1}),
                              ("rnr", {"drop_unknown_qp": 1})):
            with self.assertRaises(run_interop.Failed, msg=f"{name} {dropped}"):
                self._check(name, dropped)


class Table(harness.TestCase):
    def test_names_are_single(self):
        names = [case.name for case in cases.CASES]
        self.assertEqual(sorted(names), sorted(set(names)))
        self.assertEqual([case.name for case in cases.find(["rnr"])], ["rnr"])
        with self.assertRaises(KeyError):
            cases.find(["no such test"])

    def test_programs_of_librdmacm(self):
        """docs/conformance/suites.md names each program's checks and tests, in each role that is run."""
        text = (harness.SOURCE / "docs/conformance/suites.md").read_text(encoding="utf-8")
        rows = [line.split(" | ") for line in text.split("## Programs of librdmacm\n")[1].split("\n## ")[0].splitlines()
                if line.startswith("| ") and not line.startswith("| program")]
        listed = (harness.SOURCE / "tests/suites/lists/cm.txt").read_text(encoding="utf-8").split()
        others = {name for name in listed if name.split(".")[0] in ("Deaths", "Refusals")}
        self.assertEqual({name for row in rows for name in re.findall(r"[A-Z]\w+\.test_\w+", row[1])}, set(listed) - others)
        for column, wanted in ((2, cases.CM), (3, [case for case in cases.CM if not case.not_from_rxe])):
            self.assertEqual({name for row in rows for name in re.findall("`(cm_\\w+)`", row[column])}, {case.name for case in wanted})

    def test_gids_of_devinfo(self):
        table = sides.gid_table("GID[  0]:\t\tfe80::1, RoCE v2\n\t\t\tGID[  1]:\t\t::ffff:10.0.0.1, RoCE v1\n"
                                "\t\t\tGID[  2]:\t\t::ffff:10.0.0.1, RoCE v2\n")
        self.assertEqual(table, {sides.normal("fe80::1"): 0, sides.normal("::ffff:10.0.0.1"): 2})


if __name__ == "__main__":
    harness.main()
