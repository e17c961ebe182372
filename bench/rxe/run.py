"""urnic beside Linux rxe in one boot: the same perftest programs and cmtime in one virtual machine, over both in turn.

A guest with two processors and no KVM has rxe0, which talks to itself, and an urnicd with two RNICs joined by a wire.
Each round measures every figure over rxe, then over urnic, so that what the machine does meanwhile meets both. Emulation
is slow and noisy: only the ratios mean something. Writes the table in bench/RESULTS.md.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tests/e2e"), str(HERE.parent.parent / "tests/interop")]

import guest as guests
import harness
import image

WRITES, READS = "WRITE 64 KB, MB/s", "READ 64 KB, MB/s"
# (what, program and arguments, column of the figure behind the size, larger is better, what it is multiplied with)
FIGURES = (
    (WRITES, "ib_write_bw -s 65536 -n 3000", 2, True, 1),
    (READS, "ib_read_bw -s 65536 -n 3000", 2, True, 1),
    ("SEND 8 B one way, sleeping, us", "ib_send_lat -s 8 -n 3000 -e", 3, False, 1),
    ("SEND 8 B, messages/s", "ib_send_bw -s 8 -n 20000", 3, True, 1e6),
)
BEGIN = "<!-- table beside rxe: scripts/bench rxe writes it -->"
END = "<!-- end of the table beside rxe -->"
SOCKET = "/run/urnic"
CONFIG = f"""[daemon]
run_dir = "{SOCKET}"
workers = 1
hugepages = false
""" + "".join(f"""[[rnic]]
name = "urnic{i}"
port = "fabric"
offload = "off"
fabric = "bench"
ipv4 = "198.18.0.{i + 1}/24"
""" for i in range(2))
# {before}: how a program is started; {server}, {client}: their devices.
SCRIPT = """{before} {program} -F -x 1 -d {server} -p {port} >/tmp/server 2>&1 &
until grep -q ':{hex_port} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 20000; done
{before} {program} -F -x 1 -d {client} -p {port} 127.0.0.1 2>&1
status=$?
wait $! || status=1
[ $status = 0 ] || cat /tmp/server
exit $status"""


CONNECTIONS = 200
CMTIME = "cmtime -c 200: connections made and ended/s"
# How many times as good as rxe: at least this; 1 is ahead of it.
TARGETS = dict.fromkeys([what for what, *_ in FIGURES], 1) | {WRITES: 4, READS: 4, CMTIME: 1}
# Connections made and ended by rdma_cm: {before} as above, {server} and {client} its addresses, {listens} tells that it listens.
CMTIME_SCRIPT = """{before} cmtime -b {server} -p {port} -c {count} >/tmp/server 2>&1 &
until {listens}; do usleep 20000; done
{before} cmtime -b {client} -s {server} -p {port} -c {count} 2>&1
status=$?
kill $! && wait $!
[ $status = 0 ] || cat /tmp/server
exit $status"""


def connections_per_second(output):
    """What cmtime's table says in all, its last column: us a connection, of each step."""
    steps = re.findall(r"^(?:create id|resolve addr|resolve route|create qp|connect|disconnect|destroy) *:.* ([0-9.]+)$", output, re.M)
    if len(steps) != 7 or "RDMA_CM_EVENT" in output:
        raise guests.GuestError(f"cmtime did not make its connections: {output}")
    return 1e6 / sum(map(float, steps))


