#include "tests/sim/net/rings.h"

#include <cstring>

#include "base/check.h"

namespace urnic::sim {

SendRing::SendRing(std::uint32_t entries, std::uint32_t max_sge, std::uint32_t max_inline)
    : entries_(entries),
      stride_(abi::send_stride(max_sge, max_inline)),
      max_sge_(max_sge),
      max_inline_(max_inline),
      memory_(std::size_t{entries} * stride_) {}

SendQueue SendRing::queue() const {
    return SendQueue(memory_.data(), entries_, stride_, max_sge_, max_inline_);
}

void SendRing::post(const WorkRequest& request) {
    auto& wqe = *reinterpret_cast<abi::SendWqe*>(memory_.data() + std::size_t{next_ % entries_} * stride_);
    auto* body = reinterpret_cast<std::byte*>(&wqe + 1);
    wqe.opcode = static_cast<std::uint8_t>(request.opcode);
    wqe.flags = request.flags;
    wqe.wr_id = request.wr_id;
    wqe.imm_or_rkey = request.imm;
    wqe.wr.atomic = {.remote_addr = request.remote_addr,  // the first two are those of WRITE and READ, too
                     .rkey = request.rkey,
                     .reserved = 0,
                     .compare_add = request.compare_add,
                     .swap = request.swap};
    const bool is_inline = (request.flags & kSendInline) != 0;
    URNIC_CHECK(is_inline ? request.inline_data.size() <= max_inline_ : request.num_sge <= max_sge_);
    wqe.num_sge = is_inline ? 0 : request.num_sge;
    wqe.inline_length = static_cast<std::uint32_t>(request.inline_data.size());
    if (is_inline && !request.inline_data.empty()) {
        std::memcpy(body, request.inline_data.data(), request.inline_data.size());
    } else if (!is_inline) {
        std::memcpy(body, request.sge.data(), request.num_sge * sizeof(abi::Sge));
    }
    wqe.seq.store(++next_, std::memory_order_release);
}

RecvRing::RecvRing(std::uint32_t entries, std::uint32_t max_sge)
    : entries_(entries),
      stride_(abi::recv_stride(max_sge)),
      max_sge_(max_sge),
      memory_(std::size_t{entries} * stride_) {}

RecvQueue RecvRing::queue() const { return RecvQueue(memory_.data(), entries_, stride_, max_sge_); }

void RecvRing::post(std::uint64_t wr_id, std::span<const abi::Sge> sge) {
    URNIC_CHECK(sge.size() <= max_sge_);
    auto& wqe = *reinterpret_cast<abi::RecvWqe*>(memory_.data() + std::size_t{next_ % entries_} * stride_);
    wqe.wr_id = wr_id;
    wqe.num_sge = static_cast<std::uint32_t>(sge.size());
    if (!sge.empty()) {
        std::memcpy(static_cast<void*>(&wqe + 1), sge.data(), sge.size_bytes());
    }
    wqe.seq.store(++next_, std::memory_order_release);
}

CompletionRing::CompletionRing(std::uint32_t entries)
    : entries_(entries), memory_(abi::cq_bytes(1, entries)), queue_(memory_.data(), entries) {}

const abi::Cqe* CompletionRing::poll() {
    auto* ring = reinterpret_cast<abi::Cqe*>(memory_.data() + abi::cq_ring_offset(0, entries_));
    const abi::Cqe& cqe = ring[taken_ % entries_];
    if (cqe.seq.load(std::memory_order_acquire) != taken_ + 1) {
        return nullptr;
    }
    ++taken_;
    reinterpret_cast<abi::CqHeader*>(memory_.data())
        ->consumer[0]
        .index.store(taken_, std::memory_order_release);
    return &cqe;
}

}  // namespace urnic::sim
