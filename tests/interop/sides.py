"""The two sides of a test: our RNIC on this machine, and rxe in the guest. Both run the same programs."""

import ipaddress
import json
import re
import shlex
import time

import guest as guests
import harness
import network

GIDS = {
    "ours": {"ipv4": f"::ffff:{network.OUR_IPV4}", "ipv6": network.OUR_IPV6,
             "link_local": network.link_local(network.OUR_MAC), "vlan": f"::ffff:{network.OUR_VLAN_IPV4}"},
    "theirs": {"ipv4": f"::ffff:{network.PEER_IPV4}", "ipv6": network.PEER_IPV6,
               "link_local": network.link_local(network.PEER_MAC), "vlan": f"::ffff:{network.PEER_VLAN_IPV4}"}}
# Busybox's shell prefers its own to those of the path.
TOOLS = 'tc() { /usr/bin/tc "$@"; }; ip() { /usr/bin/ip "$@"; }'
# Of the program that was started last in the guest.
PID_FILE = "/tmp/pid"
# Devices of the guest that packets take a way through in which some get lost: "lossy" and the direction.
LOSSY_WAYS = ("lossyegress", "lossyingress")
PEER_PROGRAM = harness.BUILD / "tests/interop/peer"


def gid_table(devinfo):
    """{address: index} as `ibv_devinfo -v` prints it; of RoCE v2 where it names versions."""
    table = {}
    for index, gid, version in re.findall(r"GID\[\s*(\d+)\]:\s+([0-9a-f:.]+)(?:, (\S+ \S+))?", devinfo):
        if version in ("", "RoCE v2"):
            table.setdefault(normal(gid), int(index))
    return table


def normal(gid):
    return ipaddress.IPv6Address(gid)


class Side:
    """A place where programs run."""

    name = address = ""
    macs = ()

    def __init__(self):
        self._gids = {}

    def device(self, kind):
        """The RNIC with addresses of that kind."""
        raise NotImplementedError

    def address_of(self, kind):
        """The same address, as programs are given it."""
        return GIDS[self.name][kind].removeprefix("::ffff:")

    def gid(self, kind):
        """The index of an address in its device's table."""
        device, wanted = self.device(kind), normal(GIDS[self.name][kind])
        if (device, wanted) not in self._gids:
            table = gid_table(self.output(f"ibv_devinfo -v -d {device}"))
            self._gids.update({(device, gid): index for gid, index in table.items()})
        if (device, wanted) not in self._gids:
            raise guests.GuestError(f"{device} has no GID {wanted}")
        return self._gids[device, wanted]


class Ours(Side):
    name, address = "ours", network.OUR_IPV4
    macs = (network.OUR_MAC, network.OUR_VLAN_MAC)

    def __init__(self, daemon):
        super().__init__()
        self._daemon = daemon

    def device(self, kind):
        return "urnic1" if kind == "vlan" else "urnic0"

    def _words(self, text):
        words = shlex.split(text)
        return self._daemon.command([str(PEER_PROGRAM), *words[1:]] if words[0] == "peer" else words)

    def output(self, text):
        return harness.run(self._words(text)).out

    def start(self, text, seconds):
        return Process(self._words(text), seconds)

    def listens(self, port, seconds):
        """Waits until somebody listens; nobody else is in this network."""
        wanted = re.compile(rf":{port:04X} [0-9A-F:]+ 0A ")
        return guests.wait_until(lambda: any(wanted.search(open(f"/proc/net/{table}", encoding="ascii").read())
                                             for table in ("tcp", "tcp6")), seconds, 0.005)

    def cm_listens(self, port, seconds):
        """Waits until somebody listens by rdma_cm."""
        del port  # nobody else listens here
        return guests.wait_until(lambda: any(client.get("cm_listeners") for client in json.loads(self._daemon.status())["clients"]),
                                 seconds, 0.05)

    def joined(self, group, seconds):
        """Waits until somebody has joined a group."""
        del group  # nobody joins another
        return guests.wait_until(lambda: any(device["mcast_groups"] for device in json.loads(self._daemon.status())["devices"]),
                                 seconds, 0.05)

    def counters(self, kind):
        """Those of the RNIC with addresses of that kind, by name."""
        return next(device["counters"] for device in json.loads(self._daemon.status())["devices"]
                    if device["name"] == self.device(kind))


