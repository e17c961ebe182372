"""Commands of librdmacm over the control socket, from programs that say what they like, beside a neighbour's connections.

`tests/fuzz/cm_commands_fuzz.cc` has the same commands without the socket, the daemon's loop and real time. Of three commands about two
are as librdmacm makes them, so that ids get through all their states; the others are wrong in some way.
"""

import contextlib
import errno
import json
import os
import pathlib
import random
import socket
import struct
import sys

import harness
import with_daemon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tenants"))
import raw_client  # noqa: E402  (beside its users)

COMMANDS, MOST_COMMANDS = 3000, 60_000
CHANNELS = 2
ADDRESSES = ("198.18.0.1", "198.18.0.2")
PORTS = range(7000, 7003)
BODY_BYTES = 512
PRIVATE_BYTES = 256  # RDMA_MAX_PRIVATE_DATA
KEPT_IDS = 12
TCP, UDP = 0x106, 0x111  # RDMA_PS_...
SPACES = {TCP: 2, UDP: 4}  # ibv_qp_type
# RDMA_USER_CM_CMD_...
(CREATE_ID, DESTROY_ID, BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE, CONNECT, LISTEN, ACCEPT, REJECT, DISCONNECT, INIT_QP_ATTR,
 GET_EVENT, GET_OPTION, SET_OPTION, NOTIFY, JOIN_IP_MCAST, LEAVE_MCAST, MIGRATE_ID) = range(19)
BIND, LAST = 20, 23
# What the programs have to have had success with: the test would be blind without.
STEPS = {CREATE_ID, DESTROY_ID, BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE, CONNECT, LISTEN, ACCEPT, GET_EVENT, SET_OPTION, MIGRATE_ID}
# What leads an id on from the last command that it had success with.
NEXT = {CREATE_ID: (BIND_IP, RESOLVE_IP), BIND_IP: (LISTEN,), RESOLVE_IP: (RESOLVE_ROUTE,), RESOLVE_ROUTE: (CONNECT,), CONNECT: (DISCONNECT, GET_EVENT),
        LISTEN: (GET_EVENT,), GET_EVENT: (ACCEPT, ACCEPT, REJECT), ACCEPT: (DISCONNECT, GET_EVENT)}
# Where the commands that name a QP have its number.
QPN_AT = {CONNECT: 0, ACCEPT: 8}
CHANGES = {BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, CONNECT, LISTEN, ACCEPT, REJECT, DISCONNECT}


def sockaddr_in6(address, port):
    """An IPv4 address in the room of an IPv6 one."""
    return (struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + socket.inet_aton(address)).ljust(28, b"\0")


class Channel:
    """As the provider keeps one. What a reply says of its socket is so."""

    def __init__(self, client):
        error, reply, fds = client.exchange("OpenCmChannel", b"")
        assert error == 0, error
        self.handle, self.taken = struct.unpack_from("=I", reply)[0], 0
        self.socket = socket.socket(fileno=fds[0])
        self.socket.setblocking(False)

    def take(self, announced, waiting):
        while announced - self.taken > waiting:
            assert len(self.socket.recv(2)) == 1
            self.taken += 1


