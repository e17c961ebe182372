"""A file over links of `urnic ipoib`, by TCP each way: compared by SHA-256 at its end."""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

from daemon import Daemon
from hosts import Ipoib
from machine import Failure, about, figure, say

MARK = "table of files over IP over InfiniBand: scripts/bench ipoib --verify writes it"
LINK_LAYERS = {"RoCE": "ethernet", "InfiniBand": "infiniband"}
MODES = {"datagrams, MTU 2,044": (), "connected, MTU 65,520": ("--mode", "connected")}
WAYS = ("there", "back")
PATIENCE_S = 600

# Says its port, and at its end the digest of what has come.
RECEIVE = """
import hashlib, socket, sys
with socket.create_server((sys.argv[1], 0)) as server:
    print(server.getsockname()[1], flush=True)
    peer, _ = server.accept()
digest = hashlib.sha256()
with peer:
    while octets := peer.recv(1 << 20):
        digest.update(octets)
print(digest.hexdigest(), flush=True)
"""
# Says for how many seconds it took until the receiver had looked at all of it.
SEND = """
import socket, sys, time
with open(sys.argv[3], "rb") as file, socket.create_connection((sys.argv[1], int(sys.argv[2]))) as peer:
    began = time.monotonic()
    peer.sendfile(file)
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)
    print(time.monotonic() - began)
"""


def write_file(path, octets):
    """Of random octets. Returns its digest."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while octets > 0:
            chunk = os.urandom(min(octets, 1 << 24))
            file.write(chunk)
            digest.update(chunk)
            octets -= len(chunk)
    return digest.hexdigest()


def compare(what, wanted, found):
    if wanted != found:
        raise Failure(f"{what}: what has come is not what was sent: SHA-256 {found}, not {wanted}")


def over_tcp(link, sender, path, wanted, what):
    """Seconds."""
    receiver = 1 - sender
    receiving = subprocess.Popen(link.inside(receiver, sys.executable, "-c", RECEIVE, link.addresses[receiver]), stdout=subprocess.PIPE,
                                 text=True)
    try:
        port = receiving.stdout.readline().strip()
        sent = subprocess.run(link.inside(sender, sys.executable, "-c", SEND, link.addresses[receiver], port, path), capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        if sent.returncode != 0:
            raise Failure(f"{what}: {sent.stderr}")
        compare(what, wanted, receiving.stdout.readline().strip())
        return float(sent.stdout)
    finally:
        receiving.kill()
        receiving.wait()
        receiving.stdout.close()


def measure(options):
    """{(link layer, mode): {way: seconds}}."""
    found = {}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="urnic-bench-"))
        path = pathlib.Path(directory, "file")
        wanted = write_file(path, options.octets)
        number = 60
        for name, link_layer in LINK_LAYERS.items():
            with contextlib.ExitStack() as ends:
                daemon = Daemon(options.build, directory, link_layer, options.workers, link_layer=link_layer)
                ends.callback(daemon.end)
                for mode, words in MODES.items():
                    number += 1
                    link = Ipoib(number, daemon, *words, is_infiniband=link_layer == "infiniband")
                    try:
                        row = found[name, mode] = {way: over_tcp(link, side, path, wanted, f"{name}, {mode}, {way}")
                                                   for side, way in enumerate(WAYS)}
                    finally:
                        link.end()
                    say(f"{name}, {mode}: " + ", ".join(f"{way} {seconds:.3g} s" for way, seconds in row.items()))
    return found


def table(found, context, options):
    lines = [f"| link | {' | '.join(f'{way}, s' for way in WAYS)} |", f"|---{'|---' * len(WAYS)}|"]
    for (name, mode), row in found.items():
        lines.append(f"| {name}, {mode} | {' | '.join(figure(row[way]) for way in WAYS)} |")
    return (f"{about(context)} {options.octets:,} octets each, {options.workers} worker{'s' if options.workers != 1 else ''}; "
            "each transfer was compared by SHA-256, which the receiver computes meanwhile.\n\n" + "\n".join(lines) + "\n\n")
