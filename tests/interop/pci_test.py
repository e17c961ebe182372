"""urnicd on PCI NICs: in a guest, vfio and an IOMMU below it, DPDK's drivers of real hardware on what QEMU emulates.

Their peer is an urnicd on this machine, by af_packet, on the other side of a bridge. `virtio` has two receive queues, filled
as the hash (RSS) that the driver has set up says; `e1000e` is Intel's 82574, with one queue and buffers that are smaller than our
largest frame.
"""

import json
import os
import pathlib
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import capture
import guest as guests
import harness
import icrc
import network
import pci_guest
import sides

VIRTIO = pci_guest.Nic(1, "virtio", pci_guest.VIRTIO, 2, "52:54:00:77:00:15", "10.77.0.21", "fd77::15", workers=2)
E1000E = pci_guest.Nic(2, "e1000e", "e1000e", 1, "52:54:00:77:00:16", "10.77.0.22", "fd77::16", workers=1)
SMALL = pci_guest.Nic(3, "small", f"{pci_guest.VIRTIO},host_mtu=1500", 2, "52:54:00:77:00:17", "10.77.0.23", "fd77::17", workers=1)
# What an emulated NIC drops while its machine waits for a processor comes again by RC; these have to run again.
UNRELIABLE = ("uc_write", "ud", "multicast")
UNRELIABLE_ATTEMPTS = 10
# 4 s: an emulated processor that waits for a real one, and has a window to send again each time, answers before the retries have gone.
PEER = "peer --timeout 20 --device urnic0"
TRANSFERS = ("send_imm", "write_imm", "read", "uc_write", "ud", "multicast")
# Frames like those of others to a NIC: tried on one, in one role.
ENGINES_OWN = ("fetch_add", "cmp_swap", "window", "send_inv")


