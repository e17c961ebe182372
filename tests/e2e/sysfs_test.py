"""What monitoring looks for in an RNIC's part of /sys: ports/1/counters, with numbers that traffic moves, and gid_attrs/ndevs.

Runs under `urnic run --standalone`: urnic0 and urnic1 on one wire. Monitoring that does not go through the C library (Prometheus' node exporter
is written in Go) is told where the tree is: --path.sysfs=RUN_DIR/sysroot/sys.
"""

import json
import os
import pathlib
import re
import shlex

import harness

SIZE = 65536
ITERATIONS = 200
TREE = pathlib.Path(os.environ["URNIC_RUN_DIR"], "sysroot/sys")

# What the kernel's ib_core shows of a port (Documentation/ABI/stable/sysfs-class-infiniband).
STANDARD = {
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_data", "port_rcv_data",
    "port_xmit_packets", "port_rcv_packets", "port_xmit_wait", "unicast_xmit_packets", "unicast_rcv_packets",
    "multicast_xmit_packets", "multicast_rcv_packets",
}
# Nothing on an Ethernet counts as these.
ALWAYS_ZERO = {
    "symbol_error", "link_error_recovery", "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors",
    "VL15_dropped",
}


def port_dir(device):
    return TREE / "class/infiniband" / device / "ports/1"


def counter(device, name, folder="counters"):
    return int((port_dir(device) / folder / name).read_text(encoding="ascii"))


def counters(device):
    return {path.name: int(path.read_text(encoding="ascii")) for path in (port_dir(device) / "counters").iterdir()}


def has_groups():
    status = json.loads(harness.run([harness.URNIC, "status", "--json"], env=dict(os.environ)).out)
    return any(device["mcast_groups"] for device in status["devices"])


class Counters(harness.TestCase):
    def write(self):
        port = harness.free_port()
        common = ["ib_write_bw", "-x", "1", "-F", "-m", "1024", "-s", str(SIZE), "-n", str(ITERATIONS), "-p", str(port)]
        self.run_pair([*common, "-d", "urnic1"], [*common, "-d", "urnic0", "127.0.0.1"], port)

    def follows(self, device, name, at_least):
        """The tree is brought up to date once a second."""
        self.assertTrue(harness.wait_until(lambda: counter(device, name) >= at_least),
                        f"{device} {name}: {counter(device, name)}, not {at_least}")

    def test_the_standard_set_and_no_more(self):
        for device in ("urnic0", "urnic1"):
            shown = counters(device)
            self.assertEqual(set(shown), STANDARD)
            self.assertEqual({name: shown[name] for name in ALWAYS_ZERO}, dict.fromkeys(ALWAYS_ZERO, 0))

    def test_traffic_moves_them(self):
        before = {device: counters(device) for device in ("urnic0", "urnic1")}
        self.write()
        packets = ITERATIONS * SIZE // 1024
        words = ITERATIONS * SIZE // 4
        for device, way in (("urnic0", "xmit"), ("urnic1", "rcv")):
            self.follows(device, f"port_{way}_packets", before[device][f"port_{way}_packets"] + packets)
            self.follows(device, f"port_{way}_data", before[device][f"port_{way}_data"] + words)
            self.follows(device, f"unicast_{way}_packets", before[device][f"unicast_{way}_packets"] + packets)
            # In words, not in bytes: headers are less than a tenth.
            moved = counter(device, f"port_{way}_data") - before[device][f"port_{way}_data"]
            self.assertLess(moved, words * 1.2)
        for device in ("urnic0", "urnic1"):
            shown = counters(device)
            for quiet in ("port_rcv_errors", "port_xmit_discards", "link_downed", "port_xmit_wait"):
                self.assertEqual(shown[quiet], before[device][quiet], quiet)

    def test_packets_are_unicast_or_multicast(self):
        before = counter("urnic0", "multicast_xmit_packets"), counter("urnic1", "multicast_rcv_packets")
        receiver = harness.start(shlex.split("mckey -m 239.1.2.3 -b 198.18.0.2 -C 4"), env=dict(os.environ))
        self.addCleanup(harness.end_group, receiver)
        self.assertTrue(harness.wait_until(has_groups))  # its receives are posted before it joins
        self.assert_ok(harness.run(shlex.split("mckey -m 239.1.2.3 -b 198.18.0.1 -s -C 4"), env=dict(os.environ)))
        self.assert_ok(harness.finish(receiver, 30))
        self.follows("urnic0", "multicast_xmit_packets", before[0] + 4)
        self.follows("urnic1", "multicast_rcv_packets", before[1] + 4)
        for device in ("urnic0", "urnic1"):
            for way in ("xmit", "rcv"):
                self.assertTrue(harness.wait_until(
                    lambda device=device, way=way: counter(device, f"port_{way}_packets") ==
                    counter(device, f"unicast_{way}_packets") + counter(device, f"multicast_{way}_packets")))

    def test_a_port_that_goes_down(self):
        before = counter("urnic1", "link_downed")
        for word in ("down", "up"):
            self.assert_ok(harness.run([harness.URNIC, "port", "urnic1", word], env=dict(os.environ)))
        self.follows("urnic1", "link_downed", before + 1)
        self.assertEqual(counter("urnic1", "link_downed"), before + 1)
        self.assertEqual(counter("urnic1", "link_downed", "hw_counters"), before + 1)

    def test_damaged_packets(self):
        before = counter("urnic1", "port_rcv_errors")
        self.assert_ok(harness.run([harness.URNIC, "fault", "add", "corrupt", "--probability", "0.05", "--seed", "7"], env=dict(os.environ)))
        self.addCleanup(harness.run, [harness.URNIC, "fault", "clear"], env=dict(os.environ))
        self.write()
        self.follows("urnic1", "port_rcv_errors", before + 1)
        self.assertGreaterEqual(counter("urnic1", "port_rcv_errors") - before, 1)


