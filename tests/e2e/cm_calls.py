"""librdmacm by ctypes, as far as the tests call it themselves, and processes that can be told to call it and be killed.

A puppet is a process that has done nothing with RDMA before: it holds one channel and ids by name, does what it is told,
and answers with what came of it. It can so be ended between any two calls.
"""

import contextlib
import ctypes
import errno
import ipaddress
import json
import os
import select
import signal
import socket
import struct

# rdma_cm_event_type.
(ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR, CONNECT_REQUEST, CONNECT_RESPONSE, CONNECT_ERROR, UNREACHABLE, REJECTED,
 ESTABLISHED, DISCONNECTED, DEVICE_REMOVAL, MULTICAST_JOIN, MULTICAST_ERROR, ADDR_CHANGE, TIMEWAIT_EXIT) = range(16)
PS_TCP, PS_UDP, PS_IB = 0x106, 0x111, 0x13F
AF_IB = 27
PATIENCE_MS = 60000


class ConnParam(ctypes.Structure):
    _fields_ = [("private_data", ctypes.c_char_p), ("private_data_len", ctypes.c_uint8),
                ("responder_resources", ctypes.c_uint8), ("initiator_depth", ctypes.c_uint8),
                ("flow_control", ctypes.c_uint8), ("retry_count", ctypes.c_uint8), ("rnr_retry_count", ctypes.c_uint8),
                ("srq", ctypes.c_uint8), ("qp_num", ctypes.c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_void_p), ("listen_id", ctypes.c_void_p), ("event", ctypes.c_int), ("status", ctypes.c_int)]


class Channel(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int)]


def sockaddr(address, port):
    """IPv4."""
    return ctypes.create_string_buffer(struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton(address) + bytes(8))


def sockaddr_ib(gid, service):
    """Of the default partition, with the whole service ID."""
    return ctypes.create_string_buffer(struct.pack("=H", AF_IB) + struct.pack(">HI", 0xffff, 0) + ipaddress.ip_address(gid).packed
                                       + struct.pack(">QQQ", service, 0xffffffffffffffff, 0))


