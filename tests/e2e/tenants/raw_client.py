"""A client of the daemon without a provider: says what it likes on the control socket. Numbers are those of abi/control.h."""

import array
import fcntl
import os
import re
import socket
import struct

import harness

MEMORY_FILE_BYTES = 1 << 47
CONVERTED = 1
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
QP_TYPES = {"RC": 2, "UC": 3, "UD": 4}  # ibv_qp_type
_ATTR_STATE, _ATTR_PKEY_INDEX, _ATTR_PORT, _ATTR_QKEY = 1, 16, 32, 64  # ibv_qp_attr_mask
_STATE_INIT = 1
_ADDRESS_VECTOR_BYTES = 32
_MAGIC = 0x75726E63
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def _operations():
    """{name: number} of enum class Op."""
    text = (harness.SOURCE / "abi/control.h").read_text(encoding="utf-8")
    body = re.search(r"enum class Op[^{]*\{(.*?)\};", text, re.DOTALL).group(1)
    names = re.findall(r"\bk(\w+)\b\s*(?:=\s*1)?\s*,", re.sub(r"//.*", "", body))
    return {name: number for number, name in enumerate(names, 1)}


OP = _operations()


def memory_file(size=MEMORY_FILE_BYTES):
    """A sparse one, as a provider makes it."""
    fd = os.memfd_create("memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return fd


def connect_unwanted(path):
    """Connects where one connection more is refused, and waits for the refusal: OSError with its errno. Says nothing: a connection with
    something unread in it is reset when it is closed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(harness.PATIENCE_S)
        connection.connect(str(path))
        error = struct.unpack_from("=i", connection.recv(1024), 12)[0]
        raise OSError(error, os.strerror(error))


class RawClient:
    """Says Hello. Methods return handles; OSError with the daemon's errno where it refuses."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(harness.PATIENCE_S)
        self.socket.connect(str(path))
        self.call("Hello", struct.pack("=II32s", harness.ABI_VERSION, 0, b"raw client"))

    def call(self, operation, body, fds=()):
        """What the reply has behind its header."""
        error, reply, given = self.exchange(operation, body, fds)
        for fd in given:
            os.close(fd)
        if error != 0:
            raise OSError(error, f"{operation}: {os.strerror(error)}")
        return reply

    def exchange(self, operation, body, fds=()):
        """Error, what the reply has behind its header, and descriptors that are the caller's."""
        header = struct.pack("=IIII", _MAGIC, OP[operation], 1, 16 + len(body))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([header + body], rights)
        reply, given, _, _ = self.socket.recvmsg(4096, socket.CMSG_LEN(4 * 64))
        return struct.unpack_from("=i", reply, 12)[0], reply[24:], [fd for _, _, data in given for fd in array.array("i", data[:len(data) // 4 * 4])]

    def open_device(self, name="urnic0"):
        return struct.unpack_from("=I", self.call("OpenDevice", struct.pack("=64s", name.encode())))[0]

    def alloc_pd(self, context):
        return struct.unpack_from("=I", self.call("AllocPd", struct.pack("=II", context, 0)))[0]

    def attach_memory(self, fd):
        self.call("AttachMemory", b"", [fd])

    def reg_mr(self, pd, address, length, flags=CONVERTED, access=LOCAL_WRITE):
        body = struct.pack("=IIQQQII", pd, access, address, length, address, flags, 0)
        return struct.unpack_from("=I", self.call("RegMr", body))[0]

    def dereg_mr(self, mr):
        self.call("DeregMr", struct.pack("=II", mr, 0))

    def alloc_mw(self, pd, kind=1):
        return struct.unpack_from("=I", self.call("AllocMw", struct.pack("=II", pd, kind)))[0]

    def create_cq(self, context, entries=16):
        return struct.unpack_from("=I", self.call("CreateCq", struct.pack("=IIIIQII", context, entries, 0, 0, 0, 0, 0)))[0]

    def create_qp(self, pd, cq, kind=QP_TYPES["RC"]):
        """Its handle and number."""
        body = struct.pack("=IIIIBBHIIIIIQII", pd, cq, cq, 0, kind, 0, 0, 4, 4, 1, 1, 0, 0, 0, 0)
        return struct.unpack_from("=II", self.call("CreateQp", body))

    def set_qkey(self, qp, qkey):
        """To INIT, with that Q_Key."""
        mask = _ATTR_STATE | _ATTR_PKEY_INDEX | _ATTR_PORT | _ATTR_QKEY
        attributes = struct.pack("=IBBBBIIIIIHBBBBBBBBBBI", mask, _STATE_INIT, 0, 0, 0, qkey, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)
        self.call("ModifyQp", struct.pack("=II", qp, 0) + attributes + bytes(_ADDRESS_VECTOR_BYTES))

    def open_xrcd_of_file(self, context, fd, create):
        return struct.unpack_from("=I", self.call("OpenXrcdOfFile", struct.pack("=II", context, int(create)), [fd]))[0]

    def close(self):
        self.socket.close()
