"""What the codec builds is read back by tshark and by scapy, neither of which shares code with it.

One packet of each kind is built with random fields, from a seed that is printed and replayed from URNIC_TEST_SEED. Then
tshark's fields and scapy's are compared with the fields that the packets were built from.

Where the readers of Debian 12 (tshark 4.0, scapy 2.5) know less, or know better, than the specification:
- tshark knows neither XRC, FLUSH, ATOMIC WRITE nor the SEND with Invalidate of XRC: their extended headers are payload to
  it. BTH is compared.
- tshark seeks the headers of RD 8 bytes behind their place. BTH is compared.
- tshark reads InfiniBand from ERF files, not from pcap (link type 247).
- tshark calls a SEND of 0 bytes malformed, takes payloads that look like RPC-over-RDMA, NVMe or SDP for these, and does not
  check ICRC and VCRC: it shows them. The ICRC is computed here, by zlib.
- tshark shows the upper 12 of the 20 bits of a CM REQ's flow labels, reads its packet rates from the flow labels, and over
  IPv4 shows the last four bytes of its primary GIDs.
- tshark takes the D bit of a directed route SMP for a bit of its status.
- tshark has no FECN and BECN of BTH, and knows no CM MRA, LAP, APR and SIDR: there only the MAD header is compared.
- scapy knows BTH, the AETH of RC and RD Acknowledge, CNP and GRH; it computes the ICRC over IPv4 alone.
"""

import ipaddress
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
import zlib

import harness

# our layer -> {our field: tshark's}
TSHARK = {
    "Ethernet": {"dst_mac": "eth.dst", "src_mac": "eth.src"},
    "VLAN": {"priority": "vlan.priority", "drop_eligible": "vlan.dei", "vlan_id": "vlan.id"},
    "IPv4": {"dscp": "ip.dsfield.dscp", "ecn": "ip.dsfield.ecn", "identification": "ip.id", "dont_fragment": "ip.flags.df",
             "ttl": "ip.ttl", "src_address": "ip.src", "dst_address": "ip.dst"},
    "IPv6": {"traffic_class": "ipv6.tclass", "flow_label": "ipv6.flow", "hop_limit": "ipv6.hlim", "src_gid": "ipv6.src",
             "dst_gid": "ipv6.dst"},
    "UDP": {"src_port": "udp.srcport", "dst_port": "udp.dstport"},
    "PFC": {"opcode": "macc.opcode", "class_enable": "macc.cbfc.enbv",
            **{f"pause_quanta[{i}]": f"macc.cbfc.pause_time.c{i}" for i in range(8)}},
    "LRH": {name: "infiniband.lrh." + name for name in ("vl", "lver", "sl", "dlid", "slid")},
    "GRH": {"traffic_class": "infiniband.grh.tclass", "flow_label": "infiniband.grh.flowlabel",
            "hop_limit": "infiniband.grh.hoplmt", "src_gid": "infiniband.grh.sgid", "dst_gid": "infiniband.grh.dgid"},
    "RWH": {"ether_type": "infiniband.rwh.etype"},
    "BTH": {"opcode": "infiniband.bth.opcode", "solicited": "infiniband.bth.se", "mig_req": "infiniband.bth.m",
            "tver": "infiniband.bth.tver", "pkey": "infiniband.bth.p_key", "dest_qp": "infiniband.bth.destqp",
            "ack_req": "infiniband.bth.a", "psn": "infiniband.bth.psn"},
    "RDETH": {"rd_ee_context": "infiniband.rdeth.eecnxt"},
    "DETH": {"qkey": "infiniband.deth.q_key", "src_qp": "infiniband.deth.srcqp"},
    "RETH": {"va": "infiniband.reth.va", "rkey": "infiniband.reth.r_key", "dma_length": "infiniband.reth.dmalen"},
    "AtomicETH": {"va": "infiniband.reth.va", "rkey": "infiniband.reth.r_key",
                  "swap_or_add": "infiniband.atomiceth.swapdt", "compare": "infiniband.atomiceth.cmpdt"},
    "AETH": {"syndrome": "infiniband.aeth.syndrome", "msn": "infiniband.aeth.msn"},
    "AtomicAckETH": {"atomic_ack": "infiniband.atomicacketh.origremdt"},
    "ImmDt": {"imm": "infiniband.immdt"},
    "IETH": {"ieth_rkey": "infiniband.ieth"},
    "MAD": {"base_version": "infiniband.mad.baseversion", "mgmt_class": "infiniband.mad.mgmtclass",
            "class_version": "infiniband.mad.classversion", "method": "infiniband.mad.method",
            "status": "infiniband.mad.status", "class_specific": "infiniband.mad.classspecific",
            "transaction_id": "infiniband.mad.transactionid", "attribute_id": "infiniband.mad.attributeid",
            "attribute_modifier": "infiniband.mad.attributemodifier"},
    "SMP LID routed": {"m_key": "infiniband.smplid.mkey"},
    "SMP directed route": {
        "transaction_id": "infiniband.mad.transactionid", "attribute_id": "infiniband.mad.attributeid",
        "attribute_modifier": "infiniband.mad.attributemodifier", "status": "infiniband.smpdirected.smpstatus", "hop_pointer": "infiniband.smpdirected.hoppointer",
        "hop_count": "infiniband.smpdirected.hopcount", "m_key": "infiniband.smplid.mkey",
        "dr_slid": "infiniband.smpdirected.drslid", "dr_dlid": "infiniband.smpdirected.drdlid",
        "initial_path": "infiniband.smpdirected.initialpath", "return_path": "infiniband.smpdirected.returnpath"},
    "ARP": {"hardware_type": "arp.hw.type", "protocol_type": "arp.proto.type", "hardware_length": "arp.hw.size",
            "protocol_length": "arp.proto.size", "operation": "arp.opcode", "sender_ip": "arp.src.proto_ipv4",
            "target_ip": "arp.dst.proto_ipv4"},
}


