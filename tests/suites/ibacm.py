"""Debian's ibacm: two of them, a host each, which ask each other for addresses through a multicast group of the subnet, and subnet
administration for paths; asked by its own client, ib_acme."""

import contextlib
import os
import re

import harness
import verdict

OPTIONS = """log_file {folder}/ibacm.log
log_level 0
lock_file {folder}/ibacm.pid
server_mode unix
support_ips_in_addr_cfg 1
addr_prot acm
route_prot {routes}
loopback_prot none
addr_preload none
route_preload none
timeout 2000
retries 4
min_mtu 2048
min_rate 10
"""
SOCKET = "/run/ibacm-unix.sock"


class Host:
    """One ibacm, with a /run of its own, for its socket has a fixed name."""

    def __init__(self, tree, folder, number, address, routes):
        self.tree, self.address, self.log = tree, address, folder / "ibacm.log"
        options, addresses = folder / "ibacm_opts.cfg", folder / "ibacm_addr.cfg"
        options.write_text(OPTIONS.format(folder=folder, routes=routes), encoding="utf-8")
        addresses.write_text(f"{address} urnic{number} 1 default\n", encoding="utf-8")
        private = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh"]
        self.program = harness.start([*private, *tree.here("ibacm", "-P", "-A", addresses, "-O", options)])

    def end(self):
        harness.end_group(self.program)
        harness.finish(self.program)

    def ask(self, *words):
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return harness.run(["nsenter", "-t", str(self.program.pid), *user, "-m", *self.tree.here("ib_acme", "-S", SOCKET, *words)],
                           env=dict(os.environ))

    def wait(self):
        """Until it has an endpoint for its address."""
        if not harness.wait_until(lambda: self.program.poll() is not None or self.address in self.ask("-e").out, pause=0.1) or \
                self.program.poll() is not None:
            raise verdict.Refused(f"ibacm does not serve {self.address}: {self.said()}")

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:] if self.log.exists() else ""

    def resolve(self, other, *words):
        return self.ask("-f", "i", "-s", self.address, "-d", other, *words)


def compare(result, expected):
    """What ib_acme prints of a path."""
    found = {name: re.search(rf"(?m)^  {name}: (\S+)$", result.out) for name in expected}
    if result.returncode != 0 or any(not found[name] or found[name].group(1) != str(value) for name, value in expected.items()):
        raise verdict.Refused(f"not {expected}: {result}")


def resolve(tree, folder, routes):
    """An address of the other host, its path as subnet administration has it, again without asking anybody, and nobody's address."""
    if not tree.managers:
        tree.bring_up()
    numbers = (1, tree.shape.rnics - 1)
    with contextlib.ExitStack() as stack:
        hosts = []
        for number in numbers:
            below = folder / f"ibacm{number}-{routes}"
            below.mkdir()
            hosts.append(Host(tree, below, number, f"10.8.0.{number + 1}", routes))
            stack.callback(hosts[-1].end)
        for host in hosts:
            host.wait()
        for host, number, other, far in zip(hosts, numbers, reversed(hosts), reversed(numbers)):
            path = {"slid": tree.lid(number), "dlid": tree.lid(far)}
            # Who is asked knows who has asked from then on.
            if host is hosts[0] and (early := host.resolve(other.address, "-c")).returncode == 0:
                raise verdict.Refused(f"{other.address} is known before anybody was asked: {early}")
            found = host.resolve(other.address, "-v")
            compare(found, path)
            if "SA verification: success" not in found.out:
                raise verdict.Refused(str(found))
            compare(host.resolve(other.address, "-c"), path)
        nobody = hosts[0].resolve("10.8.0.250")
        if nobody.returncode == 0:
            raise verdict.Refused(f"an address of nobody is resolved: {nobody}")
