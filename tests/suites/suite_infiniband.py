"""A subnet of InfiniBand: opensm on a fat tree of 16 leaves and four spines with 64 RNICs, infiniband-diags, libibverbs' pingpongs,
perftest, librdmacm and IP over InfiniBand over its routes and groups; opensm on a thousand nodes; then saquery on a subnet without a
subnet manager.

Ends with a table of all tools and their results. The short form has four leaves, two spines and eight RNICs, 62 nodes instead of a
thousand, and leaves out most of perftest and of the routing engines."""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import typing

import verdict
import harness
import ibacm
import ipoib_test
import pair


class Shape(typing.NamedTuple):
    rnics: int
    leaves: int
    spines: int
    idle: int = 0  # hosts without RNIC at each leaf

    @property
    def hosts(self):
        return self.rnics + self.leaves * self.idle

    @property
    def switches(self):
        return self.leaves + self.spines

    @property
    def links(self):
        """Hosts' and those between switches; each has two ends."""
        return self.hosts + self.leaves * self.spines


WHOLE, SHORT = Shape(rnics=64, leaves=16, spines=4), Shape(rnics=8, leaves=4, spines=2)
LARGE, SHORT_LARGE = Shape(rnics=16, leaves=16, spines=4, idle=62), Shape(rnics=8, leaves=4, spines=2, idle=12)
CONFIG = """[daemon]
run_dir = "{run_dir}"
workers = 1
[[network]]
fabric = "tree"
topology = "leaf-spine"
leaves = {leaves}
spines = {spines}
idle_hosts = {idle}
link_mbps = 10000
"""
RNIC = """[[rnic]]
name = "urnic{number}"
port = "fabric"
fabric = "tree"
link_layer = "infiniband"
subnet_manager = "external"
ipv4 = "{ip}/24"
"""


def ip(number):
    """What librdmacm knows an RNIC by."""
    return f"198.18.1.{number + 1}"


SBIN = ("/usr/sbin", "/sbin")
ENGINES = ("ftree", "updn", "minhop")
PINGPONGS = ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")
PERFTEST = (("ib_send_bw", "RC"), ("ib_send_bw", "UC"), ("ib_send_bw", "UD"), ("ib_send_bw", "XRC"), ("ib_send_lat", "RC"),
            ("ib_write_bw", "RC"), ("ib_write_lat", "UC"), ("ib_read_bw", "RC"), ("ib_read_lat", "XRC"), ("ib_atomic_bw", "RC"),
            ("ib_atomic_lat", "RC"))


def tool(name):
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN))) or name


def match(pattern, text):
    """The first group; Refused when there is none."""
    found = re.search(pattern, text)
    if not found:
        raise verdict.Refused(f"no {pattern!r} in {text}")
    return found.group(1) if found.groups() else found.group(0)


def patience(name):
    """saquery waits for a second, once."""
    return ("-t", "10000") if name == "saquery" else ()


