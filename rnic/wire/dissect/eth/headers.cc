#include "rnic/wire/dissect/eth/headers.h"

#include "rnic/wire/frame.h"

namespace urnic::wire {

namespace {

struct Name {
    std::uint64_t value;
    const char* name;
};

template <std::size_t Count>
const char* find_name(const Name (&names)[Count], std::uint64_t value) {
    for (const Name& entry : names) {
        if (entry.value == value) {
            return entry.name;
        }
    }
    return nullptr;
}

constexpr Name kEtherTypes[] = {
    {kEtherTypeIpv4, "IPv4"}, {kEtherTypeArp, "ARP"},
    {kEtherTypeRarp, "RARP"}, {kEtherTypeVlan, "VLAN"},
    {kEtherTypeIpv6, "IPv6"}, {kEtherTypeServiceVlan, "service VLAN"},
    {0x88cc, "LLDP"},         {kEtherTypeMacControl, "MAC control"},
    {0x88f7, "PTP"},          {kEtherTypeRocev1, "RoCEv1"},
};

constexpr Name kIpProtocols[] = {
    {0, "hop-by-hop options"}, {1, "ICMP"}, {2, "IGMP"},    {6, "TCP"},
    {kProtocolUdp, "UDP"},     {47, "GRE"}, {58, "ICMPv6"}, {132, "SCTP"},
};

const char* port_name(std::uint64_t port) { return port == kRocev2UdpPort ? "RoCEv2" : nullptr; }
const char* mac_control_name(std::uint64_t opcode) { return opcode == kMacControlPfc ? "PFC" : nullptr; }
const char* ecn_name(std::uint64_t ecn) {
    constexpr std::array<const char*, 4> kNames = {"Not-ECT", "ECT(1)", "ECT(0)", "CE"};
    return ecn < kNames.size() ? kNames[ecn] : nullptr;
}

using enum FieldFormat;

constexpr Field kEthernetFields[] = {
    URNIC_WIRE_FIELD(Ethernet, dst_mac, 0, 48, kMac),
    URNIC_WIRE_FIELD(Ethernet, src_mac, 48, 48, kMac),
    URNIC_WIRE_NAMED(Ethernet, ether_type, 96, 16, kHex, ether_type_name),
};
static_assert(well_formed(kEthernetFields, kEthernetBytes));

constexpr Field kVlanFields[] = {
    URNIC_WIRE_FIELD(VlanTag, priority, 0, 3, kDecimal),
    URNIC_WIRE_FIELD(VlanTag, drop_eligible, 3, 1, kDecimal),
    URNIC_WIRE_FIELD(VlanTag, vlan_id, 4, 12, kDecimal),
    URNIC_WIRE_NAMED(VlanTag, ether_type, 16, 16, kHex, ether_type_name),
};
static_assert(well_formed(kVlanFields, kVlanTagBytes));

constexpr Field kIpv4Fields[] = {
    URNIC_WIRE_FIELD(Ipv4, version, 0, 4, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, header_words, 4, 4, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, dscp, 8, 6, kDecimal),
    URNIC_WIRE_NAMED(Ipv4, ecn, 14, 2, kDecimal, ecn_name),
    URNIC_WIRE_FIELD(Ipv4, total_length, 16, 16, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, identification, 32, 16, kHex),
    URNIC_WIRE_FIELD(Ipv4, reserved_flag, 48, 1, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, dont_fragment, 49, 1, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, more_fragments, 50, 1, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, fragment_offset, 51, 13, kDecimal),
    URNIC_WIRE_FIELD(Ipv4, ttl, 64, 8, kDecimal),
    URNIC_WIRE_NAMED(Ipv4, protocol, 72, 8, kDecimal, ip_protocol_name),
    URNIC_WIRE_FIELD(Ipv4, checksum, 80, 16, kHex),
    URNIC_WIRE_FIELD(Ipv4, src_address, 96, 32, kIpv4),
    URNIC_WIRE_FIELD(Ipv4, dst_address, 128, 32, kIpv4),
};
static_assert(well_formed(kIpv4Fields, kIpv4Bytes));

constexpr Field kUdpFields[] = {
    URNIC_WIRE_FIELD(Udp, src_port, 0, 16, kDecimal),
    URNIC_WIRE_NAMED(Udp, dst_port, 16, 16, kDecimal, port_name),
    URNIC_WIRE_FIELD(Udp, length, 32, 16, kDecimal),
    URNIC_WIRE_FIELD(Udp, checksum, 48, 16, kHex),
};
static_assert(well_formed(kUdpFields, kUdpBytes));

constexpr Field kPfcFields[] = {
    URNIC_WIRE_NAMED(Pfc, opcode, 0, 16, kHex, mac_control_name),
    URNIC_WIRE_FIELD(Pfc, class_enable, 24, 8, kHex),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[0], 32, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[1], 48, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[2], 64, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[3], 80, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[4], 96, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[5], 112, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[6], 128, 16, kDecimal),
    URNIC_WIRE_FIELD(Pfc, pause_quanta[7], 144, 16, kDecimal),
};
static_assert(well_formed(kPfcFields, kPfcBytes));

}  // namespace

const char* ether_type_name(std::uint64_t ether_type) { return find_name(kEtherTypes, ether_type); }
const char* ip_protocol_name(std::uint64_t protocol) { return find_name(kIpProtocols, protocol); }

const HeaderTable kEthernetTable = {"Ethernet", kEthernetBytes, kEthernetFields};
const HeaderTable kVlanTable = {"VLAN", kVlanTagBytes, kVlanFields};
const HeaderTable kIpv4Table = {"IPv4", kIpv4Bytes, kIpv4Fields};
const HeaderTable kUdpTable = {"UDP", kUdpBytes, kUdpFields};
const HeaderTable kPfcTable = {"PFC", kPfcBytes, kPfcFields};

}  // namespace urnic::wire
