#!/usr/bin/python3
"""Unmodified perftest programs over urnic, against the floor program and TCP over loopback.

The host moves virtual CPUs about, so a single figure says little. Each repetition runs a short block of each of
the three, one after the other; ratios are taken within a repetition, and medians and quartiles over all.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

GBYTE = 1e9
INSIDE = "URNIC_BENCH_INSIDE"  # set for the copy of this program that runs under `urnic run`


class Failure(Exception):
    """Something a person has to know; printed without a traceback."""


class Test:
    """One perftest program at one size, and what it is compared to."""

    def __init__(self, name, program, size, metric, floor, tcp, extra=()):
        self.name, self.program, self.size, self.metric = name, program, size, metric
        self.floor, self.tcp, self.extra = floor, tcp, list(extra)

    @property
    def is_latency(self):
        return self.metric == "latency"

    @property
    def unit(self):
        return {"latency": "us one way", "bandwidth": "GB/s", "rate": "M messages/s"}[self.metric]


TESTS = [
    Test("8 B ib_write_lat", "ib_write_lat", 8, "latency", "latency", "tcp-latency"),
    Test("8 B ib_send_lat", "ib_send_lat", 8, "latency", "latency", "tcp-latency"),
    Test("64 KB ib_write_bw", "ib_write_bw", 65536, "bandwidth", "bandwidth", "tcp-bandwidth"),
    Test("64 KB ib_read_bw", "ib_read_bw", 65536, "bandwidth", "bandwidth", "tcp-bandwidth"),
    Test("64 KB ib_send_bw", "ib_send_bw", 65536, "bandwidth", "bandwidth", "tcp-bandwidth"),
    Test("64 B ib_write_bw", "ib_write_bw", 64, "rate", "rate", None),
]


class Cpus:
    """Where the daemon and the two applications run; None: wherever the system likes."""

    def __init__(self, args):
        allowed = sorted(os.sched_getaffinity(0))
        # The daemon keeps a core to itself where there are two; the applications share the other or have their own.
        default = {1: (None, None, None), 2: (allowed[-1], allowed[0], allowed[0])}.get(
            len(allowed), (allowed[1 % len(allowed)], allowed[0], allowed[2 % len(allowed)]))
        chosen = [self.parse(given, fallback, allowed)
                  for given, fallback in zip((args.cpu_daemon, args.cpu_a, args.cpu_b), default)]
        self.daemon, self.a, self.b = chosen

    @staticmethod
    def parse(given, fallback, allowed):
        if given is None:
            return fallback
        if given == "any":
            return None
        if not given.isdigit() or int(given) not in allowed:
            raise Failure(f"CPU {given!r} cannot be used; allowed are {allowed} or 'any'")
        return int(given)

    def floor_arguments(self):
        names = {"--cpu-daemon": self.daemon, "--cpu-a": self.a, "--cpu-b": self.b}
        pinned = [f"{name}={cpu}" for name, cpu in names.items() if cpu is not None]
        return pinned if len(pinned) == 3 else pinned + ["--yield"]


def pinned(cpu, command):
    return command if cpu is None else ["taskset", "-c", str(cpu), *command]


def plain_environment():
    """Without the shim: for what has nothing to do with urnic."""
    return {name: value for name, value in os.environ.items()
            if name not in ("LD_PRELOAD", "RDMAV_DRIVERS", "URNIC_RUN_DIR")}


def daemon_pid():
    """The daemon of this run directory, as its control socket names it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(os.path.join(os.environ["URNIC_RUN_DIR"], "control.sock"))
        credentials = control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0]


def pin_daemon(pid, cpu):
    if cpu is not None:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {cpu})