class Tree:
    """urnicd and opensm, each in the same folder."""

    def __init__(self, folder, shape):
        self.folder, self.shape = folder, shape
        self.run_dir = folder / "run"
        self.run_dir.mkdir(mode=0o700)
        config = folder / "urnicd.toml"
        config.write_text(CONFIG.format(run_dir=self.run_dir, **shape._asdict()) +
                          "".join(RNIC.format(number=number, ip=ip(number)) for number in range(shape.rnics)), encoding="utf-8")
        self.daemon = harness.start([harness.BUILD / "urnicd", "--config", config])
        self.managers = {}
        ask = [harness.URNIC, "status", "--json", "--socket", self.run_dir]
        if not harness.wait_until(lambda: self.daemon.poll() is not None or harness.run(ask).returncode == 0, pause=0.1) or \
                self.daemon.poll() is not None:
            raise verdict.Refused(f"urnicd does not come up: {harness.finish(self.daemon)}")

    def here(self, name, *words):
        return [str(harness.URNIC), "run", "--socket", str(self.run_dir), "--", tool(name), *(str(word) for word in words)]

    def ask(self, name, *words):
        words = (*patience(name), *words)
        result = harness.run(self.here(name, *words), env=dict(os.environ))
        if result.returncode != 0:
            raise verdict.Refused(str(result))
        return result.out

    def port(self, number, name):
        file = self.run_dir / f"sysroot/sys/class/infiniband/urnic{number}/ports/1/{name}"
        return file.read_text(encoding="utf-8").strip()

    def lid(self, number):
        return int(self.port(number, "lid"), 16)

    def start_manager(self, number=0, priority=5, engine="minhop"):
        folder = self.folder / f"opensm{number}-{engine}"
        folder.mkdir(exist_ok=True)
        log = folder / "opensm.log"
        log.unlink(missing_ok=True)  # opensm appends, and what an earlier one said is not looked for
        (folder / "opensm.conf").write_text("sweep_interval 1\nsminfo_polling_timeout 500\npolling_retry_number 2\nforce_log_flush TRUE\n",
                                            encoding="utf-8")
        guid = self.port(number, "gids/0").replace(":", "")[16:]
        process = harness.start(self.here("opensm", "-g", f"0x{guid}", "-p", priority, "-R", f"{engine},no_fallback", "-f", log,
                                          "-F", folder / "opensm.conf"),
                                env={**os.environ, "OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder)})
        self.managers[number] = process
        return process, log

    def wait_for(self, process, log, text):
        def said():
            return log.exists() and text in log.read_text(encoding="utf-8", errors="replace")
        if not harness.wait_until(lambda: said() or process.poll() is not None) or not said():
            raise verdict.Refused(f"opensm does not say {text}: " +
                                  (log.read_text(encoding="utf-8", errors="replace")[-4000:] if log.exists() else ""))

    def bring_up(self, number=0, engine="minhop"):
        process, log = self.start_manager(number, engine=engine)
        self.wait_for(process, log, "SUBNET UP")
        states = [self.port(each, "state") for each in range(self.shape.rnics)]
        if states != ["4: ACTIVE"] * self.shape.rnics:
            raise verdict.Refused(f"SUBNET UP, but {states}")

    def end_manager(self, number):
        process = self.managers.pop(number, None)
        if process is not None:
            harness.end_group(process)
            harness.finish(process)

    def end(self):
        for number in list(self.managers):
            self.end_manager(number)
        self.daemon.send_signal(signal.SIGTERM)
        result = harness.finish(self.daemon)
        if result.returncode != 0:
            raise verdict.Refused(f"urnicd ended badly: {result}")

    def pair(self, *words):
        server, client = "urnic1", f"urnic{self.shape.rnics - 1}"
        _, result = pair.run_pair(lambda port: self.here(*words, "-p", port, "-d", server),
                                  lambda port: self.here(*words, "-p", port, "-d", client, "127.0.0.1"))
        return result

    def perftest(self, *words):
        try:
            harness.perftest_rows(self.pair(*words, "-F", "-n", "200"))
        except ValueError as problem:
            raise verdict.Refused(str(problem)) from problem


def count(expected, pattern, text):
    found = len(re.findall(pattern, text))
    if found != expected:
        raise verdict.Refused(f"{found} times {pattern!r}, not {expected}: {text}")


def route_by(tree, engine):
    tree.end_manager(0)
    tree.bring_up(engine=engine)
    tree.pair("ibv_rc_pingpong", "-n", "100")


def hand_over(tree):
    """The master is killed; the one that stood by takes its place."""
    if 0 not in tree.managers:
        tree.bring_up()
    standby, log = tree.start_manager(3, priority=3)
    tree.wait_for(standby, log, "STANDBY")
    tree.end_manager(0)
    if not harness.wait_until(lambda: tree.port(0, "sm_lid") == tree.port(3, "lid")):
        raise verdict.Refused(log.read_text(encoding="utf-8", errors="replace")[-4000:])
    tree.pair("ibv_rc_pingpong", "-n", "100")


def switch_lid(tree):
    return match(r'(?m)^Switch\s.*"urnic switch s1 of tree".* lid (\d+)', tree.ask("ibnetdiscover", "-C", "urnic0"))


def diagnostics(tree):
    """{tool: check}: what each prints is compared with what there is."""
    rnics, switches, links = tree.shape.rnics, tree.shape.switches, tree.shape.links
    far = rnics - 1
    return {
        "ibstat": lambda: match(rf"State: Active[\s\S]*Base lid: {tree.lid(1)}\n", tree.ask("ibstat", "urnic1")),
        "ibstatus": lambda: match(rf"base lid:\s+{tree.lid(1):#x}", tree.ask("ibstatus", "urnic1")),
        "ibaddr": lambda: match(rf"LID start {tree.lid(0):#x} ", tree.ask("ibaddr", "-C", "urnic0")),
        "ibnetdiscover": lambda: (count(switches, r"(?m)^Switch\s", tree.ask("ibnetdiscover", "-C", "urnic0")),
                                  count(rnics, r"(?m)^Ca\s", tree.ask("ibnetdiscover", "-C", "urnic0"))),
        "ibhosts": lambda: count(rnics, r"(?m)^Ca\s", tree.ask("ibhosts", "-C", "urnic0")),
        "ibswitches": lambda: count(switches, r"(?m)^Switch\s", tree.ask("ibswitches", "-C", "urnic0")),
        "iblinkinfo": lambda: count(2 * links, r"Active/\s+LinkUp", tree.ask("iblinkinfo", "-C", "urnic0")),
        "ibroute": lambda: count(rnics, r"(?i)0x[0-9a-f]{4} \d+ : \(Channel Adapter",
                                 tree.ask("ibroute", "-C", "urnic0", switch_lid(tree))),
        "dump_fts": lambda: count(switches, r"Unicast lids", tree.ask("dump_fts", "-C", "urnic0")),
        "ibtracert": lambda: count(3, r"-> switch port", tree.ask("ibtracert", "-C", "urnic0", tree.lid(0), tree.lid(far))),
        "sminfo": lambda: match(r"SMINFO_MASTER", tree.ask("sminfo", "-C", "urnic1")),
        "smpquery": lambda: (match(r"NodeType:\.+Switch", tree.ask("smpquery", "-C", "urnic0", "-D", "nodeinfo", "0,1")),
                             match(r"LinkState:\.+Active", tree.ask("smpquery", "-C", "urnic0", "portinfo", tree.lid(far))),
                             match(r"LinearFdbCap:\.+49152", tree.ask("smpquery", "-C", "urnic0", "switchinfo", switch_lid(tree)))),
        "ibportstate": lambda: match(r"LinkState:\.+Active", tree.ask("ibportstate", "-C", "urnic0", tree.lid(far), 1, "query")),
        "saquery": lambda: (count(rnics + switches, "NodeRecord dump", tree.ask("saquery", "-C", "urnic2", "-N")),
                            match(f"dlid\\.+{tree.lid(1)}\n", tree.ask("saquery", "-C", "urnic2", "--src-to-dst", f"{tree.lid(2)}:{tree.lid(1)}"))),
        "perfquery": lambda: match(r"PortXmitPkts:\.+\d+", tree.ask("perfquery", "-C", "urnic0", "-x", switch_lid(tree), 1)),
        "ibqueryerrors": lambda: tree.ask("ibqueryerrors", "-C", "urnic0"),
        "ibping": lambda: match("3 packets transmitted, 3 received", tree.ask("ibping", "-C", "urnic0", "-c", 3, tree.lid(far))),
    }


class IpoibLink:
    """A link in a network namespace of its own, which ends with it."""

    def __init__(self, tree, number, *options):
        self.ip = f"10.9.0.{number + 1}"
        self.program = harness.start(["unshare", "-n" if os.geteuid() == 0 else "-Urn", *tree.here(harness.URNIC, "ipoib", "-d", f"urnic{number}", "-i", "ib0", *options)])
        line = harness.read_line(self.program)
        if not line.startswith("ib0: "):
            raise verdict.Refused(f"no link: {line}{harness.finish(self.program)}")
        for words in (("address", "add", f"{self.ip}/24", "dev", "ib0"), ("link", "set", "lo", "up")):
            self.run("ip", *words)

    def inside(self, *words):
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self.program.pid), *user, "-n", *(str(word) for word in words)]

    def run(self, *words):
        result = harness.run(self.inside(*words))
        if result.returncode != 0:
            raise verdict.Refused(str(result))
        return result.out

    def end(self):
        self.program.terminate()
        result = harness.finish(self.program)
        if result.returncode != 0:
            raise verdict.Refused(f"the link ended badly: {result}")


