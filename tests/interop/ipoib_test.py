"""IP over InfiniBand between Linux rxe and urnic: `urnic ipoib` on rxe0 in the guest and on urnic0 (af_packet) here.

The same program on both sides, on two implementations of UD, multicast and address handles.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import guest as guests
import harness
import image
import network
import sides

PROGRAM = harness.BUILD / "ulp/ipoib/urnic-ipoib"
OURS, THEIRS = "10.99.0.1", "10.99.0.2"
OUR_GROUP, THEIR_GROUP = "239.255.1.1", "239.255.1.2"
OCTETS = 10_000_000
OCTETS_WITH_LOSS = 300_000
# The guest is emulated: what it does takes as long as it takes.
PATIENCE_S = 300


class OverRxe(harness.TestCase):
    """In the order of their names: a link that does not answer transfers nothing."""

    @classmethod
    def setUpClass(cls):
        kernel, initramfs = image.make(harness.BUILD / "interop", [PROGRAM], name="initramfs-ipoib", modules=("tun", *image.MODULES))
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix=f"urnic-ipoib-{os.getpid()}-"))
        network.unshare()
        network.set_up()
        cls.daemon = network.Daemon(cls.directory)
        cls.addClassCleanup(cls.daemon.close)
        cls.guest = guests.Guest(kernel, initramfs, cls.directory, "tap,id=net,ifname=guest,script=no,downscript=no", network.PEER_MAC,
                                 network.guest_arguments())
        cls.addClassCleanup(cls.guest.close)
        network.wait_for_peer()
        cls.theirs = sides.Theirs(cls.guest)
        cls.guest.start("exec urnic-ipoib -d rxe0 -i ib0 >/tmp/ipoib.log 2>&1", 3600)
        cls.guest.run(f"""{sides.TOOLS}
            until ip link show ib0 >/dev/null 2>&1; do usleep 50000; done
            ip address add {THEIRS}/24 dev ib0
            ip route add multicast 224.0.0.0/4 dev ib0
            echo 0 >/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts""", PATIENCE_S)
        pathlib.Path("/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts").write_text("0", encoding="ascii")
        cls.program = None
        cls.addClassCleanup(cls.end_ours)
        cls.start_ours()

    @classmethod
    def start_ours(cls):
        cls.program = harness.start(cls.daemon.command([str(PROGRAM), "-d", "urnic0", "-i", "ib0"]))
        cls.line = harness.read_line(cls.program)
        network.ip("address", "add", f"{OURS}/24", "dev", "ib0")
        network.ip("route", "add", "multicast", "224.0.0.0/4", "dev", "ib0")

    @classmethod
    def end_ours(cls):
        if cls.program is not None:
            cls.program.terminate()
            harness.finish(cls.program, 30)
            cls.program = None

    def said_there(self):
        return self.guest.run("cat /tmp/ipoib.log; kill -USR1 $(pidof urnic-ipoib); usleep 200000; cat /tmp/ipoib.log")

    def assert_answers(self, *words):
        """Of whom is pinged from here."""
        self.assertTrue(harness.wait_until(lambda: harness.run(["ping", "-c", "1", "-W", "2", *words], 60).returncode == 0, PATIENCE_S),
                        f"no answer to ping {' '.join(words)}: {self.line}\n{self.said_there()}")

    def assert_answers_there(self, command, address):
        """The same from the guest."""
        self.guest.run(f"until {command} -c 1 -W 2 {address}; do :; done", PATIENCE_S)

    def link_local_there(self):
        shown = self.guest.run(f"{sides.TOOLS}; ip -6 address show dev ib0")
        return re.search(r"inet6 (fe80::[0-9a-f:]+)", shown).group(1)

    def test_1_ping(self):
        self.assertIn("MTU 2044", self.line)
        self.assert_answers(THEIRS)
        self.assert_answers_there("ping", OURS)
        self.assert_answers("-6", f"{self.link_local_there()}%ib0")
        # The MTU, and not one octet more.
        self.assert_answers("-M", "do", "-s", "2016", THEIRS)
        self.assertNotEqual(harness.run(["ping", "-c", "1", "-M", "do", "-s", "2017", THEIRS], 60).returncode, 0)
        self.assert_answers("-s", "9000", THEIRS)

    def transfer(self, octets):
        data = random.Random(1).randbytes(octets)
        receiving = self.guest.start("nc -l -p 5001 | sha256sum", PATIENCE_S)
        self.assertTrue(self.theirs.listens(5001, 60))
        with socket.create_connection((THEIRS, 5001), PATIENCE_S) as peer:
            peer.settimeout(PATIENCE_S)
            peer.sendall(data)
        self.assertTrue(receiving.wait(PATIENCE_S))
        self.assertEqual(receiving.output.split()[0], hashlib.sha256(data).hexdigest(), receiving.output)

    def test_2_tcp_to_rxe(self):
        self.transfer(OCTETS)

    def test_3_tcp_from_rxe(self):
        wanted = self.guest.run(f"head -c {OCTETS} /dev/urandom >/tmp/data; sha256sum </tmp/data", PATIENCE_S).split()[0]
        with socket.create_server((OURS, 5002)) as server:
            server.settimeout(PATIENCE_S)
            sending = self.guest.start(f"nc {OURS} 5002 </tmp/data", PATIENCE_S)
            peer, _ = server.accept()
            digest = hashlib.sha256()
            with peer:
                peer.settimeout(PATIENCE_S)
                left = OCTETS
                while left > 0 and (data := peer.recv(1 << 16)):
                    digest.update(data)
                    left -= len(data)
        self.assertTrue(sending.wait(PATIENCE_S))
        self.assertEqual(digest.hexdigest(), wanted, sending.output)

    def test_4_multicast(self):
        # All nodes; -L: not this kernel itself.
        self.assert_answers("-6", "-L", "ff02::1%ib0")
        # Groups that one kernel alone has joined.
        self.assertNotEqual(harness.run(["ping", "-c", "1", "-W", "2", THEIR_GROUP], 60).returncode, 0, "nobody has joined")
        self.guest.run(f"{sides.TOOLS}; ip address add {THEIR_GROUP}/32 dev ib0 autojoin")
        self.assert_answers(THEIR_GROUP)
        network.ip("address", "add", f"{OUR_GROUP}/32", "dev", "ib0", "autojoin")
        self.assert_answers_there("ping", OUR_GROUP)

    def test_5_a_peer_restarts_with_another_qpn(self):
        first = re.search(r"QPN (0x[0-9a-f]+)", self.line).group(1)
        self.end_ours()
        self.start_ours()
        self.assertNotEqual(re.search(r"QPN (0x[0-9a-f]+)", self.line).group(1), first)
        self.assert_answers_there("ping", OURS)
        self.assert_answers(THEIRS)

    def test_6_with_loss(self):
        with self.daemon.losing(0.05):
            self.transfer(OCTETS_WITH_LOSS)
            (fault,) = json.loads(self.daemon.status())["faults"]
        self.assertGreater(fault["hits"], 0, fault)
        self.assert_answers(THEIRS)


if __name__ == "__main__":
    if not guests.installable():
        print(f"there is no {guests.QEMU} here")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