class PciPorts(harness.TestCase):
    """`served`: the NICs with an urnicd. Polling costs an emulated processor most of its time, so no other has one."""

    served = ()

    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix=f"urnic-pci-{os.getpid()}-"))
        kernel, initramfs = pci_guest.make_image(cls.directory, (VIRTIO, E1000E, SMALL))
        network.unshare()
        network.set_up()
        for nic in (VIRTIO, E1000E, SMALL):
            nic.set_up_tap()
        cls.daemon = network.Daemon(cls.directory)
        cls.addClassCleanup(cls.daemon.close)
        idle = [nic for nic in (VIRTIO, E1000E, SMALL) if nic not in cls.served]
        cls.machine = pci_guest.Machine(cls.directory, kernel, initramfs, cls.served, idle)
        cls.addClassCleanup(cls.machine.close)
        network.wait_for_peer()
        cls.ours = sides.Ours(cls.daemon)
        cls.port = 20000

    def run_pair(self, server, client, command, seconds=200):
        """Both programs, which must succeed."""
        type(self).port += 1
        serving = server.start(f"{command} {'--port' if command.startswith('peer') else '-p'} {self.port}", seconds)
        self.assertTrue(server.listens(self.port, harness.PATIENCE_S), f"{command}: the server does not listen")
        dial = "--connect " if command.startswith("peer") else ""
        asking = client.start(f"{command} {'--port' if dial else '-p'} {self.port} {dial}{server.address}", seconds)
        asking.wait(seconds + 30)
        if asking.status != 0:
            serving.stop()
        serving.wait(seconds + 30)
        self.assertEqual((serving.status, asking.status), (0, 0), f"{command}\n--- server ({server.name})\n{serving.output}\n--- client\n{asking.output}\n"
                         f"--- urnicd\n{''.join(map(self.machine.log, self.served))}{self.counters()}")

    def counters(self):
        """Of all RNICs, what is not 0."""
        devices = {nic.name: self.machine.device(nic) for nic in self.served}
        devices.update({f"ours {device['name']}": device for device in json.loads(self.daemon.status())["devices"]})
        return "\n".join(f"{name}: {device['port']} {({name: count for name, count in device['counters'].items() if count})}"
                         for name, device in devices.items())

    def in_both_roles(self, nic, command, attempts=1):
        theirs = pci_guest.OnPci(self.machine, nic)
        for server, client in ((theirs, self.ours), (self.ours, theirs)):
            for attempt in range(1, attempts + 1):
                try:
                    self.run_pair(server, client, command)
                    break
                except AssertionError as lost:
                    if attempt == attempts:
                        raise
                    print(f"{command}, {client.name} as client: once more, for this may be a loss: {lost}", file=sys.stderr)

    def expect_state(self, nic, state):
        self.assertTrue(harness.wait_until(lambda: self.machine.device(nic)["port"]["state"] == state, pause=0.2),
                        f"the port is not {state}: {self.machine.log(nic)}")

    def watch_events(self, nic, events):
        """From now on the RNIC's asynchronous events go to a file of the guest's."""
        watching = pci_guest.OnPci(self.machine, nic).words("ibv_asyncwatch -d urnic0")
        self.machine.guest.start(f"exec {watching} >{events} 2>&1", 600)
        self.expect_event(events, "async event FD")

    def expect_event(self, events, text):
        command = self.machine.guest.start(f"until grep -q '{text}' {events}; do usleep 20000; done", harness.PATIENCE_S)
        self.assertTrue(command.wait(harness.PATIENCE_S + 30) and command.status == 0,
                        f"no '{text}': {self.machine.guest.run(f'cat {events}')}")

    def check_transfers(self, nic):
        path = pathlib.Path(self.directory) / f"transfers.{nic.name}.pcap"
        recording = capture.Capture(path)
        for name in TRANSFERS:
            with self.subTest(nic=nic.name, transfer=name):
                self.in_both_roles(nic, f"{PEER} --test {name} --gid {self.ours.gid('ipv4')} --mtu 4096",
                                   UNRELIABLE_ATTEMPTS if name in UNRELIABLE else 1)
        recording.close()
        _, packets = icrc.read_capture(path)
        self.assertEqual([packet.faults for packet in packets if packet.faults], [])
        self.assertTrue(any(packet.sender == bytes.fromhex(nic.mac.replace(":", "")) for packet in packets), nic.name)
        counters = self.machine.device(nic)["counters"]
        self.assertEqual({name: counters[name] for name in ("drop_malformed", "rx_icrc_encapsulated")},
                         {"drop_malformed": 0, "rx_icrc_encapsulated": 0})

    def check_neighbours(self, nic):
        """Questions for its IPv4 address are for all, those for IPv6 for a group, which a NIC's filter has to let through."""
        for family, address in ((socket.AF_INET, nic.ipv4), (socket.AF_INET6, nic.ipv6)):
            with self.subTest(nic=nic.name, address=address), socket.socket(family, socket.SOCK_DGRAM) as asking:
                def found(asking=asking, address=address, mac=nic.mac):
                    asking.sendto(b"who is there", (address, 9))
                    return mac in harness.run(["ip", "neigh", "show", address]).out
                self.assertTrue(harness.wait_until(found, pause=0.2), harness.run(["ip", "neigh", "show"]).out + self.counters())

    def check_cable(self, nic):
        events = f"/tmp/{nic.name}.link"
        self.watch_events(nic, events)
        self.machine.monitor.ask("set_link", name=nic.name, up=False)
        self.expect_event(events, "IBV_EVENT_PORT_ERR")
        self.expect_state(nic, "DOWN")
        self.machine.monitor.ask("set_link", name=nic.name, up=True)
        self.expect_event(events, "IBV_EVENT_PORT_ACTIVE")
        self.expect_state(nic, "ACTIVE")
        self.in_both_roles(nic, f"{PEER} --test send --gid {self.ours.gid('ipv4')} --mtu 1024")