def path_fields(ours, theirs):
    names = {"local_lid": "locallid", "remote_lid": "remotelid", "local_gid": "localgid", "remote_gid": "remotegid",
             "flow_label": "flowlabel", "traffic_class": "tfcclass", "hop_limit": "hoplim",
             "sl": "sl", "subnet_local": "subnetlocal", "local_ack_timeout": "localacktout"}
    return {f"{ours}.{name}": f"infiniband.cm.req.{theirs}_{theirs_name}" for name, theirs_name in names.items()}


def cm_fields(message, names):
    return {ours: f"infiniband.cm.{message}{'.' if theirs else ''}{theirs}" for ours, theirs in names.items()}


TSHARK["CM REQ"] = {**cm_fields("req", {
    "local_comm_id": "", "service_id": "serviceid", "local_ca_guid": "localcaguid", "local_qkey": "localqkey",
    "local_qpn": "localqpn", "responder_resources": "responderres", "local_eecn": "localeecn",
    "initiator_depth": "initdepth", "remote_eecn": "remoteeecn", "remote_cm_response_timeout": "remoteresptout",
    "transport_service_type": "transpsvctype", "end_to_end_flow_control": "e2eflowctrl", "starting_psn": "startpsn",
    "local_cm_response_timeout": "localresptout", "retry_count": "retrcount", "pkey": "pkey", "path_mtu": "pppmtu",
    "rdc_exists": "rdcexist", "rnr_retry_count": "rnrretrcount", "max_cm_retries": "maxcmretr", "srq": "srq",
    "extended_transport_type": "ext_transport"}), **path_fields("primary", "prim"), **path_fields("alternate", "alt"),
    "private_data": "infiniband.cm.req.private"}
