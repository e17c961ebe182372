"""Management datagrams in `urnic capture`: what ports of InfiniBand send and receive on QP0 and QP1, as tshark sees it."""

import collections
import os
import re
import signal
import struct

import capture_test
import harness
import subnet_test
from capture_test import tshark

QP0, QP1 = 0, 1
# Classes of management (IBA 13.4.4), and attributes of some.
LID_ROUTED, ADMINISTRATION, PERFORMANCE, CONNECTIONS, PING, DIRECTED = 0x01, 0x03, 0x04, 0x07, 0x32, 0x81
CLASS_PORT_INFO, NODE_DESCRIPTION, NODE_INFO, PORT_INFO, SM_INFO, COUNTERS_EXTENDED, PATH_RECORD = 0x01, 0x10, 0x11, 0x15, 0x20, 0x1D, 0x35
PERMISSIVE_LID = 0xFFFF
# Where the bytes of a packet are: LRH, BTH, DETH; MAD; ICRC and VCRC (IBA 5.2).
MAD_AT, MAD_BYTES, CRC_BYTES = 8 + 12 + 8, 256, 4 + 2
# And in a MAD, of a directed route: what each switch changes (IBA 14.2.1.2).
METHOD_AT, HOP_POINTER_AT, RETURN_PATH_AT = 3, 6, 192
ERF_HEADER_BYTES = 16
FIELDS = ("infiniband.lrh.vl", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.bth.destqp", "infiniband.mad.mgmtclass",
          "infiniband.mad.attributeid")

Mad = collections.namedtuple("Mad", "device is_sent comment bytes vl slid dlid qp mgmt_class attribute")


def packets_of(file):
    """Of each packet of a pcapng file of ours: whether it was sent, and its bytes from LRH to VCRC."""
    data = file.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:  # Enhanced Packet Block
            captured = struct.unpack_from("<I", data, at + 20)[0]
            option = at + 28 + (captured + 3) // 4 * 4
            while struct.unpack_from("<H", data, option)[0] != 2:  # epb_flags
                option += 4 + (struct.unpack_from("<H", data, option + 2)[0] + 3) // 4 * 4
            is_sent = struct.unpack_from("<I", data, option + 4)[0] & 3 == 2
            yield is_sent, data[at + 28 + ERF_HEADER_BYTES:at + 28 + captured]
        at += length


def mads_of(file):
    """As tshark understands them. Each packet is one, with all that it should have."""
    rows = tshark(file, "frame.interface_name", "frame.comment", *FIELDS)
    mads = []
    for row, (is_sent, packet) in zip(rows, packets_of(file), strict=True):
        assert len(packet) == MAD_AT + MAD_BYTES + CRC_BYTES, row
        mads.append(Mad(row[0], is_sent, row[1], packet, *(int(text, 0) for text in row[2:])))
    return mads


def is_answer(mad):
    return mad.bytes[MAD_AT + METHOD_AT] & 0x80 != 0


def steps(mads, mgmt_class, attribute):
    """What happened to the MADs of one attribute, in order."""
    return [f"{mad.device} {'>' if mad.is_sent else '<'} {'answer' if is_answer(mad) else 'query'} {re.match(r'fate=(.*) qpn', mad.comment)[1]}"
            for mad in mads if (mad.mgmt_class, mad.attribute) == (mgmt_class, attribute)]


def exchange(asking, asked, times=1):
    """Of steps(), between two RNICs, which may be one."""
    return [f"{asking} > query sent", f"{asked} < query delivered", f"{asked} > answer sent", f"{asking} < answer delivered"] * times


class Mads(capture_test.Captures, subnet_test.Subnet):
    """Not run itself."""

    def captured(self, capture, file):
        """Its MADs, once it has ended; tshark and `urnic decode` find nothing wrong with any packet."""
        self.end(capture)
        self.assertEqual(tshark(file, "frame.number", "_ws.col.Info", display="_ws.malformed || _ws.expert.group == \"Malformed\""), [])
        mads = mads_of(file)
        lines = self.run_ok([harness.URNIC, "decode", file]).out.splitlines()
        self.assertEqual(len(lines), len(mads))
        self.assertEqual([line for line in lines if not re.search(r"(MAD|SMP directed route)\{.*icrc=good vcrc=good", line)], [])
        self.assertEqual([mad for mad in mads if mad.vl != (15 if mad.qp == QP0 else 0)], [])
        self.assertEqual([mad for mad in mads if f" qpn={hex(mad.qp)}" not in mad.comment], [])
        return mads

    def assert_same_on_both_ends(self, mads):
        """What one RNIC sends and another receives, packet by packet."""
        sent = [mad for mad in mads if mad.is_sent]
        received = [mad for mad in mads if not mad.is_sent]
        self.assertEqual(len(sent), len(received))
        for one, other in zip(sent, received):
            self.assertEqual(one.mgmt_class, other.mgmt_class)
            ends = [bytearray(one.bytes), bytearray(other.bytes)]
            if one.mgmt_class == DIRECTED and one.device != other.device:
                for end in ends:
                    end[MAD_AT + HOP_POINTER_AT] = 0
                    end[MAD_AT + RETURN_PATH_AT:] = b""
            self.assertEqual(ends[0], ends[1], f"{one}\n{other}")