class GidAttributes(harness.TestCase):
    def test_each_entry_has_its_interface(self):
        """One without is empty: a program that opens the file finds out, one that looks for the file finds it."""
        for device in ("urnic0", "urnic1"):
            gids = sorted(path.name for path in (port_dir(device) / "gids").iterdir())
            self.assertEqual(sorted(path.name for path in (port_dir(device) / "gid_attrs/ndevs").iterdir()), gids)
            for number in gids:
                self.assertEqual((port_dir(device) / "gid_attrs/ndevs" / number).read_text(encoding="ascii"), "")
        # libibverbs takes an empty name for no interface.
        self.assert_ok(harness.run(["ibv_devinfo", "-v", "-d", "urnic0"], env=dict(os.environ)))


class Diagnostics(harness.TestCase):
    """Debian's infiniband-diags that look at sysfs alone. Those that send management datagrams need InfiniBand (subnet_test)."""

    def ask(self, *command):
        return self.run_ok(command, env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}).out

    def test_ibstat(self):
        self.assertEqual(self.ask("ibstat", "-l").split(), ["urnic0", "urnic1"])
        guid = (port_dir("urnic1").parent.parent / "node_guid").read_text(encoding="ascii").strip().replace(":", "")
        text = self.ask("ibstat", "urnic1")
        for line in ("CA 'urnic1'", f"Node GUID: 0x{guid}", "State: Active", "Physical state: LinkUp", "Rate: 100", "Link layer: Ethernet"):
            self.assertRegex(text, rf"(?m)^\s*{line}$")
        self.assert_ok(harness.run([harness.URNIC, "port", "urnic1", "down"], env=dict(os.environ)))
        self.addCleanup(harness.run, [harness.URNIC, "port", "urnic1", "up"], env=dict(os.environ))
        self.assertRegex(self.ask("ibstat", "urnic1"), r"State: Down\n\s+Physical state: Disabled\n")

    def test_ibstatus(self):
        text = self.ask("ibstatus")
        self.assertEqual(text.count("Infiniband device 'urnic"), 2)
        self.assertRegex(text, r"Infiniband device 'urnic0' port 1 status:\n\s+default gid:\s+fe80:[0-9a-f:]{34}\n")
        states = r"\n\s+state:\s+4: ACTIVE\n\s+phys state:\s+5: LinkUp\n\s+rate:\s+100 Gb/sec \(4X EDR\)\n"
        self.assertEqual(len(re.findall(states, text)), 2)


if __name__ == "__main__":
    harness.main()
