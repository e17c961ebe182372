#include "tests/support/packet_samples.h"

#include <cstring>

#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/ipoib/ipoib.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/opcodes.h"

namespace urnic::test {

using namespace wire;

namespace {

void set_carrier(Packet& packet, const Carrier& carrier, Random& random) {
    packet.link = carrier.link;
    packet.network = carrier.network;
    packet.vlan_count = carrier.vlan_count;
    randomize(kLrhTable, &packet.lrh, random);
    randomize(kEthernetTable, &packet.ethernet, random);
    packet.ethernet.dst_mac[0] &= 0xfeU;
    packet.ethernet.src_mac[0] &= 0xfeU;
    packet.ethernet.ether_type = kEtherTypeVlan;
    for (VlanTag& tag : packet.vlan) {
        randomize(kVlanTable, &tag, random);
        tag.ether_type = kEtherTypeVlan;
    }
    randomize(kGrhTable, &packet.grh, random);
    randomize(kIpv4Table, &packet.ipv4, random);
    packet.ipv4.more_fragments = false;
    packet.ipv4.fragment_offset = 0;
    packet.ipv4.reserved_flag = false;
    packet.has_udp = carrier.network == Network::kIpv4 ||
                     (carrier.network == Network::kIpv6 && carrier.link == LinkLayer::kEthernet);
    packet.udp.src_port = static_cast<std::uint16_t>(0xc000 + random.below(0x3fff));
    packet.udp.dst_port = kRocev2UdpPort;
    packet.udp.checksum = carrier.udp_checksum ? 1 : 0;
}

void set_transport(Packet& packet, std::uint8_t opcode, Random& random) {
    randomize(kBthTable, &packet.transport, random);
    for (const ExtendedHeader& extended : extended_headers()) {
        randomize(extended.table, &packet.transport, random);
    }
    packet.has_transport = true;
    packet.transport.opcode = opcode;
    packet.transport.tver = 0;
    packet.transport.dest_qp |= 2U;  // no MAD
}

Sample finish(std::string name, const Packet& packet, std::vector<std::byte> payload) {
    Sample sample{std::move(name), packet, std::move(payload)};
    sample.packet.payload = sample.payload;
    return sample;
}

template <class M>
std::vector<std::byte> mad_of(Random& random) {
    std::vector<std::byte> mad(kMadBytes);
    MadHeader header;
    header.mgmt_class = kMadClassCommunication;
    header.class_version = cm::kClassVersion;
    header.method = kMadSend;
    header.transaction_id = random.next();
    header.attribute_id = M::kAttributeId;
    write_fields(kMadTable, &header, mad.data());
    M message;
    randomize(M::table(), &message, random);
    if constexpr (requires { message.alternate; }) {
        message.alternate.local_gid[0] = message.alternate.remote_gid[0] = 0xfe;
    }
    cm::build_cm(message,
                 std::span<std::byte, cm::kMessageBytes>(mad.data() + kMadHeaderBytes, cm::kMessageBytes));
    return mad;
}

std::vector<std::byte> smp_directed(Random& random) {
    SmpDirected smp;
    randomize(kSmpDirectedTable, &smp, random);
    smp.base_version = 1;
    smp.mgmt_class = kMadClassSubnetDirected;
    smp.class_version = 1;
    smp.method = kMadGet;
    smp.attribute_id = 0x0011;
    std::vector<std::byte> mad(kMadBytes);
    write_fields(kSmpDirectedTable, &smp, mad.data());
    return mad;
}

std::vector<std::byte> smp_lid_routed(Random& random) {
    MadHeader header;
    header.mgmt_class = kMadClassSubnetLidRouted;
    header.class_version = 1;
    header.method = kMadGet;
    header.attribute_id = 0x0011;
    header.transaction_id = random.next();
    SmpLidRouted smp;
    randomize(kSmpLidRoutedTable, &smp, random);
    std::vector<std::byte> mad(kMadBytes);
    write_fields(kMadTable, &header, mad.data());
    write_fields(kSmpLidRoutedTable, &smp, mad.data() + kMadHeaderBytes);
    return mad;
}

std::vector<std::byte> ipoib_arp(Random& random) {
    const IpoibEncapsulation encapsulation{kEtherTypeArp};
    IpoibArp arp;
    randomize(kIpoibArpTable, &arp, random);
    arp.hardware_type = kArpHardwareInfiniBand;
    arp.protocol_type = kEtherTypeIpv4;
    arp.hardware_length = 20;
    arp.protocol_length = 4;
    arp.operation = 1;
    std::vector<std::byte> payload(kIpoibEncapsulationBytes + kIpoibArpBytes);
    write_fields(kIpoibEncapsulationTable, &encapsulation, payload.data());
    write_fields(kIpoibArpTable, &arp, payload.data() + kIpoibEncapsulationBytes);
    return payload;
}

/// A UD SEND to a management queue pair, or any other when `dest_qp` is not one.
Sample datagram(const std::string& name, const Carrier& carrier, std::uint32_t dest_qp,
                std::vector<std::byte> payload, Random& random) {
    Packet packet;
    set_carrier(packet, carrier, random);
    set_transport(packet, std::uint8_t{kServiceUd} | std::uint8_t{kSendOnly}, random);
    packet.transport.dest_qp = dest_qp;
    packet.transport.deth = {dest_qp == kQp1 ? kGsiQkey : 0, dest_qp};
    return finish(carrier.name + (", " + name), packet, std::move(payload));
}

void add_opcodes(std::vector<Sample>& samples, const Carrier& carrier, std::size_t most_payload_bytes,
                 Random& random) {
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(opcode));
        if ((info.flags & kValid) == 0) {
            continue;
        }
        Packet packet;
        set_carrier(packet, carrier, random);
        set_transport(packet, static_cast<std::uint8_t>(opcode), random);
        const bool has_payload = (info.flags & kHasPayload) != 0;
        samples.push_back(finish(carrier.name + (std::string(", ") + info.name), packet,
                                 random.bytes(has_payload ? random.below(most_payload_bytes + 1) : 0)));
    }
}

