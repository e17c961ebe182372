"""urnic run as a launcher, with stand-ins for the daemon: what it does with processes, signals and errors."""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import harness

MAGIC = 0x75726E63
ABI_VERSION = harness.ABI_VERSION
OP_HELLO = 1

# A daemon that does what its environment says instead of serving RNICs.
FAKE_DAEMON = """#!/usr/bin/python3
import os, signal, sys, time
run_dir = sys.argv[sys.argv.index("--run-dir") + 1]
ready = int(sys.argv[sys.argv.index("--ready-fd") + 1])
mode = os.environ.get("FAKE_DAEMON", "serve")
with open(run_dir + "/pid", "w") as file: file.write(str(os.getpid()))
if mode == "refuse":
    sys.stderr.write("urnicd: there is no CPU 99 on this machine\\n"); sys.exit(3)
if mode == "silent": sys.exit(1)
if mode == "stubborn": signal.signal(signal.SIGTERM, signal.SIG_IGN)
def end(*_):
    open(os.environ.get("FAKE_TRACE", "/dev/null"), "a").write("ended by SIGTERM\\n"); os._exit(0)
if mode != "stubborn": signal.signal(signal.SIGTERM, end)
if mode == "slow": time.sleep(30)
os.write(ready, b"1")
if mode == "die":
    while not os.path.exists(run_dir + "/go"): time.sleep(0.01)
    sys.stderr.write("urnicd: internal error, at the end\\n"); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGKILL)
while True: time.sleep(60)
"""


def make_unloadable(program):
    """A program that was linked with a library which is not there any more."""
    library = program.parent / "libelsewhere.so.1"
    for source, *words in (("void elsewhere(void) {}", "-shared", f"-Wl,-soname,{library.name}", "-o", library),
                           ("void elsewhere(void); int main(void) { elsewhere(); return 0; }", library, "-o", program)):
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", *words], input=source, text=True, check=True)
    library.unlink()


