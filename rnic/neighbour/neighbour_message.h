// What neighbours say to each other to learn their Ethernet addresses: ARP (RFC 826) over IPv4, neighbour
// solicitation and advertisement (RFC 4861) over IPv6, as one kind of value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/wire/packet_view.h"

namespace urnic::net {

enum class NeighbourOp : std::uint8_t {
    kAsk,     // ARP request, neighbour solicitation
    kAnswer,  // ARP reply, neighbour advertisement
};

struct NeighbourMessage {
    NeighbourOp op = NeighbourOp::kAsk;
    wire::Mac eth_src{};
    wire::Mac eth_dst{};
    std::uint16_t vlan = 0;  // 0: no tag, or a tag for priority alone
    /// Whose Ethernet address `sender_mac` is: ARP's sender, the source of a solicitation, the target of an
    /// advertisement. Zero: nobody's, the asker only wants to know whether the address is taken (RFC 5227,
    /// RFC 4862 5.4).
    wire::Gid sender{};
    wire::Mac sender_mac{};  // zero: the message does not tell
    /// Asked: whose Ethernet address is wanted. Answered: who asked, all nodes (ff02::1) if nobody did; for
    /// ARP it is the sender itself then.
    wire::Gid target{};
    bool is_solicited = false;  // an answer to a question of ours, as far as the answer says
    bool may_override = true;   // an answer that may replace what is known (RFC 4861 4.4)
};

enum class NeighbourParse : std::uint8_t {
    kOther,      // not ARP and not one of the two ND messages
    kMalformed,  // one of them, but not a valid one (RFC 826, RFC 4861 7.1)
    kGood,
};

/// Room for any message that is built.
inline constexpr std::size_t kMaxNeighbourBytes = 14 + 4 + 40 + 32;

/// Whether a frame is for the control thread to look at; cheap, and sure only of the kind.
[[nodiscard]] bool is_neighbour_frame(std::span<const std::byte> frame);

/// Checks everything that RFC 4861 7.1.1 and 7.1.2 want checked, every length, and that no Ethernet address
/// told is a group's or zero.
[[nodiscard]] NeighbourParse parse_neighbour(std::span<const std::byte> frame, NeighbourMessage& message);

/// Writes the frame: ARP when the target or the sender is an IPv4-mapped address, else ND; eth_dst as given.
/// Returns its length; 0: no room.
[[nodiscard]] std::size_t build_neighbour(const NeighbourMessage& message, std::span<std::byte> frame);

/// The multicast group that asks after an IPv6 address (RFC 4291 2.7.1).
[[nodiscard]] wire::Gid solicited_node(const wire::Gid& address);
[[nodiscard]] bool is_link_local(const wire::Gid& address);
/// A host's address: neither a group, nor loopback, nor unspecified, nor broadcast.
[[nodiscard]] bool is_host_address(const wire::Gid& address);

inline constexpr wire::Mac kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
inline constexpr wire::Gid kAllNodes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace urnic::net
