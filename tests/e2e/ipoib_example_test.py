"""docs/examples/ipoib.sh, as docs/infiniband.md shows it: two hosts with IP over InfiniBand between them."""

import os
import shutil

import harness

OCTETS = 3_000_000


class Example(harness.TestCase):
    def run_example(self, link_layer, *words):
        environment = harness.clean_environment()
        environment["PATH"] = f"{harness.BUILD}:{os.environ['PATH']}"
        command = ["unshare", "-Urn", "urnic", "run", "--standalone", "--link-layer", link_layer, "--", "bash",
                   harness.SOURCE / "docs/examples/ipoib.sh", str(OCTETS), *words]
        result = harness.run(command, env=environment)
        self.assert_ok(result)
        self.assertEqual(result.out.count("3 packets transmitted, 3 received"), 3, str(result))
        self.assertIn(f"{OCTETS} octets, the same at the other end", result.out)

    def test_infiniband(self):
        self.run_example("infiniband")

    def test_connected_mode(self):
        self.run_example("infiniband", "--mode", "connected")

    def test_roce(self):
        self.run_example("ethernet")

    @classmethod
    def setUpClass(cls):
        missing = [name for name in ("ping", "ip") if shutil.which(name) is None]
        if missing:
            raise AssertionError(f"{', '.join(missing)} not found: scripts/setup installs them")


if __name__ == "__main__":
    harness.main()
