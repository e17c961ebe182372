"""Multicast members as a program makes them with the stock libibumad: `sa_client.py DEVICE METHOD MGID_HEX PORT_GID_HEX JOIN_STATE [create]`.

METHOD is set or delete. Prints the status and the MLID of the answer."""

import ctypes
import struct
import sys

SA_CLASS, SA_VERSION = 3, 2
METHODS = {"set": 0x02, "delete": 0x15}
MCMEMBER_RECORD = 0x38
# Components of an MCMemberRecord (IBA table 214).
MGID, PORT_GID, QKEY, PKEY, SL, FLOW_LABEL, JOIN_STATE = 1 << 0, 1 << 1, 1 << 2, 1 << 7, 1 << 12, 1 << 13, 1 << 16
TCLASS = 1 << 6
QKEY_OF_GROUP = 0x11111111  # perftest has the same


def main(device, method, mgid, port_gid, join_state, *more):
    umad = ctypes.CDLL("libibumad.so.3", use_errno=True)
    assert umad.umad_init() == 0
    port = umad.umad_open_port(device.encode(), 1)
    assert port >= 0, f"umad_open_port: {port}"
    agent = umad.umad_register(port, SA_CLASS, SA_VERSION, 1, None)
    assert agent >= 0, f"umad_register: {agent}"
    with open(f"/sys/class/infiniband/{device}/ports/1/sm_lid", encoding="ascii") as text:
        sm_lid = int(text.read(), 16)

    mask = MGID | PORT_GID | PKEY | JOIN_STATE
    if "create" in more:
        mask |= QKEY | SL | FLOW_LABEL | TCLASS
    record = bytes.fromhex(mgid) + bytes.fromhex(port_gid) + struct.pack(">IHBBHBBIBBBB", QKEY_OF_GROUP, 0, 0, 0, 0xFFFF, 0, 0, 0,
                                                                         int(join_state), 0, 0, 0)
    header = struct.pack(">BBBBHHQHHI", 1, SA_CLASS, SA_VERSION, METHODS[method], 0, 0, 0x20, MCMEMBER_RECORD, 0, 0)
    mad = (header + bytes(12) + struct.pack(">QHHQ", 0, 0, 0, mask) + record).ljust(256, b"\0")

    size = umad.umad_size()
    buffer = ctypes.create_string_buffer(size + 256)
    umad.umad_set_addr(buffer, sm_lid, 1, 0, ctypes.c_uint(0x80010000))
    ctypes.memmove(ctypes.addressof(buffer) + size, mad, 256)
    assert umad.umad_send(port, agent, buffer, 256, 5000, 2) == 0
    length = ctypes.c_int(256)
    assert umad.umad_recv(port, buffer, ctypes.byref(length), 30000) == agent
    assert umad.umad_status(buffer) == 0, f"umad_status {umad.umad_status(buffer)}"
    answer = buffer.raw[size:size + 256]
    status, = struct.unpack(">H", answer[4:6])
    mlid, = struct.unpack(">H", answer[56 + 36:56 + 38])
    print(f"status 0x{status:04x} mlid 0x{mlid:04x}")


if __name__ == "__main__":
    main(*sys.argv[1:])
