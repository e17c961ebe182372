"""`urnic trace`: events of live RNICs and of captures, against the published schema and against the counters."""

import collections
import json

import jsonschema

import harness
from capture_test import ITERATIONS, Captures
from failure_modes_test import RETRY_EXC_ERR, WithStreams

SCHEMA = json.loads((harness.SOURCE / "docs/trace-schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


class Traces(Captures):
    """Not run itself."""

    def check(self, text):
        """The events; every line is one of the schema's."""
        lines = [json.loads(line) for line in text.splitlines()]
        problems = [(line, error.message) for line in lines for error in VALIDATOR.iter_errors(line)]
        self.assertEqual(problems[:3], [])
        self.assertEqual(lines[0]["qlog_format"], "NDJSON")
        times = [line["time"] for line in lines[1:]]
        self.assertEqual(times, sorted(times))
        return lines[1:]

    def names(self, events):
        return collections.Counter(event["name"].removeprefix("rdma:") for event in events)


    def trace(self, *words):
        file = self.dir / "events.ndjson"
        tracer = harness.start([harness.URNIC, "trace", file, *words, "--socket", self.socket])
        self.addCleanup(harness.end_group, tracer)
        # What tells that it has begun is the daemon, which has the tracer's memory.
        self.assertTrue(harness.wait_until(lambda: "urnic-capture" in
                                           open(f"/proc/{self.daemon.pid}/maps", encoding="ascii").read()))
        return tracer, file


class Live(Traces):
    def group_with(self, events, name, **data):
        groups = {event["group_id"] for event in events if event["name"] == "rdma:" + name and data.items() <= event["data"].items()}
        self.assertEqual(len(groups), 1, name)
        return groups.pop()

    def test_a_lossy_transfer(self):
        self.fault("add", "drop", "--probability", "0.05", "--seed", "3")
        tracer, file = self.trace()
        before = self.status()["devices"]
        self.transfer("-s", 20_000, "-u", 12)
        after = self.status()["devices"]
        result = self.end(tracer)
        events = self.check(file.read_text(encoding="utf-8"))
        names = self.names(events)

        def grown(counter):
            return sum(device["counters"][counter] for device in after) - sum(device["counters"][counter] for device in before)
        self.assertEqual(names["packet_sent"] + names["cnp_sent"], grown("sent_pkts"))
        self.assertEqual(names["retransmission"], grown("retrans_pkts"))
        self.assertGreater(names["retransmission"], 0)
        causes = {event["data"]["cause"] for event in events if event["name"] == "rdma:retransmission"}
        self.assertIn("nak", causes)
        self.assertEqual(names["nak_received"], grown("packet_seq_err"))
        # Every message of the transfer is acknowledged once.
        self.assertGreaterEqual(names["message_acknowledged"], 200)
        self.assertEqual({event["group_id"].split("/")[0] for event in events}, {"urnic0", "urnic1"})
        self.assertIn("events of", result.err)

    def test_completions(self):
        tracer, file = self.trace()
        self.transfer("-s", 10_000, "-u", 18, "-Q", 1, tool="ib_send_bw")
        self.end(tracer)
        events = self.check(file.read_text(encoding="utf-8"))

        def times(group, name, **data):
            return [event["time"] for event in events if event["group_id"] == group and event["name"] == "rdma:" + name
                    and data.items() <= event["data"].items()]
        sender = self.group_with(events, "message_acknowledged")
        receiver = self.group_with(events, "completion_written", queue="receive")
        self.assertNotEqual(sender, receiver)
        sent = times(sender, "packet_sent", opcode="RC SEND First")
        ended = times(sender, "packet_sent", opcode="RC SEND Last")
        acknowledged = times(sender, "message_acknowledged")
        completed = times(sender, "completion_written", queue="send", opcode="SEND", status="SUCCESS")
        self.assertEqual([len(sent), len(ended), len(acknowledged), len(completed)], [ITERATIONS] * 4)
        for message in zip(sent, ended, acknowledged, completed):
            self.assertEqual(list(message), sorted(message))
        received = times(receiver, "completion_written", queue="receive", opcode="RECV", status="SUCCESS", byte_len=10_000)
        arrived = times(receiver, "packet_received", opcode="RC SEND Last", fate="delivered")
        self.assertEqual([len(arrived), len(received)], [ITERATIONS] * 2)
        for message in zip(sent, arrived, received):
            self.assertEqual(list(message), sorted(message))
        # What a program calls its work, often an address of its own, and its data are in no trace.
        shown = {key for event in events if event["name"] == "rdma:completion_written" for key in event["data"]}
        self.assertLessEqual(shown, {"queue", "wqe_index", "status", "opcode", "byte_len", "solicited"})

    def test_one_rnic(self):
        tracer, file = self.trace("urnic1")
        self.transfer("-s", 100)
        self.end(tracer)
        events = self.check(file.read_text(encoding="utf-8"))
        self.assertEqual({event["group_id"].split("/")[0] for event in events}, {"urnic1"})
        one = events[0]["group_id"]
        self.assertGreater(len(events), 200)
        self.assertRegex(one, r"^urnic1/0x[0-9a-f]+$")

    def test_a_trace_that_is_refused_leaves_the_file(self):
        file = self.dir / "events.ndjson"
        file.write_text("of yesterday", encoding="utf-8")
        result = self.urnic("trace", file, "urnic7", "--socket", self.socket)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("urnic7", result.err)
        self.assertEqual(file.read_text(encoding="utf-8"), "of yesterday")

    def test_a_full_disk(self):
        tracer = harness.start([harness.URNIC, "trace", "/dev/full", "--socket", self.socket])
        self.addCleanup(harness.end_group, tracer)
        self.transfer_until_ended(tracer, "-s", 65536)
        result = harness.finish(tracer)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("/dev/full cannot be written: No space left on device", result.err)


class FailedWork(Traces, WithStreams):
    def test_the_peer_is_killed(self):
        tracer, file = self.trace("urnic1")
        server, client = self.start_stream()
        server.kill()
        server.wait()
        self.expect_line(client, f"status {RETRY_EXC_ERR}")
        self.expect_line(client, "done")
        self.assertEqual(client.wait(harness.PATIENCE_S), 0)
        self.end(tracer)
        # Of what the stream sent before there may be very much.
        with open(file, encoding="utf-8") as lines:
            completions = [json.loads(line) for line in lines if "completion_written" in line and '"SUCCESS"' not in line]
        self.assertEqual([error.message for line in completions for error in VALIDATOR.iter_errors(line)], [])
        self.assertEqual(completions[0]["data"]["status"], "RETRY_EXC_ERR")
        self.assertNotIn("opcode", completions[0]["data"])
        flushed = completions[1:]
        self.assertGreater(len(flushed), 0)
        self.assertEqual({(line["data"]["queue"], line["data"]["status"]) for line in flushed}, {("send", "WR_FLUSH_ERR")})


class Files(Traces):
    def test_a_capture_gives_the_same_events(self):
        self.fault("add", "drop", "--probability", "0.02", "--seed", "5")
        capture_file = self.dir / "all.pcapng"
        capture = self.begin_to(capture_file)
        self.transfer("-s", 20_000, "-u", 12)
        self.end(capture)
        out = self.urnic("trace", "--from", capture_file, "-")
        self.assert_ok(out)
        names = self.names(self.check(out.out))
        self.assertGreater(names["retransmission"], 0)
        self.assertEqual(names["packet_observed"], 0)
        # A cut file is traced up to the cut.
        cut = self.dir / "cut.pcapng"
        cut.write_bytes(capture_file.read_bytes()[:-10_001])
        shorter = self.urnic("trace", "--from", cut, "-")
        self.assert_ok(shorter)
        self.assertIn("what is before it is traced", shorter.err)
        self.assertEqual(out.out.splitlines()[:100], shorter.out.splitlines()[:100])

    def test_captures_of_others(self):
        out = self.urnic("trace", "--from", harness.SOURCE / "tests/golden/write_loss.pcap", "-")
        names = self.names(self.check(out.out))
        self.assertGreater(names["packet_observed"], 100)
        self.assertGreater(names["nak_received"], 0)

    def test_perfetto(self):
        capture_file = self.dir / "all.pcapng"
        capture = self.begin_to(capture_file)
        self.transfer("-s", 20_000)
        self.end(capture)
        out = self.urnic("trace", "--perfetto", "--from", capture_file, "-")
        self.assert_ok(out)
        events = json.loads(out.out)["traceEvents"]
        kinds = collections.Counter(event["ph"] for event in events)
        self.assertGreaterEqual(kinds["X"], 200)
        self.assertGreater(kinds["C"], 0)
        named = {(event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
        for event in events:
            if event["ph"] in "iX":
                self.assertIn((event["pid"], event["tid"]), named)
                self.assertGreaterEqual(event.get("dur", 0), 0)


if __name__ == "__main__":
    harness.main()
