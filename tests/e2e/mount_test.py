"""urnic run --mount: programs that LD_PRELOAD does not reach see the RNICs in /sys and /dev, as root and as an ordinary user, and nobody
else sees anything."""

import os
import pathlib
import tempfile

import harness

STATIC = harness.BUILD / "tests/e2e/list_rnics"
NOBODY = 65534
ROOT = os.geteuid() == 0
PINGPONG = """
    [ -z "$LD_PRELOAD" ] || exit 9
    ibv_rc_pingpong -g 1 -c -n 50 -s 300000 -d urnic0 -p {port} >{log} 2>&1 &
    until grep -q '{listening}' /proc/net/tcp /proc/net/tcp6; do kill -0 $! || break; sleep 0.05; done
    ibv_rc_pingpong -g 1 -c -n 50 -s 300000 -d urnic1 -p {port} 127.0.0.1 && wait $!
    status=$?; cat {log}; exit $status"""
RPING = """
    rping -s -a 198.18.0.1 -p {port} -C 10 >{log} 2>&1 &
    until rping -c -a 198.18.0.1 -p {port} -C 10 -v; do kill -0 $! || exit 1; sleep 0.05; done
    wait $!; status=$?; cat {log}; exit $status"""


def as_user(*words):
    """Root gives up what it is; others are users already."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words] if ROOT else list(words)


def mounted(*words):
    return [harness.URNIC, "run", "--mount", "--standalone", "--", *words]


class Mount(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-mount-")))
        self.dir.chmod(0o777)
        self.env = {**harness.clean_environment(), "TMPDIR": str(self.dir), "HOME": str(self.dir)}
        self.env.pop("XDG_RUNTIME_DIR", None)
        self.env.pop("LD_PRELOAD", None)

    def each_user(self, *words):
        for name, command in {"user": as_user(*mounted(*words)), **({"root": mounted(*words)} if ROOT else {})}.items():
            with self.subTest(user=name):
                yield self.run_ok(command, env=self.env)

    def test_a_static_program(self):
        before = harness.run([STATIC], env=self.env)
        for result in self.each_user(STATIC):
            self.assertEqual(sorted(result.out.split()), ["urnic0", "urnic1"])
        self.assertEqual(str(harness.run([STATIC], env=self.env)), str(before), "the mounts are seen outside")

    def test_what_preloading_would_not_have_shown(self):
        self.assertEqual(harness.run([harness.URNIC, "run", "--standalone", "--", STATIC], env=self.env).out.count("urnic"), 0)

    def test_programs_of_libibverbs_and_librdmacm(self):
        for script in (PINGPONG, RPING):
            port = harness.free_port()
            text = script.format(port=port, log=self.dir / f"log{port}", listening=f":{port:04X} [0-9A-F:]* 0A ")
            for _ in self.each_user("sh", "-c", text):
                (self.dir / f"log{port}").unlink()

    def test_the_rest_stays(self):
        """Classes, devices, terminals and shared memory are as outside; the caller keeps uid and gid."""
        look = "id -u; id -g; ls /sys/class; ls /dev; stat -c %t:%T /dev/null /dev/zero; ls /sys/class/net; echo x >/dev/shm/$$ && rm /dev/shm/$$"
        outside = self.run_ok(as_user("sh", "-c", look), env=self.env).out.splitlines()
        inside = self.run_ok(as_user(*mounted("sh", "-c", look)), env=self.env).out.splitlines()
        ours = {"infiniband", "infiniband_verbs"}
        self.assertEqual([line for line in inside if line not in ours], [line for line in outside if line not in ours])
        self.assertLessEqual(ours, set(inside))

    def test_no_user_namespaces(self):
        """The limit of a user namespace of our own is set to none."""
        script = (f"echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs -- "
                  f"{harness.URNIC} run --mount --standalone -- true")
        result = harness.run(as_user("unshare", "--map-root-user", "sh", "-c", script), env=self.env)
        self.assertEqual(result.returncode, 125, result)
        for words in ("--mount needs CAP_SYS_ADMIN or a user namespace", "No space left on device", "max_user_namespaces"):
            self.assertIn(words, result.err)

    def test_a_command_that_is_not_there(self):
        result = harness.run(mounted("/nowhere/at/all"), env=self.env)
        self.assertEqual(result.returncode, 127, result)
        self.assertIn("cannot run /nowhere/at/all", result.err)


if __name__ == "__main__":
    harness.main()
