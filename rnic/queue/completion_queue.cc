#include "rnic/queue/completion_queue.h"

#include <algorithm>

namespace urnic {

namespace {

abi::CqHeader& header_of(std::byte* memory) { return *reinterpret_cast<abi::CqHeader*>(memory); }

}  // namespace

bool CompletionQueue::push(std::uint32_t worker, const Completion& completion, std::uint64_t timestamp_ns) {
    Producer& producer = producers_[worker];
    const std::uint32_t taken =
        header_of(producer.memory).consumer[worker].index.load(std::memory_order_acquire);
    if (producer.index - taken >= producer.entries) {
        overrun_.store(true, std::memory_order_relaxed);
        return false;
    }
    const std::uint32_t slot = producer.index & (producer.entries - 1);
    auto* ring = reinterpret_cast<abi::Cqe*>(producer.memory + abi::cq_ring_offset(worker, producer.entries));
    abi::Cqe& cqe = ring[slot];
    cqe.opcode = static_cast<std::uint8_t>(completion.opcode);
    cqe.status = static_cast<std::uint8_t>(completion.status);
    cqe.wc_flags = completion.wc_flags;
    cqe.is_recv = completion.is_recv ? 1 : 0;
    cqe.wr_id = completion.wr_id;
    cqe.qp_num = completion.qp_num;
    cqe.wqe_index = completion.wqe_index;
    cqe.byte_len = completion.byte_len;
    cqe.imm_or_rkey = completion.imm_or_rkey;
    cqe.src_qp = completion.src_qp;
    cqe.vendor_err = completion.vendor_err;
    cqe.timestamp_ns = timestamp_ns;
    cqe.link = completion.link;
    cqe.srq_number = completion.srq_number;
    cqe.seq.store(++producer.index, std::memory_order_release);
    producer.any_pending = true;
    producer.solicited_pending |= completion.solicited || completion.status != WcStatus::kSuccess;
    return true;
}

bool CompletionQueue::take_notification(std::uint32_t worker) {
    Producer& producer = producers_[worker];
    std::atomic<std::uint32_t>& arm = header_of(producer.memory).arm;
    const bool any = producer.any_pending;
    const bool solicited = producer.solicited_pending;
    producer.any_pending = false;
    producer.solicited_pending = false;
    std::uint32_t armed = arm.load(std::memory_order_relaxed);
    const std::uint32_t least = solicited ? abi::kCqArmedSolicited : abi::kCqArmedAny;
    if (!any || armed < least) {
        return false;
    }
    return arm.compare_exchange_strong(armed, abi::kCqDisarmed) || arm.exchange(abi::kCqDisarmed) >= least;
}

std::uint32_t CompletionQueue::take_sleepers(std::uint32_t worker) {
    std::atomic<std::uint32_t>& sleepers = header_of(producers_[worker].memory).sleepers;
    return sleepers.load(std::memory_order_relaxed) == 0 ? 0 : sleepers.exchange(0);
}

bool CompletionQueue::notification_wanted(std::uint32_t worker) const {
    const Producer& producer = producers_[worker];
    const std::uint32_t least = producer.solicited_pending ? abi::kCqArmedSolicited : abi::kCqArmedAny;
    return producer.any_pending && header_of(producer.memory).arm.load(std::memory_order_relaxed) >= least;
}

std::uint32_t CompletionQueue::unpolled(std::uint32_t worker) const {
    const Producer& producer = producers_[worker];
    const std::uint32_t taken =
        header_of(producer.memory).consumer[worker].index.load(std::memory_order_acquire);
    return std::min(producer.index - taken, producer.entries);
}

void CompletionQueue::switch_worker(std::uint32_t worker, std::byte* memory, std::uint32_t entries) {
    Producer& producer = producers_[worker];
    producer.memory = memory;
    producer.entries = entries;
    producer.index = 0;
}

void CompletionQueue::switch_all(std::byte* memory, std::uint32_t entries) {
    for (std::uint32_t worker = 0; worker < abi::kMaxWorkers; ++worker) {
        switch_worker(worker, memory, entries);
    }
}

}  // namespace urnic
