"""urnic experiment as a program: what it writes, the same bytes for the same seed, a terminal's progress, wrong use."""

import collections
import csv
import json
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile
import tomllib

import jsonschema

import harness

SCENARIOS = harness.SOURCE / "experiment/scenarios"
BRIEF = """
duration_us = 2000
warm_up_us = 1000
sample_us = 20
[topology]
kind = "star"
hosts = 3
[[flow]]
from = ["h1", "h2"]
to = "h3"
"""


def experiment(*arguments, **options):
    return harness.run([harness.URNIC, "experiment", *arguments], **options)


class InDirectory(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-experiment-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.file = self.dir / "brief.toml"
        self.file.write_text(BRIEF, encoding="utf-8")


class Traces(InDirectory):
    def check(self, file):
        """Every line is one of the schema's, in the order of time; urnic view takes the file. Returns the events."""
        schema = json.loads((harness.SOURCE / "docs/trace-schema.json").read_text(encoding="utf-8"))
        validator = jsonschema.Draft202012Validator(schema)
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        # All kinds, and some of each.
        kinds = collections.defaultdict(list)
        for line in lines:
            kinds[line.get("name")].append(line)
        problems = [(line, error.message) for some in kinds.values() for line in some[:200] for error in validator.iter_errors(line)]
        self.assertEqual(problems[:3], [])
        self.assertEqual(lines[0]["qlog_format"], "NDJSON")
        times = [line["time"] for line in lines[1:]]
        self.assertEqual(times, sorted(times))
        page = file.with_suffix(".html")
        self.assert_ok(harness.run([harness.URNIC, "view", file, "-o", page]))
        self.assertNotIn("are left out", harness.run([harness.URNIC, "view", "--text", file]).err)
        return lines[1:]

    def test_of_an_experiment(self):
        file = self.dir / "events.ndjson"
        self.file.write_text(BRIEF + "message_kb = 16\n", encoding="utf-8")
        words = [self.file, "--out", self.dir / "out", "--no-draw", "--set", "duration_us=1100",
                 "--set", "switch.pfc=false", "--set", "switch.buffer_kb=100", "--set", "switch.queue_kb=30"]
        self.assert_ok(experiment(*words, "--trace", file))
        run, = json.loads((self.dir / "out/brief.json").read_text(encoding="utf-8"))["runs"]
        events = self.check(file)
        names = collections.Counter(event["name"].removeprefix("rdma:") for event in events)
        self.assertEqual(names["retransmission"], run["summary"]["sent_again"])
        self.assertGreater(names["retransmission"], 0)
        ports = {event["group_id"] for event in events if event["name"] == "rdma:port_added"}
        self.assertEqual(ports, {"s1>h1", "s1>h2", "s1>h3", "h1>s1", "h2>s1", "h3>s1"})
        self.assertEqual({event["group_id"].split("/")[0] for event in events} - ports, {"h1", "h2", "h3"})
        of_network = collections.Counter()
        for event in events:
            if event["name"] in ("rdma:packets_marked", "rdma:packets_dropped"):
                of_network[event["name"], event["group_id"]] += event["data"]["count"]
        self.assertEqual(set(of_network), {("rdma:packets_marked", "s1>h3"), ("rdma:packets_dropped", "s1>h3")})
        self.assertEqual(of_network["rdma:packets_dropped", "s1>h3"], run["summary"]["drops"])
        paths = {event["group_id"]: event["data"] for event in events if event["name"] == "rdma:path_assigned"}
        self.assertEqual((len(paths), paths["h1/0x11"]["ports"]), (4, ["h1>s1", "s1>h3"]))
        causes = {event["data"]["cause"] for event in events if event["name"] == "rdma:rate_changed"}
        self.assertTrue({"cnp", "timer"} <= causes, causes)
        expired = [event["data"] for event in events if event["name"] == "rdma:timer_expired"]
        self.assertTrue(all(expiry["retries"] <= expiry["retry_limit"] for expiry in expired))
        # Every message of a flow is there from end to end.
        first = next(flow for flow in run["flows"] if flow["name"] == "f1.1")
        of_first = [event for event in events if event["group_id"].startswith("h1/")]
        completed = [event["data"]["wqe_index"] for event in of_first if event["name"] == "rdma:completion_written"]
        fetched = {event["data"]["wqe_index"]: event for event in of_first if event["name"] == "rdma:wqe_fetched"}
        self.assertEqual(completed, list(range(first["messages"])))
        self.assertGreater(len(completed), 10)
        self.assertEqual({(fetched[index]["data"]["opcode"], fetched[index]["data"]["length"]) for index in completed},
                         {("RDMA_WRITE", 16384)})
        # Who watches changes nothing.
        self.assert_ok(experiment(*words[:2], self.dir / "again", *words[3:]))
        self.assertEqual((self.dir / "out/brief.json").read_bytes(), (self.dir / "again/brief.json").read_bytes())

    def test_pauses_and_waits_for_credit(self):
        for number, (changes, expected) in enumerate(((("switch.xoff_kb=20", "congestion.algorithm='none'"), {"pfc_paused", "pfc_resumed"}),
                                                      (("link_layer='infiniband'", "subnet.vl_buffer_bytes=16384"),
                                                       {"credit_wait_began", "credit_wait_ended"}))):
            file = self.dir / f"{number}.ndjson"
            words = [word for change in changes for word in ("--set", change)]
            self.assert_ok(experiment(self.file, "--out", self.dir / "out", "--no-draw", "--set", "duration_us=1100", *words,
                                      "--trace", file))
            names = {event["name"].removeprefix("rdma:") for event in self.check(file)}
            self.assertEqual(names & {"pfc_paused", "pfc_resumed", "credit_wait_began", "credit_wait_ended"}, expected)
            self.assertIn("queue_updated", names)

    def test_refused(self):
        self.file.write_text(BRIEF + '[sweep]\nkey = "seed"\nvalues = [1, 2]\n', encoding="utf-8")
        result = experiment(self.file, "--out", self.dir, "--trace", self.dir / "events.ndjson")
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("has 2 runs", result.err)
        self.assertFalse((self.dir / "events.ndjson").exists())
        self.file.write_text(BRIEF, encoding="utf-8")
        self.assertIn("cannot be written", experiment(self.file, "--out", self.dir, "--trace", self.dir).err)

    def test_of_a_random_walk(self):
        walk = harness.BUILD / "tests/sim/walk/sim_rc_random_walk_test"
        file = self.dir / "walk.ndjson"
        result = harness.run([walk, "--gtest_filter=RcRandomWalk.*"], env={**os.environ, "URNIC_SEED": "1", "URNIC_TRACE": str(file)})
        self.assert_ok(result)
        events = self.check(file)
        names = collections.Counter(event["name"].removeprefix("rdma:") for event in events)
        for name in ("wqe_fetched", "packet_sent", "packet_received", "ack_received", "completion_written", "message_acknowledged",
                     "timer_expired"):
            self.assertGreater(names[name], 0, name)


class Results(InDirectory):
    def test_json_csv_and_pictures(self):
        out = self.dir / "made" / "here"
        self.assert_ok(experiment(self.file, "--out", out))
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["brief-flows.csv", "brief-ports.csv", "brief.json", "brief.svg"])
        run, = json.loads((out / "brief.json").read_text(encoding="utf-8"))["runs"]
        self.assertEqual([flow["name"] for flow in run["flows"]], ["f1.1", "f1.2"])
        self.assertEqual(len(run["series"]["time_us"]), 100)
        self.assertEqual(run["summary"]["busiest_port"], "s1>h3")
        for what in ("goodput_gbit", "rate_gbit", "target_gbit", "alpha"):
            self.assertEqual({len(values) for values in run["series"][what].values()}, {100}, what)
        with open(out / "brief-flows.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 200)
        self.assertEqual([float(row["goodput_gbit"]) for row in rows if row["flow"] == "f1.2"],
                         run["series"]["goodput_gbit"]["f1.2"])
        picture = (out / "brief.svg").read_text(encoding="utf-8")
        self.assertIn("<svg", picture[:500])
        again = self.dir / "again"
        self.assert_ok(experiment(out / "brief.json", "--out", again))
        self.assertEqual([(path.name, path.read_text(encoding="utf-8")) for path in again.iterdir()], [("brief.svg", picture)])

    def test_the_same_seed_gives_the_same_bytes(self):
        for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
            self.assert_ok(experiment(self.file, "--out", self.dir / name, "--seed", seed))
        read = {name: {path.name: path.read_bytes() for path in (self.dir / name).iterdir()} for name in "abc"}
        self.assertEqual(read["a"], read["b"])
        for name in ("brief.json", "brief-flows.csv", "brief.svg"):
            self.assertNotEqual(read["a"][name], read["c"][name], name)

    def test_a_sweep(self):
        self.assert_ok(experiment(self.file, "--out", self.dir, "--set",
                                  'sweep={key="congestion.algorithm", values=["none", "dcqcn"]}'))
        runs = json.loads((self.dir / "brief.json").read_text(encoding="utf-8"))["runs"]
        self.assertEqual([run["label"] for run in runs], ["congestion.algorithm = 'none'", "congestion.algorithm = 'dcqcn'"])
        self.assertEqual(runs[0]["summary"]["cnps_handled"], 0)
        self.assertGreater(runs[1]["summary"]["cnps_handled"], 0)
        self.assertEqual(len(list(self.dir.glob("*.svg"))), 3)

    def test_variants_are_drawn_beside_each_other(self):
        self.file.write_text(BRIEF + """
[[variant]]
name = "frames"
set = {"congestion.algorithm" = "none", "switch.xoff_kb" = 50}
[[variant]]
name = "one lane"
set = {link_layer = "infiniband", "subnet.vls" = 1}
""", encoding="utf-8")
        for name in ("a", "b"):
            self.assert_ok(experiment(self.file, "--out", self.dir / name))
        read = {name: {path.name: path.read_bytes() for path in (self.dir / name).iterdir()} for name in "ab"}
        self.assertEqual(read["a"], read["b"])
        self.assertEqual(sorted(name for name in read["a"] if name.endswith(".svg")),
                         ["brief-frames.svg", "brief-one-lane.svg", "brief.svg"])
        picture = read["a"]["brief.svg"].decode()
        for text in ("frames", "one lane", "goodput (Gbit/s)", "queue (KB)", "events so far", "without credit (% of time)"):
            self.assertIn(f">{text}<", picture)
        rows = list(csv.DictReader(read["a"]["brief-ports.csv"].decode().splitlines()))
        self.assertEqual({row["xmit_wait_us"] for row in rows if row["run"] == "frames"}, {""})
        last = [row for row in rows if (row["run"], row["port"], row["time_us"]) == ("one lane", "h1>s1", "2000")]
        self.assertGreater(float(last[0]["xmit_wait_us"]), 500, "two senders share one link: half of the time")

    def test_without_pictures_and_series(self):
        done = experiment(self.file, "--out", self.dir, "--no-series", "--quiet")
        self.assertEqual((done.returncode, done.out, done.err), (0, "", ""))
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["brief.json", "brief.toml"])
        self.assertNotIn("series", json.loads((self.dir / "brief.json").read_text(encoding="utf-8"))["runs"][0])

    def test_every_shipped_scenario_is_valid(self):
        scenarios = sorted(SCENARIOS.glob("*.toml"))
        self.assertGreater(len(scenarios), 10)
        for path in scenarios:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            self.assertTrue(document["about"], path)
            brief = experiment(path, "--out", self.dir, "--no-series", "--set", "duration_us=200", "--set", "warm_up_us=0")
            self.assert_ok(brief, path.name)