class Launcher(harness.TestCase):
    """A copy of the built urnic among stand-ins, laid out as in a build tree."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.runtime = self.dir / "runtime"
        self.runtime.mkdir()
        self.tree = self.dir / "tree"
        (self.tree / "verbs_provider").mkdir(parents=True)
        shutil.copy(harness.URNIC, self.tree / "urnic")
        shutil.copy(harness.BUILD / "verbs_provider/liburnic-discovery.so", self.tree / "verbs_provider")
        (self.tree / "verbs_provider/liburnic-rdmav34.so").write_bytes(b"")
        self.daemon = self.tree / "urnicd"
        self.daemon.write_text(FAKE_DAEMON, encoding="utf-8")
        self.daemon.chmod(0o755)
        self.env = harness.clean_environment()
        self.env.update(XDG_RUNTIME_DIR=str(self.runtime), FAKE_TRACE=str(self.dir / "trace"))

    def urnic(self, *words, timeout=harness.PATIENCE_S, **env):
        return harness.run([self.tree / "urnic", *words], timeout, env={**self.env, **env})

    def standalone(self, *command, **env):
        return self.urnic("run", "--standalone", "--", *command, **env)

    def start_standalone(self, *command, **env):
        process = harness.start([self.tree / "urnic", "run", "--standalone", "--", *command], env={**self.env, **env})
        self.addCleanup(harness.end_group, process)
        return process

    def assert_clean(self):
        self.assertEqual(list(self.runtime.iterdir()), [], "a run directory was left behind")


class Standalone(Launcher):
    def test_environment_and_output_of_the_command(self):
        result = self.standalone("sh", "-c", "env; ls -ld $URNIC_RUN_DIR; echo to stderr >&2", LD_PRELOAD="")
        self.assert_ok(result)
        env = dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)
        self.assertEqual(env["LD_PRELOAD"], str(self.tree / "verbs_provider/liburnic-discovery.so"))
        self.assertEqual(env["RDMAV_DRIVERS"], str(self.tree / "verbs_provider/liburnic"))
        self.assertTrue(env["URNIC_RUN_DIR"].startswith(str(self.runtime)))
        self.assertIn("drwx------", result.out)
        self.assertEqual(result.err, "to stderr\n")
        self.assert_clean()
        self.assertEqual((self.dir / "trace").read_text(encoding="utf-8"), "ended by SIGTERM\n")

    def test_what_was_preloaded_stays(self):
        result = self.standalone("sh", "-c", "echo $LD_PRELOAD; echo $RDMAV_DRIVERS", RDMAV_DRIVERS="/x/libother",
                                 LD_PRELOAD="libm.so.6")
        self.assert_ok(result)
        preload, drivers = result.out.splitlines()
        self.assertTrue(preload.endswith("liburnic-discovery.so:libm.so.6"), preload)
        self.assertTrue(drivers.endswith("liburnic:/x/libother"), drivers)

    def test_exit_status_is_the_commands(self):
        for status in (0, 1, 42, 255):
            self.assertEqual(self.standalone("sh", "-c", f"exit {status}").returncode, status)
        self.assert_clean()

    def test_death_by_signal_is_the_commands(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            self.assertEqual(self.standalone("sh", "-c", f"kill -{int(number)} $$").returncode, -number)
        self.assert_clean()

    def test_commands_that_cannot_be_run(self):
        result = self.standalone("/nonexistent/program")
        self.assertEqual(result.returncode, 127)
        self.assertIn("cannot run /nonexistent/program: No such file or directory", result.err)
        plain = self.dir / "plain"
        plain.write_text("text", encoding="utf-8")
        self.assertEqual(self.standalone(str(plain)).returncode, 126)
        self.assert_clean()

    def test_signals_sent_to_urnic_reach_the_command(self):
        script = ("for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo got $s\" $s; done; echo ready; i=0; "
                  "while [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done")
        process = self.start_standalone("bash", "-c", script)
        self.assertEqual(harness.read_line(process), "ready\n")
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            process.send_signal(getattr(signal, f"SIG{name}"))
            self.assertEqual(harness.read_line(process), f"got {name}\n")
        harness.end_group(process)
        harness.finish(process)

    def test_stop_and_continue_hold_for_both(self):
        process = self.start_standalone("bash", "-c", "echo $$; read -t 60 < <(sleep 60)")
        command = int(harness.read_line(process))

        def state(pid):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0]

        os.kill(command, signal.SIGSTOP)
        self.assertTrue(harness.wait_until(lambda: state(process.pid) == "T"), "urnic did not stop with the command")
        process.send_signal(signal.SIGCONT)
        self.assertTrue(harness.wait_until(lambda: state(command) != "T"), "the command did not continue")
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE_S), -signal.SIGTERM)
        self.assert_clean()

    def test_the_daemon_ends_when_urnic_is_killed(self):
        process = self.start_standalone("sh", "-c", "cat $URNIC_RUN_DIR/pid; echo; exec sleep 60")
        daemon = int(harness.read_line(process))
        process.kill()
        process.wait()
        self.assertTrue(harness.wait_until(lambda: not os.path.exists(f"/proc/{daemon}")), "the daemon lives on")

    def test_a_daemon_that_does_not_come_up(self):
        result = self.standalone("echo", "not reached", FAKE_DAEMON="refuse")
        self.assertEqual(result.returncode, 125)
        self.assertEqual(result.out, "")
        self.assertIn("did not come up: it ended with exit status 3", result.err)
        self.assertIn("there is no CPU 99 on this machine", result.err)
        self.assert_clean()

    def test_a_daemon_that_says_nothing(self):
        """As one whose log AppArmor has taken from it."""
        result = self.standalone("true", FAKE_DAEMON="silent")
        self.assertEqual(result.returncode, 125)
        self.assertIn("did not come up: it ended with exit status 1\nit left no message: where AppArmor or SELinux confines it", result.err)
        self.assertIn("journalctl -k", result.err)
        self.assert_clean()

    def test_a_daemon_that_was_built_for_another_system(self):
        self.daemon.unlink()
        make_unloadable(self.daemon)
        result = self.standalone("true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("libelsewhere.so.1: cannot open shared object file", result.err)
        self.assertIn("it was built for another system than ", result.err)
        self.assertIn("install the packages that are built for this one (scripts/debian), or use the tarball", result.err)
        self.assert_clean()

    def test_a_daemon_that_ignores_sigterm_is_killed(self):
        result = self.standalone("sh", "-c", "cat $URNIC_RUN_DIR/pid", FAKE_DAEMON="stubborn")
        self.assert_ok(result)
        self.assertFalse(os.path.exists(f"/proc/{int(result.out)}"), "the daemon lives on")
        self.assert_clean()

    def test_a_daemon_that_dies_is_reported_and_the_command_goes_on(self):
        # The daemon's pid is in use until urnic has waited for it, and reported its end.
        script = ("touch $URNIC_RUN_DIR/go; while kill -0 $(cat $URNIC_RUN_DIR/pid) 2>/dev/null; do sleep 0.05; done; "
                  "echo still here; exit 9")
        result = self.standalone("sh", "-c", script, FAKE_DAEMON="die")
        self.assertEqual(result.returncode, 9, result)
        self.assertEqual(result.out, "still here\n")
        self.assertIn("urnicd was killed by signal 9", result.err)
        self.assertIn("internal error, at the end", result.err)
        self.assert_clean()

    def test_an_interrupt_while_the_daemon_starts(self):
        process = self.start_standalone("echo", "not reached", FAKE_DAEMON="slow")
        self.assertTrue(harness.wait_until(lambda: list(self.runtime.glob("*/pid"))))
        process.send_signal(signal.SIGINT)
        result = harness.finish(process)
        self.assertEqual((result.returncode, result.out), (-signal.SIGINT, ""))
        self.assert_clean()

    def test_missing_parts_are_named(self):
        for part, package in (("verbs_provider/liburnic-rdmav34.so", "libibverbs-urnic"),
                              ("verbs_provider/liburnic-discovery.so", "libibverbs-urnic"), ("urnicd", "urnicd")):
            (self.tree / part).rename(self.dir / "away")
            result = self.standalone("echo", "not reached")
            self.assertEqual((result.returncode, result.out), (125, ""), part)
            self.assertIn(f"found neither at {self.tree / part}", result.err)
            self.assertIn("scripts/build", result.err)
            self.assertIn(f"apt install --reinstall {package})", result.err)
            (self.dir / "away").rename(self.tree / part)
        self.assert_clean()

    def test_paths_that_ld_preload_cannot_hold(self):
        odd = self.dir / "a tree"
        self.tree.rename(odd)
        result = harness.run([odd / "urnic", "run", "--standalone", "--", "true"], env=self.env)
        self.assertEqual(result.returncode, 125)
        self.assertIn("LD_PRELOAD cannot hold the path", result.err)
        self.assert_clean()

    def test_keep_keeps_the_log(self):
        result = self.urnic("run", "--standalone", "--keep", "--", "true")
        self.assert_ok(result)
        kept = list(self.runtime.iterdir())
        self.assertEqual(len(kept), 1)
        self.assertTrue((kept[0] / "urnicd.log").exists())
        self.assertIn(str(kept[0]), result.err)

    def test_where_the_run_directory_goes(self):
        long = self.dir / ("x" * 120)
        long.mkdir()
        result = self.standalone("sh", "-c", "echo $URNIC_RUN_DIR", XDG_RUNTIME_DIR="/nonexistent", TMPDIR=str(long))
        self.assert_ok(result)
        self.assertTrue(result.out.startswith("/tmp/urnic-"), result.out)
        self.assertFalse(os.path.exists(result.out.strip()))

    def test_no_descriptor_of_the_caller_reaches_the_daemon(self):
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        process = subprocess.Popen([str(self.tree / "urnic"), "run", "--standalone", "--", "sh", "-c",
                                    "ls -l /proc/$(cat $URNIC_RUN_DIR/pid)/fd"], env=self.env, close_fds=False,
                                   stdout=subprocess.PIPE, text=True)
        out = process.communicate(timeout=harness.PATIENCE_S)[0]
        self.assertNotIn(f"{os.readlink(f'/proc/self/fd/{writing}')}\n", out)
        os.close(reading)
        os.close(writing)


class Options(Launcher):
    def test_wrong_command_lines(self):
        for words, expected in ((["run"], "needs a command"), (["run", "--standalone"], "needs a command"),
                                (["run", "--standalone", "--socket", "x", "--", "true"], "excludes"),
                                (["run", "--keep", "--", "true"], "--standalone"),
                                (["fly"], "subcommand is required"), ([], "subcommand is required")):
            result = self.urnic(*words)
            self.assertEqual(result.returncode, 125, words)
            self.assertIn(expected, result.err + result.out, words)

    def test_help_and_version(self):
        for words in (["--help"], ["run", "--help"], ["status", "--help"]):
            result = self.urnic(*words)
            self.assert_ok(result)
            self.assertIn("Usage", result.out)
        self.assertRegex(self.urnic("--version").out, r"^urnic \d+\.\d+\.\d+\n$")

    def test_the_commands_own_options_are_its_own(self):
        result = self.standalone("sh", "-c", 'echo "$@"', "x", "--standalone", "--help", "--", "-x")
        self.assertEqual(result.out, "--standalone --help -- -x\n")
        result = self.urnic("run", "--standalone", "echo", "-n", "--version")
        self.assertEqual(result.out, "--version")


class FakeSocket:
    """Listens as a daemon would and answers each request with `answer(request bytes)`; None: not at all."""

    def __init__(self, path, answer, kind=socket.SOCK_SEQPACKET):
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self.socket.bind(str(path))
        self.socket.listen(8)
        self.answer = answer
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            reply = self.answer(connection.recv(4096))
            if reply is not None:
                connection.send(reply)
                connection.close()

    def close(self):
        self.socket.close()


def hello_reply(error=0, version=ABI_VERSION, magic=MAGIC, op=OP_HELLO):
    return struct.pack("=IIIiII", magic, op, 1, error, 40, 0) + struct.pack("=IIIi", version, 1, 7, 1)


class Socket(Launcher):
    def setUp(self):
        super().setUp()
        self.run_dir = self.dir / "run"
        self.run_dir.mkdir()
        self.path = self.run_dir / "control.sock"

    def listen(self, answer, **options):
        fake = FakeSocket(self.path, answer, **options)
        self.addCleanup(fake.close)
        self.path.chmod(0o777)

    def attempt(self, path=None):
        return self.urnic("run", "--socket", path or self.path, "--", "sh", "-c", "echo $URNIC_RUN_DIR $PPID")

    def refused(self, *expected, path=None):
        result = self.attempt(path)
        self.assertEqual((result.returncode, result.out), (125, ""), result)
        for text in expected:
            self.assertIn(text, result.err)

    def test_a_daemon_that_answers(self):
        requests = []
        self.listen(lambda request: requests.append(request) or hello_reply())
        for path in (self.path, self.run_dir):
            result = self.attempt(path)
            self.assert_ok(result)
            self.assertEqual(result.out.split()[0], str(self.run_dir))
        magic, op, _, length, version = struct.unpack("=IIIII", requests[0][:20])
        self.assertEqual((magic, op, length, version), (MAGIC, OP_HELLO, len(requests[0]), ABI_VERSION))

    def test_no_daemon(self):
        self.refused("no urnicd at", str(self.path), "urnicd --config", "--standalone")

    def test_the_default_socket(self):
        if not os.path.exists("/run/urnic/control.sock"):
            result = self.urnic("run", "--", "true")
            self.assertIn("/run/urnic/control.sock", result.err)

    def test_a_daemon_that_has_ended(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
            gone.bind(str(self.path))
        self.refused("has ended", "nobody listens")

    def test_not_a_socket(self):
        self.path.write_text("", encoding="utf-8")
        self.refused("is not a socket")

    def test_another_programs_socket(self):
        self.listen(lambda request: b"", kind=socket.SOCK_STREAM)
        self.refused("socket of another program")

    def test_a_wrong_name(self):
        self.refused("control.sock", path=self.run_dir / "other.sock")

    def test_a_path_that_is_too_long(self):
        deep = self.dir / ("d" * 100)
        deep.mkdir()
        self.refused("too long", path=deep)

    def test_another_version(self):
        self.listen(lambda request: hello_reply(error=71, version=ABI_VERSION + 1))
        self.refused(f"speaks version {ABI_VERSION + 1}", f"speaks version {ABI_VERSION}:", "restart urnicd")

    def test_another_version_that_says_yes(self):
        self.listen(lambda request: hello_reply(version=ABI_VERSION + 5))
        self.refused(f"speaks version {ABI_VERSION + 5}")

    def test_garbage_for_an_answer(self):
        self.listen(lambda request: b"HTTP/1.1 400 Bad Request")
        self.refused("is not urnicd")

    def test_an_answer_that_never_comes(self):
        self.listen(lambda request: None)
        self.refused("does not answer")

    def test_too_many_clients(self):
        self.listen(lambda request: hello_reply(error=24))
        self.refused("refuses this client: Too many open files")

    def test_not_permitted(self):
        self.listen(lambda request: hello_reply())
        self.path.chmod(0o600)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            result = harness.run([self.tree / "urnic", "run", "--socket", self.path, "--", "true"], env=self.env,
                                 user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
            who = "nobody"
        else:
            self.path.chmod(0)
            result = self.attempt()
            who = pwd.getpwuid(os.geteuid()).pw_name
        self.assertEqual(result.returncode, 125, result)
        self.assertIn(f"{who} may not connect to urnicd at {self.path}", result.err)
        self.assertIn("join the group", result.err)


if __name__ == "__main__":
    harness.main()
