// The daemon's end of a QP's send and receive rings (abi/queues.h): fetches by copy, then checks the
// copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/queues.h"

namespace urnic {

/// A private, checked copy of a send WQE. Opcode and flags are as the application wrote them; counts and
/// lengths are within the QP's limits.
struct SendWork {
    // As in abi::SendWqe, but that its first word is the index.
    std::uint32_t index = 0;
    std::uint8_t opcode = 0;  // WrOpcode, unchecked
    std::uint8_t num_sge = 0;
    std::uint16_t flags = 0;
    std::uint64_t wr_id = 0;
    std::uint32_t imm_or_rkey = 0;
    std::uint32_t inline_length = 0;
    std::uint32_t xrc_srq_number = 0;
    std::uint32_t reserved = 0;
    abi::WrOperands wr{};

    std::uint64_t length_bytes = 0;          // sum of the SGE lengths or inline length
    const std::byte* inline_data = nullptr;  // in the shared ring: may change under us, never out of bounds
    abi::Sge sge[abi::kMaxSge];
};
static_assert(offsetof(SendWork, length_bytes) == sizeof(abi::SendWqe));
static_assert(offsetof(SendWork, opcode) == offsetof(abi::SendWqe, opcode));
static_assert(offsetof(SendWork, num_sge) == offsetof(abi::SendWqe, num_sge));
static_assert(offsetof(SendWork, flags) == offsetof(abi::SendWqe, flags));
static_assert(offsetof(SendWork, wr_id) == offsetof(abi::SendWqe, wr_id));
static_assert(offsetof(SendWork, imm_or_rkey) == offsetof(abi::SendWqe, imm_or_rkey));
static_assert(offsetof(SendWork, inline_length) == offsetof(abi::SendWqe, inline_length));
static_assert(offsetof(SendWork, xrc_srq_number) == offsetof(abi::SendWqe, xrc_srq_number));
static_assert(offsetof(SendWork, wr) == offsetof(abi::SendWqe, wr));

enum class Fetch : std::uint8_t {
    kEmpty,  // no entry with that index yet
    kOk,
    kMalformed,  // the entry is there, and its counts or lengths are out of the QP's limits; wr_id and index
                 // are set
};

/// Returns whether the entry `index` of a ring of `Wqe` is posted.
template <class Wqe>
[[nodiscard]] inline bool has_entry(const std::byte* slots, std::uint32_t entries, std::uint32_t stride,
                                    std::uint32_t index) {
    if (entries == 0) {
        return false;
    }
    const auto* wqe = reinterpret_cast<const Wqe*>(slots + std::size_t{index & (entries - 1)} * stride);
    return wqe->seq.load(std::memory_order_acquire) == index + 1;
}

class SendQueue {
  public:
    SendQueue() = default;
    SendQueue(std::byte* slots, std::uint32_t entries, std::uint32_t stride, std::uint32_t max_sge,
              std::uint32_t max_inline)
        : slots_(slots), entries_(entries), stride_(stride), max_sge_(max_sge), max_inline_(max_inline) {}

    [[nodiscard]] bool has(std::uint32_t index) const {
        return has_entry<abi::SendWqe>(slots_, entries_, stride_, index);
    }
    [[nodiscard]] Fetch fetch(std::uint32_t index, SendWork& work) const;
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    /// Empties the ring (change to RESET).
    void clear();

  private:
    std::byte* slots_ = nullptr;
    std::uint32_t entries_ = 0;
    std::uint32_t stride_ = 0;
    std::uint32_t max_sge_ = 0;
    std::uint32_t max_inline_ = 0;
};

/// A private, checked copy of a receive WQE.
struct RecvWork {
    std::uint64_t wr_id = 0;
    std::uint64_t length_bytes = 0;  // room
    std::uint32_t index = 0;
    std::uint32_t num_sge = 0;
    abi::Sge sge[abi::kMaxSge];
};

class RecvQueue {
  public:
    RecvQueue() = default;
    /// `next`: the index of the first entry.
    RecvQueue(std::byte* slots, std::uint32_t entries, std::uint32_t stride, std::uint32_t max_sge,
              std::uint32_t next = 0)
        : slots_(slots), entries_(entries), stride_(stride), max_sge_(max_sge), next_(next) {}

    /// The next entry, without taking it.
    [[nodiscard]] Fetch peek(RecvWork& work) const;
    [[nodiscard]] bool empty() const { return !has(next_); }
    /// Returns whether the entry `index` is posted.
    [[nodiscard]] bool has(std::uint32_t index) const {
        return has_entry<abi::RecvWqe>(slots_, entries_, stride_, index);
    }
    /// Index of the next entry.
    [[nodiscard]] std::uint32_t next() const { return next_; }
    void pop() { ++next_; }
    [[nodiscard]] std::uint32_t entries() const { return entries_; }
    void clear();

  private:
    std::byte* slots_ = nullptr;
    std::uint32_t entries_ = 0;
    std::uint32_t stride_ = 0;
    std::uint32_t max_sge_ = 0;
    std::uint32_t next_ = 0;
};

}  // namespace urnic
