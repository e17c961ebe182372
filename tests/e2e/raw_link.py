"""Frames on a link between two hosts (netns.py), past their daemons: what an attacker at the wire sends."""

import contextlib
import ctypes
import os
import socket
import struct
import threading
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
    """Every frame that goes in or out at a host."""

    def __init__(self, test, side):
        with within(side.name):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # every protocol
        test.addCleanup(self.socket.close)
        with contextlib.suppress(PermissionError):
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.bind((side.interface, 0))
        self.socket.settimeout(0.2)
        self.frames, self.is_over = [], threading.Event()
        self.thread = threading.Thread(target=self.record)
        self.thread.start()
        test.addCleanup(self.stop)

    def record(self):
        while True:
            try:
                frame, address = self.socket.recvfrom(65536)
                self.take(frame, address[2] == OUTGOING)
            except TimeoutError:
                if self.is_over.is_set():
                    return

    def take(self, frame, is_outgoing):
        self.frames.append(frame)

    def stop(self):
        """The frames, all that came until now."""
        self.is_over.set()
        self.thread.join()
        return self.frames


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
