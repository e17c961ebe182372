"""The kernel's own NFS/RDMA as the peer of ulp/rpcrdma: Linux in a virtual machine, over rxe.

nfs_client, a client of ours, asks the kernel's nfsd; and the kernel mounts what nfs_server, a server of ours, serves. Both once
with every packet captured, once with much data, and once while packets get lost. With much data both of ours
run in the guest, too, over rxe, nfs_client also beside the kernel's own client. Prints the table test x result, and compares it with
the one in docs/rpcrdma.md (--renew writes it, and the speeds into bench/RESULTS.md). Exit status 0: everything passed.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import capture
import cases
import guest as guests
import harness
import icrc
import image
import network
import nfs_guest
import nfs_mounted
import nfs_speed
import nfs_table
import sides
import wireshark
from nfs_mounted import Amount, Failed, must

PROGRAMS = harness.BUILD / "tests/interop"
LOSS_PERCENT = 2
# How the guest mounts ours; MOUNT goes by TCP.
MOUNT_OPTIONS = (f"rdma,port={nfs_guest.NFS_PORT},mountproto=tcp,mountport={nfs_guest.TCP_PORT},"
                 f"mountaddr={network.OUR_IPV4}")

# rxe's SENDs, and the answers to them: behind the loss of one, rxe fails to register memory ("rxe_reg_fast_mr: ... not free"), and that
# connection of the kernel's client stands still until its calls time out after a minute (docs/conformance/linux-rxe.md).
SENDS, ACKNOWLEDGE = (*range(6), 22, 23), 17
SPARED = {"lossyegress": SENDS, "lossyingress": (ACKNOWLEDGE,)}


@dataclasses.dataclass(frozen=True)
class Pass:
    name: str
    amount: Amount
    is_captured: bool = False
    loss_percent: int = 0
    seconds: int = 300
    is_compared: bool = False  # the speed of clients


PASSES = (Pass("captured", Amount(data_mb=4, fio_mb=2, files=300), is_captured=True),
          Pass("much", Amount(data_mb=100, fio_mb=32, files=10_000), is_compared=True),
          Pass("lost", Amount(data_mb=20, fio_mb=8, files=500), loss_percent=LOSS_PERCENT))


class Bench:
    """Guest, network and daemon."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.daemon = self.guest = self.host = self.theirs = self.ours = None
        self.captures = []
        self.speed = []  # rounds of nfs_speed

    def start(self):
        kernel, initramfs = nfs_guest.make()
        network.unshare()
        network.set_up()
        self.daemon = network.Daemon(self.directory)
        self.guest = guests.Guest(kernel, initramfs, self.directory, "tap,id=net,ifname=guest,script=no,downscript=no",
                                  network.PEER_MAC, network.guest_arguments(), memory_mb=nfs_guest.MEMORY_MB)
        network.wait_for_peer()
        self.host = nfs_guest.NfsHost(self.guest)
        self.host.serve()
        self.ours, self.theirs = sides.Ours(self.daemon), sides.Theirs(self.guest)

    def close(self):
        if self.guest is not None:
            self.guest.close()
        if self.daemon is not None:
            self.daemon.close()

    def program(self, name, **options):
        """The command line of a program of ours on our RNIC."""
        words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
        return self.daemon.command([str(PROGRAMS / name), *map(str, words)])

    @contextlib.contextmanager
    def losing(self, step, ways, spared=None):
        """While it lasts, packets get lost as the pass says."""
        if not step.loss_percent:
            yield
            return
        self.theirs.lose(step.loss_percent, ways, spared)
        try:
            yield
        finally:
            dropped = self.theirs.lose_nothing()
        must(sum(dropped) > 0, "nothing was lost")

    @contextlib.contextmanager
    def capturing(self, step, side):
        """Every packet of a captured pass, whose form and ICRC are checked behind it."""
        if not step.is_captured:
            yield
            return
        path = self.directory / f"nfs.{side}.pcap"
        recording = capture.Capture(path)
        try:
            yield
        finally:
            lost = recording.close()
        must(lost == 0, f"the capture lost {lost} packets")
        _, packets = icrc.read_capture(path)
        faulty = [f"{packet.name} PSN {packet.psn}: {', '.join(packet.faults)}" for packet in packets if packet.faults]
        must(not faulty, f"{len(faulty)} faulty packets, the first: {faulty[:1]}")
        self.captures.append((side, path))


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def counters_moved(before, after, allowed):
    return {name: after[name] - before.get(name, 0) for name in after
            if after[name] != before.get(name, 0) and name not in allowed}


