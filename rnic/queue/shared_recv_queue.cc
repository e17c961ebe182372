#include "rnic/queue/shared_recv_queue.h"

#include <cstring>

namespace urnic {

namespace {

abi::RecvWqe& recv_slot_of(const RecvRing& ring, std::uint32_t index) {
    return *reinterpret_cast<abi::RecvWqe*>(ring.slots +
                                            std::size_t{index & (ring.entries - 1)} * ring.stride);
}

}  // namespace

bool copy_receives(const RecvRing& from, const RecvRing& to, std::uint32_t first) {
    // Zeroed, this slot would hold the last index before they come round. It is said to hold one of the past.
    recv_slot_of(to, ~0U).seq.store(first, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < from.entries; ++i) {
        const abi::RecvWqe& wqe = recv_slot_of(from, first + i);
        if (wqe.seq.load(std::memory_order_acquire) != first + i + 1) {
            return true;
        }
        if (i == to.entries) {
            return false;
        }
        std::memcpy(static_cast<void*>(&recv_slot_of(to, first + i)), static_cast<const void*>(&wqe),
                    from.stride);
    }
    return true;
}

SharedRecvQueue::SharedRecvQueue(const Identity& identity, std::byte* memory, std::uint32_t entries,
                                 std::uint32_t stride, std::uint32_t max_sge)
    : identity_(identity) {
    switch_ring(memory, entries, stride, max_sge);
}

Fetch SharedRecvQueue::peek(RecvWork& work) {
    if (failed_) {
        return Fetch::kMalformed;
    }
    const Fetch fetch = ring_.peek(work);
    failed_ = fetch == Fetch::kMalformed;
    return fetch;
}

bool SharedRecvQueue::pop() {
    ring_.pop();
    header_->consumed.store(ring_.next(), std::memory_order_release);
    // Receives are posted in order: fewer than `limit_` are there when the one at that distance is not.
    if (limit_ == 0 || ring_.has(ring_.next() + limit_ - 1)) {
        return false;
    }
    limit_ = 0;
    return true;
}

bool SharedRecvQueue::take_error_report() {
    const bool is_news = failed_ && !failure_reported_;
    failure_reported_ = failed_;
    return is_news;
}

void SharedRecvQueue::switch_ring(std::byte* memory, std::uint32_t entries, std::uint32_t stride,
                                  std::uint32_t max_sge) {
    header_ = reinterpret_cast<abi::SrqHeader*>(memory);
    ring_ = RecvQueue(memory + abi::kSrqHeaderBytes, entries, stride, max_sge, ring_.next());
    header_->consumed.store(ring_.next(), std::memory_order_release);
}

void XrcSrqTable::add(SharedRecvQueue& srq) {
    SharedRecvQueue*& first = first_[srq.identity().number % kBuckets];
    srq.next_in_table_ = first;
    first = &srq;
}

void XrcSrqTable::remove(SharedRecvQueue& srq) {
    SharedRecvQueue** at = &first_[srq.identity().number % kBuckets];
    while (*at != nullptr && *at != &srq) {
        at = &(*at)->next_in_table_;
    }
    if (*at != nullptr) {
        *at = srq.next_in_table_;
    }
}

SharedRecvQueue* XrcSrqTable::find(std::uint32_t number) const {
    SharedRecvQueue* srq = first_[number % kBuckets];
    while (srq != nullptr && srq->identity().number != number) {
        srq = srq->next_in_table_;
    }
    return srq;
}

}  // namespace urnic
