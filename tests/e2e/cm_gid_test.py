"""librdmacm's programs with addresses of AF_IB, unmodified, between the ports of `urnic run --standalone --link-layer infiniband`."""

import ipaddress
import os
import shlex
import struct

import harness
from cm_calls import ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, ESTABLISHED, PS_IB, PS_TCP, ROUTE_RESOLVED, Puppet
from cm_test import CLIENT, SERVER, CmCase, port_attribute, status

TCP_SERVICES = 0x0106_0000
NOBODY = "fe80::dead:beef"
_ports = iter(range(7801, 7900))


def gid(device):
    return str(ipaddress.ip_address(port_attribute(device, "gids/0")))


def path_record(source, destination, flags=0x2b, dlid=None):
    """struct ibv_path_data of both directions, as ibacm hands it to librdmacm; in hexadecimal."""
    lids = [int(port_attribute(device, "lid"), 16) for device in (destination, source)]
    gids = [ipaddress.ip_address(gid(device)).packed for device in (destination, source)]
    record = bytes(8) + b"".join(gids) + struct.pack(">HHIBBHHBBBB", dlid or lids[0], lids[1], 0, 0, 0x81, 0xffff, 0, 0x83, 0x83, 0x8e, 0)
    return (struct.pack("=II", flags, 0) + record + bytes(6)).hex()


class Programs(CmCase):
    """Those of Debian 12 that take GIDs: rping, cmtime and perftest know IP addresses alone."""

    def setUp(self):
        self.server, self.client = gid("urnic0"), gid("urnic1")

    def test_ucmatose(self):
        for space in ("tcp", "ib"):
            with self.subTest(space=space):
                self.connect(f"ucmatose -f gid -P {space} -b {self.server} -c 10", f"ucmatose -f gid -P {space} -s {self.server} -c 10")
        self.connect(f"ucmatose -f gid -b {self.server}", f"ucmatose -f gid -b {self.client} -s {self.server}")

    def test_to_itself(self):
        self.connect(f"ucmatose -f gid -b {self.server}", f"ucmatose -f gid -b {self.server} -s {self.server}")

    def test_udaddy(self):
        self.connect(f"udaddy -f gid -b {self.server} -c 3", f"udaddy -f gid -s {self.server} -c 3")

    def test_rsockets(self):
        self.connect(f"rstream -f gid -b {self.server} -S 4096 -C 200", f"rstream -f gid -s {self.server} -S 4096 -C 200")
        self.connect(f"riostream -f gid -b {self.server} -S 4096 -C 200", f"riostream -f gid -s {self.server} -S 4096 -C 200")

    def test_mckey(self):
        group = "ff15::7:beef"
        receiver = harness.start(shlex.split(f"mckey -M {group} -b {SERVER} -C 8"), env=dict(os.environ))
        self.addCleanup(harness.end_group, receiver)
        self.assertTrue(harness.wait_until(lambda: any(device["mcast_groups"] for device in status()["devices"]), pause=0.05))
        for alone in ("", "-o"):  # a full member, and one to send alone
            sender = harness.run(shlex.split(f"mckey -M {group} -b {CLIENT} -s -C 4 {alone}"), env=dict(os.environ))
            self.assert_ok(sender)
            self.assertIn(f"joined dgid: {group} ", sender.out)
        self.assert_ok(harness.finish(receiver))

    def test_nobody(self):
        for words in (f"-s {NOBODY}", f"-b {self.client} -s {NOBODY}"):
            with self.subTest(words=words):
                result = harness.run(shlex.split(f"ucmatose -f gid {words}"), env=dict(os.environ))
                self.assertNotEqual(result.returncode, 0, str(result))
                self.assertIn("RDMA_CM_EVENT_ROUTE_ERROR, error: -22", result.out + result.err)


class Calls(harness.TestCase):
    """Of a process of its own, on both sides."""

    def setUp(self):
        self.rdma = Puppet()
        self.addCleanup(self.rdma.kill)
        self.service = TCP_SERVICES | next(_ports)

    def listen(self, space):
        self.rdma.create("server", space)
        self.rdma.bind_gid("server", gid("urnic0"), self.service)
        self.assertEqual(self.rdma.port("server"), self.service & 0xffff)
        self.rdma.listen("server")

    def resolve(self):
        self.rdma.create("client")
        self.rdma.resolve_gid("client", gid("urnic0"), self.service)
        self.assertEqual(self.rdma.take(), [ADDR_RESOLVED, 0])

    def establish(self):
        self.rdma.connect("client")
        self.assertEqual(self.rdma.take("request"), [CONNECT_REQUEST, 0])
        self.rdma.accept("request")
        self.assertEqual(self.rdma.take_until(CONNECT_RESPONSE), 0)
        self.rdma.establish("client")
        self.assertEqual(self.rdma.take_until(ESTABLISHED), 0)
        for name in ("client", "request", "server"):
            self.rdma.destroy(name)

    def test_a_service_of_another_port_space(self):
        """An id of RDMA_PS_IB listens for a service ID of TCP's."""
        self.listen(PS_IB)
        self.resolve()
        self.rdma.route("client")
        self.assertEqual(self.rdma.take(), [ROUTE_RESOLVED, 0])
        self.establish()

    def test_a_path_of_the_program(self):
        """As from ibacm: nobody is asked for a route."""
        self.listen(PS_TCP)
        self.resolve()
        good = path_record("urnic1", "urnic0")
        for wrong in (path_record("urnic1", "urnic0", flags=1), path_record("urnic1", "urnic0", dlid=77), path_record("urnic0", "urnic1"), good[:-2]):
            self.assertEqual(self.rdma.error("set_paths", "client", wrong), "EINVAL")
        self.rdma.set_paths("client", good)
        self.assertEqual(self.rdma.take(), [ROUTE_RESOLVED, 0])
        self.establish()

    def test_addresses_that_are_refused(self):
        self.rdma.create("id")
        for address, service, expected in ((NOBODY, self.service, "ENODEV"), (gid("urnic0"), 0x0111_0000, "EPROTONOSUPPORT")):
            self.assertEqual(self.rdma.error("bind_gid", "id", address, service), expected)


if __name__ == "__main__":
    harness.main()
