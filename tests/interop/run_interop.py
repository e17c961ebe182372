"""Linux rxe as the peer: runs the tests of cases.py between our RNIC and an rxe in a virtual machine, in both roles.

Every packet is captured and its ICRC checked by icrc.py; tshark may find nothing malformed; of rxe's counters only
those may move that the test says. Prints the table test x role x result, and compares it with the one in
docs/conformance/linux-rxe.md (--renew writes it). Exit status 0: everything passed.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import afterwards
import capture
import cases
import guest as guests
import harness
import icrc
import image
import network
import sides
import stock
import table
import wireshark

CACHE = harness.BUILD / "interop"
MACS = {side.name: tuple(bytes.fromhex(mac.replace(":", "")) for mac in side.macs) for side in (sides.Ours, sides.Theirs)}


# Linux says that an id listens a moment before it does, and perftest's server begins to listen for its second connection when the
# client may have asked for it already. What was rejected is run again while our daemon holds its connection manager's messages
# back, for longer each time, so that an emulated kernel beside other work gets there first.
HELD_BACK_S = (0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# The programs' words for an ACK timeout that has passed eight times (67 ms of the pingpongs), and how often they are run.
GAVE_UP, MOST_RUNS = ("transport retry counter exceeded", "Failed status 12"), 4


class Failed(Exception):
    """A run did not do what it has to; the text says how."""


class Bench:
    """Guest, network and daemon, up for all runs."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.daemon = self.guest = self.ours = self.theirs = None
        self._port = 20000
        self.captures = []

    def start(self):
        network.set_up()
        self.daemon = network.Daemon(self.directory)
        self.guest = guests.Guest(CACHE / "kernel", CACHE / "initramfs", self.directory,
                                  "tap,id=net,ifname=guest,script=no,downscript=no", network.PEER_MAC,
                                  network.guest_arguments())
        network.wait_for_peer()
        self.ours, self.theirs = sides.Ours(self.daemon), sides.Theirs(self.guest)

    def next_port(self):
        self._port += 1
        return self._port

    def close(self):
        if self.guest is not None:
            self.guest.close()
        if self.daemon is not None:
            self.daemon.close()


def moved(before, after):
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


def is_ready(case, server, port):
    """Waits until the client may begin."""
    if case.group:
        return server.joined(case.group, case.seconds)
    return (server.cm_listens if case.client and not case.by_tcp else server.listens)(port, case.seconds)


def run_programs(case, server, client, port):
    """Both programs; raises Failed with what they said."""
    texts = [command.format(device=side.device(case.gid), gid=side.gid(case.gid), port=port, mtu=case.mtu,
                            address=server.address_of(case.gid), own=side.address_of(case.gid))
             for side, command in ((server, case.command), (client, case.client or case.command))]
    dial = f" --connect {server.address}" if texts[1].startswith("peer ") else "" if case.client else f" {server.address}"
    serving = server.start(texts[0], case.seconds)
    if not is_ready(case, server, port):
        serving.stop()
        serving.wait(20)
        raise Failed(f"the server does not listen: {serving.output}")
    asking = client.start(texts[1] + dial, case.seconds)
    asking.wait(case.seconds + 30)
    if asking.status != 0:
        # What waits for a client that failed would wait until its time is over.
        if not guests.wait_until(serving.ended, 2):
            serving.stop()
    if case.serves_on and asking.status == 0:
        serving.stop()
    serving.wait(case.seconds + 30)
    if asking.status != 0 or (serving.status != 0 and not case.serves_on):
        raise Failed(f"server ({server.name}) status {serving.status}, client ({client.name}) {asking.status}\n"
                     f"--- {texts[0]}\n{serving.output}\n--- {texts[1]}{dial}\n{asking.output}")


