"""The network between the two stacks, in a namespace of its own, and our daemon in it.

    rxe in the guest -- tap "guest" -- bridge "switch" -- veth "wire" -- veth "port" -- urnicd

Packets are captured on "wire", where what goes either way passes, whatever the daemon's port does on "port". An
ordinary user has all rights over these interfaces in a user namespace.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess

import guest as guests
import harness

CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNS = 0x10000000, 0x40000000, 0x00020000

MTU = 4200  # room for a path MTU of 4096
OUR_MAC, PEER_MAC = "52:54:00:77:00:09", "52:54:00:77:00:0b"
OUR_IPV4, PEER_IPV4 = "10.77.0.9", "10.77.0.11"
# Of the tester of scripts/interop conform, for cases with two peers.
SECOND_IPV4 = "10.77.0.12"
OUR_IPV6, PEER_IPV6 = "fd77::9", "fd77::b"
VLAN = 7
OUR_VLAN_IPV4, PEER_VLAN_IPV4 = "10.78.0.9", "10.78.0.11"
OUR_VLAN_MAC = "52:54:00:78:00:09"


def link_local(mac):
    """RFC 4291 appendix A."""
    octets = [int(octet, 16) for octet in mac.split(":")]
    octets[0] ^= 2
    words = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    groups = [f"{words[i] << 8 | words[i + 1]:x}" for i in range(0, 8, 2)]
    return "fe80::" + ":".join(groups)


def unshare():
    """Moves this process into a network of its own, as root there. Raises OSError where that is forbidden."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare((0 if user == 0 else CLONE_NEWUSER) | CLONE_NEWNET | CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if user != 0:
        pathlib.Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def ip(*words):
    result = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(f"ip {' '.join(map(str, words))}: {result.stderr.strip()}")


def set_up():
    """The interfaces, in the namespace of this process."""
    for name in ("all", "default"):
        for key, value in (("accept_dad", 0), ("router_solicitations", 0)):
            pathlib.Path(f"/proc/sys/net/ipv6/conf/{name}/{key}").write_text(str(value), encoding="ascii")
    # The bridge does not answer for the address of "port": who believed its MAC would send our RoCE packets to it.
    pathlib.Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1", encoding="ascii")
    ip("link", "set", "lo", "up")
    ip("link", "add", "switch", "mtu", MTU, "type", "bridge", "forward_delay", 0, "mcast_snooping", 0)
    ip("tuntap", "add", "dev", "guest", "mode", "tap")
    ip("link", "add", "port", "mtu", MTU, "type", "veth", "peer", "name", "wire", "mtu", MTU)
    # A MAC of its own, so that the first member does not lend it one.
    ip("link", "set", "switch", "address", "52:54:00:77:00:01")
    for name in ("switch", "guest", "wire"):
        ip("link", "set", name, "addrgenmode", "none")
    for name in ("guest", "wire"):
        ip("link", "set", name, "mtu", MTU, "master", "switch", "up")
    ip("link", "set", "switch", "up")
    ip("link", "set", "port", "address", OUR_MAC)
    ip("link", "set", "port", "up")
    ip("addr", "add", f"{OUR_IPV4}/24", "dev", "port")
    ip("addr", "add", f"{OUR_IPV6}/64", "dev", "port")
    # Programs' own TCP connections send what a NIC would split, with checksums that a NIC would fill in.
    subprocess.run(["ethtool", "-K", "port", "tx", "off", "gso", "off", "tso", "off"], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def guest_arguments():
    return [f"urnic.mtu={MTU}", f"urnic.addresses={PEER_IPV4}/24,{PEER_IPV6}/64",
            f"urnic.vlan={VLAN}:{PEER_VLAN_IPV4}/24"]


def configuration(run_dir):
    """One RNIC borrows the interface's addresses, and finds its neighbours with the kernel's help; the other has an address of its
    own on a VLAN, where it asks and answers itself."""
    port = ['port = "af_packet"', 'interface = "port"', "mtu = 4096"]
    return "\n".join(["[daemon]", f'run_dir = "{run_dir}"', "workers = 1", "hugepages = false",
                      "[[rnic]]", 'name = "urnic0"', *port,
                      "[[rnic]]", 'name = "urnic1"', *port, f'mac = "{OUR_VLAN_MAC}"',
                      "[[rnic.vlan]]", f"id = {VLAN}", f'ipv4 = "{OUR_VLAN_IPV4}/24"', ""])


def wait_for_peer():
    """Until the guest answers over IPv6, too: an emulated kernel may take seconds for its first answers, and neither side's RDMA
    waits so long for a neighbour. Refusing a connection is an answer."""
    def answers(address):
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as asking:
            asking.settimeout(3)
            try:
                asking.connect((address, 9, 0, socket.if_nametoindex("port") if address.startswith("fe80") else 0))
            except ConnectionRefusedError:
                return True
            except OSError:
                return False
            return True
    for address in (PEER_IPV6, link_local(PEER_MAC)):
        if not guests.wait_until(lambda address=address: answers(address), harness.PATIENCE_S):
            raise OSError(f"the guest does not answer at {address}")


class Daemon:
    """urnicd on "port", as the configuration says."""

    def __init__(self, directory):
        self.run_dir = pathlib.Path(directory) / "run"
        self._log = pathlib.Path(directory) / "urnicd.log"
        config = pathlib.Path(directory) / "urnicd.toml"
        config.write_text(configuration(self.run_dir), encoding="ascii")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen([harness.BUILD / "urnicd", "--config", config], stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, env=harness.clean_environment(),
                                             preexec_fn=guests.die_with_parent)
        ready = guests.wait_until(lambda: self._process.poll() is not None or self._answers(), harness.PATIENCE_S)
        if not ready or self._process.poll() is not None:
            self.close()
            raise OSError(f"urnicd does not run: {self.log()}")

    def _answers(self):
        return (self.run_dir / "control.sock").exists() and self._urnic("status").returncode == 0

    def _urnic(self, *words):
        return subprocess.run([harness.URNIC, *words, "--socket", self.run_dir], capture_output=True, text=True,
                              env=harness.clean_environment(), check=False)

    def status(self):
        """What `urnic status --json` prints."""
        return self._urnic("status", "--json").stdout

    def command(self, words):
        """How a program is started so that it sees the RNIC."""
        return [harness.URNIC, "run", "--socket", self.run_dir, "--", *words]

    @contextlib.contextmanager
    def holding_back_cm(self, seconds):
        """While it lasts, what our connection managers send goes on the wire so much later."""
        if seconds > 0:
            self._fault("add", "delay", "--qpn", "1", "--delay-us", str(int(seconds * 1e6)))
        try:
            yield
        finally:
            if seconds > 0:
                self._fault("clear")

    @contextlib.contextmanager
    def losing(self, probability):
        """While it lasts, packets of ours are lost with that probability, in both directions."""
        self._fault("add", "drop", "--probability", str(probability))
        try:
            yield
        finally:
            self._fault("clear")

    def _fault(self, *words):
        result = self._urnic("fault", *words)
        if result.returncode != 0:
            raise OSError(f"urnic fault {' '.join(words)}: {result.stderr}")

    def log(self):
        return self._log.read_text(errors="replace")

    def alive(self):
        return self._process.poll() is None

    def close(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
