// Send, receive and completion rings in plain memory and what an application's provider does to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "abi/queues.h"
#include "conform/case/requests.h"
#include "rnic/qp/qp.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/queue/work_queue.h"
#include "tests/support/ring_memory.h"

namespace urnic::sim {

using conform::SendRequest;

class SendRing {
  public:
    SendRing(std::uint32_t entries, std::uint32_t max_sge, std::uint32_t max_inline);

    /// For a QP of that type.
    void post(const SendRequest& request, QpType type = QpType::kRc);
    /// The same with what the slot is to have: opcode, flags, wr_id and operands of `fields`; with
    /// kSendInline the data, else the SGEs.
    void post(const abi::SendWqe& fields, std::span<const abi::Sge> sge,
              std::span<const std::byte> inline_data);
    /// What is in slot(posted()) is posted.
    void publish() {
        abi::SendWqe& wqe = slot(next_);
        wqe.seq.store(++next_, std::memory_order_release);
    }
    [[nodiscard]] std::uint32_t posted() const { return next_; }
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    [[nodiscard]] SendQueue queue() const;
    /// As the provider does when the QP went to RESET.
    void restart() { next_ = 0; }

    /// The slots themselves, for applications that lie.
    [[nodiscard]] abi::SendWqe& slot(std::uint32_t index) {
        return *reinterpret_cast<abi::SendWqe*>(memory_.get() + std::size_t{index % entries_} * stride_);
    }
    [[nodiscard]] abi::Sge* sge(std::uint32_t index) { return reinterpret_cast<abi::Sge*>(&slot(index) + 1); }
    [[nodiscard]] std::uint32_t stride() const { return stride_; }
    [[nodiscard]] std::span<std::byte> bytes() const {
        return {memory_.get(), std::size_t{entries_} * stride_};
    }

  private:
    std::uint32_t entries_;
    std::uint32_t stride_;
    std::uint32_t max_sge_;
    std::uint32_t max_inline_;
    std::uint32_t next_ = 0;
    RingMemory memory_;
};

class RecvRing {
  public:
    RecvRing(std::uint32_t entries, std::uint32_t max_sge);

    void post(std::uint64_t wr_id, std::span<const abi::Sge> sge);
    void publish() {
        abi::RecvWqe& wqe = slot(next_);
        wqe.seq.store(++next_, std::memory_order_release);
    }
    [[nodiscard]] std::uint32_t posted() const { return next_; }
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    [[nodiscard]] RecvQueue queue() const;
    void restart() { next_ = 0; }

    [[nodiscard]] abi::RecvWqe& slot(std::uint32_t index) {
        return *reinterpret_cast<abi::RecvWqe*>(memory_.get() + std::size_t{index % entries_} * stride_);
    }
    [[nodiscard]] std::uint32_t stride() const { return stride_; }
    [[nodiscard]] std::span<std::byte> bytes() const {
        return {memory_.get(), std::size_t{entries_} * stride_};
    }

  private:
    std::uint32_t entries_;
    std::uint32_t stride_;
    std::uint32_t max_sge_;
    std::uint32_t next_ = 0;
    RingMemory memory_;
};

class CompletionRing {
  public:
    explicit CompletionRing(std::uint32_t entries);

    /// Where the RNIC puts completions.
    [[nodiscard]] CompletionQueue& queue() { return queue_; }
    /// The next completion, nullptr when there is none; it is taken and stays valid until the ring comes
    /// round.
    [[nodiscard]] abi::Cqe* poll() {
        auto* ring = reinterpret_cast<abi::Cqe*>(memory_.get() + abi::cq_ring_offset(0, entries_));
        abi::Cqe& cqe = ring[taken_ % entries_];
        if (cqe.seq.load(std::memory_order_acquire) != taken_ + 1) {
            return nullptr;
        }
        publish_taken(++taken_);
        return &cqe;
    }
    [[nodiscard]] std::uint32_t taken() const { return taken_; }
    /// Tells the RNIC that everything before `index` was taken, which poll() does truthfully.
    void publish_taken(std::uint32_t index) {
        reinterpret_cast<abi::CqHeader*>(memory_.get())
            ->consumer[0]
            .index.store(index, std::memory_order_release);
    }

  private:
    std::uint32_t entries_;
    std::uint32_t taken_ = 0;
    RingMemory memory_;
    CompletionQueue queue_;
};

}  // namespace urnic::sim
