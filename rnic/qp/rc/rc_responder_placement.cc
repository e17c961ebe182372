// ATOMIC WRITE and FLUSH at the responder (IBA annex A19): requests that are answered in order, like READs,
// by a READ response without data, and that count against max_dest_rd_atomic.
#include <atomic>

#include "rnic/qp/rc/atomic_ops.h"
#include "rnic/qp/rc/rc_responder.h"

namespace urnic {

namespace {

// FETH (IBA annex A19): placement type in bits 3:0, selectivity level in bits 5:4.
constexpr std::uint32_t kPlacementMask = 0xf;
constexpr std::uint32_t kGlobalVisibility = 1U << 0U;
constexpr std::uint32_t kPersistence = 1U << 1U;
constexpr std::uint32_t kSelectivityShift = 4;
constexpr std::uint32_t kSelectivityMask = 0x3;
constexpr std::uint32_t kWholeRegion = 1;

}  // namespace

// The answer is a READ response of no bytes (IBA annex A19).
void RcResponder::answer_without_data() {
    RcResponse response;
    response.psn = expected_psn_;
    response.last_psn = expected_psn_;
    responses_.add(response);
    ++expected_psn_;
    msn_ = (msn_ + 1) & Psn::kMask;
}

// Eight bytes that become visible at once (IBA annex A19). The right is that of a WRITE.
void RcResponder::handle_atomic_write(const wire::PacketView& packet, Outbox& outbox) {
    const wire::Reth& reth = packet.header.reth;
    constexpr std::uint32_t kBytes = sizeof(std::uint64_t);
    if ((common_.attr.access_flags & kAccessRemoteWrite) == 0 || packet.payload.size() != kBytes ||
        reth.dma_length != kBytes || reth.va % kBytes != 0 ||
        responses_.new_pending() >= common_.attr.max_dest_rd_atomic) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    MemoryPiece piece;
    if (common_.config.keys->resolve_remote(reth.rkey, key_user(), kAccessRemoteWrite, reth.va, kBytes,
                                            piece) != KeyTable::Verdict::kOk) {
        refuse(kAccessError, outbox);
        return;
    }
    // An iova chosen by the application may be aligned where the memory is not.
    const auto address = piece.direct != nullptr ? reinterpret_cast<std::uintptr_t>(piece.direct) : piece.va;
    if (address % kBytes != 0) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    if (!write_atomically(piece, packet.payload.first<kBytes>())) {
        refuse({wire::kNakRemoteOperationalError, WcStatus::kLocProtErr, AsyncEventType::kQpFatal}, outbox);
        return;
    }
    answer_without_data();
    ++common_.config.counters->rx_atomic_requests;
}

// Everything before it has been written already, in order, by this thread; that it is visible to others takes
// a fence. What persists is what the memory keeps without its process: no more can be had here.
void RcResponder::handle_flush(const wire::PacketView& packet, Outbox& outbox) {
    const wire::Reth& reth = packet.header.reth;
    const std::uint32_t placement = packet.header.feth & kPlacementMask;
    const std::uint32_t selectivity = packet.header.feth >> kSelectivityShift & kSelectivityMask;
    const std::uint32_t access = ((placement & kGlobalVisibility) != 0 ? kAccessFlushGlobal : 0U) |
                                 ((placement & kPersistence) != 0 ? kAccessFlushPersistent : 0U);
    if (access == 0 || (placement & ~(kGlobalVisibility | kPersistence)) != 0 || selectivity > kWholeRegion ||
        (common_.attr.access_flags & access) != access ||
        responses_.new_pending() >= common_.attr.max_dest_rd_atomic) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    std::uint64_t va = reth.va;
    std::uint32_t length_bytes = reth.dma_length;
    if (selectivity == kWholeRegion) {  // the range in the packet means nothing
        const MemoryRegion* const region = common_.config.keys->find(reth.rkey);
        va = region != nullptr ? region->iova : 0;
        length_bytes = 0;
    }
    MemoryPiece piece;
    if (common_.config.keys->resolve_remote(reth.rkey, key_user(), access, va, length_bytes, piece) !=
        KeyTable::Verdict::kOk) {
        refuse(kAccessError, outbox);
        return;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    answer_without_data();
}

}  // namespace urnic
