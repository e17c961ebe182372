"""`urnic run --standalone --link-layer infiniband`: a subnet of its own for one command, as an ordinary user, with nothing else installed."""

import json
import os
import pathlib
import pwd
import re
import shutil
import tempfile

import harness

STANDALONE = [str(harness.URNIC), "run", "--standalone", "--link-layer", "infiniband", "--"]


class Standalone(harness.TestCase):
    """The pairs run in the environment that the command has: `urnic run` finds the daemon that is around it."""

    def setUp(self):
        # An ordinary user, whoever runs the tests.
        nobody = pwd.getpwnam("nobody")
        self.as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        environment = harness.clean_environment()
        environment.pop("XDG_RUNTIME_DIR", None)
        environment["TMPDIR"] = "/tmp"
        self.environment = environment

    def start_session(self):
        """A command that lasts as long as the test; returns its environment."""
        script = "import json, os, signal; print(json.dumps(dict(os.environ)), flush=True); signal.pause()"
        process = harness.start([*STANDALONE, "/usr/bin/python3", "-c", script], env=self.environment, **self.as_user)
        self.addCleanup(harness.finish, process)
        self.addCleanup(process.terminate)
        line = harness.read_line(process)
        self.assertNotEqual(line, "", "the command did not start")
        self.session = json.loads(line)
        return self.session

    def here(self, *words):
        return [str(harness.URNIC), "run", "--socket", self.session["URNIC_RUN_DIR"], "--", *(str(word) for word in words)]

    def pair(self, *words):
        port = harness.free_port()
        common = [*words, "-p", port]
        identity = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if self.as_user else []
        return self.run_pair([*identity, *self.here(*common, "-d", "urnic1")], [*identity, *self.here(*common, "-d", "urnic0", "127.0.0.1")], port)

    def test_programs_without_gids(self):
        session = self.start_session()
        self.assertEqual(pathlib.Path(session["URNIC_RUN_DIR"]).stat().st_uid, self.as_user.get("user", os.getuid()))
        text = self.run_ok(self.here("ibv_devinfo", "-v"), **self.as_user).out
        self.assertEqual(re.findall(r"link_layer:\s+(\S+)", text), ["InfiniBand"] * 2)
        self.assertEqual(re.findall(r"\s+state:\s+(\S+)", text), ["PORT_ACTIVE"] * 2)
        self.assertEqual(sorted(re.findall(r"port_lid:\s+(\d+)", text)), ["1", "2"])
        self.assertNotIn("198.18", text)
        self.assertRegex(self.run_ok(self.here(shutil.which("sminfo", path="/usr/sbin:/sbin:/usr/bin")), **self.as_user).out,
                         r"sm lid 1 .*state 3 SMINFO_MASTER")
        for tool in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
            with self.subTest(tool=tool):
                _, client = self.pair(tool, "-n", 200)
                self.assertRegex(client.out, r"remote address: LID 0x0002")
        _, client = self.pair("ib_write_bw", "-F", "-n", 200)
        self.assertIn("Link type       : IB", client.out)
        self.assertTrue(harness.perftest_rows(client), str(client))
        # It joins its group by umad: the built-in subnet administrator chooses the LID.
        _, client = self.pair("ib_send_bw", "-F", "-c", "UD", "-g", "-n", 100)
        self.assertRegex(client.out, r"remote address: LID 0xc001 QPN 0xffffff")
        self.assertTrue(harness.perftest_rows(client), str(client))

    def test_one_line_does_it(self):
        port = harness.free_port()
        # The server listens before there is a client, however slow the machine is.
        script = (f"ibv_rc_pingpong -d urnic1 -p {port} -n 100 & "
                  f"until grep -qi ':{port:04x} .* 0a ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done; "
                  f"ibv_rc_pingpong -d urnic0 -p {port} -n 100 127.0.0.1 && wait $!")
        result = self.run_ok([*STANDALONE, "sh", "-c", script], env=self.environment, **self.as_user)
        self.assertEqual(len(re.findall(r"100 iters in", result.out)), 2, str(result))

    def test_a_long_folder_for_temporary_files(self):
        """The paths of umad's sockets are longer than the control socket's: another folder is taken in time."""
        with tempfile.TemporaryDirectory(prefix="urnic-e2e-") as folder:
            long = pathlib.Path(folder) / ("x" * (65 - len(folder) - 1))
            long.mkdir()
            os.chmod(folder, 0o755)
            long.chmod(0o1777)
            words = ["sh", "-c", "echo $URNIC_RUN_DIR; cat $URNIC_RUN_DIR/sysroot/sys/class/infiniband/urnic1/ports/1/lid"]
            result = self.run_ok([*STANDALONE, *words], env={**self.environment, "TMPDIR": str(long)}, **self.as_user)
            self.assertRegex(result.out, r"^/tmp/urnic-\w+\n0x2\n$")

    def test_what_does_not_go_together(self):
        for words, reason in (
                (["--link-layer", "infiniband", "--", "true"], "--link-layer requires --standalone"),
                (["--standalone", "--link-layer", "token-ring", "--", "true"], "--link-layer: token-ring not in {ethernet,infiniband}"),
                (["--standalone", "--link-layer", "infiniband", "--faults", "/dev/null", "--", "true"],
                 "--faults goes with --link-layer ethernet alone")):
            with self.subTest(words=words):
                result = harness.run([harness.URNIC, "run", *words], env=self.environment, **self.as_user)
                self.assertEqual(result.returncode, 125, str(result))
                self.assertIn(reason, result.err)
        ethernet = self.run_ok([harness.URNIC, "run", "--standalone", "--link-layer", "ethernet", "--", "ibv_devinfo"],
                               env=self.environment, **self.as_user)
        self.assertEqual(re.findall(r"link_layer:\s+(\S+)", ethernet.out), ["Ethernet"] * 2)
        # A rule for every RNIC would be one for nobody.
        self.start_session()
        fault = harness.run([harness.URNIC, "fault", "add", "drop", "--probability", "0.1", "--socket", self.session["URNIC_RUN_DIR"]], **self.as_user)
        self.assertNotEqual(fault.returncode, 0, str(fault))
        self.assertIn("all RNICs have the link layer InfiniBand", fault.err)


if __name__ == "__main__":
    harness.main()
