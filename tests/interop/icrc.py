"""Checks every RoCEv2 packet of a capture from the wire's facts alone: no code of the daemon's takes part.

usage: icrc.py FILE.pcap...

The ICRC is the CRC-32 of IEEE 802.3 over eight bytes 0xFF and the packet from its IP header on, with what changes on
the way set to ones (IBA A17.3.3): the type of service or traffic class, the flow label, TTL or hop limit, the IPv4
header's and UDP's checksum, and byte 4 of the BTH. Looked at besides: lengths, pad, header versions.
"""

import collections
import struct
import sys
import zlib

ROCE_PORT = 4791
SERVICES = {0: "RC", 1: "UC", 3: "UD", 4: "CNP", 5: "XRC"}
OPERATIONS = {
    0: "SEND First", 1: "SEND Middle", 2: "SEND Last", 3: "SEND Last imm", 4: "SEND Only", 5: "SEND Only imm",
    6: "WRITE First", 7: "WRITE Middle", 8: "WRITE Last", 9: "WRITE Last imm", 10: "WRITE Only", 11: "WRITE Only imm",
    12: "READ request", 13: "READ response First", 14: "READ response Middle", 15: "READ response Last",
    16: "READ response Only", 17: "Acknowledge", 18: "ATOMIC Acknowledge", 19: "CmpSwap", 20: "FetchAdd",
    22: "SEND Last inv", 23: "SEND Only inv", 28: "FLUSH", 29: "ATOMIC WRITE"}
# Bytes of the headers behind the BTH, by operation; UD has its DETH besides.
EXTENSIONS = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28,
              22: 4, 23: 4}
WITH_AETH = (13, 15, 16, 17, 18)
WITHOUT_PAYLOAD = (12, 17, 18, 19, 20)


class Packet:
    """What is known of one that is RoCEv2. `faults`: what is wrong with it."""

    def __init__(self, sender, opcode, destination, psn, syndrome=None, vlan=None, faults=()):
        """`sender`: a MAC; `destination`: a QPN."""
        self.sender, self.opcode, self.destination, self.psn = sender, opcode, destination, psn
        self.syndrome, self.vlan, self.faults = syndrome, vlan, list(faults)

    @property
    def name(self):
        return f"{SERVICES.get(self.opcode >> 5, '?')} {OPERATIONS.get(self.opcode & 31, hex(self.opcode))}"

    @property
    def answer(self):
        """"ACK", "RNR NAK", "NAK 0x60"..., or "" of what has no AETH."""
        if self.syndrome is None:
            return ""
        return {0: "ACK", 1: "RNR NAK", 3: f"NAK {self.syndrome:#x}"}.get(self.syndrome >> 5, "reserved syndrome")


