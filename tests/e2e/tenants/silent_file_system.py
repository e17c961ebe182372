"""A file system in user space with one readable file, `file`, that stops answering when it is told to. Needs root."""

import ctypes
import os
import struct
import threading

_IN_HEADER, _OUT_HEADER = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
_ATTR = struct.Struct("=QQQQQQIIIIIIIIII")
# linux/fuse.h
_LOOKUP, _FORGET, _GETATTR, _OPEN, _INIT, _BATCH_FORGET = 1, 2, 3, 14, 26, 42
_ROOT, _FILE = 1, 2
_ENOSYS = 38
_MNT_FORCE, _MNT_DETACH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


def _attributes(node):
    mode = 0o40755 if node == _ROOT else 0o100444
    return _ATTR.pack(node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class SilentFileSystem:
    """Mounted at `directory` from the start. Attributes are never cached: who asks for them asks this thread."""

    def __init__(self, directory):
        self.directory, self.is_silent = directory, False
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _libc.mount(b"silent", os.fsencode(directory), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def end(self):
        """Whoever waits for an answer gets an error: nobody serves the device any more."""
        _libc.umount2(os.fsencode(self.directory), _MNT_FORCE | _MNT_DETACH)

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except OSError:  # unmounted
                return
            _, what, unique, node, *_ = _IN_HEADER.unpack_from(request)
            if self.is_silent or what in (_FORGET, _BATCH_FORGET):
                continue
            answer = self._answer(what, node)
            error, body = (0, answer) if answer is not None else (-_ENOSYS, b"")
            os.write(self.device, _OUT_HEADER.pack(_OUT_HEADER.size + len(body), error, unique) + body)

    @staticmethod
    def _answer(what, node):
        if what == _INIT:
            return struct.pack("=IIIIHHIIHHI7I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, 0, *[0] * 7)
        if what == _LOOKUP:
            return struct.pack("=QQQQII", _FILE, 0, 1000, 0, 0, 0) + _attributes(_FILE)
        if what == _GETATTR:
            return struct.pack("=QII", 0, 0, 0) + _attributes(node)
        if what == _OPEN:
            return struct.pack("=QII", 1, 0, 0)
        return None