def ipoib(tree, *options):
    """Ping, and a megabyte of TCP, compared; the members are those that opensm knows."""
    if not tree.managers:
        tree.bring_up()
    with contextlib.ExitStack() as stack:
        links = []
        for number in (1, tree.shape.rnics - 1):
            links.append(IpoibLink(tree, number, *options))
            stack.callback(links[-1].end)
        near, far = links
        near.run("ping", "-c", "3", "-W", "10", far.ip)
        members = tree.ask("saquery", "-C", "urnic0", "--smkey", 1, "MCMR", "--mgid", "ff12:401b:ffff::ffff:ffff")
        count(len(links), r"(?m)PortGid\.+fe80:", members)
        receiving = harness.start(far.inside(sys.executable, "-c", ipoib_test.RECEIVE, 5001))
        stack.callback(harness.end_group, receiving)
        harness.read_line(receiving)
        sent = near.run(sys.executable, "-c", ipoib_test.SEND, far.ip, 5001, 1_000_000)
        received = harness.finish(receiving).out
        if not received.endswith(sent):
            raise verdict.Refused(f"sent {sent}, received {received}")


# Of librdmacm: a server and its client; whether the server ends by itself.
CM_PROGRAMS = {
    "rping": ("rping -s -a {server} -V -C 20", "rping -c -a {server} -V -C 20", True),
    "ucmatose": ("ucmatose -b {server} -c 10", "ucmatose -s {server} -c 10", True),
    "udaddy": ("udaddy -b {server} -c 3", "udaddy -s {server} -c 3", True),
    "rstream": ("rstream -b {server} -T v -S 100000 -C 20", "rstream -s {server} -T v -S 100000 -C 20", True),
    "cmtime": ("cmtime -b {server} -c 50", "cmtime -s {server} -c 50", False),
    "ib_send_bw -R": ("ib_send_bw -R -F -n 200 -p 18720", "ib_send_bw -R -F -n 200 -p 18720 {server}", True),
    "ib_write_lat -R": ("ib_write_lat -R -F -n 200 -p 18721", "ib_write_lat -R -F -n 200 -p 18721 {server}", True),
}


