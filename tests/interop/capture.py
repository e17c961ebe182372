"""Captures by libpcap itself, which is at the last packet the moment it has come. (dumpcap writes what it has twice a second;
tcpdump wants to become another user, whom a user namespace does not have.)"""

import ctypes
import os
import socket
import threading

import guest as guests
import network

ERROR_BYTES = 256  # PCAP_ERRBUF_SIZE
# Not more than a frame can have: the kernel keeps so much room for each.
SNAP_LENGTH = network.MTU + 32
BUFFER_BYTES = 64 << 20
NETMASK_UNKNOWN = 0xFFFFFFFF
DISCARD_PORT = 9  # RFC 863


class Program(ctypes.Structure):
    """struct bpf_program."""

    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.c_void_p)]


class Statistics(ctypes.Structure):
    """struct pcap_stat."""

    _fields_ = [("received", ctypes.c_uint), ("dropped", ctypes.c_uint), ("dropped_by_interface", ctypes.c_uint)]


LIBPCAP = ctypes.CDLL("libpcap.so.0.8")
for name in ("pcap_create", "pcap_dump_open"):
    getattr(LIBPCAP, name).restype = ctypes.c_void_p
LIBPCAP.pcap_geterr.restype = ctypes.c_char_p


class Capture:
    """Every packet on "wire" that is no programs' own TCP, into a file."""

    def __init__(self, path):
        self.path = path
        said = ctypes.create_string_buffer(ERROR_BYTES)
        self._handle = ctypes.c_void_p(LIBPCAP.pcap_create(b"wire", said))
        if not self._handle:
            raise OSError(f"no capture: {said.value.decode()}")
        LIBPCAP.pcap_set_snaplen(self._handle, SNAP_LENGTH)
        LIBPCAP.pcap_set_promisc(self._handle, 1)
        LIBPCAP.pcap_set_immediate_mode(self._handle, 1)
        LIBPCAP.pcap_set_buffer_size(self._handle, BUFFER_BYTES)
        self._must(LIBPCAP.pcap_activate(self._handle) >= 0)
        program = Program()
        self._must(LIBPCAP.pcap_compile(self._handle, ctypes.byref(program), b"not tcp", 1, NETMASK_UNKNOWN) == 0)
        self._must(LIBPCAP.pcap_setfilter(self._handle, ctypes.byref(program)) == 0)
        LIBPCAP.pcap_freecode(ctypes.byref(program))
        self._file = ctypes.c_void_p(LIBPCAP.pcap_dump_open(self._handle, os.fsencode(path)))
        self._must(self._file)
        # libpcap's own callback writes to the file: Python sees no packet.
        self._thread = threading.Thread(target=LIBPCAP.pcap_loop, args=(self._handle, -1, LIBPCAP.pcap_dump, self._file))
        self._thread.start()

    def _must(self, done):
        if not done:
            raise OSError(f"no capture: {LIBPCAP.pcap_geterr(self._handle).decode()}")

    def _has_end(self, mark):
        LIBPCAP.pcap_dump_flush(self._file)
        with open(self.path, "rb") as file:
            file.seek(max(0, os.path.getsize(self.path) - 65536))
            return mark in file.read()

    def close(self):
        """How many packets were dropped before they were written. A datagram of ours goes last and is waited for; from a port
        that no protocol has, where Wireshark would look for what the port that it goes to does not tell."""
        mark = f"the end of {self.path}".encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.bind(("", DISCARD_PORT))

            def has_come():
                # Again and again: one that waits for the neighbour's address may be dropped.
                last.sendto(mark, (network.PEER_IPV4, DISCARD_PORT))
                return self._has_end(mark)
            complete = guests.wait_until(has_come, 60, 0.1)
        LIBPCAP.pcap_breakloop(self._handle)
        self._thread.join()
        statistics = Statistics()
        LIBPCAP.pcap_stats(self._handle, ctypes.byref(statistics))
        LIBPCAP.pcap_dump_close(self._file)
        LIBPCAP.pcap_close(self._handle)
        if not complete:
            raise OSError("the capture does not come to the end")
        return statistics.dropped
