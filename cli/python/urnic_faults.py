"""Faults in the packets of RNICs, for tests: `urnic_faults.drop(opcode="RC WRITE First", count=1)`.

Keys are those of `urnic fault add`, with underscores: device, direction, qpn, psn, opcode, iter, probability, seed, count, offset,
delay_us, packets. Each function returns a Fault, which also is a context manager that removes itself. The daemon is that of
URNIC_RUN_DIR, as `urnic run` and the fixture `rnics` set it, or the system's.
"""

import json
import subprocess

import urnic

_TYPES = ("drop", "corrupt", "ecn", "delay", "duplicate", "reorder")


class FaultError(Exception):
    """What the daemon, or `urnic fault`, says is wrong with a request."""


def _ask(*words):
    asked = subprocess.run([urnic.executable(), "fault", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if asked.returncode != 0:
        raise FaultError(asked.stderr.strip())
    return asked.stdout


def _entries():
    return json.loads(_ask("list", "--json"))["faults"]


class Fault:
    """A fault of the daemon, by its number."""

    def __init__(self, number):
        self.id = number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def _count(self, name):
        for entry in _entries():
            if entry["id"] == self.id:
                return entry[name]
        raise FaultError(f"fault {self.id} was removed")

    @property
    def seen(self):
        """Packets that every selector chose."""
        return self._count("seen")

    @property
    def hits(self):
        """Packets to which the fault was applied."""
        return self._count("hits")

    def remove(self):
        """Removes it, unless it was removed before."""
        if self.id in [entry["id"] for entry in _entries()]:
            _ask("remove", str(self.id))


def add(kind, **selectors):
    """Adds a fault of this type. Raises FaultError when the daemon refuses it."""
    if kind not in _TYPES:
        raise FaultError(f"there is no fault {kind!r}: it is one of {', '.join(_TYPES)}")
    words = [word for name, value in selectors.items() for word in ("--" + name.replace("_", "-"), str(value))]
    _ask("add", kind, *words)
    # Numbers count up.
    return Fault(max(entry["id"] for entry in _entries()))


def drop(**selectors):
    """Packets are lost."""
    return add("drop", **selectors)


def corrupt(**selectors):
    """One bit flips, where `offset` says."""
    return add("corrupt", **selectors)


def ecn(**selectors):
    """Packets are marked Congestion Experienced."""
    return add("ecn", **selectors)


def delay(**selectors):
    """Packets are held back for `delay_us` microseconds."""
    return add("delay", **selectors)


def duplicate(**selectors):
    """A copy follows, at once or `delay_us` microseconds later."""
    return add("duplicate", **selectors)


def reorder(**selectors):
    """Packets are held back until `packets` later ones to their QP went by, `delay_us` microseconds at most."""
    return add("reorder", **selectors)


def faults():
    """The faults in force."""
    return [Fault(entry["id"]) for entry in _entries()]


def clear():
    """Removes all faults."""
    _ask("clear")
