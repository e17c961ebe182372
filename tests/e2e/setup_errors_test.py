"""What urnicd says of a set-up that is wrong: what, where, and the command that mends it. In namespaces of their own."""

import pathlib
import shutil
import socket
import subprocess
import tempfile

import harness
import netns
import refused_calls

URNICD = str(harness.BUILD / "urnicd")
FABRIC = 'port = "fabric"\nfabric = "lab"\nipv4 = "198.18.0.1/24"'
INTERFACE = 'port = "af_packet"\ninterface = "v0"'
XDP = 'port = "af_xdp"\ninterface = "v0"'


def memif(path, role="server"):
    return f'port = "memif"\nsocket = "{path}"\nrole = "{role}"\nmac = "02:00:00:00:77:01"'


def with_mounts(commands):
    """Runs what comes behind it where these commands have mounted something."""
    return ["unshare", "--mount", "sh", "-c", f'{commands} && exec "$@"', "sh"]


def without(*rights):
    """Runs what comes behind it without these capabilities."""
    return ["setpriv", "--bounding-set=" + ",".join(f"-{right}" for right in rights)]


class SetupErrors(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        netns.ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for interface in ("v0", "v1"):
            netns.ip("link", "set", interface, "up")
        netns.ip("netns", "add", "other")

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.run_dir = self.dir / "run"

    def command(self, port, daemon=""):
        path = self.dir / "urnicd.toml"
        workers = "" if "workers" in daemon else "workers = 1"
        path.write_text(f'[daemon]\nrun_dir = "{self.run_dir}"\nhugepages = false\n{workers}\n{daemon}\n'
                        f'[[rnic]]\nname = "urnic0"\n{port}\n', encoding="utf-8")
        return [URNICD, "--config", path]

    def expect(self, *words, port=INTERFACE, daemon="", before=()):
        """It ends, saying all these words, and leaves nothing that it made."""
        there = self.run_dir.exists()
        result = harness.run([*before, *self.command(port, daemon)])
        self.assertEqual(result.returncode, 1, result)
        for word in ("urnicd: error: ", *map(str, words)):
            self.assertIn(word, result.err)
        self.assertEqual(self.run_dir.exists(), there)

    def test_rights(self):
        self.expect("interface v0: cannot make a packet socket", "as root, or with CAP_NET_RAW", before=without("net_raw"))
        self.expect('cannot enter the network namespace "other"', "as root, or with CAP_SYS_ADMIN",
                    port=f'{INTERFACE}\nnetns = "other"', before=without("sys_admin"))
        self.expect("interface v0: the kernel does not load our XDP program", "CAP_BPF", 'port = "af_packet"',
                    port=XDP, before=without("sys_admin", "bpf"))

    def test_locked_memory(self):
        words = ("Allow more locked memory", "ulimit -l unlimited") if netns.is_real_root() else ("CAP_BPF",)
        self.expect(*words, port=XDP, before=["bash", "-c", 'ulimit -l 64; exec "$@"', "-", *without("ipc_lock")])

    def test_run_dir(self):
        blocked = self.run_dir / "control.sock"
        blocked.mkdir(parents=True)
        self.expect("cannot remove the stale socket", f"rm -r {blocked}")
        shutil.rmtree(self.run_dir)
        self.run_dir.mkdir(mode=0o555)
        self.expect(f"cannot write to the run directory {self.run_dir}: Permission denied", "Start urnicd as its owner",
                    before=without("dac_override"))
        self.run_dir.rmdir()
        self.run_dir = self.dir / ("x" * 200)
        self.expect("urnicd.toml:2:11: 'run_dir' in [daemon] must be an absolute path of at most 90 characters")

    def test_socket_group(self):
        self.expect("cannot listen on", "Only root, and members of it, may give it to the group daemon",
                    daemon='socket_group = "daemon"', before=[*without("chown"), "--clear-groups"]
                    if netns.is_real_root() else without("chown"))

    def test_worker(self):
        self.expect("cannot run worker 0 on CPU 4000", "lscpu", daemon="workers = [4000]")

    def test_packet_memory(self):
        self.expect("packet", "eal_args = [\"-m\"", daemon='eal_args = ["-m", "4"]')

    def test_no_sysfs(self):
        """As in some containers."""
        self.expect("/sys/module, which is not there", "mount -t sysfs", port=FABRIC, before=with_mounts("mount -t tmpfs none /sys"))

    def test_run_is_read_only(self):
        self.run_dir = pathlib.Path("/run/urnic")
        self.expect("cannot make the run directory /run/urnic: Read-only file system", "Set run_dir to a directory that can be written to",
                    "--tmpfs /run", port=FABRIC, before=with_mounts("mount -t tmpfs -o ro tmpfs /run"))
        self.run_dir.mkdir()
        self.addCleanup(self.run_dir.rmdir)
        self.expect("cannot write to the run directory /run/urnic: Read-only file system", "--tmpfs /run", port=FABRIC,
                    before=with_mounts("mount --bind /run /run && mount -o remount,bind,ro /run"))

    def test_no_sealed_memory(self):
        for refused, reason in (("memfd_create=EPERM", "Operation not permitted"), ("memfd_create=ENOSYS", "Function not implemented"),
                                ("add_seals=EPERM", "Operation not permitted"), ("add_seals=EINVAL", "Invalid argument")):
            with self.subTest(refused):
                self.expect(f"cannot make shared memory: {reason}", "memfd_create()",
                            "fcntl(F_ADD_SEALS) in the container's seccomp profile",
                            "Linux 5.1", port=FABRIC, before=refused_calls.words(refused))

    def test_a_security_module_is_in_the_way(self):
        """The label is one of ours: the test `apparmor` has a kernel that enforces the profile."""
        label = self.dir / "label"
        self.run_dir.mkdir(mode=0o555)
        for text, words in (("urnicd (enforce)\n",
                             ('AppArmor confines this process by the profile "urnicd"', "/etc/apparmor.d/local/urnicd")),
                            ("system_u:system_r:container_t:s0\0", ("SELinux confines this process as container_t", "label=disable"))):
            label.write_text(text, encoding="ascii")
            self.expect("Permission denied", *words, port=FABRIC,
                        before=[*with_mounts(f"mount --bind {label} /proc/$$/attr/current"), *without("dac_override")])

    def test_vdev(self):
        self.expect("'device'", "no driver of DPDK's has that name", "net_nosuch0",
                    port='port = "vdev"\ndevice = "net_nosuch0"')
        self.expect("port net_af_packet0: DPDK has no such device", "net_af_packet0,iface=nosuch9", "--verbose",
                    port='port = "vdev"\ndevice = "net_af_packet0,iface=nosuch9"')

    def test_pci(self):
        self.expect("port 0000:ff:1f.7: DPDK has no such device", "There is no PCI device", "lspci -D",
                    port='port = "pci"\ndevice = "0000:ff:1f.7"')
        for device in pathlib.Path("/sys/bus/pci/devices").iterdir():
            # A bridge: DPDK has a driver for none, so nothing is touched.
            if (device / "class").read_text(encoding="ascii").startswith("0x06"):
                self.expect(f"port {device.name}: DPDK has no such device", "It is bound to",
                            f"dpdk-devbind.py --bind=vfio-pci {device.name}", port=f'port = "pci"\ndevice = "{device.name}"')
                break

    def test_memif(self):
        path = self.dir / "memif.sock"
        self.expect(f"The directory {self.dir}/none: No such file", f"install -d -o $USER {self.dir}/none",
                    port=memif(self.dir / "none/memif.sock"))
        path.write_text("mine")
        for role in ("server", "client"):
            self.expect(f"{path} is no socket", f"rm {path}", port=memif(path, role))
        self.assertEqual(path.read_text(), "mine")
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
            taken.bind(str(path))
            taken.listen()
            self.expect(f"Another program has the socket {path}", f"ss -xlp src {path}", port=memif(path))
            self.assertTrue(path.is_socket(), "it was taken from its owner")

    def test_a_memif_server_that_was_killed_is_followed_by_another(self):
        for _ in range(2):
            log = self.dir / "log"
            with log.open("w", encoding="utf-8") as output:
                daemon = subprocess.Popen(self.command(memif(self.dir / "memif.sock")), stderr=output,
                                                  env=harness.clean_environment())
            self.addCleanup(daemon.wait)
            self.addCleanup(lambda daemon=daemon: daemon.poll() is None and daemon.kill())
            said = lambda log=log: log.read_text(encoding="utf-8")
            self.assertTrue(harness.wait_until(lambda said=said, daemon=daemon: "serving" in said() or daemon.poll() is not None))
            self.assertIn("serving urnic0", said())
            daemon.kill()
            daemon.wait()
            self.assertTrue((self.dir / "memif.sock").is_socket(), "nothing was left that could be in the way")


if __name__ == "__main__":
    netns.private()
    harness.main()
