"""Threads that wait beside threads that compute, on the kernels of Debian 12 and 13, each in a virtual machine.

No KVM: QEMU emulates two guests with each kernel. One has a processor whose clock counts instructions, 1 ns each, so that nothing
that the host does changes what it measures. The other has two processors and the host's clock: what else runs on the host meets it.
In each an urnicd has two RNICs joined by a wire. Each round measures every figure alone and beside a computing process on each
processor. With --build another build's daemon and provider run in the same guest, in turn with ours. Only ratios within a round
mean something. Writes the table in bench/RESULTS.md.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "tests/e2e"), str(HERE.parent.parent / "tests/interop"), str(HERE.parent / "tools")]

import guest as guests
import harness
import image
import machine

MARK = "table of waiting on other kernels: scripts/bench waiting writes it"
# Debian's release, by the version of its kernel; None: this machine's.
KERNELS = {"6.1": None, "6.12": "trixie"}
# Processors, by the kind of guest. One that counts instructions has one: QEMU lets several take turns of milliseconds.
GUESTS = {"counted": 1, "two": 2}
MODULES = ("virtio_pci", "virtio_console", "virtio_rng", "virtio_net")
PROVIDER = ("verbs_provider/liburnic-rdmav34.so", "verbs_provider/liburnic-discovery.so")

# What, how it is measured with {computing} and {seconds}, the figure in the answer, what it is divided by. Behind perftest's
# programs: how many times the iterations: what sleeps needs many to meet a slice of a computing process, what spins meets one each time.
FIGURES = (
    ("8 B WRITE, one at a time, a second", "waiting 1 0 {computing} 8 {seconds}", "messages_per_second", 1),
    ("64 KB WRITE, one at a time, a second", "waiting 1 0 {computing} 65536 {seconds}", "messages_per_second", 1),
    ("8 B `ib_send_lat`, us one way, average", "perftest ib_send_lat 10", "average", 1),
    ("8 B `ib_write_lat`, us one way, average", "perftest ib_write_lat 1", "average", 1),
    ("nine threads that poll, 8 B WRITEs: longest wait, ms", "waiting 9 0 {computing} 8 {seconds}", "max_us", 1000),
    ("one of nine threads that poll writes 8 B: longest wait, ms", "waiting 1 8 {computing} 8 {seconds}", "max_us", 1000),
)
# Of no build's daemon: what base/yield_monitor.h says to threads that do nothing but yield.
VERDICTS = (
    ("one thread that yields takes others for computing, % of its time", "yields 1 {computing} {seconds}", "contended_percent", 1),
    ("nine threads that yield take others for computing, % of their time", "yields 9 {computing} {seconds}", "contended_percent", 1),
)

# A guest that counts instructions and has nothing to do lets hours pass in a second of ours.
FOR_EVER_S = 10**9

PAIR = """loops=
for i in $(seq {computing}); do
    (while :; do :; done) &
    loops="$loops $!"