TSHARK["CM REP"] = cm_fields("rep", {
    "local_comm_id": "", "remote_comm_id": "remotecommid", "local_qkey": "localqkey", "local_qpn": "localqpn",
    "local_eecn": "localeecn", "starting_psn": "startpsn", "responder_resources": "respres", "initiator_depth": "initdepth",
    "target_ack_delay": "tgtackdelay", "failover_accepted": "failoveracc", "end_to_end_flow_control": "e2eflowctrl",
    "rnr_retry_count": "rnrretrcount", "srq": "srq", "local_ca_guid": "localcaguid", "private_data": "private"})
TSHARK["CM RTU"] = cm_fields("rtu", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "private_data": "private"})
TSHARK["CM REJ"] = cm_fields("rej", {
    "local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "message_rejected": "msgrej",
    "reject_info_length": "rejinfolen", "reason": "reason", "additional_info": "ari", "private_data": "private"})
TSHARK["CM DREQ"] = {**cm_fields("dreq", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid",
                                          "private_data": "private"}),
                     "remote_qpn_eecn": "infiniband.cm.req.remoteqpneecn"}
TSHARK["CM DREP"] = cm_fields("drsp", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "private_data": "private"})


def number(text):
    return {"True": 1, "False": 0}.get(text) if text in ("True", "False") else int(text, 0)


def normal_address(text):
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return text


def same(ours, theirs):
    """`theirs`: tshark's (shown text, raw bytes in hexadecimal)."""
    shown, raw = theirs
    if isinstance(ours, (int, bool)):
        return int(ours) == (number(shown) if not (":" in shown) else int(shown.replace(":", ""), 16))
    if normal_address(ours) == normal_address(shown):
        return True
    head, _, zeros = ours.partition(" + ")
    if "zero bytes" in ours:
        count = int((zeros or head).split()[0])
        return (head if zeros else "") + "00" * count == raw
    return ours == raw or ours == shown or ours.replace(":", "") == raw or \
        (":" in ours and normal_address(ours) == normal_address(":".join(raw[i:i + 4] for i in range(0, 32, 4))))


def packets_of(path):
    """The frames of a classic little-endian pcap file."""
    data = path.read_bytes()
    frames, offset = [], 24
    while offset < len(data):
        length = struct.unpack_from("<I", data, offset + 8)[0]
        frames.append(data[offset + 16:offset + 16 + length])
        offset += 16 + length
    return frames


def icrc(frame):
    """IBA annex A17.3.3, for a RoCEv2 frame, by zlib."""
    ip = 12
    while frame[ip:ip + 2] == b"\x81\x00":
        ip += 4
    ip += 2
    packet = bytearray(b"\xff" * 8 + frame[ip:-4])
    if packet[8] >> 4 == 4:
        masked, udp = [(1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF)], 20
    else:
        masked, udp = [(0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF)], 40
    for offset, bits in masked + [(udp + 6, 0xFF), (udp + 7, 0xFF), (udp + 12, 0xFF)]:
        packet[8 + offset] |= bits
    return struct.pack("<I", zlib.crc32(bytes(packet)))


