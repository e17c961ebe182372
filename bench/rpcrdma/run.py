#!/usr/bin/python3
"""RPC-over-RDMA by urnic beside TCP on the loopback: messages by hand of the same sizes, the C interface beside libtirpc, the same stubs
of rpcgen; and beside what the RNICs do without it. Each round measures every row once by either, so that what the machine does meanwhile
meets both; medians, their spread, and the ratio. Writes the table in bench/RESULTS.md.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BY_HAND, STUBS = ("rdma", "tcp"), ("stubs-rdma", "stubs-tcp")
LIBRARIES = ("rdma", "stubs-tcp")
# (name, the two transports, procedure, outstanding, key, unit, digits)
ROWS = (
    ("64 B, one call at a time; TCP", BY_HAND, "small", 1, "us_per_call", "us", 1),
    ("64 B, 64 calls outstanding; TCP", BY_HAND, "small", 64, "calls_per_s", "calls/s", 0),
    ("1 MiB result by Write chunk, 8 outstanding; TCP", BY_HAND, "get", 8, "gb_per_s", "GB/s", 2),
    ("1 MiB argument by Read chunk, 8 outstanding; TCP", BY_HAND, "put", 8, "gb_per_s", "GB/s", 2),
    ("64 B, 64 outstanding; libtirpc, 64 threads", LIBRARIES, "small", 64, "calls_per_s", "calls/s", 0),
    ("1 MiB result, 8 outstanding; libtirpc, 8 threads", LIBRARIES, "get", 8, "gb_per_s", "GB/s", 2),
    ("1 MiB argument, 8 outstanding; libtirpc, 8 threads", LIBRARIES, "put", 8, "gb_per_s", "GB/s", 2),
    ("1 MiB result, 8 outstanding; ib_write_bw", ("rdma", "ib_write_bw"), "get", 8, "gb_per_s", "GB/s", 2),
    ("1 MiB argument, 8 outstanding; ib_read_bw", ("rdma", "ib_read_bw"), "put", 8, "gb_per_s", "GB/s", 2),
    ("rpcgen: 64 B, one thread; libtirpc", STUBS, "small", 1, "us_per_call", "us", 1),
    ("rpcgen: 64 B, 64 threads; libtirpc", STUBS, "small", 64, "calls_per_s", "calls/s", 0),
    ("rpcgen: 1 MiB result, 8 threads; libtirpc", STUBS, "get", 8, "gb_per_s", "GB/s", 2),
    ("rpcgen: 1 MiB argument, 8 threads; libtirpc", STUBS, "put", 8, "gb_per_s", "GB/s", 2),
)
SIDES = ("client_cpu_ns", "server_cpu_ns")
BEGIN, END = "<!-- table of RPC-over-RDMA: bench/rpcrdma/run.py writes it -->", "<!-- end of the table of RPC-over-RDMA -->"


def measure_device(build, tool, messages, seconds):
    """What the RNICs themselves do: a QP and a buffer of 1 MiB for each of the messages that the library has under way."""
    words = f"{tool} -s 1048576 -q {messages} -D {max(round(seconds), 1)} --report_gbits"
    script = f"{words} -d urnic0 >/dev/null 2>&1 & until {words} -d urnic1 127.0.0.1 2>/dev/null; do sleep 0.1; done"
    done = subprocess.run([str(build / "urnic"), "run", "--standalone", "--", "sh", "-c", script], capture_output=True, text=True,
                          timeout=120, check=False)
    line = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["1048576"]]
    if not line:
        sys.exit(f"bench/rpcrdma: {tool}: {done.stdout}{done.stderr}")
    return {"gb_per_s": float(line[-1][3]) / 8}


def measure(build, transport, procedure, outstanding, seconds):
    if transport.startswith("ib_"):
        return measure_device(build, transport, outstanding, seconds)
    words = [build / "bench/rpcrdma/rpcrdma_bench", transport, procedure, outstanding, seconds]
    if transport.endswith("rdma"):
        words = [build / "urnic", "run", "--standalone", "--", *words]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"bench/rpcrdma: {words}: {done.stderr}")
    return json.loads(done.stdout)


def shown(values, digits):
    median = statistics.median(values)
    spread = (max(values) - min(values)) / median * 100
    return f"{median:,.{digits}f} ({spread:.0f} %)"


def table(figures):
    yield "| calls; beside | unit | RPC-over-RDMA | beside | ratio | CPU a call, ns: client, server | beside: client, server |"
    yield "|---|---|---|---|---|---|---|"
    for name, transports, procedure, outstanding, key, unit, digits in ROWS:
        ours, theirs = (figures[transport, procedure, outstanding] for transport in transports)
        ratio = statistics.median(one[key] / other[key] for one, other in zip(ours, theirs))
        cpu = [", ".join(f"{statistics.median(one[side] for one in of):,.0f}" for side in SIDES if side in of[0]) for of in (ours, theirs)]
        yield (f"| {name} | {unit} | {shown([one[key] for one in ours], digits)} | {shown([one[key] for one in theirs], digits)} "
               f"| {ratio:.2f} | {cpu[0]} | {cpu[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--print", action="store_true", help="print the table, and leave bench/RESULTS.md as it is")
    arguments = parser.parse_args()
    # Rows share measurements.
    cases = dict.fromkeys((transport, procedure, outstanding) for _, transports, procedure, outstanding, *_ in ROWS
                          for transport in transports)
    figures = {}
    for _ in range(arguments.rounds):
        for case in cases:
            figures.setdefault(case, []).append(measure(arguments.build, *case, arguments.seconds))
    lines = "\n".join(table(figures))
    print(lines)
    if arguments.print:
        return
    results = SOURCE / "bench/RESULTS.md"
    text = results.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    results.write_text(head + BEGIN + "\n" + lines + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
