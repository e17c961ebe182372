// Filling slots of a ring with work requests.
#pragma once

#include <errno.h>

#include "verbs_provider/core/objects.h"

namespace urnic::provider {

inline void copy_sges(abi::Sge* to, const struct ibv_sge* from, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        to[i] = {from[i].addr, from[i].length, from[i].lkey};
    }
}

/// Fills and publishes slot `index` of a receive ring. 0 or EINVAL, and then nothing was published.
inline int write_recv(const WorkRing& ring, std::uint32_t index, const struct ibv_recv_wr& wr) {
    const auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
    if (num_sge > ring.max_sge) [[unlikely]] {
        return EINVAL;
    }
    auto& wqe = *reinterpret_cast<abi::RecvWqe*>(ring.slot(index));
    wqe.num_sge = num_sge;
    wqe.wr_id = wr.wr_id;
    // Not by what stands in the slot: the daemon can write there, too.
    copy_sges(reinterpret_cast<abi::Sge*>(&wqe + 1), wr.sg_list, num_sge);
    wqe.seq.store(index + 1, std::memory_order_release);
    return 0;
}

/// What a post answers that stopped at `wr`: the error, which stands in errno, too.
template <class Wr>
[[gnu::cold]] inline int refuse_post(int error, Wr* wr, Wr** bad_wr) {
    if (bad_wr != nullptr) {
        *bad_wr = wr;
    }
    errno = error;
    return error;
}

/// Posts a list to one ring, under the lock of its producers. `write` fills and publishes a slot.
template <class Wr, class Write>
int post_list(WorkRing& ring, Wr*& wr, std::uint32_t& posted, Write write) {
    const std::uint32_t begin = ring.head.load(std::memory_order_relaxed);
    std::uint32_t head = begin;
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        error = ring.full(head) ? ENOMEM : write(head, *wr);
        if (error != 0) [[unlikely]] {
            break;
        }
        ++head;
    }
    ring.head.store(head, std::memory_order_release);
    posted = head - begin;
    return error;
}

}  // namespace urnic::provider