done
{run} {program} -F -x 1 -s 8 -n {iterations} -d urnic0 -p {port} >/tmp/server 2>&1 &
server=$!
until grep -q ':{hex_port} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 20000; done
{run} {program} -F -x 1 -s 8 -n {iterations} -d urnic1 -p {port} 127.0.0.1 2>&1
status=$?
wait $server || status=1
[ -z "$loops" ] || kill $loops
[ $status = 0 ] || cat /tmp/server
exit $status"""


def configuration(run_dir):
    rnics = "".join(f'[[rnic]]\nname = "urnic{i}"\nport = "fabric"\nfabric = "bench"\nipv4 = "198.18.0.{i + 1}/24"\n' for i in range(2))
    return f'[daemon]\nrun_dir = "{run_dir}"\nworkers = 1\nhugepages = false\n{rnics}'


def perftest_average(output):
    """us one way on average, of ib_*_lat; None where it could not calibrate its clock."""
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[0] == "8" and fields[1].isdigit():
            try:
                value = float(fields[5])
            except ValueError:
                return None
            return value if 0 < value < float("inf") else None
    raise guests.GuestError(f"no figure: {output}")


def answers(output):
    """What verbs_bench answered, without the line that tells that it is connected."""
    return [found for line in output.splitlines() if line.startswith("{") and "connected" not in (found := json.loads(line))]


class Machine:
    """A guest with the daemons of all builds. `kind`: one of GUESTS; `builds`: directory by name, ours is "now"."""

    def __init__(self, directory, release, kind, builds, options):
        ours = builds["now"]
        files = {"/opt/verbs_bench": ours / "bench/verbs/verbs_bench"}
        for name, build in builds.items():
            files |= {f"/opt/{name}/{path}": build / path for path in ("urnic", "urnicd", *PROVIDER)}
            config = pathlib.Path(directory) / f"{name}.toml"
            config.write_text(configuration(f"/run/{name}"), encoding="ascii")
            files[f"/opt/{name}/urnicd.toml"] = config
        # DPDK loads these by directory.
        for path in pathlib.Path("/usr/lib/x86_64-linux-gnu/dpdk").glob("pmds-*/librte_mempool_ring.so*"):
            files[str(path)] = path
        kernel, initramfs = image.make(ours / "interop", files=files, name=f"initramfs-waiting-{release or 'own'}",
                                       modules=MODULES, release=release)
        self._options, self._port, self._cpus = options, 18700, GUESTS[kind]
        self.guest = guests.Guest(kernel, initramfs, directory, "hubport,id=net,hubid=0", "52:54:00:77:00:0c",
                                  ["urnic.mtu=1500", *options.kernel_option], cpus=self._cpus, memory_mb=1536,
                                  counts=kind == "counted")
        try:
            clock = "1 CPU, counted" if kind == "counted" else f"{self._cpus} CPUs"
            self.name = f"{self.guest.run('uname -r').strip()}, {clock}"
            # DPDK wants a /var/run, and loads nothing from below a directory that everybody may write, as / is here.
            self.guest.run("mkdir -p /var/run && chmod 755 /")
            for name in builds:
                self._serve(name)
        except BaseException:
            self.guest.close()
            raise

    def _serve(self, name):
        # What the daemon says must not hold the channel.
        self.guest.start(f"/opt/{name}/urnicd --config /opt/{name}/urnicd.toml >/tmp/{name}.log 2>&1", FOR_EVER_S)
        ready = self.guest.start(f"until /opt/{name}/urnic status --socket /run/{name} >/dev/null 2>&1; do usleep 100000; done", 300)
        if not ready.wait(330) or ready.status != 0:
            raise guests.GuestError(f"urnicd does not run in the guest: {self.guest.run(f'cat /tmp/{name}.log')}")

    def _perftest(self, run, program, times, computing):
        self._port += 1
        return perftest_average(self.guest.run(PAIR.format(
            run=run, program=program, computing=computing, port=self._port, hex_port=f"{self._port:04X}",
            iterations=int(times) * self._options.iterations), 600))

    def figure(self, build, how, name, divisor):
        """(alone, beside), or None where one could not be measured."""
        run = f"/opt/{build}/urnic run --socket /run/{build} --"
        command, *words = how.split(" ", 1)
        if command == "perftest":
            values = [self._perftest(run, *words[0].split(), computing) for computing in (0, self._cpus)]
        else:
            lines = [words[0].format(computing=computing, seconds=self._options.seconds) for computing in (0, self._cpus)]
            before = run if command == "waiting" else ""
            output = self.guest.run(f"printf '{lines[0]}\\n{lines[1]}\\n' | {before} /opt/verbs_bench {command} 2>&1", 600)
            values = [found[name] / divisor for found in answers(output)]
            if len(values) != 2:
                raise guests.GuestError(f"no figures: {output}")
        return None if None in values else tuple(values)

    def close(self):
        self.guest.close()


def measure(machine_, builds, rounds):
    """{what: [{build: (alone, beside)} of each round in which all were measured]}"""
    found = {what: [] for what, *_ in (*FIGURES, *VERDICTS)}
    for number in range(1, rounds + 1):
        for what, *how in (*FIGURES, *VERDICTS):
            of = list(builds) if (what, *how) in FIGURES else ["now"]
            # What the host does meanwhile meets all of them: another one is first each time.
            order = of[number % len(of):] + of[:number % len(of)]
            values = {build: machine_.figure(build, *how) for build in order}
            print(f"{machine_.name}, round {number}: {what}: {values}", flush=True)
            if None not in values.values():
                found[what].append(values)
    return found


def number(value):
    return machine.figure(value) if value else "0"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})"


def rows(kernel, found):
    """One for each figure and build: alone, beside, beside as a part of alone, and that of what `before` had beside."""
    for what, rounds in found.items():
        for build in (rounds[0] if rounds else {}):
            alone, beside = ([values[build][i] for values in rounds] for i in (0, 1))
            parts = [b / a for a, b in zip(alone, beside)] if all(alone) else []
            changes = ([values["now"][1] / values["before"][1] for values in rounds]
                       if build == "now" and "before" in rounds[0] else [])
            yield (f"| {kernel} | {what} | {build} | {spread(alone)} | {spread(beside)} | {spread(parts) if parts else '-'} | "
                   f"{spread(changes) if changes else '-'} |")
        if not rounds:
            yield f"| {kernel} | {what} | | perftest could not tell the time | | | |"


def table(measured, options, context):
    lines = [machine.about(context).split(" **")[0] + f" {options.rounds} rounds of blocks of {options.seconds:g} s and "
             f"{options.iterations} iterations of ib_write_lat. \"Counted\": the guest's clock counts instructions; the host's load does not matter to it. "
             "Median (lowest-highest); ratios are taken within a round"
             + (f"; `before`: {options.name}, in the same guest" if options.build else "") + ".", "",
             "| kernel | what | build | alone | beside a computing process on each CPU | beside / alone | now / before, beside |",
             "|---|---|---|---|---|---|---|"]
    for kernel, found in measured.items():
        lines += rows(kernel, found)
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench waiting", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a block (%(default)s)")
    parser.add_argument("--iterations", type=int, default=300, help="iterations of ib_write_lat; ten times as many of ib_send_lat (%(default)s)")
    parser.add_argument("--guest", action="append", choices=list(GUESTS), help="only this one")
    parser.add_argument("--kernel", action="append", choices=list(KERNELS), help="only this one")
    parser.add_argument("--kernel-option", action="append", default=[], help="a word for the kernel's command line, as preempt=full")
    parser.add_argument("--build", type=pathlib.Path, help="another build, whose daemon and provider are measured beside: the column `before`")
    parser.add_argument("--name", help="what to call it (its directory)")
    parser.add_argument("--json", type=pathlib.Path, help="write every measurement there")
    parser.add_argument("--page", type=pathlib.Path, default=harness.SOURCE / "bench/RESULTS.md", help="the page whose table is written")
    parser.add_argument("--print", action="store_true", help="leave the page alone")
    options = parser.parse_args()
    options.name = options.name or str(options.build)
    if options.rounds < 1 or not 0 < options.seconds <= 60 or options.iterations < 100:
        parser.error("--rounds must be at least 1, --seconds positive, --iterations at least 100")
    return options


def main():
    options = arguments()
    builds = {"before": options.build.resolve()} if options.build else {}
    builds["now"] = pathlib.Path(harness.BUILD)
    for build in builds.values():
        machine.check_build(build)
    context, times, measured = machine.context(), machine.CpuTimes(), {}
    for kind, kernel in itertools.product(options.guest or GUESTS, options.kernel or KERNELS):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"urnic-bench-{os.getpid()}-") as directory:
            try:
                one = Machine(directory, KERNELS[kernel], kind, builds, options)
            except image.Missing as missing:
                raise machine.Failure(str(missing)) from missing
            try:
                print(f"Linux {one.name}: up after {time.monotonic() - began:.0f} s", flush=True)
                measured[one.name] = measure(one, builds, options.rounds)
            finally:
                one.close()
    context |= times.disturbances()
    if options.json:
        machine.write_json(options.json, {"context": context, "measured": measured})
    text = table(measured, options, context)
    print("\n" + text, end="")
    if not options.print:
        machine.write_between(options.page, MARK, text)


if __name__ == "__main__":
    machine.run_program(main)