class Watch:
    """What RNICs and kernels count and say while a side of a pass runs."""

    def __init__(self, bench, step, side):
        self._bench = bench
        # The check of the C interface kills clients, and WRITEs to their memory are given up.
        self._provoked = frozenset({"retry_exceeded_err"} if side == "guest" else ())
        # With much data on a busy machine a queue on the way, or half a second, may be too short.
        self._repeats = cases.IMPATIENT if step.is_captured else cases.REPEATS
        self._theirs, self._ours = bench.theirs.counters(), bench.ours.counters("ipv4")

    def result(self):
        """(state, text)."""
        must(self._bench.daemon.alive(), f"urnicd is gone:\n{self._bench.daemon.log()}")
        theirs = counters_moved(self._theirs, self._bench.theirs.counters(), cases.ALWAYS | self._repeats | self._provoked)
        # Connections end by DISCONNECT: what is under way then finds no QP, or one in error.
        harmless = cases.OTHERS | {"drop_unknown_qp", "drop_qp_state"}
        ours = {name: by for name, by in counters_moved(self._ours, self._bench.ours.counters("ipv4"), harmless).items()
                if name.startswith("drop_")}
        said = self._bench.host.complaints()
        if theirs or ours or said:
            return "FAILED", f"rxe's counters {theirs}, ours {ours}, the guest's kernel: {said}"
        return "passed", "no counter of errors moved, the guest's kernel is silent"


def run_client(bench, step):
    """{test: (state, text)} of our client against the kernel's server."""
    data, back = bench.directory / "data", bench.directory / "back"
    data.write_bytes(os.urandom(step.amount.data_mb * 1_000_000 + 321))
    # rxe's requests are not lost: it READs what is written, and a NAK behind lost responses completes a READ without its data.
    ways = sides.LOSSY_WAYS[1:]
    with bench.capturing(step, "client"), bench.losing(step, ways):
        result = harness.run(bench.program("nfs_client", server=network.PEER_IPV4, port=nfs_guest.NFS_PORT,
                                           mount_port=nfs_guest.MOUNT_PORT, data=data, back=back, files=step.amount.files),
                             step.seconds, cwd=bench.directory)
    results = {}
    for line in result.out.splitlines():
        name, _, rest = line.partition(" ")
        state, _, text = rest.partition(" ")
        if state in ("passed", "FAILED"):
            results[name] = (state, text)
    transport = result.out.rpartition("transport: ")[2].strip()
    results["version"] = ("passed" if "version=1 " in transport else "FAILED", transport or str(result))
    if results.get("write", ("",))[0] == "passed":
        there, ours = bench.host.sum_of(f"{nfs_guest.EXPORT}/data"), sha256(data)
        if there != ours:
            results["write"] = ("FAILED", f"the guest has {there}, not {ours}")
        if results.get("read", ("",))[0] == "passed" and sha256(back) != ours:
            results["read"] = ("FAILED", f"{sha256(back)} came back, not {ours}")
        bench.host.run(f"rm {nfs_guest.EXPORT}/data")
    if result.returncode != 0 and all(state == "passed" for state, _ in results.values()):
        results["version"] = ("FAILED", str(result))
    return results


