// Send, receive and completion rings in plain memory and what an application's provider does to them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/queues.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/queue/work_queue.h"
#include "tests/support/ring_memory.h"

namespace urnic::sim {

/// Zeroed memory, aligned for any ring and for atomics.
class AlignedBytes {
  public:
    explicit AlignedBytes(std::size_t size_bytes) : memory_(zeroed_memory(size_bytes)) {}
    [[nodiscard]] std::byte* data() const { return memory_.get(); }

  private:
    RingMemory memory_;
};

/// A send work request, as ibv_post_send has it.
struct WorkRequest {
    WrOpcode opcode = WrOpcode::kSend;
    std::uint64_t wr_id = 0;
    std::uint16_t flags = 0;
    std::uint8_t num_sge = 0;
    std::array<abi::Sge, 4> sge{};
    std::span<const std::byte> inline_data;  // with kSendInline
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0;
    std::uint32_t imm = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
};

class SendRing {
  public:
    SendRing(std::uint32_t entries, std::uint32_t max_sge, std::uint32_t max_inline);

    void post(const WorkRequest& request);
    [[nodiscard]] std::uint32_t posted() const { return next_; }
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    [[nodiscard]] SendQueue queue() const;
    /// As the provider does when the QP went to RESET.
    void restart() { next_ = 0; }

  private:
    std::uint32_t entries_;
    std::uint32_t stride_;
    std::uint32_t max_sge_;
    std::uint32_t max_inline_;
    std::uint32_t next_ = 0;
    AlignedBytes memory_;
};

class RecvRing {
  public:
    RecvRing(std::uint32_t entries, std::uint32_t max_sge);

    void post(std::uint64_t wr_id, std::span<const abi::Sge> sge);
    [[nodiscard]] std::uint32_t posted() const { return next_; }
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    [[nodiscard]] RecvQueue queue() const;
    void restart() { next_ = 0; }

  private:
    std::uint32_t entries_;
    std::uint32_t stride_;
    std::uint32_t max_sge_;
    std::uint32_t next_ = 0;
    AlignedBytes memory_;
};

class CompletionRing {
  public:
    explicit CompletionRing(std::uint32_t entries);

    /// Where the RNIC puts completions.
    [[nodiscard]] CompletionQueue& queue() { return queue_; }
    /// The next completion, nullptr when there is none; it is taken and stays valid until the ring comes
    /// round.
    [[nodiscard]] const abi::Cqe* poll();

  private:
    std::uint32_t entries_;
    std::uint32_t taken_ = 0;
    AlignedBytes memory_;
    CompletionQueue queue_;
};

}  // namespace urnic::sim
