// Any packet of the RoCE and InfiniBand family as a value: RoCEv2 and RoCEv1 on Ethernet, native InfiniBand,
// pause frames. For decoding captures and for tests; the packet path of the RNIC uses frame.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/dissect/ib/link.h"
#include "rnic/wire/headers.h"

namespace urnic::wire {

enum class LinkLayer : std::uint8_t { kEthernet, kInfiniBand };

/// The header between link and transport. On the InfiniBand link kIpv6 and kRawHeader are packets without
/// InfiniBand transport.
enum class Network : std::uint8_t { kNone, kIpv4, kIpv6, kGrh, kRawHeader };

enum class CheckVerdict : std::uint8_t {
    kAbsent,  // the packet has no such check, or it says that it was not made (UDP checksum 0)
    kGood,
    kBad,
    kNotCaptured,  // the capture left out bytes that are needed to tell
};

/// How far a packet was understood.
enum class Outcome : std::uint8_t {
    kComplete,
    kForeign,    // another protocol; what was understood stands in the packet
    kCut,        // the capture ends inside the header that `reason` names
    kMalformed,  // a field contradicts the bytes or the rules; `reason` says which
};

struct Packet {
    LinkLayer link = LinkLayer::kEthernet;
    Ethernet ethernet;
    std::array<VlanTag, 2> vlan{};
    std::uint8_t vlan_count = 0;
    bool has_pfc = false;
    Pfc pfc;
    Lrh lrh;

    Network network = Network::kNone;
    Ipv4 ipv4;
    Grh grh;  // also the IPv6 header
    RawHeader raw;
    bool has_udp = false;
    Udp udp;  // build: checksum 0 sends none, any other value sends the right one

    bool has_transport = false;
    PacketHeader transport;              // pad_count: parse only
    std::span<const std::byte> payload;  // the captured part, without pad bytes
    std::size_t payload_bytes = 0;       // parse only: its length on the wire
    std::uint32_t icrc = 0;              // parse only
    std::uint16_t vcrc = 0;              // parse only
    std::size_t trailer_bytes = 0;       // parse only: after the packet's end, such as Ethernet's padding

    CheckVerdict ip_checksum = CheckVerdict::kAbsent;
    CheckVerdict udp_checksum = CheckVerdict::kAbsent;
    CheckVerdict icrc_verdict = CheckVerdict::kAbsent;
    CheckVerdict vcrc_verdict = CheckVerdict::kAbsent;
    Outcome outcome = Outcome::kComplete;
    const char* reason = "";
    std::size_t captured_bytes = 0;  // parse only
    std::size_t wire_bytes = 0;      // parse only
};

/// Parses what a capture has of a packet. `wire_bytes` is the length it had on the wire, at least
/// captured.size(). `packet` refers into `captured`. Never fails: packet.outcome says how far it came.
void parse_packet(LinkLayer link, std::span<const std::byte> captured, std::size_t wire_bytes,
                  Packet& packet);

/// Bytes that any packet of one path MTU fits in.
inline constexpr std::size_t kMaxPacketBytes = 4096 + 256;

}  // namespace urnic::wire