class Program:
    """`victim`: (number of a QP that is somebody else's, node GUID of its RNIC as librdmacm has it)."""

    def __init__(self, path, seed, victim):
        self.path, self.chooser, self.victim = path, random.Random(seed), victim
        self.succeeded, self.sent, self.hung_up = set(), 0, 0
        # Commands with the victim's number: refused while one's own was taken; and successes.
        self.refused, self.breaches = {CONNECT: 0, ACCEPT: 0}, []
        self.connect()

    def connect(self):
        self.client = raw_client.RawClient(self.path)
        context = self.client.open_device()
        pd = self.client.alloc_pd(context)
        self.qpn = self.client.create_qp(pd, self.client.create_cq(context))[1]
        self.channels, self.ids = [Channel(self.client) for _ in range(CHANNELS)], []
        self.last = {}  # command that an id was successful with; GET_EVENT: it came with a connection request
        # Ids of RDMA_PS_TCP, whose commands name a QP that has to be one's own, and the uids that they were made with: what a
        # listener is asked for comes with its uid.
        self.streams, self.stream_uids = set(), set()

    def conn_param(self):
        """rdma_ucm_conn_param."""
        qpn = self.chooser.choice([self.qpn, self.qpn, self.chooser.randrange(1 << 24)])
        private = self.chooser.randbytes(PRIVATE_BYTES)
        return struct.pack(f"=II{PRIVATE_BYTES}sBBBBBBBB", qpn, 0, private, self.chooser.choice([0, 10, 56]), 0, 1, 1, 0, 7, 7, 1)

    def proper(self, channel):
        """(command, id, body) with what librdmacm would write. An id may be in any state, and of the other channel."""
        pick = self.chooser
        address, port = pick.choice(ADDRESSES), pick.choice(PORTS)
        own = [number for number, of in self.ids if of is channel]
        number = pick.choice(own) if own and pick.random() < 0.95 else pick.randrange(40)
        command = pick.choice([*range(GET_OPTION), *range(SET_OPTION, MIGRATE_ID + 1)])
        if len(own) < 4 and pick.random() < 0.3:
            command = CREATE_ID
        elif len(self.ids) >= KEPT_IDS and pick.random() < 0.3:
            command = DESTROY_ID
        elif pick.random() < 0.7:
            command = pick.choice(NEXT.get(self.last.get(number), (GET_EVENT,)))
        bodies = {
            CREATE_ID: lambda: struct.pack("=QQHB5x", pick.randrange(1 << 64), 0, *pick.choice([*SPACES.items()])),
            BIND_IP: lambda: bytes(8) + sockaddr_in6(address, pick.choice([0, port])) + struct.pack("=I", number),
            RESOLVE_IP: lambda: bytes(28) + sockaddr_in6(address, port) + struct.pack("=II", number, 1000),
            RESOLVE_ROUTE: lambda: struct.pack("=II", number, 1000),
            CONNECT: lambda: self.conn_param() + struct.pack("=IIII", number, 0, 0, 0),
            LISTEN: lambda: struct.pack("=II", number, pick.choice([1, 4, 1 << 30])),
            ACCEPT: lambda: bytes(8) + self.conn_param() + struct.pack("=IIII", number, 0, 0, 0),
            REJECT: lambda: struct.pack("=IBBH", number, pick.choice([0, 56]), 28, 0) + bytes(PRIVATE_BYTES),
            DISCONNECT: lambda: struct.pack("=I", number),
            INIT_QP_ATTR: lambda: struct.pack("=QII", 0, number, pick.randrange(1, 4)),
            GET_EVENT: lambda: bytes(8),
            SET_OPTION: lambda: struct.pack("=QIIII", 0, number, 0, pick.choice([0, 1, 3]), 4) + struct.pack("=I", 1),
            NOTIFY: lambda: struct.pack("=II", number, pick.randrange(20)),
            JOIN_IP_MCAST: lambda: bytes(16) + sockaddr_in6("239.1.2.3", 0) + struct.pack("=I", number),
            MIGRATE_ID: lambda: struct.pack("=QII", 0, number, pick.choice(self.channels).handle),
        }
        return command, number, bodies.get(command, lambda: struct.pack("=QII", 0, number, 0))()

    def spoilt(self, command, body):
        """The same with a mistake: (channel, command, length of the body, room for the answer, body)."""
        pick = self.chooser
        body = bytearray(body)
        for _ in range(pick.randrange(4)):
            at = pick.randrange(len(body))
            body[at:at + 4] = pick.choice([b"\xff" * 4, bytes(4), pick.randbytes(4), struct.pack("=I", pick.randrange(24))])
        length = pick.choice([len(body), len(body), 0, pick.randrange(600), pick.randrange(1 << 32)])
        return (pick.choice([None, None, 0, pick.randrange(1 << 32)]), pick.choice([command, command, pick.randrange(LAST + 2), pick.randrange(1 << 32)]),
                length, pick.choice([BODY_BYTES, 0, pick.randrange(600), (1 << 32) - 1]), bytes(body[:BODY_BYTES]))

    def step(self):
        pick = self.chooser
        if pick.random() < 0.01:
            self.reopen(pick.randrange(CHANNELS))
            return
        channel = pick.choice(self.channels)
        command, number, body = self.proper(channel)
        handle, length, room = None, len(body), BODY_BYTES
        is_spoilt = pick.random() < 0.3
        if is_spoilt:
            handle, command, length, room, body = self.spoilt(command, body)
        handle = channel.handle if handle is None else handle
        is_refused = not is_spoilt and command in QPN_AT and self.name_victim(channel, command, number, body)
        request = struct.pack("=IIII", handle, command, length, room) + body.ljust(BODY_BYTES, b"\0")
        self.sent += 1
        if pick.random() < 0.01:
            self.hang_up(request[:pick.randrange(len(request))])
            return
        error, reply, fds = self.client.exchange("CmCommand", request)
        assert not fds and 0 <= error < 4096, (error, fds)
        out_bytes, _, announced, waiting = struct.unpack_from("=IIII", reply)
        assert out_bytes <= min(room, BODY_BYTES), (out_bytes, room)
        if handle == channel.handle and error != 22:  # EINVAL is also said before the channel is looked at
            channel.take(announced, waiting)
        if error == 0:
            self.succeeded.add(command)
            if is_refused:
                self.refused[command] += 1
            if not is_spoilt and command in CHANGES:
                self.last[number] = command
            if not is_spoilt and command == CREATE_ID and struct.unpack_from("=H", body, 16)[0] == TCP:
                self.stream_uids.add(struct.unpack_from("=Q", body)[0])
                self.streams.add(struct.unpack_from("=I", reply, 24)[0])
            self.follow(command, channel, body, reply[24:24 + out_bytes])

    def ask(self, channel, command, body):
        """An errno and what librdmacm would read; nothing of it is spoilt."""
        request = struct.pack("=IIII", channel.handle, command, len(body), BODY_BYTES) + body.ljust(BODY_BYTES, b"\0")
        error, reply, _ = self.client.exchange("CmCommand", request)
        out_bytes, _, announced, waiting = struct.unpack_from("=IIII", reply)
        if error != errno.EINVAL:
            channel.take(announced, waiting)
        return error, reply[24:24 + out_bytes]

    def name_victim(self, channel, command, number, body):
        """The same with the victim's QP before it is done with one's own. Returns whether it was refused."""
        if number not in self.streams:
            return False
        with_victims = bytearray(body)
        struct.pack_into("=I", with_victims, QPN_AT[command], self.victim[0])
        if self.ask(channel, command, bytes(with_victims))[0] != 0:
            return True
        # On the other RNIC that number may be free.
        error, route = self.ask(channel, QUERY_ROUTE, struct.pack("=QII", 0, number, 0))
        if error != 0 or struct.unpack_from("=Q", route)[0] == self.victim[1]:
            self.breaches.append((command, number, error))
        return False

    def follow(self, command, channel, body, answer):
        """Which ids there are, roughly: some go on being used when they are gone."""
        if command == CREATE_ID and len(answer) >= 4:
            self.ids.append((struct.unpack_from("=I", answer)[0], channel))
            self.last[self.ids[-1][0]] = CREATE_ID
        elif command == GET_EVENT and len(answer) >= 12:
            number = struct.unpack_from("=I", answer, 8)[0]
            if all(known != number for known, _ in self.ids):
                self.ids.append((number, channel))
                self.last[number] = GET_EVENT
            if struct.unpack_from("=Q", answer)[0] in self.stream_uids:
                self.streams.add(number)
        elif command == DESTROY_ID and len(body) >= 12 and self.chooser.random() < 0.9:
            gone = struct.unpack_from("=I", body, 8)[0]
            self.ids = [(number, of) for number, of in self.ids if number != gone]

    def reopen(self, index):
        """A channel ends with its ids."""
        old = self.channels[index]
        self.client.call("CloseCmChannel", struct.pack("=II", old.handle, 0))
        old.socket.close()
        self.ids = [(number, of) for number, of in self.ids if of is not old]
        self.channels[index] = Channel(self.client)

    def hang_up(self, cut_off):
        """A message that ends too early; whatever the daemon says to it, the program goes on with another connection."""
        with contextlib.suppress(OSError, struct.error):
            self.client.exchange("CmCommand", cut_off)
        for channel in self.channels:
            channel.socket.close()
        self.client.close()
        self.hung_up += 1
        self.connect()


