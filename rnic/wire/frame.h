// Whole RoCEv2 frames: Ethernet, IP, UDP, transport headers, payload, pad, ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/mem/address_space.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

inline constexpr std::uint16_t kRocev2UdpPort = 4791;
/// Room that any frame of one path MTU of payload fits in.
inline constexpr std::size_t kMaxFrameBytes = 4096 + 256;

[[nodiscard]] Path make_path(const PathSpec& spec);

/// The source port that spreads flows over equal paths and never reorders one: from the flow label when there
/// is one (its 20 bits folded to 14), else from the two QP numbers; always in the dynamic port range (annex
/// A17.9.2 leaves the choice to the sender).
[[nodiscard]] std::uint16_t udp_source_port(std::uint32_t flow_label, std::uint32_t qp_num,
                                            std::uint32_t dest_qp_num);
/// How a sender makes the source port of a connection.
enum class SourcePortRule : std::uint8_t {
    kFlow,   // as above
    kLinux,  // as Linux' rdma_get_udp_sport(): the same with another folding of the QP numbers' product
};
[[nodiscard]] std::uint16_t udp_source_port(SourcePortRule rule, std::uint32_t flow_label,
                                            std::uint32_t qp_num, std::uint32_t dest_qp_num);
void set_udp_source_port(Path& path, std::uint16_t port);
/// Gives the packets of a path another traffic class and, where there is a VLAN tag, another priority.
void set_traffic_class(Path& path, std::uint8_t traffic_class, std::uint8_t priority);
/// Puts other Ethernet addresses into a built frame: they are no part of any check.
void set_macs(std::span<std::byte> frame, const Mac& src, const Mac& dst);
/// Makes the UDP checksum of a frame built with `path`; the ICRC does not cover it.
void set_udp_checksum(const Path& path, std::span<std::byte> frame);

/// Writes one frame: `path`, the headers that the opcode asks for, the payload gathered from `pieces` (copied
/// and checksummed in one pass), pad bytes and ICRC. Returns the frame's length in bytes; 0 when a piece
/// could not be read or `frame` is too small. The IPv4 identification comes from the low bits of the PSN.
[[nodiscard]] std::size_t build_frame(const Path& path, const PacketHeader& header,
                                      std::span<const MemoryPiece> pieces, std::span<std::byte> frame);

/// Parses a frame as it came from the wire; checks every length, IPv4/IPv6/UDP fields, TVer, PadCnt. `view`
/// refers into `frame`. Does not look at the ICRC. A reserved opcode passes: what it is answered with is for
/// the QP to say.
[[nodiscard]] ParseError parse_frame(std::span<const std::byte> frame, PacketView& view);

/// Sets CE in a frame that is IP (RFC 3168 5); the ICRC does not cover it (IBA annex A17.3.3). Other frames
/// stay as they are.
void set_ce(std::span<std::byte> frame);

/// Returns whether the four bytes after view.l3 are the packet's ICRC (IBA 7.8.1, annex A17.3.3).
[[nodiscard]] bool icrc_ok(const PacketView& view);

/// DestQP of a frame that parse_frame() would accept, without checking more than is needed to find it; ~0u if
/// it is not RoCEv2. For steering between workers.
[[nodiscard]] std::uint32_t peek_dest_qp(std::span<const std::byte> frame);

}  // namespace urnic::wire
