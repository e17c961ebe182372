"""Partitions: `pkeys` of RNICs, with stock programs and with tests/e2e/verbs/pkey_test.cc."""

import harness
import with_daemon

CHECK = str(harness.BUILD / "tests/e2e/pkey_check")
KEYS = {"urnic0": "[0x8123, 0x7abc]", "urnic1": "[0xffff, 0x8123, 0xfabc, 0x7abc]"}


class Partitions(with_daemon.WithDaemon):
    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        text = config.read_text(encoding="utf-8")
        for name, keys in KEYS.items():
            text = text.replace(f'name = "{name}"\n', f'name = "{name}"\npkeys = {keys}\n')
        config.write_text(text, encoding="utf-8")
        return super().daemon_command()

    def here(self, *words):
        return [str(harness.URNIC), "run", "--socket", str(self.socket), "--", *words]

    def test_verbs(self):
        self.run_ok(self.here(CHECK))

    def test_perftest_by_index(self):
        port = harness.free_port()
        common = ["-F", "-x", "1", "-n", "100", "-p", str(port)]
        for tool in ("ib_write_bw", "ib_send_bw"):
            self.run_pair(self.here(tool, "-d", "urnic1", "--pkey_index=1", *common),
                          self.here(tool, "-d", "urnic0", "--pkey_index=0", *common, "127.0.0.1"), port)

    def test_connection_manager(self):
        """The client's entry 0 is the server's entry 1, which its QP takes from the request."""
        server = self.start("rping", "-s", "-a", "198.18.0.2", "-C", "10")
        client = self.here("rping", "-c", "-a", "198.18.0.2", "-I", "198.18.0.1", "-C", "10", "-v")
        results = []

        def served():
            results.append(harness.run(client))
            return results[-1].returncode == 0

        # Until the server listens a client is rejected.
        self.assertTrue(harness.wait_until(served, timeout=60, pause=0.2), str(results[-1]))
        self.assertEqual(results[-1].out.count("ping data"), 10)
        self.assert_ok(harness.finish(server, 60))


if __name__ == "__main__":
    harness.main()