def run_until_accepted(bench, case, server, client):
    for seconds in HELD_BACK_S:
        try:
            with bench.daemon.holding_back_cm(seconds):
                return run_programs(case, server, client, bench.next_port())
        except Failed as failure:
            # The last is rping's own race, after all has gone well (docs/testing.md).
            is_early = any(word in str(failure).lower() for word in ("rejected", "refused", "cannot connect",
                                                                     "rdma_get_cm_event: bad file descriptor"))
            if not case.client or not is_early or seconds == HELD_BACK_S[-1]:
                raise
            print(f"interop: {case.name}, {client.device(case.gid)} as client: rejected, once more", flush=True)
    return None


def check_capture(case, client, path, lost):
    """Raises Failed when the capture shows what it must not, or does not show what it must."""
    if lost != 0:
        raise Failed(f"the capture lost {lost} packets")
    _, packets = icrc.read_capture(path)
    faulty = [f"{packet.name} PSN {packet.psn}: {', '.join(packet.faults)}" for packet in packets if packet.faults]
    if faulty:
        raise Failed(f"{len(faulty)} faulty packets, the first: {faulty[0]}")
    if any(icrc.refusal_sender(frame) for frame in icrc.frames(path)):
        raise Failed("a kernel answers RoCE packets with ICMP: port unreachable")
    if not any(packet.sender in MACS[client.name] for packet in packets):
        raise Failed("the capture has no RoCE packet of the client's")
    seen = {packet.name for packet in packets} | {packet.answer for packet in packets}
    missing = [kind for kind in case.shows if kind not in seen]
    if missing:
        raise Failed(f"the capture has no {', no '.join(missing)}")
    for packet in packets:
        if (packet.vlan is not None and packet.vlan & 0xFFF) != (network.VLAN if case.gid == "vlan" else False):
            raise Failed(f"{packet.name} PSN {packet.psn}: VLAN tag {packet.vlan}")
    return packets


def check_counters(case, theirs, ours, packets):
    strangers = {name: by for name, by in theirs.items() if name not in cases.ALWAYS | case.moves}
    if strangers:
        raise Failed(f"rxe's counters moved: {strangers}")
    strangers = {name: by for name, by in ours.items() if name.startswith("drop_") and name not in cases.OTHERS | case.drops}
    if (case.ends_alone or cases.REFUSED <= case.drops) and 0 < ours.get("drop_unknown_qp", 0) <= afterwards.count(packets, MACS["ours"]):
        del strangers["drop_unknown_qp"]
    if strangers:
        raise Failed(f"our counters moved: {strangers}")


def run_one(bench, case, server, client, turn):
    """Number of packets. Raises Failed."""
    path = bench.directory / f"{case.name}.{client.name}{f'.{turn}' if turn else ''}.pcap"
    before = bench.theirs.counters(), bench.ours.counters(case.gid)
    recording = capture.Capture(path)
    try:
        if case.loss:
            answers_alone = client is bench.theirs and case.loses_answers_to_rxe_alone
            bench.theirs.lose(case.loss, sides.LOSSY_WAYS[1:] if answers_alone else sides.LOSSY_WAYS)
        try:
            run_until_accepted(bench, case, server, client)
        finally:
            dropped = bench.theirs.lose_nothing() if case.loss else None
    finally:
        lost = recording.close()
    if dropped is not None and sum(dropped) == 0:
        raise Failed("nothing was lost")
    packets = check_capture(case, client, path, lost)
    check_counters(case, moved(before[0], bench.theirs.counters()), moved(before[1], bench.ours.counters(case.gid)), packets)
    bench.captures.append((f"{case.name}, {client.device(case.gid)} as client", path))
    return len(packets)


def rnr_refusals(bench, case):
    if not case.rnr_ends_it:
        return 0
    return sum(side.get("retry_rnr_exceeded_err", 0) for side in (bench.theirs.counters(), bench.ours.counters(case.gid)))