void add_datagrams(std::vector<Sample>& samples, const Carrier& carrier, Random& random) {
    const auto add = [&](const char* name, std::uint32_t dest_qp, std::vector<std::byte> payload) {
        samples.push_back(datagram(name, carrier, dest_qp, std::move(payload), random));
    };
    add("CM REQ", kQp1, mad_of<cm::Req>(random));
    add("CM MRA", kQp1, mad_of<cm::Mra>(random));
    add("CM REJ", kQp1, mad_of<cm::Rej>(random));
    add("CM REP", kQp1, mad_of<cm::Rep>(random));
    add("CM RTU", kQp1, mad_of<cm::Rtu>(random));
    add("CM DREQ", kQp1, mad_of<cm::Dreq>(random));
    add("CM DREP", kQp1, mad_of<cm::Drep>(random));
    add("CM SIDR_REQ", kQp1, mad_of<cm::SidrReq>(random));
    add("CM SIDR_REP", kQp1, mad_of<cm::SidrRep>(random));
    add("CM LAP", kQp1, mad_of<cm::Lap>(random));
    add("CM APR", kQp1, mad_of<cm::Apr>(random));
    if (carrier.link == LinkLayer::kInfiniBand) {
        add("SMP directed route", kQp0, smp_directed(random));
        add("SMP LID routed", kQp0, smp_lid_routed(random));
        add("IPoIB ARP", 0x123456, ipoib_arp(random));
    }
}

void add_others(std::vector<Sample>& samples, Random& random) {
    Packet pause;
    set_carrier(pause, {"", LinkLayer::kEthernet, Network::kNone, 0, false}, random);
    pause.ethernet.dst_mac = kMacControlAddress;
    pause.has_pfc = true;
    randomize(kPfcTable, &pause.pfc, random);
    pause.pfc.opcode = kMacControlPfc;
    samples.push_back(finish("PFC", pause, {}));

    Packet raw;
    set_carrier(raw, {"", LinkLayer::kInfiniBand, Network::kRawHeader, 0, false}, random);
    raw.raw.ether_type = 0x88b5;  // for local experiments
    samples.push_back(finish("native, raw header", raw, random.bytes(4 * (1 + random.below(8)))));

    Packet ipv6;
    set_carrier(ipv6, {"", LinkLayer::kInfiniBand, Network::kIpv6, 0, false}, random);
    ipv6.grh.next_header = 59;  // none
    samples.push_back(finish("native, raw IPv6", ipv6, random.bytes(1 + random.below(31))));
}

}  // namespace

void randomize(const HeaderTable& table, void* object, Random& random) {
    const std::vector<std::byte> wire = random.bytes(table.length_bytes);
    read_fields(table, wire.data(), object);
}

const std::vector<Carrier>& carriers() {
    static const std::vector<Carrier> kCarriers = {
        {"RoCEv2 IPv4", LinkLayer::kEthernet, Network::kIpv4, 0, false},
        {"RoCEv2 IPv4 UDP checksum", LinkLayer::kEthernet, Network::kIpv4, 0, true},
        {"RoCEv2 IPv4 VLAN", LinkLayer::kEthernet, Network::kIpv4, 1, false},
        {"RoCEv2 IPv4 two VLANs", LinkLayer::kEthernet, Network::kIpv4, 2, true},
        {"RoCEv2 IPv6", LinkLayer::kEthernet, Network::kIpv6, 0, false},
        {"RoCEv2 IPv6 VLAN UDP checksum", LinkLayer::kEthernet, Network::kIpv6, 1, true},
        {"RoCEv1", LinkLayer::kEthernet, Network::kGrh, 0, false},
        {"RoCEv1 VLAN", LinkLayer::kEthernet, Network::kGrh, 1, false},
        {"native", LinkLayer::kInfiniBand, Network::kNone, 0, false},
        {"native GRH", LinkLayer::kInfiniBand, Network::kGrh, 0, false},
    };
    return kCarriers;
}

std::vector<Sample> make_samples(Random& random, std::size_t most_payload_bytes) {
    std::vector<Sample> samples;
    for (const Carrier& carrier : carriers()) {
        add_opcodes(samples, carrier, most_payload_bytes, random);
        add_datagrams(samples, carrier, random);
    }
    add_others(samples, random);
    return samples;
}

}  // namespace urnic::test
