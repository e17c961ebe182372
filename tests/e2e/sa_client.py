"""A program of the stock libibumad that asks subnet administration.

`sa_client.py DEVICE METHOD MGID_HEX PORT_GID_HEX JOIN_STATE [create]`: a multicast member; METHOD is set or delete. Prints the status and
the MLID of the answer.
`sa_client.py DEVICE watch`: subscribes to all notices and answers reports until it is ended; prints the status, then trap number, GID and
issuer's GID of each report.
`sa_client.py DEVICE flood`: queries without end, whose answers it does not read. Prints a line when it has sent the first hundred."""

import ctypes
import ipaddress
import itertools
import struct
import sys

SA_CLASS, SA_VERSION = 3, 2
METHODS = {"get": 0x01, "set": 0x02, "delete": 0x15}
REPORT, REPORT_RESPONSE = 0x06, 0x86
CLASS_PORT_INFO, INFORM_INFO, MCMEMBER_RECORD = 0x01, 0x03, 0x38
METHOD_AT, DATA_AT = 3, 56
# Components of an MCMemberRecord (IBA table 214).
MGID, PORT_GID, QKEY, PKEY, SL, FLOW_LABEL, JOIN_STATE = 1 << 0, 1 << 1, 1 << 2, 1 << 7, 1 << 12, 1 << 13, 1 << 16
TCLASS = 1 << 6
QKEY_OF_GROUP = 0x11111111  # perftest has the same


def mad_of(method, transaction, attribute, mask, record):
    header = struct.pack(">BBBBHHQHHI", 1, SA_CLASS, SA_VERSION, METHODS[method], 0, 0, transaction, attribute, 0, 0)
    return (header + bytes(12) + struct.pack(">QHHQ", 0, 0, 0, mask) + record).ljust(256, b"\0")


class Agent:
    def __init__(self, device, requests=0):
        """`requests`: bit m for those of method m that it takes."""
        self.umad = ctypes.CDLL("libibumad.so.3", use_errno=True)
        assert self.umad.umad_init() == 0
        self.port = self.umad.umad_open_port(device.encode(), 1)
        assert self.port >= 0, f"umad_open_port: {self.port}"
        self.agent = self.umad.umad_register(self.port, SA_CLASS, SA_VERSION, 1, (ctypes.c_long * 2)(requests, 0))
        assert self.agent >= 0, f"umad_register: {self.agent}"
        with open(f"/sys/class/infiniband/{device}/ports/1/sm_lid", encoding="ascii") as text:
            self.sm_lid = int(text.read(), 16)
        self.size = self.umad.umad_size()
        self.buffer = ctypes.create_string_buffer(self.size + 256)

    def send(self, mad, timeout_ms, retries):
        """Returns whether it went."""
        self.umad.umad_set_addr(self.buffer, self.sm_lid, 1, 0, ctypes.c_uint(0x80010000))
        ctypes.memmove(ctypes.addressof(self.buffer) + self.size, mad, 256)
        return self.umad.umad_send(self.port, self.agent, self.buffer, 256, timeout_ms, retries) == 0

    def answer(self, method):
        """What was received last, as it came."""
        self.buffer[self.size + METHOD_AT] = bytes([method])
        assert self.umad.umad_send(self.port, self.agent, self.buffer, 256, 0, 0) == 0

    def receive(self, patience_ms=30000):
        length = ctypes.c_int(256)
        assert self.umad.umad_recv(self.port, self.buffer, ctypes.byref(length), patience_ms) == self.agent
        assert self.umad.umad_status(self.buffer) == 0, f"umad_status {self.umad.umad_status(self.buffer)}"
        return self.buffer.raw[self.size:self.size + 256]


def flood(device):
    agent = Agent(device)
    for transaction in itertools.count(1):
        agent.send(mad_of("get", transaction, CLASS_PORT_INFO, 0, b""), 0, 0)
        if transaction == 100:
            print("flooding", flush=True)


def watch(device):
    agent = Agent(device, requests=1 << REPORT)
    # All LIDs, generic, subscribe, all types and traps; RespTimeValue 8, which is a millisecond; all producers.
    inform = struct.pack(">16sHHHBBHHII", bytes(16), 0xFFFF, 0, 0, 1, 1, 0xFFFF, 0xFFFF, 8, 0xFFFFFF)
    assert agent.send(mad_of("set", 0x21, INFORM_INFO, 0, inform), 5000, 2)
    status, = struct.unpack(">H", agent.receive()[4:6])
    print(f"status 0x{status:04x}", flush=True)
    while True:
        report = agent.receive(-1)
        if report[METHOD_AT] == REPORT:
            notice = report[DATA_AT:]
            trap, = struct.unpack(">H", notice[4:6])
            print(trap, *(ipaddress.IPv6Address(notice[at:at + 16]) for at in (16, 64)), flush=True)
            agent.answer(REPORT_RESPONSE)


def change_member(device, method, mgid, port_gid, join_state, *more):
    mask = MGID | PORT_GID | PKEY | JOIN_STATE
    if "create" in more:
        mask |= QKEY | SL | FLOW_LABEL | TCLASS
    record = bytes.fromhex(mgid) + bytes.fromhex(port_gid) + struct.pack(">IHBBHBBIBBBB", QKEY_OF_GROUP, 0, 0, 0, 0xFFFF, 0, 0, 0,
                                                                         int(join_state), 0, 0, 0)
    agent = Agent(device)
    assert agent.send(mad_of(method, 0x20, MCMEMBER_RECORD, mask, record), 5000, 2)
    answer = agent.receive()
    status, = struct.unpack(">H", answer[4:6])
    mlid, = struct.unpack(">H", answer[56 + 36:56 + 38])
    print(f"status 0x{status:04x} mlid 0x{mlid:04x}")


if __name__ == "__main__":
    if sys.argv[2] == "flood":
        flood(sys.argv[1])
    elif sys.argv[2] == "watch":
        watch(sys.argv[1])
    else:
        change_member(*sys.argv[1:])