class Samples(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seed = os.environ.get("URNIC_TEST_SEED") or str(random.getrandbits(32))
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-readback-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        environment = dict(harness.clean_environment(), URNIC_TEST_SEED=cls.seed)
        writer = harness.BUILD / "tests/e2e/write_samples"
        done = harness.run([writer, cls.dir], env=environment)
        assert done.returncode == 0, str(done)

    def load(self, link):
        expected = json.loads((self.dir / f"{link}.json").read_text(encoding="utf-8"))
        frames = packets_of(self.dir / f"{link}.pcap")
        self.assertEqual(len(expected), len(frames))
        return expected, frames

    def hint(self, sample, what):
        return f"{sample['name']}: {what} (replay with URNIC_TEST_SEED={self.seed})"


class Tshark(Samples):
    # Opcodes whose extended headers tshark 4.0 does not know or seeks in the wrong place.
    UNKNOWN = ("XRC ", "RC FLUSH", "RC ATOMIC WRITE", ", RD ")
    TRANSPORT = ("RDETH", "DETH", "XRCETH", "FETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH")

    def read(self, path):
        """For each packet {field name: [(shown, raw)]}."""
        # Without the dissectors that guess by payload; what is left of the payload is nobody's business here.
        command = ["tshark", "-n", "-r", str(path), "-T", "pdml"]
        for protocol in ("rpcordma", "smb_direct", "smc", "nvme-rdma", "lnet", "iser", "eoib", "fcoib"):
            command += ["--disable-protocol", protocol]
        done = subprocess.run(command, capture_output=True, check=False, timeout=harness.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        packets = []
        for packet in ElementTree.fromstring(done.stdout).iter("packet"):
            fields = {}
            for field in packet.iter("field"):
                fields.setdefault(field.get("name"), []).append((field.get("show", ""), field.get("value", "")))
            packets.append(fields)
        return packets

    def compare(self, link):
        expected, frames = self.load(link)
        packets = self.read(self.dir / f"{link}.{'pcap' if link == 'ethernet' else 'erf'}")
        self.assertEqual(len(packets), len(frames))
        compared, wrong = {}, []
        for sample, fields in zip(expected, packets):
            seen = {}
            unknown = any(name in sample["name"] for name in self.UNKNOWN)
            for layer in sample["layers"]:
                if unknown and layer["name"] in self.TRANSPORT:
                    continue
                for ours, theirs in TSHARK.get(layer["name"], {}).items():
                    value = layer["fields"][ours]
                    values = fields.get(theirs, [])
                    if theirs.endswith("_flowlabel"):
                        value >>= 8
                    if theirs.endswith(".smpstatus"):
                        value |= layer["fields"]["direction"] << 15
                    if not values and theirs + "_ipv4" in fields:
                        values = fields[theirs + "_ipv4"]
                        value = str(ipaddress.ip_address(ipaddress.ip_address(value).packed[-4:]))
                    # Two VLAN tags have the same names: the n-th of ours is the n-th of tshark's.
                    nth = seen[theirs] = seen.get(theirs, -1) + 1
                    if len(values) <= nth:
                        wrong.append(self.hint(sample, f"tshark has no {theirs}"))
                    elif not same(value, values[nth]):
                        wrong.append(self.hint(sample, f"{layer['name']}.{ours} is {value}, tshark's {theirs} {values[nth]}"))
                    compared[layer["name"]] = compared.get(layer["name"], 0) + 1
        self.assertEqual(wrong, [], "\n".join(wrong[:20]))
        return compared

    def test_ethernet(self):
        compared = self.compare("ethernet")
        for layer in ("Ethernet", "VLAN", "IPv4", "IPv6", "UDP", "GRH", "BTH", "DETH", "RETH", "AtomicETH", "AETH",
                      "AtomicAckETH", "ImmDt", "IETH", "MAD", "CM REQ", "CM REP", "CM RTU", "CM REJ", "CM DREQ", "CM DREP",
                      "PFC"):
            self.assertIn(layer, compared)

    def test_infiniband(self):
        compared = self.compare("infiniband")
        for layer in ("LRH", "GRH", "RWH", "IPv6", "BTH", "MAD", "CM REQ", "SMP directed route", "SMP LID routed", "ARP"):
            self.assertIn(layer, compared)

    def test_lengths_checksums_and_crcs(self):
        expected, frames = self.load("ethernet")
        command = ["tshark", "-n", "-r", str(self.dir / "ethernet.pcap"), "-o", "ip.check_checksum:TRUE", "-o",
                   "udp.check_checksum:TRUE", "-T", "fields", "-E", "separator=,", "-e", "ip.checksum.status", "-e",
                   "udp.checksum.status", "-e", "infiniband.invariant.crc", "-e", "infiniband.bth.padcnt"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=harness.PATIENCE_S)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(frames))
        for sample, frame, line in zip(expected, frames, lines):
            ip, udp, crc, pad = line.split(",")
            self.assertIn(ip, ("", "1"), self.hint(sample, "IPv4 checksum"))
            # 1 good, 2 unverified, 3 none was sent; IPv6 without one is "0 (bad)" to tshark, since RFC 8200 wants one.
            with_checksum = "UDP checksum" in sample["name"] or "two VLANs" in sample["name"]
            self.assertEqual(udp == "1", with_checksum, self.hint(sample, f"UDP checksum: {udp}"))
            if pad and "XRC" not in sample["name"]:
                self.assertEqual(int(pad), -sample["payload_bytes"] % 4, self.hint(sample, "pad count"))
            if crc and sample["name"].startswith("RoCEv2"):
                self.assertEqual(frame[-4:], icrc(frame), self.hint(sample, "ICRC"))
                self.assertIn(int(crc, 16), (struct.unpack("<I", frame[-4:])[0], struct.unpack(">I", frame[-4:])[0]))


class Scapy(Samples):
    # scapy's field -> ours
    BTH = {"opcode": "opcode", "solicited": "solicited", "migreq": "mig_req", "version": "tver", "pkey": "pkey",
           "fecn": "fecn", "becn": "becn", "dqpn": "dest_qp", "ackreq": "ack_req", "psn": "psn"}
    GRH = {"tclass": "traffic_class", "flowlabel": "flow_label", "hoplmt": "hop_limit"}

    def test_every_packet(self):
        from scapy.contrib import roce
        from scapy.layers.inet import IP
        from scapy.layers.l2 import Ether
        expected, frames = self.load("ethernet")
        compared = {"BTH": 0, "GRH": 0, "AETH": 0, "CNP": 0, "ICRC": 0}
        for sample, frame in zip(expected, frames):
            ours = {layer["name"]: layer["fields"] for layer in sample["layers"]}
            packet = Ether(frame)
            if "BTH" not in ours:
                self.assertNotIn(roce.BTH, packet)
                continue
            self.assertIn(roce.BTH, packet, self.hint(sample, "scapy sees no BTH"))
            bth = packet[roce.BTH]
            for theirs, name in self.BTH.items():
                self.assertEqual(getattr(bth, theirs), int(ours["BTH"][name]), self.hint(sample, f"BTH.{theirs}"))
            self.assertEqual(bth.padcount, -sample["payload_bytes"] % 4, self.hint(sample, "BTH.padcount"))
            compared["BTH"] += 1
            if "GRH" in ours:
                grh = packet[roce.GRH]
                for theirs, name in self.GRH.items():
                    self.assertEqual(getattr(grh, theirs), ours["GRH"][name], self.hint(sample, f"GRH.{theirs}"))
                self.assertEqual(grh.paylen, len(grh.original) - 40)
                self.assertEqual(grh.nexthdr, 0x1B)
                compared["GRH"] += 1
            if bth.opcode in (0x11, 0x51) and roce.AETH in packet and "AETH" in ours and bth.opcode == 0x11:
                aeth = packet[roce.AETH]
                self.assertEqual((aeth.syndrome, aeth.msn), (ours["AETH"]["syndrome"], ours["AETH"]["msn"]), self.hint(sample, "AETH"))
                compared["AETH"] += 1
            if bth.opcode == 0x81:
                self.assertEqual((packet[roce.CNPPadding].reserved1, packet[roce.CNPPadding].reserved2), (0, 0))
                compared["CNP"] += 1
            if IP in packet:
                self.assertEqual(bth.compute_icrc(None), frame[-4:], self.hint(sample, "ICRC"))
                compared["ICRC"] += 1
        for what, count in compared.items():
            self.assertGreater(count, 0, what)


if __name__ == "__main__":
    harness.main()