class Server:
    """nfs_server on our RNIC."""

    def __init__(self, bench):
        self._bench = bench
        self._process = harness.start(bench.program("nfs_server", address=network.OUR_IPV4, port=nfs_guest.NFS_PORT,
                                                    tcp_port=nfs_guest.TCP_PORT))
        if harness.read_line(self._process).strip() != "ready":
            harness.end_group(self._process)
            raise Failed(f"nfs_server does not listen: {harness.finish(self._process)}")

    def read_by_ours(self):
        """The sum of "data" as our own client reads it, over version 2."""
        bench, back = self._bench, self._bench.directory / "back"
        result = harness.run(bench.program("nfs_client", server=network.OUR_IPV4, port=nfs_guest.NFS_PORT,
                                           mount_port=nfs_guest.TCP_PORT, only="read", back=back), 120)
        must(result.returncode == 0 and "version=2 " in result.out, f"our client: {result}")
        return sha256(back)

    def stop(self):
        """What the library counted."""
        self._process.send_signal(signal.SIGTERM)
        result = harness.finish(self._process, 60)
        must(result.returncode == 0, f"nfs_server: {result}")
        return result.out.strip()


def run_tests_in_mount(bench, step, server):
    results = {}
    for name, test in nfs_mounted.TESTS:
        began = time.monotonic()
        try:
            results[name] = ("passed", test(bench.host, step.amount, server.read_by_ours))
        except (Failed, guests.GuestError) as failure:
            results[name] = ("FAILED", str(failure))
            return results  # what is left in the mount would be in the next one's way
        print(f"interop: {step.name}, in the mount: {name}: {time.monotonic() - began:.1f} s", flush=True)
    return results


def run_server(bench, step):
    """{test: (state, text)} of the kernel's client on our server."""
    server = Server(bench)
    results = {}
    try:
        with bench.capturing(step, "server"), bench.losing(step, sides.LOSSY_WAYS, SPARED):
            mounted = bench.host.mount(network.OUR_IPV4, MOUNT_OPTIONS)
            must("proto=rdma" in mounted, mounted)
            results["mount"] = ("passed", mounted.split()[3])
            results.update(run_tests_in_mount(bench, step, server))
            bench.host.unmount()
    finally:
        counted = server.stop()
    results["mount"] = ("passed", f"{results.get('mount', ('', ''))[1]}; {counted}")
    return results


def run_own_over_rxe(host):
    """What our client says of our server, both in the guest: version 2, which Linux does not speak, over another RNIC than ours."""
    host.run(f"""{nfs_guest.SERVER} --address {network.PEER_IPV4} --port {nfs_guest.OUR_NFS_PORT} --tcp-port {nfs_guest.OUR_TCP_PORT} \
        >/tmp/server 2>&1 </dev/null & echo $! >/tmp/server.pid
        until grep -q ready /tmp/server || ! kill -0 $(cat /tmp/server.pid); do usleep 50000; done
        grep ready /tmp/server || {{ cat /tmp/server; false; }}""")
    said = host.run(f"""head -c 5000321 /dev/urandom >/tmp/data
        {nfs_guest.CLIENT} --server {network.PEER_IPV4} --port {nfs_guest.OUR_NFS_PORT} --mount-port {nfs_guest.OUR_TCP_PORT} \
            --data /tmp/data --back /tmp/back --files 300
        kill $(cat /tmp/server.pid)
        cmp /tmp/data /tmp/back && rm /tmp/data /tmp/back""", 300)
    must("FAILED" not in said and said.count(" passed ") >= 9 and "version=2 " in said, said)
    return said.rpartition("transport: ")[2].strip()


# Of rpcrdma_check. The others take minutes in the guest, or need urnic.
CHECKED = "*EverySizeAndForm*:*RpcHandles*:RpcCalls.Re*:RpcCalls.La*:RpcCalls.Back*:RpcCalls.TimeOut:RpcCalls.ALost*:RpcCalls.Disc*:RpcVersions*"


