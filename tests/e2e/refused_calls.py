"""Runs a program some of whose system calls fail, as the seccomp profile of a container or an old kernel makes them:

    refused_calls.py memfd_create=EPERM add_seals=EINVAL -- PROGRAM ARGUMENTS...
"""

import ctypes
import errno
import os
import struct
import sys

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NR, _OFFSET_SECOND_ARGUMENT = 0, 24  # of struct seccomp_data
# Numbers of x86-64; the second argument that is refused, or None for each.
_CALLS = {"memfd_create": (319, None), "add_seals": (72, 1033)}  # fcntl(F_ADD_SEALS)


def words(*refused):
    """The command line in front of a program's."""
    return [sys.executable, __file__, *refused, "--"]


def _rule(text):
    """Instructions (code, jump if true, jump if false, value) that go on behind themselves unless the call is the one."""
    name, error = text.split("=")
    number, argument = _CALLS[name]
    end = [(_RETURN, 0, 0, _ERRNO | getattr(errno, error))]
    if argument is not None:
        end = [(_LOAD, 0, 0, _OFFSET_SECOND_ARGUMENT), (_IF_EQUAL, 0, 1, argument), *end]
    return [(_LOAD, 0, 0, _OFFSET_NR), (_IF_EQUAL, 0, len(end), number), *end]


def _refuse(rules):
    instructions = [one for rule in rules for one in _rule(rule)] + [(_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}")


if __name__ == "__main__":
    _end = sys.argv.index("--")
    _refuse(sys.argv[1:_end])
    os.execvp(sys.argv[_end + 1], sys.argv[_end + 1:])