def is_listening(port):
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
    return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Runner:
    def __init__(self, build, cpus, seconds, iterations):
        self.floor_program = str(build / "bench" / "e2e" / "floor")
        self.cpus, self.seconds, self.iterations = cpus, seconds, iterations

    def floor(self, mode):
        command = [self.floor_program, mode, f"--seconds={self.seconds}", *self.cpus.floor_arguments()]
        done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True,
                              timeout=self.seconds + 60, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def perftest(self, test):
        port = free_port()
        command = [test.program, "-x", "1", "-F", "-s", str(test.size), "-p", str(port), *test.extra]
        command += ["-n", str(self.iterations)] if test.is_latency else ["-D", str(max(1, round(self.seconds))),
                                                                         "--report_gbits"]
        limit = self.seconds + 120
        with tempfile.TemporaryFile("w+") as server_output:
            server = subprocess.Popen(pinned(self.cpus.b, [command[0], "-d", "urnic1", *command[1:]]),
                                      stdout=server_output, stderr=subprocess.STDOUT)
            try:
                self.wait_until_listening(server, port, server_output)
                client = subprocess.run(pinned(self.cpus.a, [command[0], "-d", "urnic0", *command[1:], "127.0.0.1"]),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit,
                                        check=False)
                if client.returncode != 0:
                    raise Failure(f"{' '.join(command)} ended with {client.returncode}:\n{client.stdout}")
                server.wait(timeout=limit)
            except subprocess.TimeoutExpired as error:
                raise Failure(f"{' '.join(command)} did not end within {limit} s") from error
            finally:
                if server.poll() is None:
                    server.kill()
                    server.wait()
        return client.stdout

    @staticmethod
    def wait_until_listening(server, port, output):
        for _ in range(600):
            if is_listening(port):
                return
            if server.poll() is not None:
                output.seek(0)
                raise Failure(f"the server ended before it listened:\n{output.read()}")
            time.sleep(0.05)
        raise Failure(f"the server did not listen on port {port} within 30 s")


def last_row(output):
    """The numbers of the last result line that perftest printed."""
    rows = [line.split() for line in output.splitlines() if re.fullmatch(r"[\d\s.]+", line) and line.split()]
    if not rows:
        raise Failure(f"perftest printed no result:\n{output}")
    return [float(field) for field in rows[-1]]


def perftest_value(test, output):
    row = last_row(output)
    if test.is_latency:
        return row[4]  # bytes, iterations, least, most, typical: the median, in us
    # bytes, iterations, peak, average in Gbit/s, million messages a second
    return row[4] if test.metric == "rate" else row[3] / 8


def floor_value(test, result):
    if test.is_latency:
        return result["one_way_ns"]["median"] / 1000
    return result["messages_per_second"] / 1e6 if test.metric == "rate" else result["bytes_per_second"] / GBYTE


def summary(values):
    values = sorted(values)
    quartiles = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    return {"median": statistics.median(values), "q1": quartiles[0], "q3": quartiles[2], "samples": values}


def measure(runner, tests, repetitions):
    samples = {test.name: {"urnic": [], "floor": [], "tcp": []} for test in tests}
    for repetition in range(repetitions):
        for test in tests:
            blocks = [("floor", lambda t=test: floor_value(t, runner.floor(t.floor))),
                      ("urnic", lambda t=test: perftest_value(t, runner.perftest(t)))]
            if test.tcp is not None:
                blocks.append(("tcp", lambda t=test: floor_value(t, runner.floor(t.tcp))))
            shift = repetition % len(blocks)
            for name, block in blocks[shift:] + blocks[:shift]:
                samples[test.name][name].append(block())
            got = samples[test.name]
            print(f"{repetition + 1}/{repetitions} {test.name}: " +
                  ", ".join(f"{name} {values[-1]:.3g}" for name, values in got.items() if values) +
                  f" {test.unit}", file=sys.stderr, flush=True)
    return samples


def report(tests, samples):
    results = []
    for test in tests:
        got = samples[test.name]
        entry = {"test": test.name, "unit": test.unit, "lower_is_better": test.is_latency}
        for name, values in got.items():
            if values:
                entry[name] = summary(values)
        for other in ("floor", "tcp"):
            if got[other]:
                entry[f"ratio_to_{other}"] = summary([ours / theirs for ours, theirs in
                                                      zip(got["urnic"], got[other])])
        results.append(entry)
    return results


def cell(entry, name):
    if name not in entry:
        return "-"
    value = entry[name]
    return f"{value['median']:.3g} ({value['q1']:.3g}-{value['q3']:.3g})"


def busy_note(context):
    """A warning where the figures cannot be trusted."""
    if context["load_before"] < 0.5 * context["cpus"]:
        return []
    return ["", f"**The machine was busy (load {context['load_before']:.1f} on {context['cpus']} CPUs): these figures say "
            "how the programs share a CPU with strangers, not how fast they are. Do not quote them.**"]