def has_listener(tree):
    status = json.loads(harness.run([harness.URNIC, "status", "--json", "--socket", tree.run_dir]).out)
    return any(client.get("cm_listeners") for client in status["clients"])


def rdma_cm(tree, name):
    """By IP addresses, over paths that opensm gives."""
    if not tree.managers:
        tree.bring_up()
    server, client, ends = (words.format(server=ip(1)) if isinstance(words, str) else words for words in CM_PROGRAMS[name])
    serving = harness.start(tree.here(*server.split()))
    try:
        if not harness.wait_until(lambda: has_listener(tree) or serving.poll() is not None, pause=0.05):
            raise verdict.Refused(f"{server} does not listen")
        result = harness.run(tree.here(*client.split()))
        if result.returncode != 0:
            raise verdict.Refused(str(result))
    finally:
        if not ends:
            harness.end_group(serving)
        served = harness.finish(serving)
    if ends and served.returncode != 0:
        raise verdict.Refused(str(served))


def mckey(tree):
    """A group that opensm makes; of its members, and of who joins to send alone. opensm answers a join before the switches know of it,
    and what is sent in between goes nowhere: who sends does it again."""
    if not tree.managers:
        tree.bring_up()
    for options in ([], ["-o"]):
        receiver = harness.start(tree.here("mckey", "-m", "239.1.2.3", "-b", ip(1), "-C", "4"))
        try:
            status = [harness.URNIC, "status", "--json", "--socket", tree.run_dir]
            if not harness.wait_until(lambda: any(each["mcast_groups"] for each in json.loads(harness.run(status).out)["devices"]),
                                      pause=0.05):
                raise verdict.Refused("the receiver does not join")
            send = tree.here("mckey", "-m", "239.1.2.3", "-b", ip(tree.shape.rnics - 1), "-s", "-C", "4", *options)

            def is_received():
                sent = harness.run(send)
                if sent.returncode != 0:
                    raise verdict.Refused(str(sent))
                return receiver.poll() is not None

            if not harness.wait_until(is_received, pause=0.1):
                raise verdict.Refused(f"nothing comes: {send}")
            received = harness.finish(receiver)
        finally:
            harness.end_group(receiver)
        if received.returncode != 0:
            raise verdict.Refused(str(received))


class Checks:
    """Runs the checks of a suite, and remembers their names."""

    def __init__(self, suite):
        self._suite = suite
        self.names = []

    def run(self, name, check):
        self.names.append(name)
        self._suite.run(name, check)


