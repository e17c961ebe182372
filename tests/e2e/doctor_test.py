"""urnic doctor: says what works where everything does, and names what is missing where something is taken away."""

import json
import os
import pathlib
import shutil
import tempfile

import container_test
import harness


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
            self.assertEqual(finding["health"] == "works", finding["remedy"] == "", finding)
        return found

    def doctor(self, status=0, **env):
        return self.ask([harness.URNIC, "doctor", "--json"], status, **env)

    def test_here(self):
        found = self.doctor()
        for name in ("urnicd", "provider", "shim", "libibverbs", "memfd", "run directory", "--standalone"):
            self.assertEqual(found[name]["health"], "works", found[name])

    def test_text_names_the_remedy(self):
        result = self.run_ok([harness.URNIC, "doctor"], env={**self.env, "URNIC_RUN_DIR": str(self.dir)})
        self.assertRegex(result.out, r"(?m)^works +libibverbs ")
        self.assertRegex(result.out, r"(?m)^limited +daemon +no urnicd at .*\n +remedy: .*systemctl enable --now urnicd$")

    def test_a_container(self):
        """Without a capability and without userfaultfd, as Docker's and Podman's are."""
        found = self.ask(container_test.contained([str(harness.URNIC), "doctor", "--json"], []), 0)
        self.assertEqual(found["--standalone"]["health"], "works", found["--standalone"])
        self.assertIn("copied through the kernel", found["userfaultfd"]["detail"])
        self.assertIn("seccomp profile", found["userfaultfd"]["remedy"])
        for port in ("af_packet", "af_xdp"):
            self.assertEqual(found[port]["health"], "limited")
            self.assertIn("CAP_NET_RAW", found[port]["detail"])

    def test_no_user_namespaces(self):
        script = f"echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all -- {harness.URNIC} doctor --json"
        found = self.ask(["unshare", "--map-root-user", "--user", "sh", "-c", script], 0)
        self.assertEqual(found["--mount"]["health"], "limited")
        self.assertIn("max_user_namespaces", found["--mount"]["remedy"])

    def test_parts_that_are_missing(self):
        (self.dir / "verbs_provider").mkdir()
        shutil.copy(harness.URNIC, self.dir / "urnic")
        shutil.copy(harness.BUILD / "verbs_provider/liburnic-discovery.so", self.dir / "verbs_provider")
        found = self.ask([self.dir / "urnic", "doctor", "--json"], 1)
        for part in ("urnicd", "provider"):
            self.assertEqual(found[part]["health"], "fails")
            self.assertIn(str(self.dir), found[part]["detail"])
            self.assertIn("install the packages", found[part]["remedy"])
        self.assertEqual(found["shim"]["health"], "works")

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
        self.assertIn("TMPDIR", found["run directory"]["remedy"])


if __name__ == "__main__":
    harness.main()
