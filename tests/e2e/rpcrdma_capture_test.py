"""RPC-over-RDMA between two hosts, captured on the link: urnic decode understands every message, with and without the
connection's setup in the capture, and tshark finds nothing malformed in version 1."""

import json
import pathlib
import shutil
import struct
import subprocess
import tempfile

import harness
import netns
from raw_link import Recorder, is_rocev2

PROGRAM = harness.BUILD / "tests/e2e/rpcrdma_traffic"
PORT = 20049
LAYER = "RPC-over-RDMA"
# Ethernet, IPv4, UDP: then the BTH, whose first byte is the opcode; its upper three bits are the service.
BTH, UD = 42, 3


class Capture(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-rpcrdma-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start_hosts(self, mtu):
        self.a, self.b = netns.make_hosts(self, "af_packet", 1, "", mtu)
        for side, other in ((self.a, self.b), (self.b, self.a)):
            side.ip = f"198.18.0.{side.number + 1}"
            # The recorder would see what leaves together as one frame.
            side.extra = f'segmentation_offload = "off"\n[[neighbour]]\nip = "198.18.0.{other.number + 1}"\nmac = "{other.mac}"\n'
            side.set_interface_up()
        for side in (self.a, self.b):
            side.start()
            side.expect_state("ACTIVE")

    def call(self, versions):
        """How many Calls went from b to a."""
        serving = harness.start(self.a.program(PROGRAM, "server", PORT, versions))
        self.addCleanup(harness.end_group, serving)
        self.assertEqual(harness.read_line(serving).strip(), "ready")
        done = self.run_ok(self.b.program(PROGRAM, "client", PORT, versions))
        serving.terminate()
        self.assert_ok(harness.finish(serving), "server")
        return int(done.out)

    def write(self, name, frames):
        path = self.dir / name
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
            for number, frame in enumerate(frames):
                file.write(struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame)
        return path

    def decode(self, path):
        """Line and layers of the first packet of each RC SEND, each once; {(XID, msg_type)} of RPC messages seen in chunks."""
        done = harness.run([harness.URNIC, "decode", "--json", path])
        self.assertEqual((done.returncode, done.err), (0, ""))
        messages, in_chunks = {}, set()
        for line in done.out.splitlines():
            packet = json.loads(line)
            layers = {layer["name"]: layer["fields"] for layer in packet.get("layers", [])}
            if f"{LAYER} chunk" in layers:
                in_chunks.add((layers["RPC"]["xid"], layers["RPC"]["msg_type"]))
            if "RC SEND" in packet["summary"] and ("First" in packet["summary"] or "Only" in packet["summary"]):
                messages[layers["BTH"]["dest_qp"], layers["BTH"]["psn"]] = (packet["summary"], layers)
        return messages, in_chunks

    def expect_understood(self, messages, in_chunks, version, calls):
        rpc = []
        for summary, layers in messages.values():
            self.assertIn(LAYER, layers, summary)
            self.assertNotIn("fault", layers[LAYER], summary)
            self.assertEqual(layers[LAYER]["version"], version, summary)
            if layers[LAYER]["proc"] == 0:
                self.assertIn("RPC", layers, summary)
                self.assertEqual(layers["RPC"].get("program", 0x20000001), 0x20000001, summary)
            if layers[LAYER]["proc"] <= 1:
                rpc.append(layers[LAYER]["xid"])
        self.assertEqual(len(rpc), 2 * calls)
        self.assertEqual(len(set(rpc)), calls, "each Call has a Reply of its XID")
        elsewhere = {(layers[LAYER]["xid"], 1 if layers[LAYER]["rpc_message"].startswith("Reply") else 0)
                     for _, layers in messages.values() if layers[LAYER]["proc"] == 1}
        self.assertEqual(in_chunks, elsewhere, "each RPC message that is not in a SEND is in a chunk")
        self.assertEqual({direction for _, direction in elsewhere}, {0, 1})
        for what in ("reads[0].handle", "writes[0][0].handle", "reply[0].handle"):
            self.assertTrue(any(what in layers[LAYER] for _, layers in messages.values()), what)

    def tshark(self, path, which):
        """The XIDs of the packets that the filter lets through."""
        command = ["tshark", "-n", "-r", path, "-Y", which, "-T", "fields", "-e", "rpcordma.xid"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=harness.PATIENCE_S)
        return done.stdout.splitlines()

    def check(self, version, mtu):
        self.start_hosts(mtu)
        recorder = Recorder(self, self.a)
        calls = self.call(1 << version)
        frames = [frame for frame in recorder.stop() if is_rocev2(frame)]
        whole = self.write("whole.pcap", frames)
        messages, in_chunks = self.decode(whole)
        self.expect_understood(messages, in_chunks, version, calls)
        later = self.write("later.pcap", [frame for frame in frames if frame[BTH] >> 5 != UD])
        self.assertLess(later.stat().st_size, whole.stat().st_size)
        self.assertEqual({key: layers[LAYER] for key, (_, layers) in self.decode(later)[0].items() if LAYER in layers},
                         {key: layers[LAYER] for key, (_, layers) in messages.items()})
        return whole, messages

    def test_version_1(self):
        whole, messages = self.check(1, 4200)
        self.assertEqual(len(self.tshark(whole, "rpcordma && _ws.malformed")), 0)
        xids = {int(xid, 0) for xid in self.tshark(whole, "rpcordma.xid")}
        self.assertEqual(xids, {layers[LAYER]["xid"] for _, layers in messages.values()})

    def test_version_2(self):
        self.check(2, 4200)

    def test_messages_of_several_packets(self):
        _, messages = self.check(2, 1200)
        self.assertTrue(any("RC SEND First" in line for line, _ in messages.values()))


if __name__ == "__main__":
    netns.private()
    harness.main()