def on_a_tree(suite, is_short):
    with tempfile.TemporaryDirectory(prefix="urnic-ib-") as folder:
        tree = Tree(pathlib.Path(folder), SHORT if is_short else WHOLE)
        with contextlib.ExitStack() as stack:
            stack.callback(tree.end)
            began = time.monotonic()
            suite.run("opensm: first sweep", tree.bring_up)
            print(f"{tree.shape.rnics} RNICs and {tree.shape.switches} switches: up after {time.monotonic() - began:.1f} s", flush=True)
            for name, check in diagnostics(tree).items():
                suite.run(f"{name}: opensm's subnet", check)
            for name in PINGPONGS:
                suite.run(f"{name}: opensm's routes", functools.partial(tree.pair, name, "-n", "200"))
            for name, connection in PERFTEST[2:6] if is_short else PERFTEST:
                suite.run(f"{name} -c {connection}: opensm's routes", functools.partial(tree.perftest, name, "-c", connection))
            suite.run("urnic ipoib: opensm's groups and paths", functools.partial(ipoib, tree))
            suite.run("urnic ipoib --mode connected: opensm's paths", functools.partial(ipoib, tree, "--mode", "connected"))
            for name in list(CM_PROGRAMS)[:2] if is_short else CM_PROGRAMS:
                suite.run(f"{name}: librdmacm, opensm's paths", functools.partial(rdma_cm, tree, name))
            suite.run("mckey: librdmacm, a group of opensm's", functools.partial(mckey, tree))
            for routes in ("sa",) if is_short else ("sa", "acm"):
                suite.run(f"ibacm: route_prot {routes}, by ib_acme", functools.partial(ibacm.resolve, tree, pathlib.Path(folder), routes))
            for engine in ENGINES[:1] if is_short else ENGINES:
                suite.run(f"opensm -R {engine}: routes carry data", functools.partial(route_by, tree, engine))
            suite.run("opensm: a second one takes over", functools.partial(hand_over, tree))


def on_a_large_tree(suite, is_short):
    """Most of the hosts have no RNIC: opensm does not know, and routes to them."""
    with tempfile.TemporaryDirectory(prefix="urnic-ib-") as folder:
        tree = Tree(pathlib.Path(folder), SHORT_LARGE if is_short else LARGE)
        shape = tree.shape
        with contextlib.ExitStack() as stack:
            stack.callback(tree.end)
            began = time.monotonic()
            suite.run("opensm: first sweep of a large tree", tree.bring_up)
            print(f"{shape.hosts} hosts and {shape.switches} switches: up after {time.monotonic() - began:.1f} s", flush=True)
            suite.run("ibhosts: a large tree", lambda: count(shape.hosts, r"(?m)^Ca\s", tree.ask("ibhosts", "-C", "urnic0")))
            suite.run("iblinkinfo: a large tree",
                      lambda: count(2 * shape.links, r"Active/\s+LinkUp", tree.ask("iblinkinfo", "-C", "urnic0")))
            suite.run("ibv_rc_pingpong: a large tree", functools.partial(tree.pair, "ibv_rc_pingpong", "-n", "200"))


def alone(*words):
    """On the subnet of `urnic run --standalone --link-layer infiniband`."""
    result = harness.run([harness.URNIC, "run", "--standalone", "--link-layer", "infiniband", "--", tool(words[0]), *patience(words[0]), *words[1:]])
    if result.returncode != 0:
        raise verdict.Refused(str(result))
    return result.out


def without_a_manager(suite):
    checks = {
        "ibstat": lambda: count(2, "State: Active", alone("ibstat")),
        "ibnetdiscover": lambda: count(2, r"(?m)^Ca\s", alone("ibnetdiscover")),
        "saquery nodes": lambda: count(2, "NodeRecord dump", alone("saquery", "-N")),
        "saquery paths": lambda: count(4, "PathRecord dump", alone("saquery", "-p")),
        "saquery --src-to-dst": lambda: match(r"dlid\.+2\n", alone("saquery", "--src-to-dst", "1:2")),
        "saquery groups": lambda: match(r"Mlid\.+0xC000", alone("saquery", "-g")),
        "sminfo": lambda: match(r"sm lid 1 .*SMINFO_MASTER", alone("sminfo")),
    }
    for name, check in checks.items():
        suite.run(f"{name}: built-in administrator", check)


def main():
    suite = verdict.Verdict("infiniband", __doc__)
    checks = Checks(suite)
    on_a_tree(checks, suite.short)
    on_a_large_tree(checks, suite.short)
    without_a_manager(checks)
    suite.print_table("tool", "result")
    suite.end(expected=checks.names if suite.short else None)


if __name__ == "__main__":
    sys.exit(main())