class Librdmacm:
    """Calls raise OSError. A channel and the ids on it, by names."""

    def __init__(self):
        self._lib = ctypes.CDLL("librdmacm.so.1", use_errno=True)
        self._lib.rdma_create_event_channel.restype = ctypes.POINTER(Channel)
        self._channel = self._lib.rdma_create_event_channel()
        if not self._channel:
            raise OSError(ctypes.get_errno(), "rdma_create_event_channel")
        self._ids = {}
        self._next_qpn = os.getpid() % 10000 * 1000 + 10

    def _call(self, name, *arguments):
        if getattr(self._lib, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    def _param(self):
        """Of a QP that is nobody's: connections do without. Each has another number."""
        self._next_qpn += 1
        return ctypes.byref(ConnParam(retry_count=7, rnr_retry_count=7, qp_num=self._next_qpn & 0xffffff))

    def create(self, name, space=PS_TCP):
        made = ctypes.c_void_p()
        self._call("rdma_create_id", self._channel, ctypes.byref(made), None, space)
        self._ids[name] = made

    def bind(self, name, address, port):
        self._call("rdma_bind_addr", self._ids[name], sockaddr(address, port))

    def bind_gid(self, name, gid, service):
        self._call("rdma_bind_addr", self._ids[name], sockaddr_ib(gid, service))

    def resolve_gid(self, name, gid, service):
        self._call("rdma_resolve_addr", self._ids[name], None, sockaddr_ib(gid, service), 2000)

    def set_paths(self, name, records):
        """RDMA_OPTION_IB_PATH, in hexadecimal."""
        data = bytes.fromhex(records)
        self._call("rdma_set_option", self._ids[name], 1, 1, data, ctypes.c_size_t(len(data)))

    def port(self, name):
        self._lib.rdma_get_src_port.restype = ctypes.c_uint16
        return socket.ntohs(self._lib.rdma_get_src_port(self._ids[name]))

    def reuse(self, name, value=1):
        self._call("rdma_set_option", self._ids[name], 0, 1, ctypes.byref(ctypes.c_int(value)), 4)

    def listen(self, name, backlog=0):
        self._call("rdma_listen", self._ids[name], backlog)

    def resolve(self, name, source, address, port):
        self._call("rdma_resolve_addr", self._ids[name], sockaddr(source, 0) if source else None, sockaddr(address, port), 2000)

    def route(self, name):
        self._call("rdma_resolve_route", self._ids[name], 2000)

    def connect(self, name):
        self._call("rdma_connect", self._ids[name], self._param())

    def accept(self, name):
        self._call("rdma_accept", self._ids[name], self._param())

    def reject(self, name):
        self._call("rdma_reject", self._ids[name], None, 0)

    def establish(self, name):
        self._call("rdma_establish", self._ids[name])

    def disconnect(self, name):
        self._call("rdma_disconnect", self._ids[name])

    def join(self, name, address):
        self._call("rdma_join_multicast", self._ids[name], sockaddr(address, 0), None)

    def destroy(self, name):
        self._call("rdma_destroy_id", self._ids.pop(name))

    def wait(self, timeout_ms=PATIENCE_MS):
        """Until an event waits, which stays where it is. False: none came."""
        return bool(_poll(self._channel.contents.fd, timeout_ms))

    def take(self, child=None, timeout_ms=PATIENCE_MS):
        """The next event as [type, status]; the id of a request gets the name `child`."""
        if not self.wait(timeout_ms):
            raise OSError(errno.ETIMEDOUT, "no event came")
        event = ctypes.POINTER(Event)()
        self._call("rdma_get_cm_event", self._channel, ctypes.byref(event))
        found = event.contents
        result = [found.event, found.status]
        if found.event == CONNECT_REQUEST:
            self._ids[child] = ctypes.c_void_p(found.id)
        self._call("rdma_ack_cm_event", event)
        return result

    def take_until(self, *wanted):
        """Takes events until one of those types comes; its status."""
        while True:
            kind, status = self.take("unwanted")
            if kind in wanted:
                return status

    def take_at_once(self):
        """rdma_get_cm_event on a channel that does not block."""
        os.set_blocking(self._channel.contents.fd, False)
        try:
            self._call("rdma_get_cm_event", self._channel, ctypes.byref(ctypes.POINTER(Event)()))
        finally:
            os.set_blocking(self._channel.contents.fd, True)

    def renew_channel(self):
        """Closes the channel, whatever waits there and whatever ids live on it, and opens another."""
        self._ids.clear()
        self._lib.rdma_destroy_event_channel(self._channel)
        self._channel = self._lib.rdma_create_event_channel()
        if not self._channel:
            raise OSError(ctypes.get_errno(), "rdma_create_event_channel")


def _poll(fd, timeout_ms):
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return poller.poll(timeout_ms)


class Puppet:
    """Its methods are those of Librdmacm."""

    def __init__(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._socket = ours

    def __getattr__(self, name):
        return lambda *arguments: self._ask(name, arguments)

    def _ask(self, name, arguments):
        self._socket.send(json.dumps([name, arguments]).encode())
        answer = self._socket.recv(4096)
        if not answer:
            raise RuntimeError(f"the process ended itself in {name}{arguments}")
        result, number, text = json.loads(answer)
        if text is not None:
            raise OSError(number, text)
        return result

    def error(self, name, *arguments):
        """The errno that the call fails with, by its name; None: it did not fail."""
        try:
            self._ask(name, arguments)
        except OSError as problem:
            return errno.errorcode.get(problem.errno, str(problem))
        return None

    def kill(self):
        if self.pid != 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._socket.close()
            self.pid = 0


def _serve(pipe):
    """Never returns."""
    with contextlib.suppress(BaseException):
        calls = None
        while request := pipe.recv(4096):
            name, arguments = json.loads(request)
            try:
                calls = calls or Librdmacm()
                answer = [getattr(calls, name)(*arguments), 0, None]
            except OSError as problem:
                answer = [None, problem.errno, str(problem)]
            pipe.send(json.dumps(answer).encode())
    os._exit(0)
