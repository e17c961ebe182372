#!/usr/bin/python3
"""Connections by librdmacm, made and ended by the stock cmtime between two RNICs on the in-process wire: what each step of a
connection takes, how many live and die in a second, and what the daemon needs for many that are open at once.

Two programs of ours hold many open for as long as it takes to count them. Writes the table in bench/RESULTS.md.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import machine
import options as options_of
from daemon import Daemon
from machine import Failure, say
from talker import Talker

SERVER = "198.18.0.1"
MARK = "table of cmtime: scripts/bench cmtime writes it"
STEPS = ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy")
PATIENCE = 300
LEAST_PER_SECOND = 5000


def steps_of(output, connections):
    """Microseconds a connection by step. Its exit status says nothing of connections that failed."""
    found = {}
    for line in output.splitlines():
        name, _, rest = line.partition(":")
        if name.strip() in STEPS and rest.split():
            found[name.strip()] = float(rest.split()[0]) * 1000 / connections
    if set(found) != set(STEPS) or "error" in output.lower() or "fail" in output.lower():
        raise Failure(f"cmtime did not make its connections:\n{output}")
    return found


class Observed(Daemon):
    """A daemon that is watched while programs use it."""

    def status(self):
        done = subprocess.run([self.urnic, "status", "--json", "--socket", self.socket], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"urnic status: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def listeners(self):
        return sum(client.get("cm_listeners", 0) for client in self.status()["clients"])


def run_once(daemon, connections):
    """What one cmtime with so many connections found, and what it took."""
    server = subprocess.Popen(daemon.run(["cmtime", "-c", str(connections)]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        give_up_at = time.monotonic() + 60
        while daemon.listeners() == 0:
            if server.poll() is not None or time.monotonic() > give_up_at:
                raise Failure("cmtime does not listen")
            time.sleep(0.02)
        cpu = daemon.cpu_seconds()
        done = subprocess.run(daemon.run(["cmtime", "-s", SERVER, "-c", str(connections)]), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise Failure(f"cmtime ended with {done.returncode}:\n{done.stdout}")
        steps = steps_of(done.stdout, connections)
        return {"steps_us": steps, "per_second": 1e6 / sum(steps.values()),
                "daemon_us": 1e6 * (daemon.cpu_seconds() - cpu) / connections}
    except subprocess.TimeoutExpired as error:
        raise Failure(f"cmtime did not end within {PATIENCE} s") from error
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def run_many(daemon, connections):
    """All of them open at the same time, by two programs of ours (end.py); the daemon says so, too."""
    empty_kb = daemon.resident_kb()
    ends = []
    try:
        for role in ("serve", "connect"):
            ends.append(Talker(daemon.run([sys.executable, str(HERE / "end.py"), role, str(connections), SERVER])))
        server, client = ends
        opened = client.greeting
        if opened != {**opened, "open": connections} or server.hear() != {"open": connections}:
            raise Failure(f"{connections} connections were to open, not {opened}")
        ready = [sum(qp["state"] == "RTS" for qp in program["qps"]) for program in daemon.status()["clients"]]
        if ready != [connections, connections]:
            raise Failure(f"the daemon has {ready} connected QPs, not {connections} on each side")
        full_kb = daemon.resident_kb()
        ended = client.ask("end")
        if server.hear() != {"ended": connections}:
            raise Failure("the server's connections did not end")
    finally:
        for end in ends:
            end.end()
    nothing_left(daemon)
    return {"open_per_second": connections / opened["seconds"], "end_per_second": connections / ended["seconds"],
            "kb": (full_kb - empty_kb) / connections, "left_kb": (daemon.resident_kb() - empty_kb) / connections}


def nothing_left(daemon):
    """Waits until the daemon has forgotten all of it but what timewait asks for."""
    give_up_at = time.monotonic() + 60
    while True:
        status = daemon.status()
        left = [client["program"] for client in status["clients"]]
        left += [device["name"] for device in status["devices"]
                 if device["qps"] or device["cqs"] or device["cm"]["half_open"] or device["cm"]["listeners"] or device["cm"]["records"]]
        if not left:
            return
        if time.monotonic() > give_up_at:
            raise Failure(f"a minute after the programs ended there is still something of {', '.join(left)}")
        time.sleep(0.1)


def row(name, values, unit, least=None):
    found = machine.summary(values)
    target = ("-", "-") if least is None else (machine.figure(least), "yes" if found["median"] >= least else "**no**")
    return f"| {name} | {machine.cell(found)} | {unit} | {' | '.join(target)} |"


def table(found, short, many, options):
    lines = [machine.about(found) + f" {len(short)} runs with {options.connections:,} connections, {len(many)} with {options.many:,}. "
             "Medians (first to third quartile); a step's time is that of all connections together, divided by their number.", "",
             "| what | | | target | met |", "|---|---|---|---|---|",
             row(f"`cmtime -c {options.connections}`: connections made and ended", [run["per_second"] for run in short], "a second",
                 LEAST_PER_SECOND)]
    lines += [row(f"its step \"{step}\"", [run["steps_us"][step] for run in short], "us a connection") for step in STEPS]
    lines.append(row("the daemon's CPU time for both ends", [run["daemon_us"] for run in short], "us a connection"))
    if many:
        lines += [row(f"{options.many:,} open at the same time: opened", [run["open_per_second"] for run in many], "a second"),
                  row("ended", [run["end_per_second"] for run in many], "a second"),
                  row("the daemon's memory for both ends", [run["kb"] for run in many], "KB a connection"),
                  row("what it keeps of that afterwards for others", [run["left_kb"] for run in many], "KB a connection")]
    return "\n".join(lines) + "\n"


def arguments():
    parser = options_of.parser("cmtime", __doc__)
    parser.add_argument("--rounds", type=int, default=7, help="runs with --connections (%(default)s)")
    parser.add_argument("--connections", type=int, default=500, help="of each of them (%(default)s)")
    parser.add_argument("--many", type=int, default=10000, help="connections that are held open (%(default)s)")
    parser.add_argument("--many-rounds", type=int, default=1, help="such runs (%(default)s)")
    options_of.add_results(parser, "cmtime")
    options_of.add_print(parser)
    options = options_of.parse(parser)
    if options.rounds < 1 or options.many_rounds < 0 or not 1 <= options.connections <= 16000 or not 1 <= options.many <= 16000:
        parser.error("--rounds must be at least 1, --many-rounds not negative, connections 1 to 16000")
    return options


def main():
    options = arguments()
    found = {**machine.context(), "build": machine.check_build(options.build)}
    cpu_times = machine.CpuTimes()
    short, many = [], []
    with tempfile.TemporaryDirectory(prefix="urnic-bench-") as directory:
        for runs, measure, rounds, count in ((short, run_once, options.rounds, options.connections),
                                             (many, run_many, options.many_rounds, options.many)):
            for i in range(rounds):
                # A daemon that has served nobody: what it needs is seen from the beginning.
                daemon = Observed(options.build, directory, f"{count}-{i}", 1)
                try:
                    runs.append(measure(daemon, count))
                finally:
                    daemon.end()
                figures = ", ".join(f"{name} {machine.figure(value)}" for name, value in runs[-1].items() if name != "steps_us")
                say(f"{i + 1}/{rounds} with {count:,}: {figures}")
    found |= cpu_times.disturbances()
    machine.write_json(options.json, {"context": found, "short": short, "many": many})
    text = table(found, short, many, options)
    if not options.print:
        machine.write_between(options.page, MARK, text)
    print(text, end="")
    rate = statistics.median(run["per_second"] for run in short)
    say(f"{rate:.0f} connections a second; {options.json}")


if __name__ == "__main__":
    machine.run_program(main)