def run_in_role(bench, case, server, client, turn):
    """(state, text) of one run; raises GuestError when nothing more can be run."""
    for _ in range(MOST_RUNS):
        refusals = rnr_refusals(bench, case)
        try:
            result = "passed", f"{run_one(bench, case, server, client, turn)} packets"
        except (Failed, guests.GuestError, OSError, ValueError) as failure:
            result = "FAILED", str(failure)
        if not bench.daemon.alive():
            raise guests.GuestError(f"urnicd is gone:\n{bench.daemon.log()}")
        has_given_up = case.gives_up_soon and any(words in result[1] for words in GAVE_UP)
        has_met_no_receive = result[0] == "FAILED" and rnr_refusals(bench, case) != refusals
        if not has_given_up and not has_met_no_receive:
            break
        print(f"interop: {case.name}, {client.device(case.gid)} as client: no answer in time, once more", flush=True)
    return result


def run_all(bench, wanted, keep, repeat):
    results = {}
    turns = [(turn, number, case) for turn in range(repeat) for number, case in enumerate(wanted, 1)]
    for turn, number, case in turns:
        for client, server in ((bench.ours, bench.theirs), (bench.theirs, bench.ours)):
            began = time.monotonic()
            key = case.name, client.name
            if case.not_from_rxe and client is bench.theirs:
                results[key] = (table.NOT_RUN, case.not_from_rxe)
                continue
            state, text = run_in_role(bench, case, server, client, turn)
            if results.get(key, ("passed",))[0] == "passed":
                results[key] = (state, text)
            print(f"interop: {number}/{len(wanted)} {case.name}, {client.device(case.gid)} as client: {state} "
                  f"({time.monotonic() - began:.1f} s): {text}", flush=True)
    for where, what in wireshark.complaints(bench.captures):
        key = next(key for key in results if where.startswith(f"{key[0]}, ") and
                   (key[1] == "ours") == (" urnic" in where))
        print(f"interop: {where}: tshark: {what}")
        results[key] = ("FAILED", f"tshark: {what}")
    if keep:
        shutil.copytree(bench.directory, keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "run"))
    return results


def prepare():
    """Kernel and initramfs. Raises image.Missing."""
    kernel, _ = image.make(CACHE, [sides.PEER_PROGRAM, *map(image.find_program, stock.PROGRAMS)], stock.files())
    link = CACHE / "kernel"
    link.unlink(missing_ok=True)
    link.symlink_to(kernel)


def skip(reason):
    print(f"interop: skipped: {reason}")
    table.write_report({}, reason)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/interop", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the tests")
    parser.add_argument("--renew", action="store_true", help="write the table in docs/conformance/linux-rxe.md")
    parser.add_argument("--keep", metavar="DIRECTORY", help="leave captures and logs there")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run all N times; one failure is enough to fail")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="all without")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{case.name}\t{case.what}" for case in cases.CASES))
        return 0
    try:
        wanted = cases.find(options.tests)
    except KeyError as error:
        parser.error(f"there is no test {error}; --list prints all")
    if not guests.installable():
        return skip(f"there is no {guests.QEMU} here, and it could not be installed")
    try:
        return run(wanted, options)
    except image.Missing as missing:
        print(f"interop: the virtual machine cannot be made: {missing}")
    except guests.GuestError as error:
        print(f"interop: {error}")
    except OSError as error:
        print(f"interop: {error}\nA network of its own needs root, or user namespaces (sysctl -w "
              "kernel.unprivileged_userns_clone=1) and a /dev/net/tun that everybody may open.")
    return 1


def run(wanted, options):
    began = time.monotonic()
    prepare()
    network.unshare()
    with tempfile.TemporaryDirectory(prefix=f"urnic-interop-{os.getpid()}-") as directory:
        bench = Bench(directory)
        try:
            bench.start()
            print(f"interop: the guest is up after {time.monotonic() - began:.0f} s", flush=True)
            results = run_all(bench, wanted, options.keep, options.repeat)
        finally:
            bench.close()
    return table.end(results, wanted, renew=options.renew, whole=not options.tests, seconds=time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
