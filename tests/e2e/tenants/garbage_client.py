"""garbage_client.py SOCKET SEED: connects again and again and writes requests of all kinds with anything in them, and descriptors."""

import array
import contextlib
import os
import random
import socket
import struct
import sys

MAGIC = 0x75726E63
OPERATIONS = 60
ABI_FILE = os.path.join(os.path.dirname(__file__), "../../../abi/control.h")


def abi_version():
    with open(ABI_FILE, encoding="utf-8") as text:
        return int(text.read().split("kAbiVersion = ")[1].split(";")[0])


def descriptors(chooser):
    pair = socket.socketpair()
    pipe = os.pipe()
    with pair[0], pair[1]:
        chosen = [pair[0].fileno(), pipe[0], pipe[1], 0][: chooser.randrange(5)]
        yield array.array("i", chosen)
    for end in pipe:
        os.close(end)


def request(chooser, cookie):
    operation = chooser.randrange(OPERATIONS)
    length = chooser.choice([16, 24, 32, 40, 64, 96, 128, 544, chooser.randrange(1100)])
    body = bytes(chooser.choice([0, 0, 0, 1, 2, 255, chooser.randrange(256)]) for _ in range(max(0, length - 16)))
    stated = length if chooser.random() < 0.9 else chooser.randrange(1 << 32)
    return struct.pack("<IIII", MAGIC, operation, cookie, stated) + body


def converse(path, chooser, hello):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.connect(path)
        daemon.settimeout(5)
        if chooser.random() < 0.9:
            daemon.send(hello)
            _, passed, _, _ = socket.recv_fds(daemon, 4096, 64)
            for fd in passed:
                os.close(fd)
        for cookie in range(chooser.randrange(200)):
            for fds in descriptors(chooser):
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else []
                daemon.sendmsg([request(chooser, cookie)], rights)
            _, passed, _, _ = socket.recv_fds(daemon, 4096, 64)
            for fd in passed:
                os.close(fd)


def main():
    chooser = random.Random(int(sys.argv[2]))
    hello = struct.pack("<IIIIII", MAGIC, 1, 0, 56, abi_version(), 0) + b"garbage".ljust(32, b"\0")
    while True:
        with contextlib.suppress(OSError):
            converse(sys.argv[1], chooser, hello)


if __name__ == "__main__":
    main()
