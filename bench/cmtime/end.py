#!/usr/bin/python3
"""One end of many connections that stay open: `end.py serve N ADDRESS` or `end.py connect N ADDRESS`.

librdmacm by ctypes, one event channel, a QP of its own for each connection, one CQ for all. Says in lines of JSON how far it
is; the connecting end continues with the end of all connections when a line comes.
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time

(ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_REQUEST, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT) = (0, 2, 4, 9, 10, 15)
PS_TCP, PORT, QPT_RC = 0x106, 7999, 2
# Handshakes at a time: a listener's backlog is bounded.
WINDOW = 256


class Id(ctypes.Structure):
    _fields_ = [("verbs", ctypes.c_void_p)]


class Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_void_p), ("listen_id", ctypes.c_void_p), ("event", ctypes.c_int), ("status", ctypes.c_int)]


class QpInitAttr(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("send_cq", ctypes.c_void_p), ("recv_cq", ctypes.c_void_p), ("srq", ctypes.c_void_p),
                *((name, ctypes.c_uint32) for name in ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline")),
                ("type", ctypes.c_int), ("sq_sig_all", ctypes.c_int)]


class ConnParam(ctypes.Structure):
    _fields_ = [("private_data", ctypes.c_char_p), ("private_data_len", ctypes.c_uint8), ("responder_resources", ctypes.c_uint8),
                ("initiator_depth", ctypes.c_uint8), ("flow_control", ctypes.c_uint8), ("retry_count", ctypes.c_uint8),
                ("rnr_retry_count", ctypes.c_uint8), ("srq", ctypes.c_uint8), ("qp_num", ctypes.c_uint32)]


def say(**found):
    print(json.dumps(found), flush=True)


class End:
    def __init__(self, total, address):
        self.cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
        self.verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        self.cm.rdma_create_event_channel.restype = self.verbs.ibv_create_cq.restype = ctypes.c_void_p
        self.channel = ctypes.c_void_p(self.cm.rdma_create_event_channel())
        self.address = ctypes.create_string_buffer(struct.pack("=HH", socket.AF_INET, socket.htons(PORT)) + socket.inet_aton(address) + bytes(8))
        self.total, self.cq, self.ids = total, None, set()
        self.open = self.ended = 0

    def call(self, name, *arguments):
        if getattr(self.cm, name)(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"{name} after {self.open} connections: {os.strerror(ctypes.get_errno())}")

    def create_id(self):
        made = ctypes.c_void_p()
        self.call("rdma_create_id", self.channel, ctypes.byref(made), None, PS_TCP)
        return made

    def create_qp(self, cm_id):
        self.ids.add(cm_id.value)
        context = ctypes.c_void_p(Id.from_address(cm_id.value).verbs)
        self.cq = self.cq or self.verbs.ibv_create_cq(context, 16, None, None, 0)
        attr = QpInitAttr(send_cq=self.cq, recv_cq=self.cq, max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1, type=QPT_RC)
        self.call("rdma_create_qp", cm_id, None, ctypes.byref(attr))

    def destroy(self, cm_id):
        self.ids.remove(cm_id.value)
        self.cm.rdma_destroy_qp(cm_id)
        self.call("rdma_destroy_id", cm_id)

    def take(self):
        """The next event: its type, and the id that it is of."""
        event = ctypes.POINTER(Event)()
        self.call("rdma_get_cm_event", self.channel, ctypes.byref(event))
        kind, status, cm_id = event.contents.event, event.contents.status, ctypes.c_void_p(event.contents.id)
        self.call("rdma_ack_cm_event", event)
        if status != 0 or kind not in (ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_REQUEST, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT):
            raise RuntimeError(f"event {kind} with status {status} after {self.open} connections")
        return kind, cm_id

    def param(self):
        return ctypes.byref(ConnParam(retry_count=7, rnr_retry_count=7))

    def serve(self):
        listener = self.create_id()
        self.call("rdma_bind_addr", listener, self.address)
        self.call("rdma_listen", listener, 2 * WINDOW)
        say(listens=True)
        while self.ended < self.total:
            kind, cm_id = self.take()
            if kind == CONNECT_REQUEST:
                self.create_qp(cm_id)
                self.call("rdma_accept", cm_id, self.param())
            elif kind == ESTABLISHED:
                self.open += 1
                if self.open == self.total:
                    say(open=self.open)
            elif kind == DISCONNECTED:
                self.call("rdma_disconnect", cm_id)
                self.destroy(cm_id)
                self.ended += 1
        self.call("rdma_destroy_id", listener)
        say(ended=self.ended)

    def begin_one(self):
        cm_id = self.create_id()
        self.call("rdma_resolve_addr", cm_id, None, self.address, 5000)

    def connect(self):
        begin = time.monotonic()
        begun = min(WINDOW, self.total)
        for _ in range(begun):
            self.begin_one()
        while self.open < self.total:
            kind, cm_id = self.take()
            if kind == ADDR_RESOLVED:
                self.call("rdma_resolve_route", cm_id, 5000)
            elif kind == ROUTE_RESOLVED:
                self.create_qp(cm_id)
                self.call("rdma_connect", cm_id, self.param())
            elif kind == ESTABLISHED:
                self.open += 1
                if begun < self.total:
                    self.begin_one()
                    begun += 1
        say(open=self.open, seconds=time.monotonic() - begin)
        sys.stdin.readline()
        begin = time.monotonic()
        for value in self.ids:
            self.call("rdma_disconnect", ctypes.c_void_p(value))
        while self.ended < self.total:
            kind, _ = self.take()
            self.ended += kind == DISCONNECTED
        for value in list(self.ids):
            self.destroy(ctypes.c_void_p(value))
        say(ended=self.ended, seconds=time.monotonic() - begin)


if __name__ == "__main__":
    role, count, where = sys.argv[1:]
    getattr(End(int(count), where), role)()
