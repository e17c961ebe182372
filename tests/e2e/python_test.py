"""The modules of the wheel for Python: a daemon for this process's children, and faults in it."""

import os
import pathlib
import sys
from unittest import mock

import harness

sys.dont_write_bytecode = True
sys.path.insert(0, str(harness.SOURCE / "cli/python"))
# pylint: disable=wrong-import-position
import urnic
import urnic_faults


class Python(harness.TestCase):
    def setUp(self):
        environment = {**harness.clean_environment(), "PATH": f"{harness.BUILD}:{os.environ['PATH']}"}
        self.enterContext(mock.patch.dict(os.environ, environment, clear=True))

    def pingpong(self):
        port = str(harness.free_port())
        words = ["ibv_rc_pingpong", "-c", "-p", port, "-g", "1", "-n", "10", "-s", "9000", "-d"]
        self.run_pair([*words, "urnic0"], [*words, "urnic1", "127.0.0.1"], int(port))

    def test_children_see_two_rnics_that_lose_what_they_are_told_to(self):
        before = dict(os.environ)
        with urnic.standalone() as shown:
            self.assertEqual(shown.items() - os.environ.items(), set())
            self.assertEqual(urnic.device_names(), ["urnic0", "urnic1"])
            run_dir = pathlib.Path(os.environ["URNIC_RUN_DIR"])
            self.assertTrue(run_dir.exists())
            self.pingpong()
            lost = urnic_faults.drop(opcode="RC SEND First", count=2)
            with urnic_faults.duplicate(direction="rx", delay_us=20) as twice:
                self.pingpong()
                self.assertGreater(twice.seen, 0)
                self.assertEqual([fault.id for fault in urnic_faults.faults()], [lost.id, twice.id])
            self.assertEqual(lost.hits, 2)
            with self.assertRaisesRegex(urnic_faults.FaultError, f"fault {twice.id} was removed"):
                _ = twice.hits
            twice.remove()
            urnic_faults.clear()
            self.assertEqual(urnic_faults.faults(), [])
        self.assertEqual(dict(os.environ), before)
        self.assertFalse(run_dir.exists())

    def test_what_is_refused_says_why(self):
        with urnic.standalone():
            with self.assertRaisesRegex(urnic_faults.FaultError, "probability"):
                urnic_faults.drop(probability=2)
            with self.assertRaisesRegex(urnic_faults.FaultError, "'dorp'.*drop, corrupt"):
                urnic_faults.add("dorp")
            self.assertEqual(urnic_faults.faults(), [])
        os.environ["URNIC_RUN_DIR"] = "/nowhere"
        with self.assertRaisesRegex(urnic_faults.FaultError, "/nowhere"):
            urnic_faults.drop()

    def test_without_the_program(self):
        os.environ["PATH"] = "/nowhere"
        with self.assertRaisesRegex(FileNotFoundError, "install the wheel or the package urnic"):
            with urnic.standalone():
                pass


if __name__ == "__main__":
    harness.main()
