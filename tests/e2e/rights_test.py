"""What the daemon keeps of the rights that it was started with, as the kernel has it: /proc/PID/task/TID/status of each thread."""

import functools
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import unittest

import harness
import netns
import no_seccomp
import ports_test
import with_daemon

VERBS_CHECK = harness.BUILD / "tests/e2e/verbs_check"
# A user that every Debian system has.
USER = pwd.getpwnam("daemon")
SECCOMP_FILTERS = 2
NET_ADMIN, NET_RAW, IPC_LOCK = 1 << 12, 1 << 13, 1 << 14


@functools.cache
def has_filters():
    """A daemon that is instrumented installs none."""
    out = subprocess.run(["meson", "introspect", "--buildoptions", str(harness.BUILD)], capture_output=True, text=True, check=True).stdout
    options = {option["name"]: option["value"] for option in json.loads(out)}
    return options["b_sanitize"] == "none" and not options["b_coverage"] and options["b_pgo"] != "generate"


def threads_of(pid):
    """Of each thread its name and what /proc says of it."""
    return [{name: value.strip() for name, value in (line.split(":", 1) for line in text.splitlines())}
            for text in harness.thread_files(pid, "status").values()]


class Threads(with_daemon.WithDaemon):
    """What holds of every daemon. Not run itself."""
    workers = 2

    def expect_confined(self, pid, capabilities=0):
        """Workers have no capability; the control thread, and those that open sockets for it, have these. A thread that begins drops
        what it has of the one that made it, hence the patience."""
        def complaints():
            threads = threads_of(pid)
            filters = next(int(thread["Seccomp_filters"]) for thread in threads if thread["Pid"] == str(pid)) if has_filters() else 0
            return [complaint for thread in threads for complaint in self.complaints(thread, pid, capabilities)] + \
                [("its filter", thread) for thread in threads if has_filters() and thread["Name"].startswith("urnic-worker") and
                 int(thread["Seccomp_filters"]) <= filters]
        self.assertTrue(harness.wait_until(lambda: not complaints()), complaints())
        threads = threads_of(pid)
        workers = [thread for thread in threads if thread["Name"].startswith("urnic-worker")]
        self.assertTrue(workers)
        control = next(thread for thread in threads if thread["Pid"] == str(pid))
        self.assertEqual(int(control["CapEff"], 16), capabilities, control)

    def complaints(self, thread, pid, capabilities):
        may_open = thread["Pid"] == str(pid) or thread["Name"] == "urnic-netns"
        allowed = {"CapInh": 0, "CapAmb": 0, "CapPrm": capabilities if may_open else 0, "CapEff": capabilities if may_open else 0}
        if os.geteuid() == 0:
            allowed["CapBnd"] = 0
        wanted = {"NoNewPrivs": "1"} | ({"Seccomp": str(SECCOMP_FILTERS)} if has_filters() else {})
        return [(name, thread) for name, mask in allowed.items() if int(thread[name], 16) & ~mask] + \
            [(name, thread) for name, value in wanted.items() if thread[name] != value]

    def expect_user(self, pid, user):
        for thread in threads_of(pid):
            self.assertEqual(set(thread["Uid"].split()), {str(user.pw_uid)}, thread)
            self.assertEqual(set(thread["Gid"].split()), {str(user.pw_gid)}, thread)
            self.assertLessEqual(set(thread["Groups"].split()), {str(user.pw_gid)}, thread)

    def log_of_end(self):
        self.daemon.terminate()
        return harness.finish(self.daemon)


class AsStarted(Threads):
    """The user stays; what the ports do not need goes all the same."""

    def test_no_thread_keeps_a_capability(self):
        self.expect_confined(self.daemon.pid)
        for thread in threads_of(self.daemon.pid):
            self.assertEqual(set(thread["Uid"].split()), {str(os.geteuid())}, thread)

    def test_programs_run(self):
        self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", VERBS_CHECK, "--gtest_filter=Memory.EveryKindOfMemory"])
        self.expect_confined(self.daemon.pid)


class WithoutFilters(Threads):
    keys = "seccomp = false"

    def test_no_thread_has_one(self):
        self.assertEqual({thread["Seccomp"] for thread in threads_of(self.daemon.pid)}, {threads_of(os.getpid())[0]["Seccomp"]})


