"""Sends frames that no worker is to see, or that it is to drop: port_frames.py storm|jumbo INTERFACE SOURCE DESTINATION NUMBER."""

import random
import socket
import struct
import sys
import time


def jumbo(interface, source, destination, longest):
    """Frames that are longer than that by little, and by much; prints how many."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((interface, 0))
    lengths = [*range(int(longest) + 1, int(longest) + 81), 9014]
    for length in lengths:
        out.send(bytes.fromhex((destination + source).replace(":", "")) + b"\x08\0" +
                 struct.pack(">BBHIBBH", 0x45, 0, length - 14, 0x4000, 64, 17, 0) + socket.inet_aton("10.77.0.2") +
                 socket.inet_aton("10.77.0.1") + struct.pack(">HHHH", 0xc000, 4791, length - 34, 0) + bytes(length - 42))
    print(len(lengths))


def storm(interface, source, destination, seed):
    """Frames of every length and kind, as mutations of a correct one."""
    def mac(text):
        return bytes.fromhex(text.replace(":", ""))
    draw = random.Random(int(seed))
    payload = bytes(64)
    bth = struct.pack(">BBHII", 0x04, 0, 0xffff, draw.randrange(1 << 24), 0x80000000)
    udp = struct.pack(">HHHH", 0xc000, 4791, 8 + len(bth) + len(payload) + 4, 0) + bth + payload + bytes(4)
    ip4 = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0x4000, 64, 17, 0, socket.inet_aton("10.77.0.2"),
                      socket.inet_aton("10.77.0.1"))
    total = sum(struct.unpack(">10H", ip4))
    total = (total & 0xffff) + (total >> 16)
    ip4 = ip4[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xffff) + ip4[12:]
    ip6 = struct.pack(">IHBB16s16s", 6 << 28, len(udp), 17, 64, socket.inet_pton(socket.AF_INET6, "fe80::1"),
                      socket.inet_pton(socket.AF_INET6, "fe80::2"))
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((interface, 0))
    header = mac(destination) + mac(source)
    whole = [header + b"\x08\0" + ip4 + udp, header + b"\x86\xdd" + ip6 + udp]
    for number in range(5000):
        frame = bytearray(whole[number % 2])
        kind = number // 2 % 6
        if kind == 1:  # tags
            for _ in range(draw.randrange(1, 4)):
                frame[12:12] = struct.pack(">HH", draw.choice((0x8100, 0x88a8)), draw.randrange(1 << 16))
        elif kind == 2:  # cut off
            del frame[draw.randrange(14, len(frame)):]
        elif kind == 3:  # too long
            frame += bytes(draw.randrange(4000))
        elif kind >= 4:  # anything wrong anywhere
            for _ in range(draw.randrange(1, 6)):
                frame[draw.randrange(12, len(frame))] = draw.randrange(256)
        try:
            out.send(frame)
        except OSError:
            pass  # longer than the interface's MTU
        if number % 64 == 0:
            time.sleep(0.001)  # the other end has one queue for this and the transfer


if __name__ == "__main__":
    {"storm": storm, "jumbo": jumbo}[sys.argv[1]](*sys.argv[2:])
