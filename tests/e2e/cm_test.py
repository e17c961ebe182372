"""librdmacm's programs, unmodified, between urnic0 and urnic1, under `urnic run --standalone`, of either link layer.

Each case: a server that listens, a client that connects to it, and both end well. That a server listens is seen in the
daemon's status; TCP ports have nothing to do with it.
"""

import ipaddress
import json
import os
import re
import shlex
import subprocess
import tempfile

import harness

SERVER, CLIENT = "198.18.0.1", "198.18.0.2"
RSPRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
_ports = iter(range(20000, 32000))


def status():
    out = subprocess.run([harness.URNIC, "status", "--json"], env=dict(os.environ), capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def cm_clients():
    return [client for client in status()["clients"] if "cm_ids" in client]


def children_of(pid):
    found = {pid}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) in found:
                        found.add(int(entry))
            except OSError:
                pass
    return found


def has_listener(pid):
    pids = children_of(pid)
    return any(client["pid"] in pids and client["cm_listeners"] > 0 for client in cm_clients())


# What perftest does to itself now and then, on any RNIC: its server listens twice, and its client may be faster. It means to try again
# then, but uses what it has freed.
RACE = "RDMA_CM_EVENT_REJECTED; error: 8."


class CmCase(harness.TestCase):
    def connect(self, server, client, **options):
        """Both results. A server that does not end by itself is ended once the client has."""
        for _ in range(4):
            try:
                return self.connect_once(server, client, **options)
            except AssertionError as problem:
                if RACE not in str(problem):
                    raise
        return self.connect_once(server, client, **options)

    def connect_once(self, server, client, timeout=60, server_ends=True, env=None):
        environment = dict(os.environ, **(env or {}))
        serving = harness.start(shlex.split(server), env=environment)
        self.addCleanup(harness.end_group, serving)
        listens = harness.wait_until(lambda: has_listener(serving.pid) or serving.poll() is not None, pause=0.05)
        if not listens or serving.poll() is not None:
            harness.end_group(serving)
            self.fail(f"{server} does not listen: {harness.finish(serving)}")
        client_result = harness.run(shlex.split(client), timeout, env=environment)
        if client_result.returncode != 0 or not server_ends:
            harness.end_group(serving)
        server_result = harness.finish(serving, timeout)
        both = f"\n=== {server}\n{server_result}\n=== {client}\n{client_result}"
        self.assertEqual(client_result.returncode, 0, both)
        if server_ends:
            self.assertEqual(server_result.returncode, 0, both)
        return server_result, client_result

    def assert_nothing_left(self):
        self.assertTrue(harness.wait_until(lambda: not cm_clients(), 20), str(cm_clients()))

    def tearDown(self):
        self.assert_nothing_left()


def port_attribute(device, name):
    with open(f"{os.environ['URNIC_RUN_DIR']}/sysroot/sys/class/infiniband/{device}/ports/1/{name}", encoding="ascii") as attribute:
        return attribute.read().strip()


def is_infiniband():
    return port_attribute("urnic0", "link_layer") == "InfiniBand"


def link_local(device):
    """Over RoCE the first GID; over InfiniBand the port's GUID as a universal identifier (RFC 4391, section 8)."""
    gid = bytearray(ipaddress.ip_address(port_attribute(device, "gids/0")).packed)
    if is_infiniband():
        gid[8] |= 2
    return str(ipaddress.ip_address(bytes(gid)))


class Rping(CmCase):
    def rping(self, address, server_address=None):
        where = "" if server_address == "" else f"-a {server_address or address}"
        server, client = self.connect(f"rping -s {where} -V -v -C 5", f"rping -c -a {address} -V -v -C 5")
        self.assertEqual(len(re.findall(r"^ping data: rdma-ping-\d", client.out, re.M)), 5, str(client))
        self.assertEqual(len(re.findall(r"^server ping data: rdma-ping-\d", server.out, re.M)), 5, str(server))

    def test_ipv4(self):
        self.rping(SERVER)

    def test_ipv6(self):
        self.rping(link_local("urnic0"))

    def test_wildcard(self):
        self.rping(SERVER, server_address="")
        self.rping(CLIENT, server_address="")

    def test_loopback(self):
        self.rping("127.0.0.1", server_address="")
        self.rping("127.0.0.1")

    def test_big_and_odd_sizes(self):
        for size in (64, 1001, 65535):
            self.connect(f"rping -s -a {SERVER} -V -C 5 -S {size}", f"rping -c -a {SERVER} -V -C 5 -S {size}")


