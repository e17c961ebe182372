"""Network namespaces for tests: two hosts' worth of them, joined by a veth pair.

A test that uses this calls `private()` first of all: it runs again in a user namespace (an ordinary user) or in
namespaces of its own (root), so that nothing it makes is seen outside, and all of it goes when it ends.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness

MARK = "URNIC_TEST_PRIVATE"


def private():
    """Returns in the private namespaces. /run is empty there."""
    if os.environ.get(MARK) == str(os.getppid()) or os.environ.get(MARK) == str(os.getpid()):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    words = ["unshare", "-nm"] if os.geteuid() == 0 else ["unshare", "-Urnm", "--map-root-user"]
    # unshare becomes the program that it runs: the pid stays.
    os.environ[MARK] = str(os.getpid())
    os.environ["URNIC_TEST_REAL_ROOT"] = "1" if os.geteuid() == 0 else ""
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def is_real_root():
    return bool(os.environ.get("URNIC_TEST_REAL_ROOT"))


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


def inside(namespace, *words):
    return ["nsenter", f"--net=/run/netns/{namespace}", *map(str, words)]


class Side:
    """One host: a namespace with an interface, and a daemon with an RNIC on it."""

    def __init__(self, test, number, port, workers=1, extra="", mtu=4200):
        self.test, self.number = test, number
        self.name = f"u{os.getpid()}{'ab'[number]}"
        self.interface = f"v{os.getpid()}{'ab'[number]}"
        self.mac, self.ip = f"02:00:00:00:77:0{number + 1}", f"10.77.0.{number + 1}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        test.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.socket = self.dir / "run/control.sock"
        self.port, self.workers, self.extra, self.mtu, self.daemon = port, workers, extra, mtu, None
        self.log = self.dir / "log"
        self.keys = ""  # more of [daemon]
        self.binary, self.environment = harness.BUILD / "urnicd", {}

    def set_interface_up(self, mtu=None):
        ip("-n", self.name, "link", "set", self.interface, "address", self.mac, "mtu", mtu or self.mtu, "up")
        ip("-n", self.name, "addr", "replace", f"{self.ip}/24", "dev", self.interface)

    def config(self):
        other = 2 - self.number
        return f"""
[daemon]
{self.keys}
run_dir = "{self.dir}/run"
workers = {self.workers}
hugepages = false
[[rnic]]
name = "urnic0"
port = "{self.port}"
interface = "{self.interface}"
netns = "{self.name}"
ipv4 = "{self.ip}/24"
{self.extra}
[[neighbour]]
ip = "10.77.0.{other}"
mac = "02:00:00:00:77:0{other}"
"""

    def launch(self):
        """Starts a daemon without waiting for it."""
        (self.dir / "urnicd.toml").write_text(self.config(), encoding="utf-8")
        with self.log.open("a", encoding="utf-8") as log:
            daemon = subprocess.Popen([self.binary, "--config", self.dir / "urnicd.toml"], stderr=log,
                                      stdin=subprocess.DEVNULL, env=harness.clean_environment() | self.environment)
        self.daemon = daemon
        self.test.addCleanup(self.end, daemon)
        return daemon

    def start(self):
        daemon = self.launch()
        ready = harness.wait_until(lambda: daemon.poll() is not None or self.urnic("status").returncode == 0, pause=0.1)
        self.test.assertTrue(ready and daemon.poll() is None, f"urnicd did not come up: {self.text()}")

    def end(self, daemon):
        if daemon.poll() is None:
            daemon.terminate()
            self.test.assertEqual(daemon.wait(harness.PATIENCE_S), 0, self.text())

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def urnic(self, *words):
        return harness.run([harness.URNIC, *words, "--socket", self.socket])

    def status(self):
        return json.loads(self.status_text())["devices"][0]

    def status_text(self):
        """Of a daemon that is kept from running for longer than the command waits, it is empty."""
        texts = []
        harness.wait_until(lambda: texts.append(self.urnic("status", "--json").out) or texts[-1])
        return texts[-1]

    def state(self):
        return self.status()["port"]["state"]

    def counter(self, name):
        return self.status()["counters"][name]

    def expect_state(self, state):
        self.test.assertTrue(harness.wait_until(lambda: self.state() == state), f"never {state}: {self.text()}")

    def program(self, *words):
        """The command line of a program on this host."""
        return inside(self.name, harness.URNIC, "run", "--socket", self.socket, "--", *words)

    def qps(self):
        """The QPs of all programs on this host, as urnic status has them."""
        document = json.loads(self.status_text())
        return [qp for client in document["clients"] for qp in client["qps"]]

    def resident_bytes(self):
        pages = pathlib.Path(f"/proc/{self.daemon.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.daemon.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def join(a, b):
    """A veth pair between two hosts; both ends up."""
    ip("link", "add", a.interface, "netns", a.name, "type", "veth", "peer", "name", b.interface, "netns", b.name)
    for side in (a, b):
        side.set_interface_up()


def add_namespace(test, name):
    """Addresses are of use at once there: while a link-local address is being checked for duplicates (RFC 4862 5.4), the
    kernel asks for no IPv6 neighbour, and QPs run out of retries."""
    ip("netns", "add", name)
    test.addCleanup(ip, "netns", "del", name)
    subprocess.run(inside(name, "sh", "-c", "for i in all default; do echo 0 >/proc/sys/net/ipv6/conf/$i/accept_dad; done"),
                   check=True)
    ip("-n", name, "link", "set", "lo", "up")


def make_hosts(test, port, workers=1, extra="", mtu=4200):
    sides = [Side(test, number, port, workers, extra, mtu) for number in (0, 1)]
    for side in sides:
        add_namespace(test, side.name)
    join(*sides)
    return sides


def listens(port, process):
    """True when something in the process's network namespace listens on the TCP port."""
    tables = (pathlib.Path(f"/proc/{process.pid}/net/{table}") for table in ("tcp", "tcp6"))
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for table in tables if table.exists() for line in table.read_text(encoding="ascii").splitlines()[1:])


def run_pair(test, server, client, port, during=lambda: None):
    """A server and a client on two sides; `during` is called while they run. Both results."""
    serving = harness.start(server)
    test.addCleanup(harness.end_group, serving)
    if not harness.wait_until(lambda: listens(port, serving) or serving.poll() is not None) or serving.poll() is not None:
        harness.end_group(serving)
        test.fail(f"{server} does not listen: {harness.finish(serving)}")
    asking = harness.start(client)
    test.addCleanup(harness.end_group, asking)
    during()
    # Who has lost its peer may wait for ever.
    ended = lambda process: process.poll() is not None
    harness.wait_until(lambda: ended(asking) or (ended(serving) and serving.returncode != 0))
    served = harness.finish(serving, harness.PATIENCE_S if ended(asking) and asking.returncode == 0 else 10)
    return served, harness.finish(asking, harness.PATIENCE_S if served.returncode == 0 else 10)
