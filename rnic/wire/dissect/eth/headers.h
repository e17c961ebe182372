// Ethernet, VLAN tags, IPv4, UDP and priority flow control as tables.
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

inline constexpr std::uint16_t kEtherTypeArp = 0x0806;
inline constexpr std::uint16_t kEtherTypeRarp = 0x8035;
inline constexpr std::uint16_t kEtherTypeServiceVlan = 0x88a8;
inline constexpr std::uint16_t kEtherTypeMacControl = 0x8808;
inline constexpr std::uint16_t kEtherTypeRocev1 = 0x8915;

/// nullptr: unknown.
[[nodiscard]] const char* ether_type_name(std::uint64_t ether_type);
[[nodiscard]] const char* ip_protocol_name(std::uint64_t protocol);

struct Ethernet {
    Mac dst_mac{};
    Mac src_mac{};
    std::uint16_t ether_type = 0;
    bool operator==(const Ethernet&) const = default;
};
extern const HeaderTable kEthernetTable;

/// A VLAN tag and the EtherType behind it, which is why it is written after the Ethernet header.
struct VlanTag {
    std::uint8_t priority = 0;
    bool drop_eligible = false;
    std::uint16_t vlan_id = 0;
    std::uint16_t ether_type = 0;
    bool operator==(const VlanTag&) const = default;
};
extern const HeaderTable kVlanTable;

/// IPv4 without options.
struct Ipv4 {
    std::uint8_t version = 4;
    std::uint8_t header_words = 5;
    std::uint8_t dscp = 0;
    std::uint8_t ecn = 0;
    std::uint16_t total_length = 0;
    std::uint16_t identification = 0;
    bool reserved_flag = false;
    bool dont_fragment = true;
    bool more_fragments = false;
    std::uint16_t fragment_offset = 0;
    std::uint8_t ttl = 64;
    std::uint8_t protocol = kProtocolUdp;
    std::uint16_t checksum = 0;
    std::array<std::uint8_t, 4> src_address{};
    std::array<std::uint8_t, 4> dst_address{};
    bool operator==(const Ipv4&) const = default;
};
extern const HeaderTable kIpv4Table;

struct Udp {
    std::uint16_t src_port = 0;
    std::uint16_t dst_port = 0;
    std::uint16_t length = 0;
    std::uint16_t checksum = 0;
    bool operator==(const Udp&) const = default;
};
extern const HeaderTable kUdpTable;

/// MAC control opcode of priority flow control (IEEE 802.1Qbb).
inline constexpr std::uint16_t kMacControlPfc = 0x0101;
inline constexpr Mac kMacControlAddress = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

/// Priority flow control frame, after the Ethernet header.
struct Pfc {
    std::uint16_t opcode = kMacControlPfc;
    std::uint8_t class_enable = 0;       // bit n: pause_quanta[n] is valid
    std::uint16_t pause_quanta[8] = {};  // 512 bit times each; 0 resumes
    bool operator==(const Pfc&) const = default;
};
inline constexpr std::size_t kPfcBytes = 20;
extern const HeaderTable kPfcTable;

}  // namespace urnic::wire