class Builtin(Mads):
    subnet_manager = "builtin"

    def test_queries_and_answers(self):
        file = self.dir / "queries.pcapng"
        capture = self.begin_to(file)
        self.ask("smpquery", "-C", "urnic0", "nodeinfo", 2)
        self.ask("smpquery", "-C", "urnic0", "-D", "nodedesc", "0,1,2")
        self.ask("perfquery", "-C", "urnic0", "-x", 2, 1)
        self.ask("saquery", "-C", "urnic1", "-c")
        self.ask("saquery", "-C", "urnic0", "--src-to-dst", "1:2")
        self.ask("ibping", "-C", "urnic0", "-c", 3, 2)
        self.ask("sminfo", "-C", "urnic1")
        refused = harness.run(self.here("sminfo", "-C", "urnic0", "-t", 100, 2))
        self.assertNotEqual(refused.returncode, 0, "urnic1 is no subnet manager")
        mads = self.captured(capture, file)
        self.assertEqual(steps(mads, LID_ROUTED, NODE_INFO), exchange("urnic0", "urnic1"))
        self.assertEqual(steps(mads, DIRECTED, NODE_DESCRIPTION), exchange("urnic0", "urnic1"))
        self.assertEqual(steps(mads, PERFORMANCE, COUNTERS_EXTENDED), exchange("urnic0", "urnic1"))
        self.assertEqual(steps(mads, ADMINISTRATION, CLASS_PORT_INFO), exchange("urnic1", "urnic0"))
        # The administrator is at urnic0: such packets go out and come in there. A table is acknowledged, too (RMPP).
        self.assertEqual(steps(mads, ADMINISTRATION, PATH_RECORD), exchange("urnic0", "urnic0") + exchange("urnic0", "urnic0")[:2])
        self.assertEqual(steps(mads, PING, 0), exchange("urnic0", "urnic1", 3))
        heard = exchange("urnic1", "urnic0")
        self.assertEqual(steps(mads, LID_ROUTED, SM_INFO)[:len(heard)], heard)
        unheard = steps(mads, LID_ROUTED, SM_INFO)[len(heard):]
        self.assertGreater(len(unheard), 1)
        self.assertEqual(unheard, ["urnic0 > query sent", "urnic1 < query dropped drop=drop_mad_not_taken"] * (len(unheard) // 2))
        self.assert_same_on_both_ends(mads)
        for mad in mads:
            self.assertEqual(mad.qp, QP0 if mad.mgmt_class in (LID_ROUTED, DIRECTED) else QP1, str(mad))
            ends = {PERMISSIVE_LID} if mad.mgmt_class == DIRECTED else {1, 2} if mad.attribute != PATH_RECORD else {1}
            self.assertEqual({mad.slid, mad.dlid}, ends, str(mad))

    def test_filters_and_snap_length(self):
        chosen = {"qpn=0": lambda mad: mad.qp == QP0, "qpn=1": lambda mad: mad.qp == QP1,
                  "peer=2,opcode=UD SEND Only": lambda mad: (mad.dlid if mad.is_sent else mad.slid) == 2}
        files = {words: self.dir / f"{number}.pcapng" for number, words in enumerate(("", *chosen))}
        captures = {words: self.begin_to(file, "urnic0", *(["--filter", words] if words else [])) for words, file in files.items()}
        self.ask("smpquery", "-C", "urnic0", "nodeinfo", 2)
        self.ask("smpquery", "-C", "urnic0", "nodeinfo", 3)
        self.ask("smpquery", "-C", "urnic1", "-D", "nodeinfo", "0,1,1")
        self.ask("perfquery", "-C", "urnic0", "-x", 2, 1)
        everything = self.captured(captures[""], files[""])
        self.assertEqual({mad.device for mad in everything}, {"urnic0"})
        for words, chooses in chosen.items():
            with self.subTest(filter=words):
                mads = self.captured(captures[words], files[words])
                self.assertEqual([mad.bytes for mad in mads], [mad.bytes for mad in everything if chooses(mad)])
                self.assertGreater(len(mads), 0)
                self.assertLess(len(mads), len(everything))
        file = self.dir / "short.pcapng"
        capture = self.begin_to(file, "--snaplen", 60)
        self.ask("smpquery", "-C", "urnic0", "nodeinfo", 2)
        self.end(capture)
        self.assertEqual(tshark(file, "frame.cap_len", "frame.len", "infiniband.lrh.vl"),
                         [["60", str(MAD_AT + MAD_BYTES + CRC_BYTES), "0x0f"]] * 4)

    def test_a_reader_that_stalls(self):
        """Nobody reads the pipe: the subnet goes on, and the file says what is lost."""
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        capture = harness.start([harness.URNIC, "capture", "--socket", str(self.socket), "-w", f"/dev/fd/{write_end}"], pass_fds=[write_end])
        os.close(write_end)
        self.addCleanup(harness.end_group, capture)
        self.assertEqual(os.read(read_end, 4), b"\x0a\x0d\x0d\x0a")
        # Four records a ping; the ring has room for 12,000.
        self.ask("ibping", "-C", "urnic0", "-f", "-c", 5000, 2)
        capture.send_signal(signal.SIGINT)
        text = b"\x0a\x0d\x0d\x0a"
        while part := os.read(read_end, 1 << 16):
            text += part
        result = harness.finish(capture)
        self.assert_ok(result)
        lost = re.search(r"urnic1: (\d+) packets, (\d+) of them lost because this reader was too slow", result.err)
        self.assertIsNotNone(lost, result)
        self.assertGreaterEqual(int(lost[1]), 10_000)
        file = self.dir / "stalled.pcapng"
        file.write_bytes(text)
        self.assertEqual(len(tshark(file, "frame.number", display='frame.interface_name == "urnic1"')), int(lost[1]) - int(lost[2]))


class External(Mads):
    def test_a_subnet_manager(self):
        file = self.dir / "sweep.pcapng"
        capture = self.begin_to(file)
        self.bring_up()
        self.assertRegex(self.ask("sminfo", "-C", "urnic1"), "SMINFO_MASTER")
        mads = self.captured(capture, file)
        directed = [mad for mad in mads if mad.mgmt_class == DIRECTED]
        self.assertEqual({lid for mad in directed for lid in (mad.slid, mad.dlid)}, {PERMISSIVE_LID})
        self.assertEqual({mad.device for mad in directed}, {f"urnic{number}" for number in range(self.rnics)})
        self.assertLess({NODE_INFO, NODE_DESCRIPTION, PORT_INFO}, {mad.attribute for mad in directed})
        self.assertIn(2, {mad.bytes[MAD_AT + METHOD_AT] for mad in directed}, "SubnSet")
        self.assertNotIn(PERMISSIVE_LID, {lid for mad in mads if mad.mgmt_class != DIRECTED for lid in (mad.slid, mad.dlid)})
        # Where a port has no LID yet, a GMP does not get there.
        asked = [step for step in steps(mads, LID_ROUTED, SM_INFO) if "urnic1" in step or "answer" in step]
        self.assertEqual(asked, [step for step in exchange("urnic1", "urnic0") if "urnic1" in step or "answer" in step])


class Connections(capture_test.Captures):
    """The connection manager's MADs of librdmacm, and the paths that it asks for."""

    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        config.write_text(re.sub(r'(ipv4 = "198.18.0.[12]/24")', r'\1\nlink_layer = "infiniband"', config.read_text(encoding="utf-8")),
                          encoding="utf-8")
        return super().daemon_command()

    def test_a_connection(self):
        file = self.dir / "connection.pcapng"
        capture = self.begin_to(file, "--filter", "qpn=1")
        rping = [harness.URNIC, "run", "--socket", self.socket, "--", "rping"]
        server = harness.start([*rping, "-s", "-a", "198.18.0.2", "-C", 3])
        self.addCleanup(harness.end_group, server)
        self.assertTrue(harness.wait_until(lambda: any(each.get("cm_listeners") for each in self.status()["clients"]) or server.poll() is not None))
        self.run_ok([*rping, "-c", "-a", "198.18.0.2", "-C", 3])
        self.assert_ok(harness.finish(server))
        self.end(capture)
        self.assertEqual(tshark(file, "frame.number", display="_ws.malformed"), [])
        mads = mads_of(file)
        self.assertIn("urnic0 > query sent", steps(mads, ADMINISTRATION, PATH_RECORD))
        for message, (sender, receiver) in {0x10: ("urnic0", "urnic1"), 0x13: ("urnic1", "urnic0"), 0x14: ("urnic0", "urnic1")}.items():
            self.assertEqual([(mad.device, mad.is_sent) for mad in mads if (mad.mgmt_class, mad.attribute) == (CONNECTIONS, message)],
                             [(sender, True), (receiver, False)], f"REQ, REP or RTU {message:#x}")
        text = self.run_ok([harness.URNIC, "decode", file]).out
        for name in ("ConnectRequest", "ConnectReply", "ReadyToUse"):
            self.assertIn(name, text)


if __name__ == "__main__":
    harness.main()