def attack(path, seed, qpn, node_guid):
    program = Program(path, int(seed), (int(qpn), int(node_guid)))
    print("begun", flush=True)
    # Which of them succeed is chance: it goes on until each step has.
    for done in range(MOST_COMMANDS):
        if program.breaches or (done >= COMMANDS and program.succeeded >= STEPS and all(program.refused.values())):
            break
        program.step()
    print(json.dumps({"pid": os.getpid(), "sent": program.sent, "hung_up": program.hung_up, "succeeded": sorted(program.succeeded),
                      "refused": list(program.refused.values()), "breaches": program.breaches}), flush=True)


class Commands(with_daemon.WithDaemon):
    """Two programs of a user that connect to each other and to themselves, and ucmatose of another."""

    def neighbours(self):
        """Connections of others work. ucmatose's port is none of the attackers'."""
        words = ["-c", "4", "-C", "10"]
        server = self.start("ucmatose", "-b", ADDRESSES[0], *words)
        listens = harness.wait_until(lambda: server.poll() is not None or any(
            client["program"] == "ucmatose" and client["cm_listeners"] > 0 for client in self.status()["clients"] if "cm_listeners" in client))
        self.assertTrue(listens and server.poll() is None, "ucmatose does not listen")
        self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", "ucmatose", "-b", ADDRESSES[1], "-s", ADDRESSES[0], *words])
        self.assert_ok(harness.finish(server))

    def test_of_all_kinds_disturb_nobody(self):
        self.neighbours()
        self.assertTrue(harness.wait_until(lambda: not self.status()["clients"]))
        before = harness.Footprint(self.daemon.pid)
        victim = raw_client.RawClient(self.socket)
        self.addCleanup(victim.close)
        context = victim.open_device()
        qpn = victim.create_qp(victim.alloc_pd(context), victim.create_cq(context))[1]
        node_guid = int.from_bytes(bytes.fromhex(self.status()["devices"][0]["node_guid"].replace(":", "")), sys.byteorder)
        attackers = [harness.start([sys.executable, __file__, "attack", self.socket, seed, qpn, node_guid], **with_daemon.as_nobody())
                     for seed in (1, 2)]
        for attacker in attackers:
            self.addCleanup(harness.end_group, attacker)
            self.assertEqual(harness.read_line(attacker), "begun\n")
        self.neighbours()
        succeeded = set()
        for attacker in attackers:
            result = harness.finish(attacker)
            self.assert_ok(result)
            found = json.loads(result.out)
            self.assertEqual(found["breaches"], [], "the victim's QP in commands of others")
            self.assertGreater(found["sent"], COMMANDS * 9 // 10)
            self.assertGreater(found["hung_up"], 0)
            succeeded |= set(found["succeeded"])
            self.assertTrue(all(found["refused"]), f"{found['refused']}: the victim's QP was named too seldom")
        victim.close()
        self.assertLessEqual(STEPS, succeeded, "commands that never had success")
        self.assertTrue(harness.wait_until(lambda: not self.status()["clients"]), "clients are left")
        managers = [device["cm"] for device in self.status()["devices"]]
        self.assertEqual([manager["listeners"] for manager in managers], [0, 0])
        self.assertEqual([manager["half_open"] for manager in managers], [0, 0])
        self.assertGreater(sum(manager["received"] for manager in managers), 0)
        self.assertTrue(harness.wait_until(lambda: harness.Footprint(self.daemon.pid).descriptors <= before.descriptors),
                        "descriptors are left")
        self.neighbours()


if __name__ == "__main__":
    if sys.argv[1:2] == ["attack"]:
        attack(*sys.argv[2:])
        sys.exit(0)
    harness.main()