class Virtio(PciPorts):
    served = (VIRTIO,)

    def test_0_an_mtu_that_the_nic_has_not(self):
        refused = self.machine.guest.start("/opt/urnic/urnicd --config /opt/urnic/small.toml", harness.PATIENCE_S)
        refused.wait(harness.PATIENCE_S + 30)
        self.assertEqual(refused.status, 1, refused.output)
        self.assertIn(f"port {SMALL.address}: mtu = 4096 needs an MTU of 4200 and this NIC goes up to 1500: mtu = 1024", refused.output)

    def test_1_its_neighbours_find_it(self):
        self.check_neighbours(VIRTIO)

    def test_2_transfers(self):
        self.check_transfers(VIRTIO)


class E1000e(PciPorts):
    served = (E1000E,)

    def test_1_its_neighbours_find_it(self):
        self.check_neighbours(E1000E)

    def test_2_transfers(self):
        self.check_transfers(E1000E)

    def test_3_a_cable_that_is_pulled(self):
        self.check_cable(E1000E)


class VirtioLinks(PciPorts):
    """In the order of their names: the last takes the NIC away. On a busy machine QEMU's RSS may stop for good (docs/testing.md), so what
    fills queues comes after what does not."""

    served = (VIRTIO,)

    def test_0_what_no_nic_changes(self):
        for name in ENGINES_OWN:
            with self.subTest(transfer=name):
                self.run_pair(self.ours, pci_guest.OnPci(self.machine, VIRTIO),
                              f"{PEER} --test {name} --gid {self.ours.gid('ipv4')} --mtu 4096")
        self.in_both_roles(VIRTIO, f"{PEER} --test write_imm --gid {self.ours.gid('ipv6')} --mtu 1024")

    def test_1_a_cable_that_is_pulled(self):
        self.check_cable(VIRTIO)

    def test_2_several_queues(self):
        """The NIC spreads flows over its queues; whatever queue a frame comes by, the worker of its QP gets it."""
        self.assertIn("VIRTIO_NET_F_RSS", self.machine.monitor.features("virtio"))
        queues = range(VIRTIO.queues)
        before = [self.machine.monitor.received("virtio", queue) for queue in queues]
        rcvd_before = [worker["rcvd_pkts"] for worker in self.machine.device(VIRTIO)["counters_per_worker"]]
        # Little under way at a time: an emulated machine is slow, and a queue that is full is a loss.
        for program in ("ib_write_bw", "ib_read_bw"):
            self.in_both_roles(VIRTIO, f"{program} -F -u 20 -x {self.ours.gid('ipv4')} -d urnic0 -q 8 -n 100 -t 2 -s 16384 -m 4096")
        self.assertTrue(all(self.machine.monitor.received("virtio", queue) != before[queue] for queue in queues),
                        "a queue got nothing")
        rcvd = [worker["rcvd_pkts"] for worker in self.machine.device(VIRTIO)["counters_per_worker"]]
        self.assertTrue(all(now > was for now, was in zip(rcvd, rcvd_before)), f"packets of each worker: {rcvd_before}, {rcvd}")

    def test_3_a_card_that_is_pulled(self):
        """The kernel asks for it back by vfio, and gets it."""
        events = "/tmp/virtio.removal"
        self.watch_events(VIRTIO, events)
        self.machine.monitor.ask("device_del", id="virtio")
        self.expect_event(events, "IBV_EVENT_PORT_ERR")
        self.expect_state(VIRTIO, "DOWN")
        self.machine.monitor.wait_for_deletion("virtio")
        self.assertIn("its NIC is gone", self.machine.log(VIRTIO))
        # And its daemon still answers those who look.
        self.assertIn("PORT_DOWN", self.machine.guest.run(pci_guest.OnPci(self.machine, VIRTIO).words("ibv_devinfo")))


if __name__ == "__main__":
    if not guests.installable():
        print(f"there is no {guests.QEMU} here")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