@unittest.skipIf(not netns.is_real_root(), "only root may become another user")
class AsAnotherUser(Threads):
    keys = f'user = "{USER.pw_name}"\nsocket_group = "tty"'

    def test_every_thread_is_his(self):
        self.expect_confined(self.daemon.pid)
        self.expect_user(self.daemon.pid, USER)
        said = self.log_of_end().err
        self.assertIn(f"continues as {USER.pw_name} with no capability", said)
        self.assertFalse(self.socket.exists())

    def test_the_run_directory_is_his(self):
        for path in (self.run_dir, self.socket, self.run_dir / "urnicd.lock", self.run_dir / "sysroot",
                     self.run_dir / "sysroot/sys/class/infiniband/urnic0/ports/1/state"):
            self.assertEqual(path.stat().st_uid, USER.pw_uid, path)
        self.assertEqual(self.socket.group(), "tty")
        self.assertEqual(self.run_dir.stat().st_mode & 0o022, 0)

    def test_programs_of_others_run_and_memory_is_copied(self):
        """Root's program: its memory that does not convert is reached by the descriptor that it gives."""
        self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", VERBS_CHECK, "--gtest_filter=Memory.*-*HugePages"],
                    timeout=300)
        self.expect_confined(self.daemon.pid)

    def test_after_a_kill(self):
        self.daemon.kill()
        self.daemon.wait()
        self.start_daemon()
        self.expect_user(self.daemon.pid, USER)

    def end_daemon(self):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0)
        if self.run_dir.exists():  # what it is in belongs to root
            self.assertEqual(list(self.run_dir.iterdir()), [])
            self.run_dir.rmdir()

    def test_a_directory_that_a_daemon_of_roots_left(self):
        self.end_daemon()
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace(self.keys, ""), encoding="utf-8")
        self.start_daemon()
        self.daemon.kill()
        self.daemon.wait()
        self.assertEqual(self.run_dir.stat().st_uid, 0)
        config.write_text(text, encoding="utf-8")
        self.start_daemon()
        self.expect_user(self.daemon.pid, USER)
        self.assertEqual(self.run_dir.stat().st_uid, USER.pw_uid)

    def test_another_daemon_of_roots_keeps_its_directory(self):
        self.end_daemon()
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace(self.keys, ""), encoding="utf-8")
        self.start_daemon()
        config.write_text(text, encoding="utf-8")
        self.expect_refused(f"another urnicd serves {self.run_dir}")
        self.assertEqual(self.status()["clients"], [])

    def test_a_directory_of_roots_with_something_else(self):
        """/run, for one, is not given away."""
        self.end_daemon()
        self.run_dir.mkdir()
        (self.run_dir / "mine").write_text("mine", encoding="ascii")
        self.expect_refused("belongs to root and has something else in it (mine)")
        self.assertEqual(self.run_dir.stat().st_uid, 0)

    def expect_refused(self, *words):
        result = harness.run([harness.BUILD / "urnicd", "--config", self.dir / "urnicd.toml"])
        self.assertEqual(result.returncode, 1, result)
        for word in words:
            self.assertIn(word, result.err)


class Mistakes(harness.TestCase):
    def expect(self, keys, *words, before=()):
        with tempfile.TemporaryDirectory(prefix="urnic-e2e-") as directory:
            config = pathlib.Path(directory) / "urnicd.toml"
            text = with_daemon.CONFIG.format(run_dir=f"{directory}/run", mode="0666", workers=1, wire="")
            config.write_text(text.replace("[daemon]\n", f"[daemon]\n{keys}\n"), encoding="utf-8")
            os.chmod(directory, 0o755)
            result = harness.run([*before, harness.BUILD / "urnicd", "--config", config])
            self.assertEqual(result.returncode, 1, result)
            for word in words:
                self.assertIn(word, result.err)
            self.assertFalse(pathlib.Path(directory, "run").exists())

    def test_no_such_user(self):
        self.expect('user = "nobody-of-that-name"', 'user "nobody-of-that-name": there is no such user', "useradd --system")

    def test_who_may_not_become_another_user(self):
        before = ["setpriv", "--bounding-set=-setuid"]
        self.expect(f'user = "{USER.pw_name}"', "may not become another user", "Start urnicd as root", before=before)

    def test_a_user_that_the_kernel_refuses(self):
        self.expect(f'user = "{USER.pw_name}"', "cannot give the run directory", "Invalid argument",
                    before=["unshare", "--user", "--map-root-user"] if netns.is_real_root() else [])


def refuse_filters():
    harness.default_signals()
    no_seccomp.refuse_filters()


