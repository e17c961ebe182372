"""`urnic trace`: events of live RNICs and of captures, against the published schema and against the counters."""

import collections
import json
import os
import re
import signal
import unittest

import jsonschema

import harness
import with_daemon
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
        self.assertTrue(harness.wait_until(self.has_begun))
        return tracer, file

    def has_begun(self):
        """What tells is the daemon, which has the tracer's memory."""
        return "urnic-capture" in open(f"/proc/{self.daemon.pid}/maps", encoding="ascii").read()


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
        self.assertLessEqual(shown, {"queue", "wqe_index", "status", "opcode", "byte_len", "solicited", "wr_id"})

    def of_queue(self, events, group, name, queue):
        return [event for event in events if event["group_id"] == group and event["name"] == "rdma:" + name
                and event["data"]["queue"] == queue]

    def test_wqes(self):
        tracer, file = self.trace()
        self.transfer("-s", 10_000, "-u", 18, "-Q", 1, tool="ib_send_bw")
        self.end(tracer)
        events = self.check(file.read_text(encoding="utf-8"))
        sender = self.group_with(events, "message_acknowledged")
        receiver = self.group_with(events, "completion_written", queue="receive")
        fetched = self.of_queue(events, sender, "wqe_fetched", "send")
        self.assertEqual([event["data"]["wqe_index"] for event in fetched], list(range(ITERATIONS)))
        self.assertEqual({(event["data"]["opcode"], event["data"]["length"]) for event in fetched}, {("SEND", 10_000)})
        # Each says which message is its own: it goes out afterwards.
        first = [event for event in events if event["group_id"] == sender and event["name"] == "rdma:packet_sent"
                 and event["data"]["opcode"] == "RC SEND First" and "retransmission" not in event["data"]]
        self.assertEqual([event["data"]["psn"] for event in fetched], [event["data"]["psn"] for event in first])
        completed = self.of_queue(events, sender, "completion_written", "send")
        self.assertEqual([event["data"]["wqe_index"] for event in completed], list(range(ITERATIONS)))
        for one in zip(fetched, first, completed):
            times = [event["time"] for event in one]
            self.assertEqual(times, sorted(times))
        taken = self.of_queue(events, receiver, "wqe_fetched", "receive")
        received = self.of_queue(events, receiver, "completion_written", "receive")
        self.assertEqual([event["data"] for event in taken], [{"queue": "receive", "wqe_index": index} for index in range(ITERATIONS)])
        self.assertEqual([event["data"]["wqe_index"] for event in received], list(range(ITERATIONS)))
        for one, other in zip(taken, received):
            self.assertLessEqual(one["time"], other["time"])

    def test_a_wqe_that_waits(self):
        # One READ at a time: the next is taken up at once, and goes out when the response has come.
        tracer, file = self.trace("urnic0")
        self.transfer("-s", 1000, "-u", 18, "-o", 1, "-t", 16, tool="ib_read_bw")
        self.end(tracer)
        events = self.check(file.read_text(encoding="utf-8"))
        reader = self.group_with(events, "wqe_fetched", opcode="RDMA_READ")
        fetched = [event["time"] for event in self.of_queue(events, reader, "wqe_fetched", "send")]
        responses = [event["time"] for event in events if event["group_id"] == reader and event["name"] == "rdma:packet_received"
                     and event["data"]["opcode"] == "RC READ Response Only"]
        self.assertEqual([len(fetched), len(responses)], [ITERATIONS] * 2)
        self.assertTrue(any(taken < response for taken, response in zip(fetched[1:], responses)), (fetched[:9], responses[:9]))

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


    def test_a_reader_that_stalls(self):
        # As with captures: nobody reads the pipe, the RNICs go on, and what has no room is counted.
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        tracer = harness.start([harness.URNIC, "trace", f"/dev/fd/{write_end}", "--buffer", "1", "--socket", self.socket],
                               pass_fds=[write_end])
        os.close(write_end)
        self.addCleanup(harness.end_group, tracer)
        self.assertTrue(harness.wait_until(self.has_begun))
        self.transfer("-s", 65536, iterations=500)
        text = b""
        tracer.send_signal(signal.SIGINT)
        while part := os.read(read_end, 1 << 16):
            text += part
        result = harness.finish(tracer)
        self.assert_ok(result)
        seen, lost = 0, 0
        for device in ("urnic0", "urnic1"):
            told = re.search(rf"(\d+) of (\d+) packets, WQEs and completions of {device} are missing, because this reader was too slow",
                             result.err)
            self.assertIsNotNone(told, result)
            self.assertGreater(int(told[1]), 0)
            lost, seen = lost + int(told[1]), seen + int(told[2])
        events = self.check(text.decode())
        # A packet is an event or more.
        self.assertGreaterEqual(len(events), seen - lost)

    @unittest.skipIf(os.geteuid() != 0, "a second user needs root")
    def test_other_users_may_not(self):
        file = self.dir / "events.ndjson"
        file.touch()
        file.chmod(0o666)
        result = self.urnic("trace", file, "--socket", self.socket, **with_daemon.as_nobody())
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("nobody may not", result.err)
        self.assertEqual(file.stat().st_size, 0)
        self.assertTrue(harness.wait_until(lambda: any(user["refusals"] for user in self.status()["users"])))


class Streams(Traces, WithStreams):
    def test_a_trace_that_begins_later(self):
        # Of a QP in use: what was taken up before is not told, and nothing is told twice.
        server, client = self.start_stream()
        tracer, file = self.trace("urnic1")
        self.assertTrue(harness.wait_until(lambda: file.exists() and file.stat().st_size > 1_000_000))
        self.end(tracer)
        client.kill()
        client.wait()
        self.expect_line(server, "done")
        self.assertEqual(server.wait(harness.PATIENCE_S), 0)
        with open(file, encoding="utf-8") as lines:
            fetched = [json.loads(line)["data"] for line in lines if "wqe_fetched" in line]
        indexes = [one["wqe_index"] for one in fetched if one["queue"] == "send"]
        self.assertGreater(len(indexes), 100)
        self.assertGreater(indexes[0], 0)
        self.assertEqual(indexes, sorted(set(indexes)))

    def test_one_qp(self):
        # Of two that send from the same RNIC, to another one of the same daemon.
        self.start_stream()
        self.start_stream()
        qpns = [qp["qpn"] for client in self.status()["clients"] for qp in client["qps"] if qp["device"] == "urnic1"]
        self.assertEqual(len(qpns), 2)
        tracer, file = self.trace(f"urnic1/{qpns[0]:#x}", "-c", 1000)
        result = harness.finish(tracer)
        self.assert_ok(result, "urnic trace")
        # However slow this reader is, what it loses is of that QP.
        events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
        self.assertEqual({event["group_id"] for event in events}, {f"urnic1/{qpns[0]:#x}"})
        names = self.names(events)
        for name in ("wqe_fetched", "packet_sent", "ack_received", "completion_written"):
            self.assertGreater(names[name], 0, name)

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
