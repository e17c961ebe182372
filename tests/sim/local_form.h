// The form that packets have between RNICs of one worker (rnic/wire/local_packet.h), beside the frames of
// each simulated packet.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "base/check.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/local_packet.h"

namespace urnic::sim {

/// Fields of extended headers that the opcode does not have. A receiver that reads one would find what the
/// sender left there, where a packet is no frame.
inline void overwrite_absent_fields(wire::PacketHeader& header) {
    constexpr std::uint32_t kJunk = 0xdeadbeef;
    const std::uint16_t has = wire::opcode_info(header.opcode).headers;
    if ((has & wire::kHasReth) == 0) {
        header.reth = {kJunk, kJunk, kJunk};
    }
    if ((has & wire::kHasAtomicEth) == 0) {
        header.atomic = {kJunk, kJunk, kJunk, kJunk};
    }
    if ((has & wire::kHasAeth) == 0) {
        header.aeth = {0xef, kJunk};
    }
    header.atomic_ack = (has & wire::kHasAtomicAck) == 0 ? kJunk : header.atomic_ack;
    header.imm = (has & wire::kHasImm) == 0 ? kJunk : header.imm;
    header.ieth_rkey = (has & wire::kHasIeth) == 0 ? kJunk : header.ieth_rkey;
    header.xrc_srq = (has & wire::kHasXrceth) == 0 ? kJunk : header.xrc_srq;
    header.feth = (has & wire::kHasFeth) == 0 ? kJunk : header.feth;
    if ((has & wire::kHasDeth) == 0) {
        header.deth = {kJunk, kJunk};
    }
}

[[nodiscard]] inline bool same_fields(wire::PacketHeader a, wire::PacketHeader b) {
    overwrite_absent_fields(a);
    overwrite_absent_fields(b);
    const auto same = [](const auto& x, const auto& y) { return std::memcmp(&x, &y, sizeof x) == 0; };
    return a.opcode == b.opcode && a.solicited == b.solicited && a.mig_req == b.mig_req && a.fecn == b.fecn &&
           a.becn == b.becn && a.ack_req == b.ack_req && a.pad_count == b.pad_count && a.tver == b.tver &&
           a.pkey == b.pkey && a.dest_qp == b.dest_qp && a.psn == b.psn && same(a.reth, b.reth) &&
           a.atomic.va == b.atomic.va && a.atomic.rkey == b.atomic.rkey &&
           a.atomic.swap_or_add == b.atomic.swap_or_add && a.atomic.compare == b.atomic.compare &&
           a.aeth.syndrome == b.aeth.syndrome && a.aeth.msn == b.aeth.msn && a.atomic_ack == b.atomic_ack &&
           a.imm == b.imm && a.ieth_rkey == b.ieth_rkey && a.xrc_srq == b.xrc_srq && a.feth == b.feth;
}

/// The packet says in that form what it says as `frame`; stops the program where it does not.
inline void check_local_form(const wire::Path& path, const wire::PacketHeader& header,
                             std::span<const MemoryPiece> pieces, std::span<const std::byte> frame) {
    if (!wire::can_be_local(path, header)) {
        return;
    }
    std::uint32_t payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        payload_bytes += piece.length_bytes;
    }
    wire::PacketView as_frame;
    URNIC_CHECK(wire::parse_frame(frame, as_frame) == wire::ParseError::kNone);
    wire::LocalPacket packet;
    packet.payload = as_frame.payload.data();
    packet.key = 0;
    wire::make_local(path, header, payload_bytes, packet);
    wire::PacketView view;
    wire::view_first(packet, view);
    URNIC_CHECK(same_fields(view.header, as_frame.header));
    URNIC_CHECK(view.payload.size() == as_frame.payload.size());
    URNIC_CHECK(packet.frame_bytes == frame.size());
    URNIC_CHECK(view.src_gid == as_frame.src_gid && view.dst_gid == as_frame.dst_gid);
    URNIC_CHECK(view.src_mac == as_frame.src_mac && view.dst_mac == as_frame.dst_mac);
    URNIC_CHECK(view.is_ipv4 == as_frame.is_ipv4 && view.vlan_tci == as_frame.vlan_tci);
    URNIC_CHECK(view.traffic_class == as_frame.traffic_class && view.hop_limit == as_frame.hop_limit);
    URNIC_CHECK(view.udp_src_port == as_frame.udp_src_port);
}

}  // namespace urnic::sim