class Process:
    """A program on this machine, in the form of a guest's command."""

    def __init__(self, words, seconds):
        self._process = harness.start(words)
        self._deadline = time.monotonic() + seconds
        self.status, self.output = None, ""

    def ended(self):
        return self._process.poll() is not None

    def wait(self, timeout):
        del timeout
        result = harness.finish(self._process, max(0.1, self._deadline - time.monotonic()))
        self.status, self.output = result.returncode, result.out + result.err
        return True

    def stop(self):
        harness.end_group(self._process)


class Theirs(Side):
    name, address = "theirs", network.PEER_IPV4
    macs = (network.PEER_MAC,)

    def __init__(self, guest):
        super().__init__()
        self._guest = guest
        self._lossy_ways = LOSSY_WAYS

    def device(self, kind):
        return "rxe0"

    def output(self, text):
        return self._guest.run(text)

    def start(self, text, seconds):
        # In the shell's place, so that it is this program that is ended when its time is over.
        command = self._guest.start(f"echo $$ >{PID_FILE}; exec {text}", seconds)
        command.stop = lambda: self._guest.run(f"kill $(cat {PID_FILE}) || true")
        return command

    def listens(self, port, seconds):
        waits = f"until grep -q ':{port:04X} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 5000; done"
        command = self._guest.start(waits, seconds)
        return command.wait(seconds + 5) and command.status == 0

    def cm_listens(self, port, seconds):
        del port
        waits = "until rdma resource show cm_id | grep -q LISTEN; do usleep 20000; done"
        command = self._guest.start(waits, seconds)
        return command.wait(seconds + 5) and command.status == 0

    def joined(self, group, seconds):
        # rxe takes the frames of a group by the address that IPv6 has for its last four bytes, of IPv4's groups, too.
        mac = "3333" + ipaddress.IPv4Address(group).packed.hex()
        command = self._guest.start(f"until grep -q {mac} /proc/net/dev_mcast; do usleep 20000; done", seconds)
        return command.wait(seconds + 5) and command.status == 0

    def counters(self):
        text = self._guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *")
        return {name: int(value) for name, value in (line.split(":") for line in text.split()) if name != "lifespan"}

    def lose(self, percent, ways=LOSSY_WAYS, spared=None):
        """Drops that many of the RoCE packets that leave the guest, and of those that come. `spared`: {way: opcodes of packets that are not
        dropped}.

        Both behind a device of their own: of a packet for which a queue of the interface itself has no room rxe is told, counts it as
        send_err and answers the READ with an RNR NAK. No network does so. The device's queue has room for all that can be under way."""
        self._lossy_ways = ways
        roce = "protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff"
        # The first octet of the BTH behind IPv4 and UDP. A filter that only classifies ends the search.
        spares = "\n".join(f"tc filter add dev eth0 {way.removeprefix('lossy')} prio 1 {roce} match u8 {opcode} 0xff at 28 flowid 1:1"
                           for way, opcodes in (spared or {}).items() for opcode in opcodes)
        self._guest.run(f"""set -e
            {TOOLS}
            tc qdisc add dev eth0 clsact
            {spares}
            for way in {' '.join(ways)}; do
                ip link show $way >/dev/null 2>&1 || ip link add $way type ifb
                ip link set $way up
                tc qdisc add dev $way root netem loss {percent}% limit 1000000
                tc filter add dev eth0 ${{way#lossy}} prio 2 {roce} action mirred egress redirect dev $way
            done""")

    def lose_nothing(self):
        """Ends `lose`; returns how many packets were dropped on each of its ways."""
        text = self._guest.run(f"""{TOOLS}
            tc qdisc del dev eth0 clsact
            for way in {' '.join(self._lossy_ways)}; do tc -s qdisc show dev $way; tc qdisc del dev $way root; done""")
        return tuple(int(dropped) for dropped in re.findall(r"qdisc netem .*?dropped (\d+)", text, re.DOTALL))
