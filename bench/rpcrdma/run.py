#!/usr/bin/python3
"""RPC-over-RDMA by urnic beside TCP on the loopback: messages by hand of the same sizes, and the same stubs of rpcgen. Each round
measures every row once by either, so that what the machine does meanwhile meets both; medians, their spread, and the ratio. Writes the
table in bench/RESULTS.md.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BY_HAND, STUBS = ("rdma", "tcp"), ("stubs-rdma", "stubs-tcp")
# (name, the two transports, procedure, outstanding, key, unit, digits)
ROWS = (
    ("64 B, one call at a time", BY_HAND, "small", 1, "us_per_call", "us", 1),
    ("64 B, 64 calls outstanding", BY_HAND, "small", 64, "calls_per_s", "calls/s", 0),
    ("1 MiB result by Write chunk, 8 outstanding", BY_HAND, "get", 8, "gb_per_s", "GB/s", 2),
    ("1 MiB argument by Read chunk, 8 outstanding", BY_HAND, "put", 8, "gb_per_s", "GB/s", 2),
    ("rpcgen: 64 B, one thread", STUBS, "small", 1, "us_per_call", "us", 1),
    ("rpcgen: 64 B, 64 threads", STUBS, "small", 64, "calls_per_s", "calls/s", 0),
    ("rpcgen: 1 MiB result, 8 threads", STUBS, "get", 8, "gb_per_s", "GB/s", 2),
    ("rpcgen: 1 MiB argument, 8 threads", STUBS, "put", 8, "gb_per_s", "GB/s", 2),
)
BEGIN, END = "<!-- table of RPC-over-RDMA: bench/rpcrdma/run.py writes it -->", "<!-- end of the table of RPC-over-RDMA -->"


def measure(build, transport, procedure, outstanding, seconds):
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
    yield "| calls | unit | RPC-over-RDMA | TCP | ratio | CPU a call, ns: client, server | TCP: client, server |"
    yield "|---|---|---|---|---|---|---|"
    for name, transports, procedure, outstanding, key, unit, digits in ROWS:
        ours, theirs = (figures[transport, procedure, outstanding] for transport in transports)
        ratio = statistics.median(one[key] / other[key] for one, other in zip(ours, theirs))
        cpu = [", ".join(f"{statistics.median(one[side] for one in of):,.0f}" for side in ("client_cpu_ns", "server_cpu_ns"))
               for of in (ours, theirs)]
        yield (f"| {name} | {unit} | {shown([one[key] for one in ours], digits)} | {shown([one[key] for one in theirs], digits)} "
               f"| {ratio:.2f} | {cpu[0]} | {cpu[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--print", action="store_true", help="print the table, and leave bench/RESULTS.md as it is")
    arguments = parser.parse_args()
    figures = {}
    for _ in range(arguments.rounds):
        for _, transports, procedure, outstanding, *_ in ROWS:
            for transport in transports:
                figure = measure(arguments.build, transport, procedure, outstanding, arguments.seconds)
                figures.setdefault((transport, procedure, outstanding), []).append(figure)
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