class KernelWithoutFilters(harness.TestCase):
    """seccomp() answers EINVAL."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start(self, keys):
        """The daemon, which has ended or answers."""
        config, socket = self.dir / "urnicd.toml", self.dir / "run/control.sock"
        config.write_text(with_daemon.CONFIG.format(run_dir=socket.parent, mode="0600", workers=1, wire="")
                          .replace("[daemon]\n", f"[daemon]\n{keys}\n"), encoding="ascii")
        daemon = harness.start([harness.BUILD / "urnicd", "--config", config], preexec_fn=refuse_filters)
        self.addCleanup(harness.end_group, daemon)
        self.assertTrue(harness.wait_until(lambda: daemon.poll() is not None or
                                           harness.run([harness.URNIC, "status", "--socket", socket]).returncode == 0, pause=0.1))
        return daemon

    @unittest.skipIf(not has_filters(), "a daemon that is instrumented installs none")
    def test_is_warned_of(self):
        daemon = self.start("")
        self.assertIsNone(daemon.poll())
        daemon.terminate()
        self.assertIn("the kernel takes no filters of system calls", harness.finish(daemon).err)

    @unittest.skipIf(not has_filters(), "a daemon that is instrumented installs none")
    def test_is_refused_where_they_are_wanted(self):
        result = harness.finish(self.start("seccomp = true"))
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("Set seccomp = false", result.err)


class KernelInterface(ports_test.Ports):
    """An interface that goes and comes is opened again with what is left. Not run itself."""
    capabilities = 0
    expect_confined, complaints = Threads.expect_confined, Threads.complaints

    def setUp(self):
        super().setUp()
        for side in (self.a, self.b):
            side.keys = f'user = "{USER.pw_name}"' if netns.is_real_root() else ""

    def go_and_come(self):
        self.start()
        self.replace_interface()
        for side in (self.a, self.b):  # addresses come after their interface
            gid = side.socket.parent / "sysroot/sys/class/infiniband/urnic0/ports/1/gids/1"
            self.assertTrue(harness.wait_until(lambda gid=gid: gid.read_text(encoding="ascii").strip("0:\n") != ""), side.text())
        self.expect_pingpong("-n", 20)
        for side in (self.a, self.b):
            self.expect_confined(side.daemon.pid, self.capabilities)


class OwnAddresses(KernelInterface):
    port, capabilities = "af_packet", NET_RAW

    def test_an_interface_that_goes_and_comes(self):
        self.go_and_come()


class BorrowedAddresses(KernelInterface):
    """The kernel asks for neighbours on the daemon's behalf."""
    port, capabilities = "af_packet", NET_RAW | NET_ADMIN

    def setUp(self):
        super().setUp()
        for side in (self.a, self.b):
            whole = side.config
            side.config = lambda whole=whole: whole().split("[[neighbour]]")[0].replace("ipv4 =", "# ipv4 =")

    def test_neighbours_are_asked_for(self):
        """Nobody but the daemon has the kernel look for this one."""
        self.start()
        program = harness.start(self.a.program("rping", "-c", "-a", "10.77.0.99", "-C", 1))
        self.addCleanup(harness.end_group, program)

        def known():
            return "10.77.0.99" in subprocess.run(["ip", "-n", self.a.name, "neigh", "show", "10.77.0.99"], check=True, text=True,
                                                  capture_output=True).stdout
        self.assertTrue(harness.wait_until(known), self.a.text())
        self.assertNotIn("CAP_NET_ADMIN there", self.a.text())

    def test_an_interface_that_goes_and_comes(self):
        self.go_and_come()


class Xdp(KernelInterface):
    port, mtu, interface_mtu = "af_xdp", 2048, 2200

    @property
    def capabilities(self):
        locked = pathlib.Path(f"/proc/{self.a.daemon.pid}/limits").read_text(encoding="ascii")
        is_unlimited = "Max locked memory         unlimited" in locked
        return NET_RAW | NET_ADMIN | (0 if is_unlimited else IPC_LOCK)

    def test_an_interface_that_goes_and_comes(self):
        if not netns.is_real_root():
            self.skipTest("AF_XDP needs root")
        self.go_and_come()


class Memif(ports_test.Memif):
    """Both daemons are of one user, who has no right over what root made."""
    expect_confined, complaints = Threads.expect_confined, Threads.complaints

    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)
        for side in self.sides:
            side.keys = f'user = "{USER.pw_name}"' if netns.is_real_root() else ""

    test_a_backlog_pauses_the_other_daemon = test_a_threshold_beyond_what_is_counted_is_refused = None

    def test_payload_arrives_and_a_peer_that_is_killed_comes_back(self):
        super().test_payload_arrives_and_a_peer_that_is_killed_comes_back()
        for side in self.sides:
            self.expect_confined(side.daemon.pid)


if __name__ == "__main__":
    netns.private()
    harness.main()
