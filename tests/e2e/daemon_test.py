"""urnicd itself: configuration, start, end, what it needs when nobody asks for anything, and what it says when
something is missing."""

import contextlib
import json
import os
import pathlib
import pwd
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time

import harness

URNICD = str(harness.BUILD / "urnicd")
FABRIC = '[[rnic]]\nname = "urnic0"\nport = "fabric"\nfabric = "lab"\nipv4 = "10.0.0.1"\n' \
         '[[rnic]]\nname = "other"\nport = "fabric"\nfabric = "lab"\nipv4 = "10.0.0.2"\n'

MAGIC = 0x75726E63
HELLO, OPEN, STATUS, CREATE_CQ, ALLOC_PD = 1, 3, 19, 12, 6


# The default of max_pds.
MAX_PDS = 32768


class Client:
    """The control protocol, as far as the tests here need it."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(harness.PATIENCE_S)
        self.socket.connect(str(path))

    def ask(self, operation, body):
        """Returns (error, body of the reply)."""
        self.socket.send(struct.pack("=IIII", MAGIC, operation, 1, 16 + len(body)) + body)
        reply, fds, _, _ = socket.recv_fds(self.socket, 4096, 32)
        for fd in fds:
            os.close(fd)
        return struct.unpack_from("=i", reply, 12)[0], reply[24:]

    def hello(self):
        return self.ask(HELLO, struct.pack("=II32s", harness.ABI_VERSION, 0, b"daemon_test"))[0]

    def open(self, name):
        error, body = self.ask(OPEN, struct.pack("=64s", name.encode()))
        return error, struct.unpack_from("=I", body)[0] if error == 0 else 0

    def alloc_pd(self, context):
        return self.ask(ALLOC_PD, struct.pack("=II", context, 0))[0]

    def create_cq(self, context):
        return self.ask(CREATE_CQ, struct.pack("=IIIIQII", context, 16, 0, 0, 0, 0, 0))[0]

    def close(self):
        self.socket.close()


class Daemon(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-daemon-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.run_dir = self.dir / "run"
        self.socket = self.run_dir / "control.sock"

    def config(self, text, name="urnic.toml"):
        path = self.dir / name
        path.write_text(text, encoding="utf-8")
        return path

    def local(self, daemon="", rnics=FABRIC, limits=""):
        """A configuration that needs neither root nor hardware."""
        return self.config(f'[daemon]\nrun_dir = "{self.run_dir}"\nhugepages = false\nworkers = 1\n{daemon}\n{limits}\n{rnics}')

    def start(self, *words, **options):
        process = harness.start([URNICD, *words], **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(harness.end_group, process)
        return process

    def serve(self, *words, **options):
        """Starts a daemon and waits until it accepts connections."""
        process = self.start(*words, **options)
        self.assertTrue(harness.wait_until(lambda: process.poll() is not None or self.answers()), "no answer")
        self.assertIsNone(process.poll(), f"it ended: {harness.finish(process)}" if process.poll() is not None else "")
        return process

    def answers(self):
        with contextlib.suppress(OSError):
            client = Client(self.socket)
            error, _ = client.ask(STATUS, b"")
            client.close()
            return error == 0
        return False

    def end(self, process, sig=signal.SIGTERM):
        process.send_signal(sig)
        result = harness.finish(process)
        self.assert_ok(result, f"after signal {sig}")
        return result

    def fails(self, config, *expected):
        result = harness.run([URNICD, "--config", config])
        self.assertEqual(result.returncode, 1, result)
        for text in expected:
            self.assertIn(text, result.err)
        self.assertFalse(self.socket.exists())
        return result


class CommandLine(Daemon):
    def test_help_names_every_key(self):
        out = self.run_ok([URNICD, "--help"]).out
        for key in ("--config", "--check", "run_dir", "socket_mode", "workers", "hugepages", "max_registered_bytes",
                    "fabric", "[[neighbour]]", "[[rnic.vlan]]", "mtu", "[[fault]]", "--faults"):
            self.assertIn(key, out)

    def test_version(self):
        self.assertIn("urnicd", self.run_ok([URNICD, "--version"]).out)

    def test_wrong_use(self):
        for words in ([], ["--check"], ["--standalone"], ["--run-dir", "/tmp/x"], ["--nonsense"],
                      ["--config", "x", "--standalone", "--run-dir", "y"]):
            with self.subTest(words=words):
                result = harness.run([URNICD, *words])
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("--help", result.err)

    def test_check(self):
        self.assertIn("correct, 2 RNICs", self.run_ok([URNICD, "--check", "--config", self.local()]).out)
        self.assertFalse(self.run_dir.exists(), "a check makes nothing")

    def test_the_help_example_is_a_correct_file(self):
        out = self.run_ok([URNICD, "--help"]).out
        lines = out[out.index("[daemon]"):].splitlines()
        other_ports = ("device =", "interface =", "netns =", "segmentation_offload =", "socket =", "role =", "id = 0")
        text = "\n".join(line for line in lines if not line.strip().startswith((*other_ports, "socket_group =")))
        other = '\n[[rnic]]\nname = "urnic1"\nport = "fabric"\nfabric = "lab"\n'  # a [[network]] is between two
        self.run_ok([URNICD, "--check", "--config", self.config(text + other)])

    def test_an_old_name_of_a_key_is_read_with_a_warning(self):
        path = self.config('[daemon]\nworkers = [0]\nspin = true\n' + FABRIC)
        result = harness.run([URNICD, "--check", "--config", path])
        self.assertEqual(result.returncode, 0)
        self.assertIn(f"{path}:3:1: 'spin' in [daemon] is called 'dedicated_cores' now", result.err)
        path = self.config('[daemon]\nworkers = [0]\nspin = true\ndedicated_cores = true\n' + FABRIC)
        result = harness.run([URNICD, "--check", "--config", path])
        self.assertEqual(result.returncode, 1)
        self.assertIn("give 'dedicated_cores' alone", result.err)

    def test_check_names_file_line_and_what_is_allowed(self):
        path = self.config('[daemon]\nworkerz = 1\n' + FABRIC)
        result = harness.run([URNICD, "--check", "--config", path])
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{path}:2:1: unknown key 'workerz'", result.err)
        self.assertIn("allowed: run_dir", result.err)

    def test_no_such_file(self):
        self.fails(self.dir / "none.toml", "none.toml", "No such file")


class WhatIsMissing(Daemon):
    def test_pci_nic(self):
        result = self.fails(self.local(rnics='[[rnic]]\nname = "nic"\nport = "pci"\ndevice = "0000:ff:1f.7"\n'),
                            "0000:ff:1f.7", "lspci -D")
        self.assertNotIn("terminate", result.err)

    def test_vdev_of_an_interface_that_is_not_there(self):
        self.fails(self.local(rnics='[[rnic]]\nname = "v"\nport = "vdev"\ndevice = "net_af_packet0,iface=nosuch9"\n'),
                   "error:")

    def test_hugepages(self):
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(int(line.split()[1]) for line in lines if line.startswith("HugePages_Free"))
        # Where some are reserved, ask for more than there can be.
        wanted = 'eal_args = ["-m", "100000000"]' if free else ""
        self.fails(self.config(f'[daemon]\nrun_dir = "{self.run_dir}"\nworkers = 1\nhugepages = true\n{wanted}\n{FABRIC}'),
                   "hugepages", "nr_hugepages")

    def test_cpu(self):
        self.fails(self.config(f'[daemon]\nrun_dir = "{self.run_dir}"\nhugepages = false\nworkers = [4000]\n{FABRIC}'),
                   "CPU 4000")

    def test_group(self):
        self.fails(self.local(daemon='socket_group = "no-such-group"'), "no-such-group", "groupadd")

    def test_run_dir(self):
        self.run_dir = self.dir / "a" / "b"
        self.fails(self.local(), str(self.run_dir), "install -d")


class StartAndEnd(Daemon):
    def test_a_first_configuration(self):
        """What has to be said and no more: in-process wires want nothing of the machine."""
        self.end(self.serve("--config", self.config(f'[daemon]\nrun_dir = "{self.run_dir}"\nworkers = 1\n{FABRIC}')))

    def test_serves_what_the_file_says_and_leaves_nothing(self):
        process = self.serve("--config", self.local(daemon='socket_mode = "0666"'))
        self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o666)
        shown = self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", "ibv_devices"]).out
        self.assertIn("urnic0", shown)
        self.assertIn("other", shown)
        sys_dir = self.run_dir / "sysroot/sys/class/infiniband/other"
        self.assertEqual((sys_dir / "ports/1/gids/1").read_text(), "0000:0000:0000:0000:0000:ffff:0a00:0002\n")
        self.assertEqual((sys_dir / "ports/1/state").read_text(), "4: ACTIVE\n")
        self.assertEqual((sys_dir / "ports/1/hw_counters/duplicate_request").read_text(), "0\n")
        result = self.end(process)
        self.assertIn("serving urnic0, other", result.err)
        self.assertFalse(self.run_dir.exists())

    def test_sigint_ends_it_too(self):
        self.end(self.serve("--config", self.local()), signal.SIGINT)
        self.assertFalse(self.run_dir.exists())

    def test_a_directory_of_others_is_kept(self):
        self.run_dir.mkdir()
        (self.run_dir / "mine").write_text("x")
        self.end(self.serve("--config", self.local()))
        self.assertEqual(sorted(os.listdir(self.run_dir)), ["mine"])

    def test_a_second_daemon_refuses(self):
        path = self.local()
        first = self.serve("--config", path)
        result = harness.run([URNICD, "--config", path])
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"another urnicd serves {self.run_dir} (process {first.pid}): end it first (sudo systemctl stop urnicd", result.err)
        self.assertTrue(self.answers(), "the first one continues")
        self.end(first)

    def test_a_killed_daemon_is_followed_by_another(self):
        path = self.local()
        first = self.serve("--config", path)
        first.kill()
        first.wait()
        self.assertTrue(self.socket.exists())
        self.end(self.serve("--config", path))
        self.assertEqual(os.listdir(self.run_dir), [], "the directory was there, what the dead one left is gone")

    def test_standalone_tells_when_it_serves(self):
        read_end, write_end = os.pipe()
        process = self.start("--standalone", "--run-dir", self.run_dir, "--ready-fd", str(write_end),
                             pass_fds=[write_end])
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            self.assertEqual(ready.read(), b"r", "one byte, and then it is closed")
        self.assertTrue(self.answers())
        self.assertEqual(stat.S_IMODE(self.run_dir.stat().st_mode), 0o700)
        self.end(process)

    def test_standalone_ends_with_its_parent(self):
        parent = subprocess.Popen(
            ["/usr/bin/python3", "-c", "import subprocess, sys, time\n"
             f"child = subprocess.Popen([{URNICD!r}, '--standalone', '--run-dir', {str(self.run_dir)!r}])\n"
             "print(child.pid, flush=True)\ntime.sleep(1000)"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(parent.stdout.close)
        pid = int(harness.read_line(parent))
        self.assertTrue(harness.wait_until(self.answers))
        parent.kill()
        parent.wait()
        ended = harness.wait_until(lambda: not self.run_dir.exists())
        if not ended:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(ended, "it outlives its parent")

    @contextlib.contextmanager
    def as_another_user(self):
        nobody = pwd.getpwnam("nobody")
        os.setegid(nobody.pw_gid)
        os.seteuid(nobody.pw_uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def test_socket_mode_decides_who_may_connect(self):
        if os.geteuid() != 0:
            # An ordinary user cannot become another one: the mode alone is looked at.
            self.serve("--config", self.local(daemon='socket_mode = "0600"'))
            self.assertEqual(stat.S_IMODE(self.socket.stat().st_mode), 0o600)
            return
        self.dir.chmod(0o755)
        for mode, allowed in (("0600", False), ("0666", True)):
            process = self.serve("--config", self.local(daemon=f'socket_mode = "{mode}"'))
            with self.as_another_user():
                try:
                    client = Client(self.socket)
                    self.assertEqual(client.hello(), 0)
                    client.close()
                    connected = True
                except PermissionError:
                    connected = False
            self.assertEqual(connected, allowed, mode)
            self.end(process)


class Frugality(Daemon):
    def cpu_ticks(self, process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as line:
            fields = line.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def sleeps(self, process):
        """How often the control thread has gone to sleep."""
        lines = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    def test_an_idle_daemon_uses_no_cpu_and_little_memory(self):
        process = self.serve("--config", self.local(daemon="", rnics=FABRIC))
        client = Client(self.socket)
        self.assertEqual(client.hello(), 0)
        time.sleep(0.5)
        before = self.cpu_ticks(process)
        time.sleep(3)
        self.assertLessEqual(self.cpu_ticks(process) - before, 1, "hundredths of a second in three seconds")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as lines:
            resident_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        self.assertLess(resident_kb, 200 * 1024)
        client.close()
        self.end(process)

    def test_out_of_memory_is_an_answer(self):
        process = self.serve("--config", self.local())
        old = Client(self.socket)
        self.assertEqual(old.hello(), 0)
        error, old_context = old.open("urnic0")
        self.assertEqual((error, old.create_cq(old_context)), (0, 0))
        new = Client(self.socket)
        self.assertEqual(new.hello(), 0)
        error, new_context = new.open("urnic0")
        self.assertEqual(error, 0)
        with open(f"/proc/{process.pid}/statm", encoding="ascii") as numbers:
            used = int(numbers.read().split()[0]) * resource.getpagesize()
        hard = resource.prlimit(process.pid, resource.RLIMIT_AS)[1]
        resource.prlimit(process.pid, resource.RLIMIT_AS, (used + (1 << 20), hard))
        self.assertEqual(new.create_cq(new_context), 12, "ENOMEM")
        self.assertEqual(old.create_cq(old_context), 0, "one that has its memory continues")
        # Small objects take what the heap has left, until it has nothing: the client's limit is higher.
        pds = 0
        while (error := old.alloc_pd(old_context)) == 0:
            pds += 1
        self.assertEqual(error, 12, "ENOMEM")
        self.assertLess(pds, MAX_PDS, "the limit was hit instead of the end of memory")
        self.assertIsNone(process.poll())
        resource.prlimit(process.pid, resource.RLIMIT_AS, (hard, hard))
        self.assertEqual(new.create_cq(new_context), 0)
        self.assertEqual(old.alloc_pd(old_context), 0)
        self.end(process)

    def test_out_of_descriptors_is_an_answer(self):
        process = self.serve("--config", self.local())
        old = Client(self.socket)
        self.assertEqual(old.hello(), 0)
        error, context = old.open("urnic0")
        self.assertEqual(error, 0)
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        self.assertEqual(old.open("urnic0")[0], 24, "EMFILE")
        self.assertEqual(old.create_cq(context), 24, "ring memory is a file")
        waiting = Client(self.socket)
        # A daemon that spins over the listener is only ever taken off the processor.
        slept = self.sleeps(process)
        self.assertTrue(harness.wait_until(lambda: self.sleeps(process) >= slept + 5), "it spins")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(waiting.hello(), 0, "it had to wait, that is all")
        self.assertEqual(old.open("urnic0")[0], 0)
        self.end(process)


class Faults(Daemon):
    def urnic_fault(self, *words, **options):
        return harness.run([harness.URNIC, "fault", *words, "--socket", str(self.socket)], **options)

    def test_faults_of_the_configuration(self):
        tables = '[[fault]]\ntype = "drop"\nprobability = 0.5\nseed = 3\n[[fault]]\ntype = "delay"\ndelay-us = 20\n'
        extra = self.config('[{"type": "ecn", "device": "other"}]', "faults.json")
        process = self.serve("--config", self.local(rnics=FABRIC + tables), "--faults", extra)
        faults = json.loads(self.urnic_fault("list", "--json").out)["faults"]
        self.assertEqual([fault["type"] for fault in faults], ["drop", "delay", "ecn"])
        self.assertEqual((faults[0]["probability"], faults[0]["seed"], faults[1]["delay-us"]), (0.5, 3, 20))
        self.end(process)

    def test_wrong_faults_are_named_with_their_place(self):
        self.fails(self.local(rnics=FABRIC + '[[fault]]\ntype = "drop"\npsm = 3\n'), "urnic.toml:19:7:",
                   "unknown key 'psm'; allowed: type, device")
        file = self.config('[{"type": "ecn", "device": "urnic9"}]', "faults.json")
        result = harness.run([URNICD, "--config", self.local(), "--faults", file])
        self.assertEqual(result.returncode, 1)
        self.assertIn('\'device\' is "urnic9"; there are urnic0, other', result.err)

    def test_only_the_daemons_user_and_root_may_inject(self):
        self.dir.chmod(0o755)
        self.serve("--config", self.local(daemon='socket_mode = "0666"'))
        self.assert_ok(self.urnic_fault("add", "ecn", "--psn", "7"))
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            somebody = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for words in (["add", "drop"], ["clear"], ["remove", "1"]):
                result = self.urnic_fault(*words, **somebody)
                self.assertEqual(result.returncode, 125, result)
                self.assertIn("nobody may not inject faults", result.err)
            self.assertIn("ecn", self.urnic_fault("list", **somebody).out)
        self.assertEqual(len(json.loads(self.urnic_fault("list", "--json").out)["faults"]), 1)


if __name__ == "__main__":
    harness.main()