def table(results, context):
    lines = [f"Measured {context['date']} on {context['cpu']}, {context['cpus']} CPUs, Linux {context['kernel']}, load "
             f"{context['load_before']:.1f} before; {context['repetitions']} repetitions of {context['seconds']} s "
             f"blocks; daemon on CPU {context['cpu_daemon']}, applications on {context['cpu_a']} and {context['cpu_b']}. "
             "Median (first to third quartile); ratios are taken within a repetition. For latency a small ratio is "
             "good, for the others a large one.", *busy_note(context), "",
             "| test | unit | urnic | floor | TCP loopback | ratio to floor | ratio to TCP |",
             "|---|---|---|---|---|---|---|"]
    for entry in results:
        columns = [cell(entry, name) for name in ("urnic", "floor", "tcp", "ratio_to_floor", "ratio_to_tcp")]
        lines.append(f"| {entry['test']} | {entry['unit']} | " + " | ".join(columns) + " |")
    return "\n".join(lines) + "\n"


TABLE_BEGIN, TABLE_END = "<!-- e2e table: bench/e2e/run.py --table writes it -->", "<!-- end of e2e table -->"


def write_table(path, text):
    """Replaces the table in a page that has its marks; any other file becomes the table alone."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    if TABLE_BEGIN in page and TABLE_END in page:
        before, after = page.split(TABLE_BEGIN, 1)[0], page.split(TABLE_END, 1)[1]
        text = f"{before}{TABLE_BEGIN}\n{text}{TABLE_END}{after}"
    path.write_text(text, encoding="utf-8")


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--build", type=pathlib.Path, default=root / "build", help="build directory (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=7, help="blocks of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a throughput block (%(default)s)")
    parser.add_argument("--iterations", type=int, default=20000, help="iterations of a latency block (%(default)s)")
    parser.add_argument("--only", default="", help="only tests whose name contains this")
    for name, who in (("--cpu-daemon", "the daemon"), ("--cpu-a", "the client"), ("--cpu-b", "the server")):
        parser.add_argument(name, metavar="CPU", help=f"CPU of {who}, or 'any'")
    parser.add_argument("--json", type=pathlib.Path, help="write everything measured to this file")
    parser.add_argument("--table", type=pathlib.Path, help="put the table into this page (bench/RESULTS.md), or make the file")
    args = parser.parse_args()
    if args.repetitions < 1 or args.seconds <= 0 or args.iterations < 100:
        parser.error("--repetitions must be at least 1, --seconds positive, --iterations at least 100")
    return args


def run_inside(args):
    """Everything below `urnic run --standalone`."""
    tests = [test for test in TESTS if args.only in test.name]
    if not tests:
        raise Failure(f"no test is named like {args.only!r}; there are: {', '.join(t.name for t in TESTS)}")
    for program in {test.program for test in tests} | {"taskset"}:
        if shutil.which(program) is None:
            raise Failure(f"{program} is not installed (Debian packages perftest and util-linux)")
    cpus = Cpus(args)
    pid = daemon_pid()
    pin_daemon(pid, cpus.daemon)
    context = {"date": datetime.date.today().isoformat(), "cpu": cpu_model(), "cpus": os.cpu_count(),
               "kernel": platform.release(), "load_before": os.getloadavg()[0], "repetitions": args.repetitions,
               "seconds": args.seconds, "iterations": args.iterations,
               **{f"cpu_{name}": "any" if cpu is None else cpu for name, cpu in
                  (("daemon", cpus.daemon), ("a", cpus.a), ("b", cpus.b))}}
    samples = measure(Runner(args.build, cpus, args.seconds, args.iterations), tests, args.repetitions)
    results = report(tests, samples)
    if args.json is not None:
        args.json.write_text(json.dumps({"context": context, "results": results}, indent=1) + "\n", encoding="utf-8")
    text = table(results, context)
    if args.table is not None:
        write_table(args.table, text)
    print(text, end="")


def main():
    args = arguments()
    try:
        if os.environ.get(INSIDE) == "1":
            run_inside(args)
            return 0
        urnic = args.build / "urnic"
        if not urnic.exists() or not (args.build / "bench" / "e2e" / "floor").exists():
            raise Failure(f"{args.build} holds no built urnic and floor; build first or name another with --build")
        command = [str(urnic), "run", "--standalone", "--", sys.executable, *sys.argv]
        with subprocess.Popen(command, env={**os.environ, INSIDE: "1"}) as inner:
            try:
                return inner.wait()
            except KeyboardInterrupt:
                inner.send_signal(signal.SIGINT)
                return inner.wait()
    except Failure as failure:
        print(f"run.py: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