class Examples(CmCase):
    def test_rdma_server(self):
        server, client = self.connect("rdma_server", f"rdma_client -s {SERVER}")
        self.assertIn("end 0", server.out + client.out)

    def test_ucmatose(self):
        self.connect("ucmatose -c 10", f"ucmatose -s {SERVER} -c 10")

    def test_udaddy(self):
        self.connect("udaddy -c 3", f"udaddy -s {SERVER} -c 3")

    def test_xrc(self):
        self.connect("rdma_xserver", f"rdma_xclient -s {SERVER}")
        self.connect("rdma_xserver -c x", f"rdma_xclient -s {SERVER} -c x")

    def test_cmtime(self):
        # Its server serves for ever.
        _, client = self.connect("cmtime -c 50", f"cmtime -s {SERVER} -c 50", server_ends=False)
        self.assertRegex(client.out, r"connect\s*:\s*[0-9.]+")

    def test_burst(self):
        """More requests at once than the server's program takes meanwhile: none goes unanswered."""
        connections = 1500
        def dropped():
            return sum(device["cm"]["dropped_backlog"] + device["counters"]["drop_mad_full"] for device in status()["devices"])
        before = dropped()
        self.connect(f"cmtime -c {connections}", f"cmtime -s {SERVER} -c {connections}", server_ends=False)
        self.assertEqual(dropped(), before)

    def test_mckey(self):
        receiver = harness.start(shlex.split(f"mckey -m 239.1.2.3 -b {SERVER} -C 8"), env=dict(os.environ))
        self.addCleanup(harness.end_group, receiver)
        # It posts its receives before it joins.
        self.assertTrue(harness.wait_until(lambda: any(device["mcast_groups"] for device in status()["devices"]), pause=0.05))
        for alone in ("", "-o"):  # a full member, and one to send alone
            self.assert_ok(harness.run(shlex.split(f"mckey -m 239.1.2.3 -b {CLIENT} -s -C 4 {alone}"), env=dict(os.environ)))
        self.assert_ok(harness.finish(receiver))


class Rsockets(CmCase):
    def test_rstream(self):
        self.connect(f"rstream -b {SERVER} -S 4096 -C 200", f"rstream -s {SERVER} -S 4096 -C 200")

    def test_rstream_verified(self):
        self.connect(f"rstream -b {SERVER} -T v -S 100000 -C 20", f"rstream -s {SERVER} -T v -S 100000 -C 20")

    def test_riostream(self):
        self.connect(f"riostream -b {SERVER} -S 4096 -C 200", f"riostream -s {SERVER} -S 4096 -C 200")

    def test_tcp_program(self):
        """NPtcp, which knows nothing of RDMA and looks at its data; nobody but an rsocket has these addresses."""
        program = "NPtcp -i -u 20000 -o /dev/null -P 7993"
        environment = {"LD_PRELOAD": f"{os.environ['LD_PRELOAD']} {RSPRELOAD}"}
        server, client = self.connect(program, f"{program} -h {SERVER}", env=environment)
        self.assertRegex(client.out + client.err, r"4097 bytes .*Integrity check passed", f"{server}{client}")


class Dapl(CmCase):
    """uDAPL: its provider "ofa" is made of verbs and librdmacm."""

    def dapltest(self, kind, *tests):
        with tempfile.NamedTemporaryFile("w", prefix="urnic-dat-", suffix=".conf") as registry:
            for name, address in (("dapl_server", SERVER), ("dapl_client", CLIENT)):
                registry.write(f'{name} u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{address} 0" ""\n')
            registry.flush()
            environment = dict(os.environ, DAT_OVERRIDE=registry.name)
            serving = harness.start(shlex.split("dapltest -T S -D dapl_server"), env=environment)
            self.addCleanup(harness.end_group, serving)
            self.assertTrue(harness.wait_until(lambda: has_listener(serving.pid)))
            for test in tests:
                result = harness.run(shlex.split(f"dapltest -T {kind} -s {SERVER} -D dapl_client {test}"), env=environment)
                self.assert_ok(result, test)
                self.assertIn("End of Work", result.out, test)
            # Who asks it to end gets no answer but that.
            self.assert_ok(harness.run(shlex.split(f"dapltest -T Q -s {SERVER} -D dapl_client"), env=environment))
            self.assert_ok(harness.finish(serving))

    def test_transactions(self):
        self.dapltest(
            "T", "-i 20 -t 2 -w 3 -V client SR 65536 1 server SR 4096 2",
            "-i 20 -t 1 -w 1 -V client RW 65536 1 server RW 4096 1 client RR 4096 1 server RR 100000 1 client SR 256 1 server SR 256 1",
            "-i 5 -t 4 -w 8 -V client SR 256 1 server RW 4096 1 server SR 1024 1",
            "-i 20 -t 1 -w 1 -P client SR 256 1 server SR 256 1")

    def test_performance(self):
        self.dapltest("P", "-i 200 -p 16 -m b RW 4096 1", "-i 200 -p 16 -m p RR 4096 1")


