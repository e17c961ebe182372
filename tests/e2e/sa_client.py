"""A program of the stock libibumad that asks subnet administration.

`sa_client.py DEVICE METHOD MGID_HEX PORT_GID_HEX JOIN_STATE [create]`: a multicast member; METHOD is set or delete. Prints the status and
the MLID of the answer.
`sa_client.py DEVICE flood`: queries without end, whose answers it does not read. Prints a line when it has sent the first hundred."""

import ctypes
import itertools
import struct
import sys

SA_CLASS, SA_VERSION = 3, 2
METHODS = {"get": 0x01, "set": 0x02, "delete": 0x15}
CLASS_PORT_INFO, MCMEMBER_RECORD = 0x01, 0x38
# Components of an MCMemberRecord (IBA table 214).
MGID, PORT_GID, QKEY, PKEY, SL, FLOW_LABEL, JOIN_STATE = 1 << 0, 1 << 1, 1 << 2, 1 << 7, 1 << 12, 1 << 13, 1 << 16
TCLASS = 1 << 6
QKEY_OF_GROUP = 0x11111111  # perftest has the same


def mad_of(method, transaction, attribute, mask, record):
    header = struct.pack(">BBBBHHQHHI", 1, SA_CLASS, SA_VERSION, METHODS[method], 0, 0, transaction, attribute, 0, 0)
    return (header + bytes(12) + struct.pack(">QHHQ", 0, 0, 0, mask) + record).ljust(256, b"\0")


class Agent:
    def __init__(self, device):
        self.umad = ctypes.CDLL("libibumad.so.3", use_errno=True)
        assert self.umad.umad_init() == 0
        self.port = self.umad.umad_open_port(device.encode(), 1)
        assert self.port >= 0, f"umad_open_port: {self.port}"
        self.agent = self.umad.umad_register(self.port, SA_CLASS, SA_VERSION, 1, None)
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

    def receive(self):
        length = ctypes.c_int(256)
        assert self.umad.umad_recv(self.port, self.buffer, ctypes.byref(length), 30000) == self.agent
        assert self.umad.umad_status(self.buffer) == 0, f"umad_status {self.umad.umad_status(self.buffer)}"
        return self.buffer.raw[self.size:self.size + 256]


def flood(device):
    agent = Agent(device)
    for transaction in itertools.count(1):
        agent.send(mad_of("get", transaction, CLASS_PORT_INFO, 0, b""), 0, 0)
        if transaction == 100:
            print("flooding", flush=True)


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
    else:
        change_member(*sys.argv[1:])
