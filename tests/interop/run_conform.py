#!/usr/bin/python3
"""urnic conform against Linux rxe in the virtual machine of scripts/interop.

usage: run_conform.py [--cm | --cm-listen] [--release NAME] [--resume] [--again] [--label TEXT] [--profile NAME] [--json FILE]
                      [--junit FILE] [--html FILE] [--evidence DIRECTORY] [CASE...]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import conform_results
import guest as guests
import harness
import image
import network

TESTER, AGENT = harness.BUILD / "conform/urnic-conform", harness.BUILD / "conform/urnic-conform-agent"
# The guest is emulated: what it does takes as long as it takes.
PATIENCE_S = 1800
# Options of the tester.
TAKEN = ("label", "profile", "json", "junit", "html", "evidence", "attempts")

# Behind the first of these the agent answers no more in Debian's kernel 6.1.0-56: something of the QP or the region cannot be
# destroyed. The others are about the same, so they are played only when they are named.
HANGS = {"ResponderLength." + name for name in (
    "WriteOnlyUnlikeItsDmaLength", "WriteFirstOfOnePacket", "WriteMiddleBeyondItsDmaLength", "WriteLastUnlikeItsDmaLength",
    "DmaLengthOf2To31", "PadUnlikeDmaLength", "PadBeyondThePayload")}


def live_cases():
    listed = subprocess.run([TESTER, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    cases = [line.split("\t")[:3] for line in listed]
    return [name for name, _, kind in cases if kind == "live" and name not in HANGS]


def start_agent(guest):
    """Whether it listens; else it says why not."""
    guest.start("exec urnic-conform-agent >/tmp/agent.log 2>&1", PATIENCE_S)
    listens = guest.run("for i in $(seq 600); do grep -q ':489E ' /proc/net/tcp /proc/net/tcp6 && break; "
                        "usleep 100000; done; cat /tmp/agent.log", 120)
    if "port 18590" not in listens:
        print(f"the agent does not start: {listens}", file=sys.stderr)
    return "port 18590" in listens


def start_listener(guest):
    """rping, which ends at connections that come to nothing, again and again."""
    guest.start(f"while :; do rping -s -P -a {network.PEER_IPV4} >/tmp/rping.log 2>&1; usleep 50000; done", PATIENCE_S)
    listens = guest.run("for i in $(seq 600); do rdma resource show cm_id | grep -q LISTEN && break; usleep 100000; done; "
                        "rdma resource show cm_id; cat /tmp/rping.log", 120)
    if "LISTEN" not in listens:
        print(f"rping does not listen: {listens}", file=sys.stderr)
    return "LISTEN" in listens


def start_client(guest):
    """rping, which ends with its connection, again and again."""
    guest.start(f"while :; do rping -c -C 1 -a {network.OUR_IPV4} >/tmp/rping.log 2>&1; usleep 50000; done", PATIENCE_S)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in TAKEN:
        parser.add_argument(f"--{name}")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--again", action="store_true", help="judge what was inconclusive once more; needs --json")
    sides = parser.add_mutually_exclusive_group()
    sides.add_argument("--cm", action="store_true", help="no agent: rping listens")
    sides.add_argument("--cm-listen", action="store_true", help="no agent: the tester listens, and rping connects")
    parser.add_argument("--release", help="of Debian, whose kernel it is; this machine's without")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    if options.again and not options.json:
        parser.error("--again needs --json FILE, which says what was inconclusive")
    if not guests.installable():
        print(f"there is no {guests.QEMU} here")
        return 77
    kernel, initramfs = image.make(harness.BUILD / "interop", [AGENT], name=f"initramfs-conform{options.release or ''}",
                                   release=options.release)
    with tempfile.TemporaryDirectory(prefix=f"urnic-conform-{os.getpid()}-") as directory:
        network.unshare()
        network.set_up()
        network.ip("addr", "add", f"{network.SECOND_IPV4}/24", "dev", "port")
        guest = guests.Guest(kernel, initramfs, directory, "tap,id=net,ifname=guest,script=no,downscript=no", network.PEER_MAC,
                             network.guest_arguments())
        try:
            network.wait_for_peer()
            without_agent = ["--cm"] if options.cm else ["--cm-listen"] if options.cm_listen else []
            start = start_listener if options.cm else start_client if options.cm_listen else start_agent
            if not start(guest):
                return 2
            words = [TESTER, network.PEER_IPV4, "--port", "af_packet:port", "--yes", *without_agent]
            words += options.cases or ([] if without_agent else live_cases())
            words += ["--resume"] if options.resume else []
            for name in TAKEN:
                if getattr(options, name):
                    words += [f"--{name}", getattr(options, name)]
            status = subprocess.run(words, check=False, timeout=PATIENCE_S).returncode
            if options.again and status in (0, 1) and conform_results.has_inconclusive(options.json):
                status = subprocess.run([*words, "--resume"], check=False, timeout=PATIENCE_S).returncode
            return status
        finally:
            guest.close()


if __name__ == "__main__":
    sys.exit(main())
