"""One block of each program that is measured: a function each, its words as data files give them, one figure back."""

import json
import os
import re
import subprocess

from machine import Failure, free_port, pair, pinned

GBYTE = 1e9


def plain_environment(extra=()):
    """Without the shim: for what has nothing to do with urnic."""
    found = {name: value for name, value in os.environ.items()
             if name not in ("LD_PRELOAD", "RDMAV_DRIVERS", "URNIC_RUN_DIR")}
    found.update(extra)
    return found


def numbers_of_last_row(output):
    rows = [line.split() for line in output.splitlines() if re.fullmatch(r"[\d\s.]+", line) and line.split()]
    if not rows:
        raise Failure(f"no result:\n{output}")
    return [float(field) for field in rows[-1]]


class Programs:
    """`seconds`: length of a block; `iterations`: of a latency block."""

    def __init__(self, build, cpus, seconds, iterations):
        self.build, self.cpus, self.seconds, self.iterations = build, cpus, seconds, iterations
        self.whole_seconds = str(max(1, round(seconds)))

    def iterations_of(self, size):
        """Of a ping-pong: fewer where each takes long."""
        round_trip_ns = 2 * (2000 + int(size) / 3)
        return max(100, min(self.iterations, int(self.seconds * 1e9 / round_trip_ns)))

    # urnic

    def perftest(self, daemon, program, *words, pins=True):
        """What the client printed last: of latency tests bytes, iterations, least, most, typical, average ...; else bytes,
        iterations, peak and average Gbit/s, million messages a second."""
        port = free_port()
        size = words[words.index("-s") + 1] if "-s" in words else 8
        length = ["-n", str(self.iterations_of(size))] if program.endswith("_lat") else ["-D", self.whole_seconds, "--report_gbits"]
        command = [program, "-x", "1", "-F", "-p", str(port), *length, *words]
        server = daemon.run(pinned(self.cpus.b if pins else None, [*command, "-d", "urnic1"]))
        client = daemon.run(pinned(self.cpus.a if pins else None, [*command, "-d", "urnic0", "127.0.0.1"]))
        return numbers_of_last_row(pair(server, client, port))

    def perftest_latency(self, daemon, *words):
        """us one way, the median."""
        return self.perftest(daemon, *words)[4]

    def perftest_bandwidth(self, daemon, *words):
        """GB/s."""
        return self.perftest(daemon, *words)[3] / 8

    def perftest_rate(self, daemon, *words):
        """Million messages a second."""
        return self.perftest(daemon, *words)[4]

    # The floor, and TCP as the same program does it

    def floor(self, mode, *words):
        command = [str(self.build / "bench" / "e2e" / "floor"), mode, f"--seconds={self.seconds}",
                   *self.cpus.floor_arguments(), *words]
        done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True,
                              timeout=self.seconds + 60, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)} failed: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        if "one_way_ns" in result:
            return result["one_way_ns"]["median"] / 1000
        return result["messages_per_second"] / 1e6 if mode == "rate" else result["bytes_per_second"] / GBYTE

    # Others

    def peers(self, make_server, make_client, environment=None, server_ends=True):
        """A server and a client with a core each, if there are two."""
        port = free_port()
        return pair(pinned(self.cpus.own_b, make_server(port)), pinned(self.cpus.a, make_client(port)), port,
                    environment or plain_environment(), server_ends=server_ends)

    def iperf3(self, size="65536"):
        """GB/s received."""
        out = self.peers(lambda port: ["iperf3", "-s", "-1", "-p", port],
                         lambda port: ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", self.whole_seconds, "-l", size, "-J"])
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8 / GBYTE

    def sockperf(self, size="14", way="busy"):
        """us one way, the median; TCP without delay. Its messages are at least 14 bytes long."""
        common = ["--tcp", "-i", "127.0.0.1", *(["--nonblocked"] if way == "busy" else [])]
        out = self.peers(lambda port: ["sockperf", "sr", *common, "-p", port],
                         lambda port: ["sockperf", "pp", *common, "-p", port, "-t", self.whole_seconds, "-m",
                                       max(14, int(size))], server_ends=False)
        found = re.search(r"percentile 50\.000 =\s*([\d.]+)", out)
        if found is None:
            raise Failure(f"sockperf said no median:\n{out}")
        return float(found.group(1))

    def qperf(self, test, size):
        """tcp_lat: us one way, the mean; tcp_bw: GB/s."""
        out = self.peers(lambda port: ["qperf", "-lp", port],
                         lambda port: ["qperf", "127.0.0.1", "-lp", port, "-t", self.whole_seconds, "-m", size, "-uu", test],
                         server_ends=False)
        unit, scale = ("ns", 1e3) if test.endswith("lat") else ("bytes/sec", GBYTE)
        found = re.search(rf"(?:latency|bw)\s*=\s*([\d.e+]+) {unit}$", out, re.MULTILINE)
        if found is None:
            raise Failure(f"qperf said no figure in {unit}:\n{out}")
        return float(found.group(1)) / scale

    def ucx(self, transports, test, size):
        """tag_lat: us one way, the median; tag_bw: GB/s."""
        latency = test.endswith("lat")
        count = self.iterations_of(size) if latency else max(1000, min(200_000, int(4e9 * self.seconds) // int(size)))
        environment = plain_environment({"UCX_TLS": transports, "UCX_LOG_LEVEL": "error",
                                         **({"UCX_NET_DEVICES": "lo"} if "tcp" in transports else {})})
        out = self.peers(lambda port: ["ucx_perftest", "-p", port],
                         lambda port: ["ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", size, "-n", count, "-w",
                                       max(1, count // 20), "-f", "-v"], environment)
        rows = [line.split(",") for line in out.splitlines() if line.strip()[:1].isdigit() and line.count(",") >= 7]
        if not rows:
            raise Failure(f"ucx_perftest said no figure:\n{out}")
        # iterations, median and mean and overall latency, mean and overall MiB/s
        return float(rows[-1][1]) if latency else float(rows[-1][5]) * (1 << 20) / GBYTE

    def fi_pingpong(self, provider, size, figure="latency", endpoint="rdm"):
        """us one way, the mean; or GB/s of the same ping-pong."""
        common = ["fi_pingpong", "-p", provider, "-e", endpoint, "-S", size, "-I", str(self.iterations_of(size))]
        out = self.peers(lambda port: [*common, "-B", port], lambda port: [*common, "-P", port, "127.0.0.1"])
        rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
        if not rows:
            raise Failure(f"fi_pingpong said no figure:\n{out}")
        return float(rows[-1][6]) if figure == "latency" else float(rows[-1][5]) / 1000
