"""urnic doctor: says what works where everything does, and names what is missing where something is taken away."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import container_test
import harness
import launcher_test
import refused_calls

DRIVERS = "/etc/libibverbs.d"


def with_mounts(commands, *command):
    """That command where these shell commands have mounted something."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *as_root, "--mount", "sh", "-c", f'{commands} && exec "$@"', "sh", *command]


class Doctor(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-doctor-")))
        self.dir.chmod(0o755)
        self.env = harness.clean_environment()

    def ask(self, command, status, **env):
        """What `urnic doctor --json` says, by name."""
        result = harness.run(command, env={**self.env, **env})
        self.assertEqual(result.returncode, status, result)
        # A container says first what it has not.
        found = {finding["what"]: finding for finding in json.loads(result.out[result.out.index("[\n") :])}
        for finding in found.values():
            self.assertEqual(finding["health"] == "works", finding["hint"] == "", finding)
        return found

    def doctor(self, status=0, **env):
        return self.ask([harness.URNIC, "doctor", "--json"], status, **env)

    def test_here(self):
        found = self.doctor()
        for name in ("urnicd", "provider", "shim", "libibverbs", "memfd", "run directory", "--standalone"):
            self.assertEqual(found[name]["health"], "works", found[name])

    def test_text_names_the_hint(self):
        result = self.run_ok([harness.URNIC, "doctor"], env={**self.env, "URNIC_RUN_DIR": str(self.dir)})
        self.assertRegex(result.out, r"(?m)^works +libibverbs ")
        self.assertRegex(result.out, r"(?m)^limited +daemon +no urnicd at .*\n +hint: .*systemctl enable --now urnicd$")

    def test_a_container(self):
        """Without a capability and without userfaultfd, as Docker's and Podman's are."""
        found = self.ask(container_test.contained([str(harness.URNIC), "doctor", "--json"], []), 0)
        self.assertEqual(found["--standalone"]["health"], "works", found["--standalone"])
        self.assertIn("copied through the kernel", found["userfaultfd"]["detail"])
        self.assertIn("seccomp profile", found["userfaultfd"]["hint"])
        for port in ("af_packet", "af_xdp"):
            self.assertEqual(found[port]["health"], "limited")
            self.assertIn("CAP_NET_RAW", found[port]["detail"])

    def test_no_user_namespaces(self):
        script = (f"echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all -- "
                  f"{harness.URNIC} doctor --json")
        found = self.ask(["unshare", "--map-root-user", "--user", "sh", "-c", script], 0)
        self.assertEqual(found["--mount"]["health"], "limited")
        self.assertIn("max_user_namespaces", found["--mount"]["hint"])

    def a_tree(self, *parts):
        """urnic alone, and these parts, as in a build tree."""
        for part in ("urnic", *parts):
            (self.dir / part).parent.mkdir(exist_ok=True)
            shutil.copy(harness.BUILD / part, self.dir / part)
        return [self.dir / "urnic", "doctor", "--json"]

    def test_parts_that_are_missing(self):
        found = self.ask(self.a_tree("verbs_provider/liburnic-discovery.so"), 1)
        for part in ("urnicd", "provider"):
            self.assertEqual(found[part]["health"], "fails")
            self.assertIn(str(self.dir), found[part]["detail"])
            self.assertIn("install the packages", found[part]["hint"])
        self.assertEqual(found["shim"]["health"], "works")

    def test_a_daemon_that_was_built_for_another_system(self):
        command = self.a_tree()
        launcher_test.make_unloadable(self.dir / "urnicd")
        daemon = self.ask(command, 1)["urnicd"]
        self.assertEqual(daemon["health"], "fails")
        self.assertIn("libelsewhere.so.1: cannot open shared object file", daemon["detail"])
        self.assertIn("it was built for another system than ", daemon["hint"])

    def test_a_daemon_of_another_release(self):
        command = self.a_tree()
        (self.dir / "urnicd").write_text("#!/bin/sh\necho urnicd 0.0.1\n", encoding="ascii")
        (self.dir / "urnicd").chmod(0o755)
        daemon = self.ask(command, 1)["urnicd"]
        self.assertIn('urnicd is "urnicd 0.0.1", and this is urnic ', daemon["detail"])
        self.assertIn("of one release", daemon["hint"])

    def test_another_libibverbs(self):
        """One from before rdma-core 34, and a file that is none."""
        library = self.dir / "libibverbs.so.1"
        versions = self.dir / "versions"
        versions.write_text("IBVERBS_PRIVATE_25 { global: *; };", encoding="ascii")
        subprocess.run(["cc", "-x", "c", "-", "-shared", f"-Wl,-soname,{library.name},--version-script,{versions}", "-o", library],
                       input="void verbs_register_driver_25(void) {}", text=True, check=True)
        found = self.doctor(1, LD_LIBRARY_PATH=str(self.dir))["libibverbs"]
        self.assertEqual(found["health"], "fails")
        self.assertIn("another private interface than the provider's (IBVERBS_PRIVATE_34), so programs see no RNIC", found["detail"])
        self.assertIn("use rdma-core 34 to 56", found["hint"])
        library.write_text("no library", encoding="ascii")
        found = self.doctor(1, LD_LIBRARY_PATH=str(self.dir))["libibverbs"]
        self.assertEqual(found["health"], "fails")
        self.assertIn(str(library), found["detail"])
        self.assertEqual(found["hint"], "apt install --reinstall libibverbs1")

    def test_no_sealed_memory(self):
        for refused in ("memfd_create=EPERM", "add_seals=EINVAL"):
            with self.subTest(refused):
                found = self.ask([*refused_calls.words(refused), harness.URNIC, "doctor", "--json"], 1)
                self.assertEqual(found["memfd"]["health"], "fails")
                self.assertIn("memfd_create() and fcntl(F_ADD_SEALS) in the container's seccomp profile", found["memfd"]["hint"])

    def driver_file(self, text):
        """What is said of /etc/libibverbs.d/urnic.driver with that text; None: there is none."""
        write = "true" if text is None else f"echo {text} >{DRIVERS}/urnic.driver"
        return self.ask(with_mounts(f"mount -t tmpfs tmpfs {DRIVERS} && {write}", harness.URNIC, "doctor", "--json"), 0)["driver file"]

    def test_a_package_that_was_removed_and_not_purged(self):
        found = self.driver_file("driver urnic-gone")
        self.assertEqual(found["health"], "limited")
        self.assertRegex(found["detail"], rf"^{DRIVERS}/urnic\.driver names /\S+/libibverbs/liburnic-gone-rdmav34\.so, which is not there")
        self.assertIn("apt purge libibverbs-urnic", found["hint"])

    def test_a_driver_file_that_was_removed(self):
        found = self.driver_file(None)
        self.assertEqual(found["health"], "limited")
        self.assertIn("no driver in /etc/libibverbs.d/urnic.driver", found["detail"])
        self.assertIn("--force-confmiss libibverbs-urnic", found["hint"])

    def test_a_driver_file_that_is_right(self):
        self.assertEqual(self.driver_file(f"driver {harness.BUILD}/verbs_provider/liburnic")["health"], "works")

    def test_everything_is_read_only(self):
        """Where a daemon of one's own finds no place, it says which it has tried."""
        command = with_mounts("mount -t tmpfs -o ro tmpfs /tmp", harness.URNIC, "run", "--standalone", "--", "true")
        result = harness.run(command, env={**self.env, "XDG_RUNTIME_DIR": "/tmp", "TMPDIR": "/tmp"})
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("cannot make a run directory (/tmp: Read-only file system, ", result.err)
        self.assertIn("point TMPDIR at a directory that you may write to", result.err)

    def test_no_place_for_sockets(self):
        # Owned by root, or by whom the user namespace takes for root, and the command has no rights of root's.
        long = f"/tmp/{'long' * 20}"  # a socket's path would not fit, though the directory may be written to
        command = f"mount -t tmpfs -o mode=555 tmpfs /tmp && chown 0:0 /tmp && mkdir -m 777 {long} && exec setpriv --bounding-set=-all --inh-caps=-all "
        command += f"{'--reuid=65534 --regid=65534 --clear-groups ' if os.geteuid() == 0 else ''}-- {harness.URNIC} doctor --json"
        words = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c", command]
        env = {"XDG_RUNTIME_DIR": long, "TMPDIR": str(self.dir / "none")}
        found = self.ask(words, 1, **env)
        self.assertEqual(found["run directory"]["health"], "fails")
        self.assertIn(f"{long}: longer than 70 characters", found["run directory"]["detail"])
        self.assertIn("TMPDIR", found["run directory"]["hint"])


if __name__ == "__main__":
    harness.main()
