"""perftest's eight RC tools over wires with faults, every size, and `urnic fault` as a user meets it.

Runs under `urnic run --standalone`. What is transferred is compared by fault_check; here every tool must come to its end.
"""

import json
import os
import pathlib
import tempfile

import harness
from perftest_test import ALL_SIZES, Perftest

SETS = {
    "loss 1 %": ["drop --probability 0.01 --seed 1"],
    "loss 10 %": ["drop --probability 0.1 --seed 2"],
    "reordering 5 %": ["reorder --probability 0.05 --packets 3 --seed 3"],
    "duplication 1 %": ["duplicate --probability 0.01 --seed 4"],
    "corruption 0.1 %": ["corrupt --probability 0.001 --seed 5"],
    "all": ["drop --probability 0.01 --seed 6", "drop --probability 0.1 --seed 7",
            "reorder --probability 0.05 --packets 3 --seed 8", "duplicate --probability 0.01 --seed 9",
            "corrupt --probability 0.001 --seed 10"],
}
# 17 ms: the last packet of a message, or its acknowledgement, is lost often.
TIMEOUT = 12
# The fewest that perftest takes.
ITERATIONS = 5


def fault(*words):
    return harness.run([harness.URNIC, "fault", *words], env=dict(os.environ))


def fault_list():
    return json.loads(fault("list", "--json").out)["faults"]


class WithFaults(Perftest):
    def setUp(self):
        self.ok("clear")
        self.addCleanup(fault, "clear")

    def ok(self, *words):
        result = fault(*words)
        self.assert_ok(result, " ".join(words))
        return result.out

    def refused(self, *words):
        result = fault(*words)
        self.assertEqual(result.returncode, 125, result)
        return result.err


class AllSizes(WithFaults):
    def tools(self, *tools):
        for name, faults in SETS.items():
            self.ok("clear")
            for line in faults:
                self.ok("add", *line.split())
            # What a size costs is a few timeouts, so the latency tools run under everything at once alone.
            for tool in tools if name == "all" else tools[:1]:
                atomic = tool.startswith("ib_atomic")
                with self.subTest(tool=tool, faults=name):
                    self.measure(tool, "-u", TIMEOUT, *([] if atomic else ["-a"]), sizes=[8] if atomic else ALL_SIZES,
                                 iterations=1000 if atomic else ITERATIONS)
            for entry in fault_list():
                # Of few packets chance may choose none.
                if entry["seen"] * entry["probability"] > 20:
                    self.assertGreater(entry["hits"], 0, f"{name}: {entry}")

    def test_write(self):
        self.tools("ib_write_bw", "ib_write_lat")

    def test_read(self):
        self.tools("ib_read_bw", "ib_read_lat")

    def test_send(self):
        self.tools("ib_send_bw", "ib_send_lat")

    def test_atomic(self):
        self.tools("ib_atomic_bw", "ib_atomic_lat")


class Command(WithFaults):
    def test_list_add_remove(self):
        self.assertEqual(self.ok("list"), "no faults\n")
        self.ok("add", "drop", "--qpn", "0x11", "--psn", "4", "--iter", "1", "--opcode", "RC SEND Only")
        self.ok("add", "corrupt", "--offset", "payload", "--direction", "rx", "--device", "urnic1")
        table = self.ok("list")
        self.assertIn("corrupt", table)
        self.assertIn("urnic1", table)
        first, second = fault_list()
        self.assertEqual({key: first[key] for key in ("type", "qpn", "psn", "iter", "opcode", "hits")},
                         {"type": "drop", "qpn": 17, "psn": 4, "iter": 1, "opcode": "RC SEND Only", "hits": 0})
        status = json.loads(harness.run([harness.URNIC, "status", "--json"], env=dict(os.environ)).out)
        self.assertEqual(status["faults"], [first, second])
        self.ok("remove", str(first["id"]))
        self.assertEqual(fault_list(), [second])
        self.ok("clear")
        self.assertEqual(fault_list(), [])

    def test_mistakes_are_named(self):
        self.assertIn("'psn' must be a whole number from 0 to 16777215", self.refused("add", "drop", "--psn", "x"))
        self.assertIn("'type' must be", self.refused("add", "explode"))
        self.assertIn("there are urnic0, urnic1", self.refused("add", "drop", "--device", "urnic7"))
        self.assertIn("needs 'delay-us'", self.refused("add", "delay"))
        self.assertIn("no fault has the number 99", self.refused("remove", "99"))
        self.assertIn("--psm", self.refused("add", "drop", "--psm", "1"))
        self.assertIn("cannot read /no/such/file: No such file or directory", self.refused("load", "/no/such/file"))
        self.assertEqual(fault_list(), [])

    def test_load(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "faults.json"
            file.write_text('{"data-pkt-events": [{"qpn": 3, "psn": 4, "type": "ecn", "iter": 1}, {"type": "drop", "count": 1}]}',
                            encoding="utf-8")
            self.ok("load", str(file))
            self.assertEqual([entry["type"] for entry in fault_list()], ["ecn", "drop"])
            file.write_text('[{"type": "ecn"},\n {"type": "ecn", "psn": true}]', encoding="utf-8")
            self.assertIn(f"{file}: event 2: 'psn' must be", self.refused("load", str(file)))
            file.write_text('[{"type": "ecn"},\n {"type" "ecn"}]', encoding="utf-8")
            self.assertIn(f"{file}:2:14: not valid JSON", self.refused("load", str(file)))
            self.assertEqual(len(fault_list()), 2)
        self.ok("clear")
        self.ok("load", str(harness.SOURCE / "docs/examples/faults.json"))
        self.assertEqual(len(fault_list()), 4)

    def test_from_the_start(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "faults.json"
            file.write_text('[{"type": "ecn", "psn": 9}]', encoding="utf-8")
            standalone = [harness.URNIC, "run", "--standalone", "--faults", str(file), "--"]
            listed = self.run_ok([*standalone, harness.URNIC, "fault", "list", "--json"]).out
            self.assertEqual(json.loads(listed)["faults"][0]["psn"], 9)
            file.write_text('[{"type": "ecn", "psm": 9}]', encoding="utf-8")
            result = harness.run([*standalone, "true"])
            self.assertEqual(result.returncode, 125)
            self.assertIn(f"{file}: event 1: unknown key 'psm'", result.err)


if __name__ == "__main__":
    harness.main()