class Machine:
    """The guest with both RNICs."""

    def __init__(self, directory, cpu):
        build = pathlib.Path(harness.BUILD)
        programs = {f"/opt/urnic/{name}": build / name for name in (
            "urnic", "urnicd", "verbs_provider/liburnic-rdmav34.so", "verbs_provider/liburnic-discovery.so")}
        # DPDK loads these by directory.
        for path in pathlib.Path("/usr/lib/x86_64-linux-gnu/dpdk").glob("pmds-*/librte_mempool_ring.so*"):
            programs[str(path)] = path
        config = pathlib.Path(directory) / "urnicd.toml"
        config.write_text(CONFIG, encoding="ascii")
        kernel, initramfs = image.make(build / "interop", files={**programs, "/opt/urnic/urnicd.toml": config},
                                       name="initramfs-bench")
        self.guest = guests.Guest(kernel, initramfs, directory, "hubport,id=net,hubid=0", "52:54:00:77:00:0b",
                                  ["urnic.mtu=4200", "urnic.addresses=10.77.0.11/24"], cpus=2, memory_mb=1536, cpu=cpu)
        self._port = 18600
        # DPDK wants a /var/run, and loads nothing from below a directory that everybody may write, as / is here. What the
        # daemon says must not hold the channel.
        self.guest.run("mkdir -p /var/run && chmod 755 /")
        self._daemon = self.guest.start("/opt/urnic/urnicd --verbose --config /opt/urnic/urnicd.toml >/tmp/urnicd.log 2>&1", 86400)
        ready = self.guest.start(f"until /opt/urnic/urnic status --socket {SOCKET} >/dev/null 2>&1; do usleep 100000; done", 120)
        if not ready.wait(150) or ready.status != 0:
            raise guests.GuestError(f"urnicd does not run in the guest: {self.guest.run('cat /tmp/urnicd.log')}")

    def figure(self, over, program, column):
        """One measurement, or None when perftest could not calibrate its clock."""
        self._port += 1
        before, server, client = {"rxe": ("", "rxe0", "rxe0"),
                                  "urnic": (f"/opt/urnic/urnic run --socket {SOCKET} --", "urnic0", "urnic1")}[over]
        output = self.guest.run(SCRIPT.format(before=before, program=program, server=server, client=client, port=self._port,
                                              hex_port=f"{self._port:04X}"), 300)
        for line in output.splitlines():
            fields = line.split()
            if len(fields) > column + 1 and fields[0].isdigit() and re.fullmatch(r"[0-9.]+|inf|nan", fields[column + 1]):
                value = float(fields[column + 1])
                return value if math.isfinite(value) and value > 0 else None
        raise guests.GuestError(f"no figure: {output}")

    def connections(self, over):
        """Connections a second."""
        self._port += 1
        before, server, client, listens = {
            "rxe": ("", "10.77.0.11", "10.77.0.11", "rdma resource show cm_id | grep -q LISTEN"),
            "urnic": (f"/opt/urnic/urnic run --socket {SOCKET} --", "198.18.0.1", "198.18.0.2",
                      f"/opt/urnic/urnic status --socket {SOCKET} --json | grep -q '\"cm_listeners\": *[1-9]'")}[over]
        return connections_per_second(self.guest.run(CMTIME_SCRIPT.format(
            before=before, server=server, client=client, listens=listens, port=self._port, count=CONNECTIONS), 300))

    def close(self):
        self.guest.close()


def measure(machine, rounds):
    """{what: [{"rxe": value, "urnic": value} of each round in which both were measured]}"""
    found = {what: [] for what in (*(what for what, *_ in FIGURES), CMTIME)}
    for number in range(1, rounds + 1):
        for what, program, column, _, scale in FIGURES:
            values = {over: machine.figure(over, program, column) for over in ("rxe", "urnic")}
            print(f"round {number}: {what}: {values}", flush=True)
            if None not in values.values():
                found[what].append({over: value * scale for over, value in values.items()})
        found[CMTIME].append({over: machine.connections(over) for over in ("rxe", "urnic")})
        print(f"round {number}: {CMTIME}: {found[CMTIME][-1]}", flush=True)
    return found


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(found, rounds):
    yield (f"Measured {time.strftime('%Y-%m-%d')}, {rounds} rounds, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs. "
           "Median (lowest to highest); a ratio is taken within a round, and above 1 urnic is ahead.")
    yield ""
    yield "| figure | rxe | urnic | how many times as good | target | met |"
    yield "|---|---|---|---|---|---|"
    for what, larger in (*((what, larger) for what, _, _, larger, _ in FIGURES), (CMTIME, True)):
        rounds_of, target = found[what], "ahead" if TARGETS[what] == 1 else f"{TARGETS[what]} times"
        if not rounds_of:
            yield f"| {what} | none: perftest could not tell the time | | | {target} | **no** |"
            continue
        ratios = [values["urnic"] / values["rxe"] for values in rounds_of]
        if not larger:
            ratios = [1 / ratio for ratio in ratios]
        cells = [spread([values[over] for values in rounds_of], 1) for over in ("rxe", "urnic")]
        median = statistics.median(ratios)
        met = "yes" if median >= TARGETS[what] and median != 1 else "**no**"
        yield f"| {what} | {cells[0]} | {cells[1]} | {spread(ratios, 2)} | {target} | {met} |"


def write_table(page, lines):
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench rxe", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write every measurement there")
    parser.add_argument("--page", type=pathlib.Path, default=harness.SOURCE / "bench/RESULTS.md",
                        help="the page whose table is written")
    parser.add_argument("--cpu", default="max", help="the processor that QEMU emulates; max,-pclmulqdq: one without carry-less "
                        "multiplication, which it does bit by bit")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"urnic-bench-{os.getpid()}-") as directory:
        machine = Machine(directory, options.cpu)
        try:
            crc = machine.guest.run("grep -o 'CRC by.*' /tmp/urnicd.log").strip()
            print(f"the guest is up after {time.monotonic() - began:.0f} s; {crc}", flush=True)
            found = measure(machine, options.rounds)
        finally:
            machine.close()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1), encoding="ascii")
    lines = list(table(found, options.rounds))
    print("\n" + "\n".join(lines))
    write_table(options.page, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
