#include "rnic/queue/work_queue.h"

#include <cstddef>
#include <cstring>

namespace urnic {

namespace {

/// What was copied out of a ring before is not read there again: the application may change it.
inline void keep_copy() { asm volatile("" ::: "memory"); }

/// Copies a list out of a ring; gives the sum of its lengths.
std::uint64_t take_list(abi::Sge* to, const std::byte* from, std::uint32_t count) {
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        std::memcpy(&to[i], from + i * sizeof(abi::Sge), sizeof(abi::Sge));
        // Of each element by itself, to keep the compiler from a `rep movs`, whose start costs more than a
        // usual list.
        keep_copy();
        total += to[i].length;
    }
    return total;
}

}  // namespace

Fetch SendQueue::fetch(std::uint32_t index, SendWork& work) const {
    if (!has(index)) {
        return Fetch::kEmpty;
    }
    const std::byte* slot = slots_ + std::size_t{index & (entries_ - 1)} * stride_;
    std::memcpy(static_cast<void*>(&work), slot, sizeof(abi::SendWqe));
    keep_copy();
    work.index = index;
    work.inline_data = nullptr;
    const std::byte* body = slot + sizeof(abi::SendWqe);
    if ((work.flags & kSendInline) != 0) {
        work.length_bytes = work.inline_length;
        work.num_sge = 0;
        work.inline_data = body;
        return work.length_bytes <= max_inline_ ? Fetch::kOk : Fetch::kMalformed;
    }
    if (work.num_sge > max_sge_ || work.num_sge > abi::kMaxSge) {
        return Fetch::kMalformed;
    }
    work.length_bytes = take_list(work.sge, body, work.num_sge);
    return Fetch::kOk;
}

void SendQueue::clear() {
    if (entries_ != 0) {
        std::memset(slots_, 0, std::size_t{entries_} * stride_);
    }
}

Fetch RecvQueue::peek(RecvWork& work) const {
    if (empty()) {
        return Fetch::kEmpty;
    }
    const std::byte* slot = slots_ + std::size_t{next_ & (entries_ - 1)} * stride_;
    const volatile auto* wqe = reinterpret_cast<const volatile abi::RecvWqe*>(slot);
    work.index = next_;
    work.wr_id = wqe->wr_id;
    work.num_sge = wqe->num_sge;
    if (work.num_sge > max_sge_ || work.num_sge > abi::kMaxSge) {
        return Fetch::kMalformed;
    }
    work.length_bytes = take_list(work.sge, slot + sizeof(abi::RecvWqe), work.num_sge);
    return Fetch::kOk;
}

void RecvQueue::clear() {
    if (entries_ != 0) {
        std::memset(slots_, 0, std::size_t{entries_} * stride_);
    }
    next_ = 0;
}

}  // namespace urnic
