// What stands for one or more RC or XRC packets between two RNICs of one worker in the place of frames: the
// headers as fields, the payload where the sender has it, no ICRC, because no byte has left memory
// (docs/adr/0035). The receiver sees the packets that frames would have been, with the same PSNs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rnic/mem/address_space.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"
#include "rnic/wire/packet_front.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

struct LocalPacket {
    /// Packets that one can stand for: bits of `ack_requests`.
    static constexpr std::uint32_t kMaxPackets = 32;

    /// As in a frame, but for lengths, checksum and identification; the receiver's MAC comes first.
    std::array<std::uint8_t, Path::kMaxBytes> front;
    std::uint8_t front_bytes;
    std::uint8_t l3_offset;
    bool is_ipv4;
    /// Of the packets behind the first; 0xff: there can be none.
    std::uint8_t middle_opcode;
    PacketHeader header;  // of the first packet; fields that its opcode does not have mean nothing
    /// Of all packets, one behind the other, in the sender's registered memory (`key`) or in the buffer that
    /// holds this (`key` is 0).
    const std::byte* payload;
    std::uint32_t key;
    std::uint32_t payload_bytes;  // of all packets; each has the same
    std::uint32_t packets;
    std::uint32_t ack_requests;  // bit i: packet i asks for an acknowledgement
    std::uint32_t frame_bytes;   // that all of them would have as frames
};

inline constexpr std::uint8_t kNoMiddle = 0xff;

/// Payload of fewer bytes is copied into the buffer: that takes no longer than looking at the key once more.
inline constexpr std::uint32_t kLeastReferredBytes = 512;

/// Returns whether the packet may take this form: RC or XRC, over Ethernet, to one station whose MAC is
/// known.
[[nodiscard]] inline bool can_be_local(const Path& path, const PacketHeader& header) {
    const std::uint8_t service = header.opcode & kServiceMask;
    // Not to QP0 and QP1, whose packets are management datagrams.
    return (service == kServiceRc || service == kServiceXrc) && (header.dest_qp & 0xff'ffffU) > 1 &&
           path.l3_offset != 0 && path.neighbour == kNoNeighbour && (path.bytes[0] & 1U) == 0;
}

[[nodiscard]] inline std::uint32_t frame_bytes_of(const Path& path, std::uint8_t opcode,
                                                  std::uint32_t payload_bytes) {
    return path.length + opcode_info(opcode).header_bytes + ((payload_bytes + 3U) & ~3U) +
           static_cast<std::uint32_t>(kIcrcBytes);
}

/// One packet with `payload_bytes` of payload, of which the caller says where they are.
inline void make_local(const Path& path, const PacketHeader& header, std::uint32_t payload_bytes,
                       LocalPacket& packet) {
    std::memcpy(packet.front.data(), path.bytes.data(), packet.front.size());
    packet.front_bytes = path.length;
    packet.l3_offset = path.l3_offset;
    packet.is_ipv4 = path.is_ipv4;
    packet.header = header;
    packet.header.pad_count = static_cast<std::uint8_t>(-payload_bytes & 3U);
    packet.header.tver = 0;
    packet.header.dest_qp = header.dest_qp & 0xff'ffffU;  // of 24 bits, like the next two
    packet.header.xrc_srq = header.xrc_srq & 0xff'ffffU;
    packet.header.aeth.msn = header.aeth.msn & 0xff'ffffU;
    packet.payload_bytes = payload_bytes;
    packet.packets = 1;
    packet.ack_requests = header.ack_req ? 1 : 0;
    packet.frame_bytes = frame_bytes_of(path, header.opcode, payload_bytes);
    // First, Middle: the opcode of the middle packet is that of the first and 1 (IBA table 38).
    const std::uint16_t flags = opcode_info(header.opcode).flags;
    packet.middle_opcode = (flags & kEnds) != 0 || (flags & kHasPayload) == 0 ? kNoMiddle
                           : (flags & kStarts) != 0 ? static_cast<std::uint8_t>(header.opcode + 1U)
                                                    : header.opcode;
}

/// Adds the packet that follows on those in `packet`, if it is a middle one and its payload lies right behind
/// theirs. Returns whether it was added. Both are of the same QP, on the same path.
[[nodiscard]] inline bool extend_local(LocalPacket& packet, const Path& path, const PacketHeader& header,
                                       const MemoryPiece& piece) {
    if (header.opcode != packet.middle_opcode || packet.packets == LocalPacket::kMaxPackets ||
        piece.key != packet.key || piece.direct != packet.payload + packet.payload_bytes ||
        std::uint64_t{piece.length_bytes} * packet.packets != packet.payload_bytes ||
        header.psn != packet.header.psn + packet.packets) {
        return false;
    }
    packet.ack_requests |= header.ack_req ? 1U << packet.packets : 0U;
    ++packet.packets;
    packet.payload_bytes += piece.length_bytes;
    packet.frame_bytes += frame_bytes_of(path, header.opcode, piece.length_bytes);
    return true;
}

/// The first of the packets as a frame's parser would give it; `l3` is empty. Fields of headers that its
/// opcode does not have may have any value.
inline void view_first(const LocalPacket& packet, PacketView& view) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(packet.front.data());
    const std::byte* const ip = bytes + packet.l3_offset;
    const bool is_tagged = packet.l3_offset != kEthernetBytes;
    parse_addresses({bytes, ip, bytes + packet.front_bytes - kUdpBytes,
                     is_tagged ? load_be16(bytes + kEthernetBytes) : std::uint16_t{0}, packet.is_ipv4},
                    view);
    view.header = packet.header;
    view.payload = {packet.payload,
                    packet.packets == 1 ? packet.payload_bytes : packet.payload_bytes / packet.packets};
    view.l3 = {};
}

/// The packet behind the one in `view`: number `index`, from 1.
inline void view_next(const LocalPacket& packet, std::uint32_t index, PacketView& view) {
    view.header.opcode = packet.middle_opcode;
    view.header.solicited = false;
    ++view.header.psn;
    view.header.ack_req = (packet.ack_requests >> index & 1U) != 0;
    view.payload = {view.payload.data() + view.payload.size(), view.payload.size()};
}

}  // namespace urnic::wire
