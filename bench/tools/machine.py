"""What every measurement needs to know of the machine, and how it is written down."""

import datetime
import itertools
import json
import os
import pathlib
import platform
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    """Something a person has to know; printed without a traceback."""


def run_program(main):
    """What stands at the end of each program here."""
    try:
        main()
    except Failure as failure:
        sys.exit(f"scripts/bench: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


# So that what was started is ended then, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def say(text):
    print(text, file=sys.stderr, flush=True)


def threads_of_cores(cpus):
    """These CPUs by the core that they are hardware threads of."""
    cores = {}
    for cpu in cpus:
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(path.read_text(encoding="ascii") if path.exists() else cpu, []).append(cpu)
    return list(cores.values())


def cores_first(cpus):
    """One CPU of each core, then the second ones of all cores, and so on."""
    return [cpu for row in itertools.zip_longest(*threads_of_cores(cpus)) for cpu in row if cpu is not None]


class Cpus:
    """Where the daemon and the two applications of a test run."""

    def __init__(self):
        allowed = cores_first(sorted(os.sched_getaffinity(0)))
        # The daemon keeps a core to itself where there are two; the applications share the other or have their own.
        # Programs without a daemon get two cores where there are two.
        self.daemon = allowed[1 % len(allowed)]
        self.a = allowed[0]
        self.b = allowed[2] if len(allowed) > 2 else allowed[0]
        self.own_b = self.b if len(allowed) > 2 else self.daemon
        self.all = allowed

    def floor_arguments(self):
        shared = [] if len(self.all) > 1 else ["--yield"]
        return [f"--cpu-daemon={self.daemon}", f"--cpu-a={self.a}", f"--cpu-b={self.b}", *shared]


def pinned(cpu, command):
    words = [str(word) for word in command]
    return words if cpu is None else ["taskset", "-c", str(cpu), *words]


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


def pair(server, client, port, environment=None, limit=180, server_ends=True):
    """Runs a server and, once it listens on `port`, its client; returns the client's output."""
    first = subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        give_up_at = time.monotonic() + 60
        while not is_listening(port):
            if first.poll() is not None:
                raise Failure(f"{' '.join(server)} ended with {first.returncode} before it listened:\n{first.stdout.read()}")
            if time.monotonic() > give_up_at:
                raise Failure(f"{' '.join(server)} did not listen on port {port} within 60 s")
            time.sleep(0.02)
        second = subprocess.run(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                timeout=limit, check=False)
        if second.returncode != 0:
            raise Failure(f"{' '.join(client)} ended with {second.returncode}:\n{second.stdout}")
        return second.stdout
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(client)} did not end within {limit} s") from error
    finally:
        try:
            first.wait(10 if server_ends else 0)
        except subprocess.TimeoutExpired:
            first.kill()
            first.wait()
        first.stdout.close()


def summary(values):
    values = list(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return {"median": statistics.median(values), "q1": quartiles[0], "q3": quartiles[2], "samples": values}


def figure(value):
    """Three digits, and no exponent."""
    return f"{float(format(value, '.3g')):,.10g}"


def cell(found):
    """Median (first to third quartile)."""
    return f"{figure(found['median'])} ({figure(found['q1'])}-{figure(found['q3'])})"


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


class CpuTimes:
    """Who had the CPUs since it was made."""

    def __init__(self):
        self.before, self.own_before = self.read(), self.own()

    @staticmethod
    def read():
        with open("/proc/stat", encoding="ascii") as lines:
            # user, nice, system, idle, iowait, irq, softirq, steal
            return [int(field) / os.sysconf("SC_CLK_TCK") for field in lines.readline().split()[1:9]]

    @staticmethod
    def own():
        """Of this program and of all that it started and that have ended."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(found.ru_utime + found.ru_stime for found in used)

    def disturbances(self):
        """Percent of all CPU time that the host took away, and that other programs had. What was measured has ended."""
        spent = [now - before for now, before in zip(self.read(), self.before)]
        total = max(0.01, sum(spent))
        others = max(0.0, sum(spent[:3]) - (self.own() - self.own_before))
        return {"steal_percent": round(100 * spent[7] / total, 1), "others_percent": round(100 * others / total, 1)}


def context():
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"date": datetime.date.today().isoformat(), "cpu": cpu_model(), "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "load_before": round(os.getloadavg()[0], 2), "commit": commit.stdout.strip()}


def about(found):
    """The context in words; a warning where figures cannot be trusted."""
    text = (f"Measured {found['date']} at {found['commit'] or 'no commit'} on {found['cpu']}, {found['cpus']} CPUs, Linux "
            f"{found['kernel']}, load {found['load_before']:.1f} before.")
    # The load before may be that of the measurement before this one.
    busy = "others_percent" not in found and found["load_before"] >= 0.5 * found["cpus"]
    if "steal_percent" in found:
        text += (f" Meanwhile the host kept {found['steal_percent']:g} % of the CPUs' time, and other programs had "
                 f"{found['others_percent']:g} %.")
        busy = found["others_percent"] >= 5
    if busy:
        text += (" **The machine was busy: these figures say how programs share a CPU with strangers, not how fast they are. "
                 "Do not quote them.**")
    return text


def split_at_mark(path, mark):
    """A page before the line `<!-- MARK -->`, from there to `<!-- end of MARK -->`, and behind that."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    page = path.read_text(encoding="utf-8")
    if page.count(begin) != 1 or page.count(end) != 1:
        raise Failure(f"{path} must have one line {begin} and one line {end}: what lies between them is replaced")
    before, rest = page.split(begin)
    between, behind = rest.split(end)
    return f"{before}{begin}\n", between.removeprefix("\n"), f"{end}{behind}"


def read_between(path, mark):
    return split_at_mark(path, mark)[1]


def write_between(path, mark, text):
    """Replaces what stands between `<!-- MARK -->` and `<!-- end of MARK -->` in a page."""
    before, _, behind = split_at_mark(path, mark)
    path.write_text(f"{before}{text}{behind}", encoding="utf-8")


def write_json(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def check_build(build, program="urnicd"):
    """Figures of anything but the release build are worth nothing."""
    if not (build / program).exists():
        raise Failure(f"{build} holds no built {program}: scripts/build")
    options = json.loads((build / "meson-info" / "intro-buildoptions.json").read_text(encoding="utf-8"))
    chosen = {option["name"]: option["value"] for option in options}
    if chosen["optimization"] != "3" or chosen["b_sanitize"] != "none":
        say(f"warning: {build} is no release build (optimization {chosen['optimization']}, sanitizers "
            f"{chosen['b_sanitize']}): do not quote its figures")
    return {name: chosen[name] for name in ("optimization", "b_sanitize", "b_lto", "b_pgo", "cpp_args")}
