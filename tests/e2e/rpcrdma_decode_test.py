"""urnic decode of RPC-over-RDMA: expected text for captures with and without a connection's setup, and tshark's fields."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

import harness

GOLDEN = harness.SOURCE / "tests/golden"
LAYER = "RPC-over-RDMA"

# Ends of our fields' names -> tshark's. What a header has more than once is compared in the order of the header.
TSHARK = {"xid": "xid", "version": "version", "credits": "flow_control", "proc": "msg_type", "reads": "reads_count",
          "writes": "writes_count", "has_reply_chunk": "reply_count", "position": "position", "handle": "rdma_handle",
          "length": "rdma_length", "offset": "rdma_offset", "segments": "segment_count", "error": "errcode",
          "vers_low": "vers_low", "vers_high": "vers_high"}


def decode(*arguments):
    return harness.run([harness.URNIC, "decode", *arguments])


class Captures(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-rpcrdma-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        for writer in ("write_rpcrdma", "write_samples"):
            done = harness.run([harness.BUILD / "tests/e2e" / writer, cls.dir])
            assert done.returncode == 0, str(done)
        cls.messages = cls.dir / "rpcrdma.pcapng"
        cls.connections = cls.dir / "rpcrdma_cm.pcapng"


class Golden(Captures):
    """tests/golden/rpcrdma/ has what is printed for the captures of tests/e2e/packets/write_rpcrdma.cc."""

    def compare(self, name, *arguments):
        path = GOLDEN / "rpcrdma" / name
        done = decode(*arguments)
        self.assertEqual((done.returncode, done.err), (0, ""))
        self.assertEqual(done.out, path.read_text(encoding="utf-8"), f"differs from {path}")

    def test_messages_without_the_setup_of_their_connection(self):
        self.compare("messages.txt", self.messages)
        self.compare("messages.full.txt", "-v", "-c", "30", self.messages)

    def test_connections(self):
        self.compare("connections.txt", self.connections)
        self.compare("connections.port.txt", "--rpcrdma-port", "2050", self.connections)

    def test_other_traffic_is_not_taken_for_it(self):
        for path in (*sorted(GOLDEN.glob("*.pcap")), self.dir / "ethernet.pcap", self.dir / "infiniband.pcap"):
            done = decode(path)
            self.assertEqual(done.returncode, 0, path)
            self.assertNotIn(LAYER, done.out, path)

    def edit(self, *arguments):
        subprocess.run([str(argument) for argument in arguments], check=True, capture_output=True, timeout=harness.PATIENCE_S)

    def test_snap_length(self):
        """What the capture cut is not guessed at."""
        cut = self.dir / "cut.pcapng"
        whole = decode("--json", self.messages).out.splitlines()
        recognised = []
        for length in range(50, 240, 9):
            self.edit("editcap", "-s", length, self.messages, cut)
            done = decode("--json", cut)
            self.assertEqual((done.returncode, done.err), (0, ""))
            recognised.append(done.out.count(f'"{LAYER}"'))
            for line, whole_line in zip(done.out.splitlines(), whole):
                layers, expected = (
                    {layer["name"]: layer["fields"] for layer in json.loads(text)["layers"]} for text in (line, whole_line))
                if LAYER in layers:
                    self.assertEqual(layers[LAYER], expected[LAYER], f"{length}: {line}")
        self.assertEqual(recognised[0], 0)
        self.assertEqual(recognised, sorted(recognised))
        self.assertGreater(recognised[-1], 10)

    def test_a_header_that_the_capture_cut_may_be_good(self):
        setup, messages, both = (self.dir / name for name in ("setup.pcapng", "cut.pcapng", "both.pcapng"))
        self.edit("editcap", "-r", self.connections, setup, "1-3")
        self.edit("editcap", "-r", "-s", 100, self.connections, messages, "4")
        self.edit("mergecap", "-a", "-w", both, setup, messages)
        self.assertIn("fault=malformed or not whole in this packet", decode(both).out.splitlines()[3])

    def test_json(self):
        packets = [json.loads(line) for line in decode("--json", self.messages).out.splitlines()]
        layers = {layer["name"]: layer["fields"] for layer in packets[3]["layers"]}
        self.assertEqual(list(layers), ["Ethernet", "IPv4", "UDP", "BTH", LAYER, "RPC", "payload", "checks"])
        self.assertEqual(layers[LAYER]["reads[1].offset"], 0x7F0000002000)
        self.assertEqual(layers[LAYER]["inv_handle"], 0xA101)
        self.assertEqual(layers["RPC"]["program"], 100003)

    def test_wrong_port(self):
        for port in ("65536", "-1", "nfs"):
            done = decode("--rpcrdma-port", port, self.messages)
            self.assertEqual(done.returncode, 125, port)
            self.assertIn("--rpcrdma-port", done.err)


class Tshark(Captures):
    def theirs(self):
        """For each packet {field name: values}."""
        command = ["tshark", "-n", "-r", self.messages, "-T", "pdml"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=harness.PATIENCE_S)
        packets = []
        for packet in ElementTree.fromstring(done.stdout).iter("packet"):
            fields = {}
            for field in packet.iter("field"):
                name = field.get("name") or ""
                if name.startswith(("rpcordma.", "rpc.")) and re.fullmatch("[0-9a-fA-Fx]+", field.get("show", "")):
                    fields.setdefault(name, []).append(int(field.get("show"), 0))
            malformed = any(proto.get("name") == "_ws.malformed" for proto in packet.iter("proto"))
            packets.append((fields, malformed))
        return packets

    def test_version_1_field_by_field(self):
        ours = [json.loads(line) for line in decode("--json", self.messages).out.splitlines()]
        theirs = self.theirs()
        self.assertEqual(len(ours), len(theirs))
        procs, seen = set(), set()
        for packet, (fields, malformed) in zip(ours, theirs):
            layers = {layer["name"]: layer["fields"] for layer in packet["layers"]}
            if layers.get(LAYER, {}).get("version") != 1:
                continue
            self.assertFalse(malformed, packet["number"])
            self.assertIn("rpcordma.xid", fields, packet["number"])
            procs.add(layers[LAYER]["proc"])
            for end, name in TSHARK.items():
                values = [value for field, value in layers[LAYER].items() if field.split(".")[-1] == end]
                self.assertEqual(values, fields.get("rpcordma." + name, []), f"{packet['number']}: {name}")
                seen.update([name] if values else [])
            # It waits for the READs of a Read chunk before it looks at the RPC message.
            if "RPC" in layers and layers[LAYER]["reads"] == 0:
                rpc = layers["RPC"]
                self.assertEqual(fields["rpc.xid"], [rpc["xid"]])
                self.assertEqual(fields["rpc.msgtyp"], [rpc["msg_type"]])
                if rpc["msg_type"] == 0:
                    names = {"program": "rpc.program", "version": "rpc.programversion", "procedure": "rpc.procedure"}
                else:
                    names = {"reply_status": "rpc.replystat", "accept_status": "rpc.state_accept"}
                for ours_name, name in names.items():
                    # tshark repeats some for the program's own dissector.
                    self.assertEqual(fields.get(name, [])[:1], [rpc[ours_name]] if ours_name in rpc else [], packet["number"])
        self.assertEqual(procs, {0, 1, 4})
        self.assertEqual(seen, set(TSHARK.values()))


if __name__ == "__main__":
    harness.main()
