"""Runs suites, each under `urnic run --standalone --`, and says which of them pass. See docs/conformance/suites.md.

A suite prints a line for each check and a summary line; exit status 0: every check did what the checked-in list
(tests/suites/lists) says. The long forms take about an hour, --short three minutes.
"""

import argparse
import contextlib
import ctypes
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

import verdict
import harness
import rdma_core_tests

SUITES = [path.stem.removeprefix("suite_") for path in sorted(verdict.HERE.glob("suite_*.py"))]
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def own_network():
    """Gives this process and all it starts a loopback interface of their own. Raises OSError where that is forbidden."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None).unshare(CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError("unshare")
    if user != 0:
        pathlib.Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        pathlib.Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        pathlib.Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16xh22x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[0]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def own_network_where_allowed():
    """No TCP port collides with another run's then. Otherwise ports are drawn free, and that has to do."""
    # A child tries: who fails half-way has no user of its own any more.
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            own_network()
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1] == 0:
        own_network()


def main():
    parser = argparse.ArgumentParser(prog="scripts/suites", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the form for CI")
    parser.add_argument("--seed", type=int, default=1, help="for what is drawn at random (default 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only checks whose name contains TEXT")
    parser.add_argument("--renew", action="store_true",
                        help="write the lists anew; what does not pass gets a ? instead of a reason, to be replaced")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    options = parser.parse_args()
    for name in options.suites:
        if name not in SUITES:
            parser.error(f"there is no suite {name}; there are {', '.join(SUITES)}")
    if "pyverbs" in (options.suites or SUITES):
        rdma_core_tests.provide()  # while the network is there
    own_network_where_allowed()
    arguments = [*(["--short"] if options.short else []), "--seed", str(options.seed), f"--only={options.only}",
                 *(["--renew"] if options.renew else [])]
    verdicts, began = {}, time.monotonic()
    for name in options.suites or SUITES:
        print(f"\n== Suite {name}", flush=True)
        command = [harness.URNIC, "run", "--standalone", "--", "/usr/bin/python3", verdict.HERE / f"suite_{name}.py"]
        verdicts[name] = subprocess.run([*command, *arguments], env=harness.clean_environment(), check=False).returncode
    print(f"\n== Verdict after {time.monotonic() - began:.0f} s")
    for name, status in verdicts.items():
        print(f"suite {name}: {'passed' if status == 0 else f'FAILED (status {status})'}")
    return 0 if not any(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