class Terminal(InDirectory):
    def test_progress(self):
        leader, follower = pty.openpty()
        with subprocess.Popen([harness.URNIC, "experiment", self.file, "--out", self.dir, "--no-draw"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=follower, env=harness.clean_environment()) as process:
            os.close(follower)
            shown = b""
            while True:
                try:
                    data = os.read(leader, 65536)
                except OSError:  # EIO: nobody holds the other end any more
                    break
                shown += data
            self.assertEqual(process.wait(harness.PATIENCE_S), 0)
        os.close(leader)
        text = shown.decode()
        self.assertIn("\rbrief [", text)
        self.assertIn("100 %", text)
        self.assertTrue(text.endswith("\r\033[K"), text[-80:])


class WrongUse(InDirectory):
    def refused(self, message, *arguments):
        done = experiment(*arguments, "--out", self.dir / "out")
        self.assertEqual((done.returncode, done.out), (125, ""), done)
        self.assertIn(message, done.err)
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        self.assertFalse((self.dir / "out").exists(), "something was written")

    def test_files(self):
        self.refused("urnic experiment: /no/such/file cannot be read: No such file or directory", "/no/such/file")
        self.file.write_text("duration_us = 5\n[topology]\nhosts = 0\n", encoding="utf-8")
        self.refused(f"urnic experiment: {self.file}:3:9: 'hosts' in [topology] must be a whole number from 2", self.file)
        self.file.write_text("[topology\n", encoding="utf-8")
        self.refused(f"{self.file}:1:", self.file)

    def test_changes(self):
        self.refused("--set topology: KEY=VALUE is wanted", self.file, "--set", "topology")
        self.refused("'topology.kind' cannot be set to 'star'", self.file, "--set", "topology.kind=star")
        self.refused("there is no host \"h3\"", self.file, "--set", "topology.hosts=2")

    def test_results_that_cannot_be_written(self):
        (self.dir / "brief.json").mkdir()
        done = experiment(self.file, "--out", self.dir, "--quiet")
        self.assertEqual(done.returncode, 125)
        self.assertIn("brief.json cannot be written: Is a directory", done.err)

    def test_results_that_are_none(self):
        results = self.dir / "brief.json"
        for text in ("", "[]", "{}", '{"name": "x", "runs": [{"label": ""}]}'):
            results.write_text(text, encoding="utf-8")
            done = experiment(results, "--out", self.dir)
            self.assertEqual((done.returncode, done.out), (125, ""), done)
            self.assertIn("does not hold the series of an experiment or a trace", done.err)
            self.assertNotIn("Traceback", done.err)
        self.refused("no.json cannot be read: No such file or directory", self.dir / "no.json")

    def test_command_line(self):
        self.assertEqual(experiment().returncode, 125)
        self.assertIn("FILE is required", experiment().err)
        self.assertEqual(experiment("--frobnicate", self.file).returncode, 125)
        shown = experiment("--help")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("The same file and seed give the same bytes", shown.out)
        self.assertIn("experiment", harness.run([harness.URNIC, "--help"]).out)


if __name__ == "__main__":
    harness.main()
