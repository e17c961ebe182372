// IP over InfiniBand: encapsulation header and ARP (RFC 4391), in datagrams and in connected mode (RFC 4755).
#pragma once

#include "rnic/wire/fields.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// In front of every IPoIB payload (RFC 4391 6).
struct IpoibEncapsulation {
    std::uint16_t ether_type = 0;
    bool operator==(const IpoibEncapsulation&) const = default;
};
inline constexpr std::size_t kIpoibEncapsulationBytes = 4;
extern const HeaderTable kIpoibEncapsulationTable;

/// A link-layer address: a flags byte, a QPN and a GID (RFC 4391 9.1.1).
struct IpoibAddress {
    std::uint8_t flags = 0;  // reserved in RFC 4391; RFC 4755 has RC and UC here
    std::uint32_t qpn = 0;
    Gid gid{};
    bool operator==(const IpoibAddress&) const = default;
};

inline constexpr std::uint16_t kArpHardwareInfiniBand = 32;

struct IpoibArp {
    std::uint16_t hardware_type = kArpHardwareInfiniBand;
    std::uint16_t protocol_type = 0x0800;
    std::uint8_t hardware_length = 20;
    std::uint8_t protocol_length = 4;
    std::uint16_t operation = 0;
    IpoibAddress sender;
    std::array<std::uint8_t, 4> sender_ip{};
    IpoibAddress target;
    std::array<std::uint8_t, 4> target_ip{};
    bool operator==(const IpoibArp&) const = default;
};
inline constexpr std::size_t kIpoibArpBytes = 56;
extern const HeaderTable kIpoibArpTable;

/// Returns whether a payload begins as IPoIB does: one of the four EtherTypes of RFC 4391 and two zero bytes.
[[nodiscard]] bool can_be_ipoib(std::span<const std::byte> payload);

/// How much of a message a packet carries.
enum class MessagePart : std::uint8_t { kWhole, kFirst };

/// Returns whether a message is IPoIB for sure: it looks like it, and what follows the encapsulation is an IP
/// or ARP header that agrees with its EtherType and with the message's length. `payload` is what was captured
/// of the packet's `payload_bytes`.
[[nodiscard]] bool is_ipoib(std::span<const std::byte> payload, std::size_t payload_bytes, MessagePart part);

}  // namespace urnic::wire
