#include "dataplane/port/fault_injector.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/frame_sender.h"

namespace urnic::dataplane {

namespace {

std::span<std::byte> writable_bytes(rte_mbuf* frame) {
    return {rte_pktmbuf_mtod(frame, std::byte*), rte_pktmbuf_data_len(frame)};
}

/// nullptr: no buffer is free, or none so large.
rte_mbuf* copy_of(const rte_mbuf& frame) {
    rte_mbuf* copy = nullptr;
    if (!alloc_frames(frame.pool, {&copy, 1})) {
        return nullptr;
    }
    if (rte_pktmbuf_tailroom(copy) < frame.data_len) {
        free_frames({&copy, 1});
        return nullptr;
    }
    std::memcpy(rte_pktmbuf_mtod(copy, std::byte*), frame_bytes(&frame).data(), frame.data_len);
    copy->data_len = frame.data_len;
    copy->pkt_len = frame.data_len;
    copy_sender(frame, *copy);
    return copy;
}

/// Copies the frame if others share it, as receivers share a multicast frame. Returns false if no buffer is
/// free: the frame is lost.
bool make_own(rte_mbuf*& frame) {
    if (rte_mbuf_refcnt_read(frame) == 1) {
        return true;
    }
    rte_mbuf* const own = copy_of(*frame);
    free_frames({&frame, 1});
    frame = own;
    return own != nullptr;
}

}  // namespace

void FaultInjector::ReadyQueue::push(rte_mbuf* frame) {
    URNIC_CHECK(size() < kRoom);
    frames_[end_++ % kRoom] = frame;
}

std::uint16_t FaultInjector::ReadyQueue::pop(rte_mbuf** frames, std::uint16_t count) {
    const auto taken = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, size()));
    for (std::uint16_t i = 0; i < taken; ++i) {
        frames[i] = frames_[begin_++ % kRoom];
    }
    return taken;
}

std::span<rte_mbuf*> FaultInjector::ReadyQueue::front() {
    const std::uint32_t first = begin_ % kRoom;
    return {frames_.data() + first, std::min(size(), kRoom - first)};
}

FaultInjector::FaultInjector(Port& below, const TimeNs& now) : below_(below), now_(now) {}

FaultInjector::~FaultInjector() {
    for (Side* side : {&tx_, &rx_}) {
        for (rte_mbuf* frame = nullptr; side->ready.pop(&frame, 1) == 1;) {
            free_frames({&frame, 1});
        }
        for (Held& held : side->held) {
            free_frames({&held.frame, 1});
        }
    }
}

void FaultInjector::swap_plan(std::shared_ptr<const fault::Plan>& plan) {
    plan_.swap(plan);
    tx_.held.reserve(kMaxHeld);
    rx_.held.reserve(kMaxHeld);
}

bool FaultInjector::drained() const {
    return plan_ == nullptr && tx_.held.empty() && rx_.held.empty() && tx_.ready.size() == 0 &&
           rx_.ready.size() == 0;
}

TimeNs FaultInjector::next_event() const {
    if (tx_.ready.size() != 0 || rx_.ready.size() != 0) {
        return 0;
    }
    const TimeNs at = tx_.held.empty() ? kNever : tx_.held.front().due;
    return rx_.held.empty() ? at : std::min(at, rx_.held.front().due);
}

std::uint16_t FaultInjector::tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    release_due(tx_);
    send_ready(queue);
    std::uint16_t taken = 0;
    // Frames that the port below does not take stay here; no more are accepted until they are sent.
    while (taken < count && tx_.ready.size() == 0) {
        const auto end = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, taken + kBurst));
        while (taken < end) {
            process(tx_, frames[taken++]);
        }
        send_ready(queue);
    }
    return taken;
}

std::uint16_t FaultInjector::rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    release_due(tx_);
    send_ready(queue);
    release_due(rx_);
    if (rx_.ready.size() < kBurst) {
        std::array<rte_mbuf*, kBurst> burst;
        const std::uint16_t got = below_.rx_burst(queue, burst.data(), std::min(count, kBurst));
        for (std::uint16_t i = 0; i < got; ++i) {
            process(rx_, burst[i]);
        }
    }
    return rx_.ready.pop(frames, count);
}

void FaultInjector::process(Side& side, rte_mbuf* frame) const {
    fault::Verdict verdict;
    if (plan_ != nullptr && frame->nb_segs == 1) {
        verdict = plan_->decide(side.direction, frame_bytes(frame));
    }
    if (!verdict.is_roce) {
        side.ready.push(frame);
        return;
    }
    if (verdict.drop) {
        free_frames({&frame, 1});
        return;
    }
    if ((verdict.ecn || verdict.flips != 0) && !make_own(frame)) {
        return;
    }
    fault::edit_frame(verdict, writable_bytes(frame));
    if (verdict.copier != nullptr) {
        copy(side, verdict, *frame);
    }
    if (verdict.holder != nullptr) {
        hold(side, {now_ + verdict.delay_ns, verdict.behind, verdict.dest_qp, frame}, *verdict.holder);
    } else {
        pass(side, frame, verdict.dest_qp);
    }
}

void FaultInjector::hold(Side& side, const Held& held, fault::ActiveRule& rule) {
    if (side.held.size() == kMaxHeld) {
        rule.missed.fetch_add(1, std::memory_order_relaxed);
        rte_mbuf* frame = held.frame;
        free_frames({&frame, 1});
        return;
    }
    const auto place = std::upper_bound(side.held.begin(), side.held.end(), held.due,
                                        [](TimeNs due, const Held& other) { return due < other.due; });
    side.held.insert(place, held);
    side.reordering += held.behind != 0 ? 1 : 0;
}

void FaultInjector::copy(Side& side, const fault::Verdict& verdict, const rte_mbuf& frame) const {
    rte_mbuf* const twin = copy_of(frame);
    if (twin == nullptr) {
        verdict.copier->missed.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    const TimeNs delay_ns = verdict.delay_ns + verdict.copy_delay_ns;
    if (delay_ns == 0) {
        side.ready.push(twin);  // the two are equal: their order does not matter
    } else {
        hold(side, {now_ + delay_ns, 0, verdict.dest_qp, twin}, *verdict.copier);
    }
}

void FaultInjector::pass(Side& side, rte_mbuf* frame, std::uint32_t dest_qp) {
    side.ready.push(frame);
    if (side.reordering == 0) {
        return;
    }
    auto kept = side.held.begin();
    for (Held& held : side.held) {
        if (held.behind != 0 && held.dest_qp == dest_qp && --held.behind == 0) {
            side.ready.push(held.frame);
            --side.reordering;
        } else {
            *kept++ = held;
        }
    }
    side.held.erase(kept, side.held.end());
}

void FaultInjector::release_due(Side& side) const {
    auto end = side.held.begin();
    for (; end != side.held.end() && end->due <= now_; ++end) {
        side.ready.push(end->frame);
        side.reordering -= end->behind != 0 ? 1 : 0;
    }
    side.held.erase(side.held.begin(), end);
}

void FaultInjector::send_ready(std::uint32_t queue) {
    while (tx_.ready.size() != 0) {
        const std::span<rte_mbuf*> frames = tx_.ready.front();
        const std::uint16_t sent =
            below_.tx_burst(queue, frames.data(), static_cast<std::uint16_t>(frames.size()));
        tx_.ready.pop_front(sent);
        if (sent < frames.size()) {
            return;
        }
    }
}

}  // namespace urnic::dataplane