class Perftest(CmCase):
    def perftest(self, tool):
        server = f"{tool} -R -n 100 -p {next(_ports)}"
        _, client = self.connect(server, f"{server} {SERVER}")
        harness.perftest_rows(client)

    def test_send(self):
        self.perftest("ib_send_bw")
        self.perftest("ib_send_lat")

    def test_write(self):
        self.perftest("ib_write_bw")
        self.perftest("ib_write_lat")

    def test_read(self):
        self.perftest("ib_read_bw")
        self.perftest("ib_read_lat")

    def test_atomic(self):
        self.perftest("ib_atomic_bw")
        self.perftest("ib_atomic_lat")


class Qperf(CmCase):
    def test_cm1(self):
        port = harness.free_port()
        serving = harness.start(["qperf", "-lp", str(port)], env=dict(os.environ))
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, serving.pid)))
        # Its datagram tests address peers by LID, of which RoCE has none.
        for test in ("rc_bw", "rc_lat", "rc_rdma_write_bw"):
            for _ in range(20):
                result = harness.run(["qperf", "-lp", str(port), "127.0.0.1", "-cm1", "-t", "1", test], env=dict(os.environ))
                # qperf 0.4.11 tells its client the port before it listens there, and the client may be faster.
                if "unexpected event from RDMA CM: Event rejected" not in result.out:
                    break
            self.assert_ok(result, test)
        harness.end_group(serving)
        harness.finish(serving)


class Refusals(CmCase):
    """What librdmacm's callers get when they ask for what is not there."""

    def fails(self, command, text):
        result = harness.run(shlex.split(command), env=dict(os.environ))
        self.assertNotEqual(result.returncode, 0, str(result))
        self.assertIn(text, result.out + result.err)

    def test_address_of_nobody(self):
        self.fails("rping -s -a 203.0.113.9", "Cannot assign requested address")
        self.fails("rping -c -a 203.0.113.9", "Network is unreachable")

    def test_nobody_listens(self):
        self.fails(f"rping -c -a {SERVER} -p 7999", "event RDMA_CM_EVENT_REJECTED")

    def test_port_in_use(self):
        serving = harness.start(shlex.split(f"rping -s -a {SERVER} -p 7990"), env=dict(os.environ))
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: has_listener(serving.pid)))
        self.fails(f"rping -s -a {SERVER} -p 7990", "Address already in use")
        harness.end_group(serving)
        harness.finish(serving)
        # It is free once its owner is gone.
        self.connect(f"rping -s -a {SERVER} -p 7990 -C 1", f"rping -c -a {SERVER} -p 7990 -C 1")


class Deaths(CmCase):
    """Whoever is killed, at whatever point: nothing of it is left, and others go on."""
    rounds = 40

    def test_killed_anywhere(self):
        for i in range(self.rounds):
            serving = harness.start(shlex.split(f"rping -s -a {SERVER} -p 7991"), env=dict(os.environ))
            self.addCleanup(harness.end_group, serving)
            # Sometimes before it listens; the client before, while or after it connects.
            self.assertTrue(i % 4 == 0 or harness.wait_until(lambda process=serving: has_listener(process.pid)))
            client = harness.start(shlex.split(f"rping -c -a {SERVER} -p 7991"), env=dict(os.environ))
            self.addCleanup(harness.end_group, client)
            harness.wait_until(lambda process=client: process.poll() is not None, 0.01 * (i % 20))
            for process in (client, serving) if i % 2 == 0 else (serving, client):
                harness.end_group(process)
                harness.finish(process)
        self.assert_nothing_left()
        self.connect(f"rping -s -a {SERVER} -p 7991 -C 3 -V", f"rping -c -a {SERVER} -p 7991 -C 3 -V")

    def test_killed_listener(self):
        for i in range(10):
            serving = harness.start(shlex.split(f"rping -s -P -a {SERVER} -p 7992"), env=dict(os.environ))
            self.addCleanup(harness.end_group, serving)
            self.assertTrue(harness.wait_until(lambda process=serving: has_listener(process.pid)))
            client = harness.start(shlex.split(f"rping -c -a {SERVER} -p 7992"), env=dict(os.environ))
            self.addCleanup(harness.end_group, client)
            harness.wait_until(lambda process=client: process.poll() is not None, 0.02 * i)
            harness.end_group(serving)
            harness.finish(serving)
            ended = harness.wait_until(lambda process=client: process.poll() is not None, 30)
            harness.end_group(client)
            result = harness.finish(client)
            # rping that hears of it before it has seen that it is connected waits for its other thread for ever (rping_run_client(), err3).
            self.assertTrue(ended or "wait for CONNECTED state" in result.err, f"the client does not hear of its server's end: {result}")


if __name__ == "__main__":
    harness.main()
