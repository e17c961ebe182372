// Whole packets of native InfiniBand: LRH, [GRH,] transport headers, payload, pad, ICRC, VCRC (IBA 5.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/mem/address_space.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// make_path() and build_frame() of native InfiniBand, which they call.
[[nodiscard]] Path make_ib_path(const PathSpec& spec);
[[nodiscard]] std::size_t build_ib_frame(const Path& path, const PacketHeader& header,
                                         std::span<const MemoryPiece> pieces, std::span<std::byte> frame);

/// Parses a packet as it came from the link and checks every length, the versions, both CRCs, TVer and
/// PadCnt. `view` refers into `frame`. kNotRoce: raw packets, without InfiniBand transport.
[[nodiscard]] ParseError parse_ib_frame(std::span<const std::byte> frame, PacketView& view);

/// DestQP of a packet that parse_ib_frame() would accept, without checking more than is needed to find it;
/// ~0u if it has no InfiniBand transport. For steering between workers.
[[nodiscard]] std::uint32_t peek_ib_dest_qp(std::span<const std::byte> frame);

/// What links and switches look at, and the P_Key, which a switch may be told to look at.
struct LinkPeek {
    std::uint16_t dlid = 0;
    std::uint8_t vl = 0;
    std::uint8_t sl = 0;
    bool has_pkey = false;
    std::uint16_t pkey = 0;
};
/// Of a packet of at least kLrhBytes.
[[nodiscard]] LinkPeek peek_link(std::span<const std::byte> frame);
/// Gives a whole packet another VL, which only the VCRC covers (IBA 7.8).
void set_vl(std::span<std::byte> frame, std::uint8_t vl);
/// DLID of a packet of at least kLrhBytes.
[[nodiscard]] std::uint16_t peek_dlid(std::span<const std::byte> frame);

}  // namespace urnic::wire
