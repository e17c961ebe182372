#!/usr/bin/python3
"""The programs of scripts/demo: runs under `urnic run --standalone`, prints what they print and a table of their figures."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

PATIENCE_S = 300
# (program, options, what its figure is: the column of perftest's report and its unit)
RUNS = [
    ("ib_write_bw", ["-s", "65536", "-n", "2000"], "average bandwidth", 3, "MiB/s"),
    ("ib_read_bw", ["-s", "65536", "-n", "2000"], "average bandwidth", 3, "MiB/s"),
    ("ib_send_lat", ["-s", "8", "-n", "2000"], "typical latency, one way", 4, "us"),
    ("ib_atomic_bw", ["-A", "FETCH_AND_ADD", "-n", "5000"], "message rate", 4, "million/s"),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port, pid):
    """True when that process listens on the port. Looks without connecting: perftest serves one client."""
    wanted, inodes = f":{port:04X}", set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for fields in map(str.split, lines):
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    inodes.add(f"socket:[{fields[9]}]")
    for descriptor in os.listdir(f"/proc/{pid}/fd") if inodes else []:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") in inodes:
                return True
    return False


def start_server(command):
    """A server on a port of its own. Between looking for a free one and using it another program may take it."""
    for _ in range(5):
        port = free_port()
        server = subprocess.Popen([*command, "-p", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + PATIENCE_S
        while server.poll() is None and time.monotonic() < deadline:
            if listening(port, server.pid):
                return server, port
            time.sleep(0.01)
        server.kill()
        out = server.communicate()[0]
    return fail(f"the server of {command[0]} does not listen", out)


def fail(what, *outputs):
    print(f"demo: {what}\n" + "\n".join(outputs), file=sys.stderr)
    sys.exit(1)


def measure(program, options, attempts=5):
    """One pair: the server on urnic0, the client on urnic1. Returns the client's output and its row of figures."""
    common = [program, "-F", "-c", "RC", "-x", "1", *options]
    server, port = start_server([*common, "-d", "urnic0"])
    try:
        client = subprocess.run([*common, "-d", "urnic1", "-p", str(port), "127.0.0.1"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False)
        served = server.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        fail(f"{program} did not end within {PATIENCE_S} s")
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGKILL)
            server.wait()
    if "Correlation coefficient" in client.stdout and attempts > 1:
        # On a busy machine perftest may fail to calibrate the TSC; what it then prints is no time.
        print(f"{program} could not calibrate its clock: once more", flush=True)
        return measure(program, options, attempts - 1)
    rows = [line.split() for line in client.stdout.splitlines() if re.fullmatch(r"[\s0-9.]+", line) and line.strip()]
    if client.returncode != 0 or server.returncode != 0 or not rows:
        fail(f"{program} failed (client {client.returncode}, server {server.returncode})", client.stdout, served)
    return client.stdout, rows[-1]


def main():
    if "URNIC_RUN_DIR" not in os.environ:
        fail("run this under `urnic run --standalone`; scripts/demo does")
    table = []
    for program, options, what, column, unit in RUNS:
        print(f"\n== {program} {' '.join(options)}: urnic1 to urnic0", flush=True)
        out, row = measure(program, options)
        print(out.rstrip(), flush=True)
        table.append((program, row[0], row[1], what, f"{float(row[column]):.2f} {unit}"))
    print("\n== Unmodified programs between two emulated RNICs on this machine")
    heads = ("program", "bytes", "iterations", "figure", "value")
    widths = [max(len(line[i]) for line in [heads, *table]) for i in range(len(heads))]
    for line in [heads, *table]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    main()
