"""Programs and daemons in containers without privileges: namespaces of their own with an ordinary user's rights, everything
read-only but a directory for sockets, next to no /dev/shm, no capability, and a seccomp profile that refuses userfaultfd, as
Docker's and Podman's does."""

import ctypes
import errno
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tempfile

import harness
import refused_calls
import with_daemon

NOBODY = 65534
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 24, 38, 22, 2
USERFAULTFD = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
PINGPONG = "-g 1 -c -n 50 -s 300000"
PAIR = """
    {run} ibv_rc_pingpong {pingpong} -d urnic0 -p 18600 >/run/server 2>&1 &
    until grep -q ':48A8 [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do kill -0 $! || break; sleep 0.05; done
    {run} ibv_rc_pingpong {pingpong} -d urnic1 -p 18600 127.0.0.1 && wait $!
    status=$?; cat /run/server; exit $status"""


def contained(command, unshared, where="inside"):
    """That command in a container. `where`: "inside", or "inside_without_shm"."""
    words = ["unshare", "--map-current-user", "--keep-caps", "--mount", "--ipc", *unshared, sys.executable, __file__, where, *command]
    if os.geteuid() == 0:
        words[:0] = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return words


def mount(source, target, kind=None, flags=0, data=None):
    """mount(8) is for root alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, target, kind, flags, data) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def take_shm_away():
    """/dev has nothing but what every container has."""
    kept = {name: os.open(f"/dev/{name}", os.O_PATH) for name in ("null", "zero", "full", "random", "urandom")}
    mount(b"tmpfs", b"/dev", b"tmpfs")
    for name, descriptor in kept.items():
        pathlib.Path("/dev", name).touch()
        mount(f"/proc/self/fd/{descriptor}".encode(), f"/dev/{name}".encode(), flags=MS_BIND)
        os.close(descriptor)


def confine(has_shm):
    """For a process that is to become the container's first program."""
    libc = ctypes.CDLL(None, use_errno=True)
    mount(b"tmpfs", b"/run", b"tmpfs")
    if has_shm:
        mount(b"tmpfs", b"/dev/shm", b"tmpfs", data=b"size=64k")
    else:
        take_shm_away()
    mount(None, b"/", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False, stderr=subprocess.DEVNULL)  # already, where it is the host's
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    # Load the number of the call; userfaultfd returns EPERM, all others are allowed.
    instructions = [(0x20, 0, 0, 0), (0x15, 0, 1, USERFAULTFD), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {words[0]}")


def inside(command, has_shm):
    """Prints what the program is not allowed, and becomes it."""
    confine(has_shm)
    os.environ["XDG_RUNTIME_DIR"] = "/run"
    refused = ctypes.CDLL(None, use_errno=True).syscall(USERFAULTFD, 1) < 0 and ctypes.get_errno() == errno.EPERM
    print("userfaultfd refused," if refused else "", "everything read-only" if not os.access("/tmp", os.W_OK) else "", flush=True)
    os.execvp("sh", ["sh", "-c", 'grep Cap /proc/self/status; exec "$@"', "sh", *command])


class Container(harness.TestCase):
    def expect_confined(self, out):
        self.assertRegex(out, r"CapEff:\s+0+\n")
        self.assertRegex(out, r"CapBnd:\s+0+\n")
        self.assertIn("userfaultfd refused, everything read-only", out)

    def test_standalone(self):
        """Daemon and programs in one, by themselves."""
        script = PAIR.format(run="", pingpong=PINGPONG)
        result = self.run_ok(contained([harness.URNIC, "run", "--standalone", "--", "sh", "-c", script],
                                       ["--net", "--pid", "--fork", "--mount-proc"]))
        self.expect_confined(result.out)
        self.assertEqual(result.out.count("50 iters in"), 2, result)
        self.assertNotIn("invalid data", result.out + result.err)

    def test_programs_that_may_make_no_sealed_memory(self):
        """Their own memory is copied then."""
        for refused in ("memfd_create=EPERM", "add_seals=EPERM"):
            with self.subTest(refused):
                script = PAIR.format(run=" ".join(refused_calls.words(refused)), pingpong=PINGPONG)
                result = self.run_ok(contained([harness.URNIC, "run", "--standalone", "--", "sh", "-c", script],
                                               ["--net", "--pid", "--fork", "--mount-proc"]))
                self.assertEqual(result.out.count("50 iters in"), 2, result)
                self.assertNotIn("invalid data", result.out + result.err)

    def test_standalone_without_dev_shm(self):
        script = "ls /dev/shm; " + PAIR.format(run="", pingpong=PINGPONG)
        result = self.run_ok(contained([harness.URNIC, "run", "--standalone", "--", "sh", "-c", script],
                                       ["--net", "--pid", "--fork", "--mount-proc"], "inside_without_shm"))
        self.expect_confined(result.out)
        self.assertIn("cannot access '/dev/shm'", result.err)
        self.assertEqual(result.out.count("50 iters in"), 2, result)
        self.assertNotIn("invalid data", result.out + result.err)

    def start_daemon(self):
        """Outside; returns its run directory."""
        directory = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        config = directory / "urnicd.toml"
        # Without userfaultfd nothing converts: the container's user needs to have his memory copied.
        text = with_daemon.CONFIG.format(run_dir=directory / "run", mode="0666", workers=1, wire="")
        config.write_text(text.replace("[daemon]", '[daemon]\ncopied_memory = "all"'), encoding="ascii")
        daemon = harness.start([harness.BUILD / "urnicd", "--config", config])
        self.addCleanup(harness.end_group, daemon)
        status = [harness.URNIC, "status", "--socket", directory / "run"]
        self.assertTrue(harness.wait_until(lambda: daemon.poll() is not None or harness.run(status).returncode == 0, pause=0.1))
        return directory / "run"

    def test_two_and_a_daemon_outside(self):
        """They see its run directory, and share its process numbers."""
        run_dir, port = self.start_daemon(), harness.free_port()
        program = [harness.URNIC, "run", "--socket", run_dir, "--", "ibv_rc_pingpong", *PINGPONG.split(), "-d", "urnic0", "-p", port]
        serving = harness.start(contained(program, []))
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: serving.poll() is not None or harness.listening(port, serving.pid)))
        asked = harness.run(contained([*program, "127.0.0.1"], []))
        if asked.returncode != 0:
            harness.end_group(serving)
        for result in (asked, harness.finish(serving)):
            self.assert_ok(result)
            self.expect_confined(result.out)
            self.assertIn("50 iters in", result.out)
            self.assertNotIn("invalid data", result.out + result.err)

    def test_one_with_processes_of_its_own_and_a_daemon_outside(self):
        """Its /proc is another than the daemon's."""
        script = PAIR.format(run=f"{harness.URNIC} run --socket {self.start_daemon()} --", pingpong=PINGPONG)
        result = self.run_ok(contained(["sh", "-c", script], ["--net", "--pid", "--fork", "--mount-proc"]))
        self.expect_confined(result.out)
        self.assertEqual(result.out.count("50 iters in"), 2, result)
        self.assertNotIn("invalid data", result.out + result.err)


if __name__ == "__main__":
    if sys.argv[1:2] in (["inside"], ["inside_without_shm"]):
        inside(sys.argv[2:], sys.argv[1] == "inside")
    if harness.run(["unshare", "--map-current-user", "--net", "true"]).returncode != 0:
        print("an ordinary user may make no namespaces here")
        sys.exit(77)  # skipped, as Meson sees it
    harness.main()
