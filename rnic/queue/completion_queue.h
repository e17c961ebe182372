// The daemon's end of a completion queue: one single-producer ring for each worker in memory shared with the
// application (abi/queues.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "abi/queues.h"

namespace urnic {

/// What a completion says; the ring adds the sequence number.
struct Completion {
    std::uint64_t wr_id = 0;
    std::uint32_t qp_num = 0;
    std::uint32_t wqe_index = 0;
    std::uint32_t byte_len = 0;
    std::uint32_t imm_or_rkey = 0;
    std::uint32_t src_qp = 0;
    std::uint32_t vendor_err = 0;
    std::uint32_t srq_number = 0;  // XRC receives
    WcStatus status = WcStatus::kSuccess;
    WcOpcode opcode = WcOpcode::kSend;
    std::uint8_t wc_flags = 0;
    abi::CqeLink link{};  // UD
    bool is_recv = false;
    bool solicited = false;  // counts for a CQ armed for solicited completions; errors always do
};

/// Several workers fill one CQ, each its own ring and its own `Producer`; nothing is shared between them but
/// `arm`.
class CompletionQueue {
  public:
    /// `memory`: abi::cq_bytes(workers, entries) zeroed bytes that stay mapped while in use.
    CompletionQueue(std::byte* memory, std::uint32_t entries) { switch_all(memory, entries); }

    /// Appends a completion to `worker`'s ring. Returns whether there was room. If not (the application lags,
    /// or lies about what it took), nothing is written and the CQ counts as overrun.
    [[nodiscard]] bool push(std::uint32_t worker, const Completion& completion, std::uint64_t timestamp_ns);

    /// After a batch of push() by `worker`: returns whether the application asked for a notification, and
    /// takes the request back. The caller runs a sequentially consistent fence between the pushes and this.
    [[nodiscard]] bool take_notification(std::uint32_t worker);

    /// After a batch of push() by `worker` and the same fence: the threads that sleep until there is a
    /// completion (abi::CqHeader::sleepers), taken back.
    [[nodiscard]] std::uint32_t take_sleepers(std::uint32_t worker);
    /// Of a CQ without a channel, instead of take_notification().
    void skip_notification(std::uint32_t worker) {
        producers_[worker].any_pending = false;
        producers_[worker].solicited_pending = false;
    }

    /// Returns whether `worker` pushed something since its last take_notification().
    [[nodiscard]] bool pending(std::uint32_t worker) const { return producers_[worker].any_pending; }

    /// Returns whether take_notification() would take a request that is there now.
    [[nodiscard]] bool notification_wanted(std::uint32_t worker) const;

    /// Completions of `worker` that the application has not taken, as far as it tells the truth.
    [[nodiscard]] std::uint32_t unpolled(std::uint32_t worker) const;
    /// Of each worker's ring. On that worker's thread.
    [[nodiscard]] std::uint32_t entries(std::uint32_t worker) const { return producers_[worker].entries; }

    /// Resize: from now on `worker` writes to the new memory. Called on that worker's thread.
    void switch_worker(std::uint32_t worker, std::byte* memory, std::uint32_t entries);

    [[nodiscard]] bool overrun() const { return overrun_.load(std::memory_order_relaxed); }

  private:
    struct alignas(64) Producer {
        std::byte* memory = nullptr;
        std::uint32_t entries = 0;
        std::uint32_t index = 0;
        bool any_pending = false;  // pushed since the last take_notification()
        bool solicited_pending = false;
    };
    void switch_all(std::byte* memory, std::uint32_t entries);

    std::array<Producer, abi::kMaxWorkers> producers_{};
    std::atomic<bool> overrun_{false};
};

}  // namespace urnic