def run_interface(host):
    """What the tests of the C interface say of rxe, where others than we made the RNIC."""
    result = host.run(f"RPCRDMA_CHECK_ADDRESS={network.PEER_IPV4} {nfs_guest.CHECK} --gtest_filter='{CHECKED}' 2>&1", 300)
    return result.rpartition("[  PASSED  ] ")[2].split("\n")[0]


def run_beside(bench, step):
    """{test: (state, text)} of what runs in the guest alone: our client and server, our client and the kernel's own."""
    results = {"interface": ("passed", run_interface(bench.host)), "own": ("passed", run_own_over_rxe(bench.host))}
    bench.speed = nfs_speed.measure(bench.host, step.amount)
    results["speed"] = ("passed", "; ".join(nfs_speed.lines_of(bench.speed, step.amount.data_mb)))
    return results


SIDES = (("client", "nfs_client of ours, Linux nfsd", run_client), ("server", "Linux client, nfs_server of ours", run_server),
         ("guest", "all in the guest, over rxe", run_beside))


def run_all(bench, steps):
    """{(side, test): {pass: (state, text)}}."""
    results = {}
    for step in steps:
        for side, title, run in SIDES:
            if side == "guest" and not step.is_compared:
                continue
            began = time.monotonic()
            watch = Watch(bench, step, side)
            try:
                found = run(bench, step)
            except (Failed, OSError) as failure:
                found = {"all": ("FAILED", str(failure))}
            found["watch"] = watch.result()
            for name, (state, text) in found.items():
                results.setdefault((side, name), {})[step.name] = (state, text)
                print(f"interop: {step.name}, {title}: {name}: {state}: {text}", flush=True)
            print(f"interop: {step.name}, {title}: {time.monotonic() - began:.1f} s", flush=True)
    for side, what in wireshark.complaints(bench.captures, ("rpcordma",), wireshark.MISUNDERSTOOD_NFS):
        results.setdefault((side, "tshark"), {})["captured"] = ("FAILED", what)
    for side, path in bench.captures:
        kinds, wrong = wireshark.nfs_messages(path)
        text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        is_good = all(kinds.values()) and not wrong
        results.setdefault((side, "tshark"), {}).setdefault("captured", ("passed", text) if is_good else ("FAILED", f"{text}; {wrong}"))
        print(f"interop: {side}: tshark: {results[side, 'tshark']['captured']}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(prog="scripts/interop rpcrdma", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the captured pass alone")
    parser.add_argument("--renew", action="store_true", help="write the table in docs/rpcrdma.md")
    parser.add_argument("--keep", metavar="DIRECTORY", help="leave captures and logs there")
    parser.add_argument("--pass", dest="only", choices=[step.name for step in PASSES], help="this pass alone")
    options = parser.parse_args()
    if not guests.installable():
        print(f"interop: skipped: there is no {guests.QEMU} here, and it could not be installed")
        return 0
    wanted = "captured" if options.short else options.only
    steps = [step for step in PASSES if wanted in (None, step.name)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"urnic-nfs-{os.getpid()}-") as directory:
        bench = Bench(directory)
        try:
            bench.start()
            print(f"interop: the guest serves NFS after {time.monotonic() - began:.0f} s", flush=True)
            results = run_all(bench, steps)
        except (Failed, image.Missing, guests.GuestError, OSError) as failure:
            print(f"interop: {failure}")
            return 1
        finally:
            bench.close()
            if options.keep:
                shutil.copytree(directory, options.keep, dirs_exist_ok=True,
                                ignore=shutil.ignore_patterns("*.sock", "run", "data", "back"))
    if options.renew and bench.speed:
        nfs_speed.write(bench.speed, next(step.amount.data_mb for step in steps if step.is_compared))
    return nfs_table.end(results, steps, is_whole=len(steps) == len(PASSES), renew=options.renew,
                         seconds=time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
