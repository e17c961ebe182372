// A packet buffer that holds no frame but a wire::LocalPacket, on its way from a worker to the same worker
// (docs/adr/0035). It lives in the outbox and in the ring of the in-process switch that leads back to its
// worker, and nowhere else: a frame that anybody may look at is complete.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "rnic/mem/key_table.h"
#include "rnic/wire/local_packet.h"

namespace urnic::dataplane {

struct QpSlot;

struct LocalFrame {
    wire::LocalPacket packet;
    /// Payload that is not in this buffer belongs to the sender until he has the completion: an error ends
    /// QpSlot::local_epoch, and with it the right to read it.
    const QpSlot* sender;
    std::uint32_t local_epoch;
    const KeyTable* keys;  // of LocalPacket::key
};
/// Where the payload lies that is copied.
inline constexpr std::uint32_t kLocalPayloadOffset = 256;
static_assert(sizeof(LocalFrame) <= kLocalPayloadOffset);

/// A bit that DPDK leaves to applications (RTE_MBUF_F_FIRST_FREE and above): no driver sets it, and an
/// allocated buffer does not have it.
inline constexpr std::uint64_t kLocalFrameFlag = 1ULL << 33U;
static_assert(kLocalFrameFlag > RTE_MBUF_F_FIRST_FREE && kLocalFrameFlag < RTE_MBUF_F_LAST_FREE);

[[nodiscard]] inline bool is_local(const rte_mbuf& frame) { return (frame.ol_flags & kLocalFrameFlag) != 0; }
[[nodiscard]] inline LocalFrame& local_frame(const rte_mbuf& frame) {
    return *rte_pktmbuf_mtod(&frame, LocalFrame*);
}
/// Packets that the buffer stands for.
[[nodiscard]] inline std::uint32_t packets_in(const rte_mbuf& frame) {
    return is_local(frame) ? local_frame(frame).packet.packets : 1;
}

}  // namespace urnic::dataplane