def frames(path):
    """Each frame of a capture in tcpdump's form; whole ones only. Raises ValueError for another form."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(data[:4])
    if order is None:
        raise ValueError(f"{path} is no pcap file")
    at = 24
    while at + 16 <= len(data):
        _, _, held, length = struct.unpack_from(order + "IIII", data, at)
        if held != length:
            raise ValueError(f"{path}: a frame was cut")
        yield data[at + 16:at + 16 + held]
        at += 16 + held


def network_layer(frame):
    """(EtherType, VLAN tag or None, packet) without the Ethernet header and its tags."""
    at, vlan = 12, None
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        vlan = struct.unpack_from(">H", frame, at + 2)[0]
        at += 4
    return frame[at:at + 2], vlan, frame[at + 2:]


def masked_ip(ether_type, packet):
    """(IP header with ones where it changes on the way, UDP datagram, faults), or None when it is no UDP."""
    faults = []
    if ether_type == b"\x08\x00" and len(packet) >= 28 and packet[9] == 17:
        size = (packet[0] & 15) * 4
        total = struct.unpack_from(">H", packet, 2)[0]
        if size != 20:
            faults.append("IPv4 options")
        if struct.unpack_from(">H", packet, 6)[0] & 0x3FFF:
            faults.append("a fragment")
        words = struct.unpack(">10H", packet[:20])
        folded = sum(words)
        folded = (folded & 0xFFFF) + (folded >> 16)
        if (folded & 0xFFFF) + (folded >> 16) != 0xFFFF:
            faults.append("IPv4 checksum")
        header = bytearray(packet[:size])
        header[1] = header[8] = header[10] = header[11] = 0xFF
    elif ether_type == b"\x86\xdd" and len(packet) >= 48 and packet[6] == 17:
        size = 40
        total = 40 + struct.unpack_from(">H", packet, 4)[0]
        header = bytearray(packet[:size])
        header[0] |= 0x0F
        header[1:4] = b"\xff\xff\xff"
        header[7] = 0xFF
    else:
        return None
    if total > len(packet) or total < size + 8:
        return header, b"", ["IP length"]
    return header, packet[size:total], faults


def bth_faults(datagram, payload_size):
    opcode, second = datagram[8], datagram[9]
    faults = []
    if second & 15:
        faults.append("TVer")
    pad = second >> 4 & 3
    operation = opcode & 31
    if SERVICES.get(opcode >> 5) is None or (opcode >> 5 != 4 and operation not in OPERATIONS):
        faults.append(f"opcode {opcode:#x}")
    elif payload_size < pad or payload_size % 4:
        faults.append("payload and pad")
    elif operation in WITHOUT_PAYLOAD and opcode >> 5 != 4 and payload_size:
        faults.append("payload where none may be")
    return faults


def read_packet(frame):
    """A Packet, or None when the frame is no RoCEv2."""
    ether_type, vlan, packet = network_layer(frame)
    found = masked_ip(ether_type, packet)
    if found is None or found[1][2:4] != struct.pack(">H", ROCE_PORT):
        return None
    header, datagram, faults = found
    if len(datagram) != struct.unpack_from(">H", datagram, 4)[0] or len(datagram) < 8 + 12 + 4:
        return Packet(frame[6:12], 0, 0, 0, vlan=vlan, faults=[*faults, "UDP length"])
    opcode = datagram[8]
    operation = opcode & 31
    payload_size = len(datagram) - 8 - 12 - 4 - EXTENSIONS.get(operation, 0) - (8 if opcode >> 5 == 3 else 0)
    faults += ["no room for the headers"] if payload_size < 0 else bth_faults(datagram, payload_size)
    masked = bytearray(datagram[:-4])
    masked[6] = masked[7] = masked[12] = 0xFF
    if struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(header) + bytes(masked))) != datagram[-4:]:
        faults.append("ICRC")
    syndrome = datagram[20] if operation in WITH_AETH and opcode >> 5 in (0, 5) else None
    destination, psn = (int.from_bytes(datagram[at:at + 3], "big") for at in (13, 17))
    return Packet(frame[6:12], opcode, destination, psn, syndrome, vlan, faults)


def refusal_sender(frame):
    """Who says by ICMP that nobody has the RoCE port (the Ethernet address), or None for any other frame."""
    ether_type, _, packet = network_layer(frame)
    if ether_type == b"\x08\x00" and len(packet) >= 52 and packet[9] == 1 and packet[20] == 3:
        port = packet[50:52]
    elif ether_type == b"\x86\xdd" and len(packet) >= 92 and packet[6] == 58 and packet[40] == 1:
        port = packet[90:92]
    else:
        return None
    return frame[6:12] if port == struct.pack(">H", ROCE_PORT) else None


def read_capture(path):
    """(number of frames, the Packets)"""
    everything = [read_packet(frame) for frame in frames(path)]
    return len(everything), [packet for packet in everything if packet is not None]


def main():
    wrong = 0
    for path in sys.argv[1:]:
        count, packets = read_capture(path)
        kinds = collections.Counter(f"{packet.name}{' ' + packet.answer if packet.answer else ''}" for packet in packets)
        print(f"{path}: {count} frames, {len(packets)} of RoCEv2: " + ", ".join(f"{n} x {k}" for k, n in kinds.items()))
        for packet in packets:
            if packet.faults:
                wrong += 1
                print(f"  {packet.name} PSN {packet.psn}: {', '.join(packet.faults)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
