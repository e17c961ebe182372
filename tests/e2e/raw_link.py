"""Frames on a link between two hosts (netns.py), past their daemons: what an attacker at the wire sends."""

import contextlib
import ctypes
import mmap
import os
import socket
import struct
import zlib

import harness
import netns

OUTGOING = 4
CNP, UD_SEND_ONLY = 0x81, 0x64
BECN = 0x40
ROCE_PORT = 4791


@contextlib.contextmanager
def within(namespace):
    """This thread is in the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        yield
        if libc.setns(before, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(before)
        os.close(there)


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def is_rocev2(frame):
    at = 36 if frame[12:14] == b"\x08\x00" else 56
    return frame[at:at + 2] == struct.pack(">H", ROCE_PORT)


class Recorder:
    """Every frame that goes in or out at a host, of at most 8,000 bytes, in a ring that the kernel fills by itself (packet(7),
    PACKET_RX_RING, TPACKET_V2): none is lost where nobody has a processor to read them."""

    FRAME_BYTES, BLOCK_BYTES, BLOCKS = 8192, 1 << 20, 64
    SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
    TPACKET_V2, STATUS_USER = 1, 1

    def __init__(self, test, side):
        self.test = test
        with within(side.name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # nothing before it is bound
        test.addCleanup(self.socket.close)
        self.socket.setsockopt(self.SOL_PACKET, self.PACKET_VERSION, self.TPACKET_V2)
        ring = struct.pack("IIII", self.BLOCK_BYTES, self.BLOCKS, self.FRAME_BYTES, self.BLOCKS * (self.BLOCK_BYTES // self.FRAME_BYTES))
        self.socket.setsockopt(self.SOL_PACKET, self.PACKET_RX_RING, ring)
        self.ring = mmap.mmap(self.socket.fileno(), self.BLOCKS * self.BLOCK_BYTES)
        test.addCleanup(self.ring.close)
        self.socket.bind((side.interface, 3))  # every protocol

    def stop(self):
        """The frames, all that came until now."""
        frames = []
        for at in range(0, len(self.ring), self.FRAME_BYTES):
            status, length, captured, mac = struct.unpack_from("IIIH", self.ring, at)
            if not status & self.STATUS_USER:
                break
            self.test.assertEqual(captured, length, "a frame is longer than its place in the ring")
            frames.append(self.ring[at + mac:at + mac + captured])
        _, lost = struct.unpack("II", self.socket.getsockopt(self.SOL_PACKET, self.PACKET_STATISTICS, 8))
        self.test.assertEqual(lost, 0, "the ring is too small for the frames")
        return frames


class RawLink:
    """The end of a link where `side` is: sends and sees frames."""

    def __init__(self, test, side):
        with within(side.name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # every protocol
        self.socket.bind((side.interface, 0))
        self.socket.settimeout(harness.PATIENCE_S)
        test.addCleanup(self.socket.close)
        self.test, self.side, self.mac = test, side, mac_bytes(side.mac)

    def frames(self):
        while True:
            frame, address = self.socket.recvfrom(9000)
            if address[2] != OUTGOING:
                yield frame

    def roce(self, to, opcode, qpn, rest, flags=0):
        """A RoCEv2 frame from this side to that one: the BTH, and `rest` behind it."""
        bth = struct.pack(">BBHBBHI", opcode, 0, 0xFFFF, flags, qpn >> 16, qpn & 0xFFFF, 0)
        transport = bth + rest
        udp = struct.pack(">HHHH", 49152, ROCE_PORT, 8 + len(transport) + 4, 0)
        addresses = socket.inet_aton(self.side.ip) + socket.inet_aton(to.ip)
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp) + len(transport) + 4, 0, 0x4000, 64, 17, 0) + addresses
        header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
        packet = header + udp + transport
        return mac_bytes(to.mac) + self.mac + b"\x08\x00" + packet + icrc(packet)


def icrc(packet):
    """Of an IPv4 packet without options (IBA A17.3.3): what changes on the way counts as ones."""
    masked = bytearray(packet)
    for at in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, both checksums, byte 4 of the BTH
        masked[at] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def begin_stream(test, sender, receiver, *options):
    """ib_write_bw between two hosts without end. Both processes."""
    port = harness.free_port()
    command = ["ib_write_bw", "-d", "urnic0", "-x", 1, "-F", "-p", port, *options, "-N", "-s", 65536, "-n", 10_000_000]
    serving = harness.start(receiver.program(*command))
    test.addCleanup(harness.end_group, serving)
    test.assertTrue(harness.wait_until(lambda: netns.listens(port, serving)))
    asking = harness.start(sender.program(*command, receiver.ip))
    test.addCleanup(harness.end_group, asking)
    return serving, asking
