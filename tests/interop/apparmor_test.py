"""urnicd under its AppArmor profile, in a guest whose kernel enforces it: everything works, nothing is denied, nothing else is allowed."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import guest as guests
import harness
import image
import network
import pci_guest

PARSER = "/usr/sbin/apparmor_parser"
DAEMON, RUN = "/usr/sbin/urnicd", "/run/urnic"
VERBS_CHECK = harness.BUILD / "tests/e2e/verbs_check"
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "virtio_rng")
# The guest is emulated: what it does takes as long as it takes.
PATIENCE_S = 300
CONFIG = f"""[daemon]
run_dir = "{RUN}"
user = "urnic"
workers = 1
copied_memory = "all"
[[rnic]]
name = "urnic0"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.1/24"
[[rnic]]
name = "urnic1"
port = "fabric"
fabric = "lab"
ipv4 = "198.18.0.2/24"
[[rnic]]
name = "urnic2"
port = "af_packet"
interface = "eth0"
mtu = 1024
"""
RUN_AS_PROGRAM = f"{pci_guest.URNIC} run --socket {RUN} --"
# As the packages have them, so that the daemon which they start is the one of the profile.
LIBDIR = "/usr/lib/x86_64-linux-gnu"
INSTALLED = {"/usr/bin/urnic": harness.BUILD / "urnic",
             f"{LIBDIR}/libibverbs/liburnic-rdmav34.so": harness.BUILD / "verbs_provider/liburnic-rdmav34.so",
             f"{LIBDIR}/urnic/liburnic-discovery.so": harness.BUILD / "verbs_provider/liburnic-discovery.so"}


def compiled(directory):
    """The installed profile as the kernel takes it."""
    text = (harness.BUILD / "docs/urnicd.apparmor").read_text(encoding="utf-8")
    profile = pathlib.Path(directory) / "profile"
    installed = re.search(r"^profile urnicd (\S+)", text, re.MULTILINE).group(1)
    profile.write_text(text.replace(installed, DAEMON), encoding="utf-8")
    binary = pathlib.Path(directory) / "profile.bin"
    subprocess.run([PARSER, "--skip-kernel-load", "--skip-cache", "--quiet", "--ofile", binary, profile], check=True)
    return binary


class Confined(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix=f"urnic-apparmor-{os.getpid()}-"))
        config = pathlib.Path(cls.directory) / "urnicd.toml"
        config.write_text(CONFIG, encoding="ascii")
        files = pci_guest.daemon_files(("net_af_packet", "mempool_ring"))
        files |= INSTALLED | {DAEMON: harness.BUILD / "urnicd", "/opt/urnic/profile.bin": compiled(cls.directory),
                              "/opt/urnic/verbs_check": VERBS_CHECK, "/etc/urnic/urnicd.toml": config}
        kernel, initramfs = image.make(harness.BUILD / "interop", ["/usr/bin/setpriv"], files, "initramfs-apparmor", MODULES)
        network.unshare()
        network.set_up()
        arguments = [*network.guest_arguments(), "lsm=apparmor", "apparmor=1", "security=apparmor"]
        cls.guest = guests.Guest(kernel, initramfs, cls.directory, "tap,id=net,ifname=guest,script=no,downscript=no",
                                 network.PEER_MAC, arguments, cpus=2, memory_mb=1024)
        cls.addClassCleanup(cls.guest.close)
        cls.guest.run(f"""
            mount -t securityfs none /sys/kernel/security
            mkdir -p /var/run/dpdk && chmod 755 /
            echo urnic:x:990:990::/:/bin/sh >>/etc/passwd; echo urnic:x:990: >>/etc/group
            chown urnic /var/run/dpdk
            cat /opt/urnic/profile.bin >/sys/kernel/security/apparmor/.load""")
        cls.guest.start(f"{DAEMON} --config /etc/urnic/urnicd.toml >/tmp/urnicd.log 2>&1", 3600)
        ready = cls.guest.start(f"until {pci_guest.URNIC} status --socket {RUN} >/dev/null 2>&1; do usleep 100000; done", 120)
        if not ready.wait(PATIENCE_S) or ready.status != 0:
            raise guests.GuestError(f"urnicd does not run: {cls.said()}")

    @classmethod
    def said(cls):
        return cls.guest.run("cat /tmp/urnicd.log; dmesg | grep -i apparmor || true")

    def expect_nothing_denied(self):
        self.assertEqual(re.findall(r'apparmor="DENIED".*', self.said()), [])

    def test_1_it_is_confined(self):
        context = self.guest.run("cat /proc/$(pidof urnicd)/attr/current")
        self.assertEqual(context.strip(), "urnicd (enforce)")
        self.expect_nothing_denied()

    def test_2_programs_work(self):
        """Converted memory, memory that is copied by a descriptor, and files of the program's."""
        said = self.guest.run(f"{RUN_AS_PROGRAM} /opt/urnic/verbs_check --gtest_filter='Memory.*:Rc.*'", PATIENCE_S)
        self.assertIn("[  PASSED  ]", said)
        self.expect_nothing_denied()

    def test_3_rdma_cm(self):
        # The server goes on: a client that ends with an error after all has gone well (docs/testing.md) has another try.
        self.guest.run(f"{RUN_AS_PROGRAM} rping -s -P -a 198.18.0.1 >/tmp/server 2>&1 & server=$!; "
                       f"until {RUN_AS_PROGRAM} rping -c -C 3 -a 198.18.0.1; do usleep 100000; done; kill $server", PATIENCE_S)
        self.expect_nothing_denied()

    def test_3_a_daemon_of_a_users_own(self):
        """`urnic run --standalone`, with faults from a file of the user's."""
        said = self.guest.run("""
            mkdir -p /tmp /home/alice; chmod 1777 /tmp
            cd /home/alice
            echo '{"data-pkt-events": [{"type": "drop", "probability": 0.1, "seed": 7}]}' >faults.json; chown -R 1000 .
            /usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups env -u XDG_RUNTIME_DIR \
                /usr/bin/urnic run --standalone --faults faults.json -- sh -c '
                for pid in $(pidof urnicd); do cat /proc/$pid/attr/current; done; urnic fault list; ibv_devinfo -d urnic1' 2>&1""",
                              PATIENCE_S)
        self.assertEqual(said.count("urnicd (enforce)"), 2, said)
        self.assertIn("drop", said)
        self.assertIn("PORT_ACTIVE", said)
        self.expect_nothing_denied()

    def test_4_everything_else_is_denied(self):
        """Last: this is denied."""
        status = self.guest.run(f"chmod 644 /etc/hosts; {DAEMON} --config /etc/hosts --check 2>&1 || true")
        self.assertIn("Permission denied", status)
        self.assertIn('AppArmor confines this process by the profile "urnicd"', status)
        # Nor root's own JSON, which may be of secrets.
        status = self.guest.run(f"mkdir -p /root; echo '{{}}' >/root/key.json; "
                                f"{DAEMON} --config /etc/urnic/urnicd.toml --faults /root/key.json --check 2>&1 || true")
        self.assertIn("Permission denied", status)
        self.assertIn('AppArmor confines this process by the profile "urnicd"', status)
        # A thread of the kernel writes it, after the call.
        for name in ("/etc/hosts", "/root/key.json"):
            denied = rf'apparmor="DENIED" operation="open" profile="urnicd" name="{name}"'
            self.assertTrue(harness.wait_until(lambda: re.search(denied, self.said()), pause=0.5), self.said())


if __name__ == "__main__":
    if not guests.installable() or not pathlib.Path(PARSER).exists():
        print(f"there is no {guests.QEMU} here, or no {PARSER}")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
