// Finding the QPs that an application rang for.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "dataplane/worker.h"
#include "rnic/abi/queues.h"

namespace urnic::dataplane {

/// One client's doorbells on one worker. The memory is the client's: any bit may be set at any time, and a
/// client that sets them all gets no more of a round than kWordsPerRound allows.
class ClientDoorbells {
  public:
    static constexpr std::uint32_t kWordsPerRound = 4;

    ClientDoorbells(std::uint32_t client_id, abi::WorkerDoorbell* doorbell, int wake_fd)
        : client_id_(client_id), doorbell_(doorbell), wake_fd_(wake_fd) {}

    [[nodiscard]] std::uint32_t client_id() const { return client_id_; }
    [[nodiscard]] int wake_fd() const { return wake_fd_; }

    /// `slot` nullptr: takes it out.
    void set(std::uint32_t doorbell_slot, QpSlot* slot) {
        if (doorbell_slot >= slots_.size()) {
            slots_.resize(doorbell_slot + std::size_t{1});
        }
        slots_[doorbell_slot] = slot;
    }

    /// Calls ring(slot) for QPs that were rung for; true if there were any bits at all.
    template <typename Ring>
    bool scan(Ring&& ring) {
        bool any = false;
        std::uint32_t words_left = kWordsPerRound;
        for (std::uint32_t group = 0; group < pending_.size(); ++group) {
            std::atomic<std::uint64_t>& summary = doorbell_->summary[group];
            if (summary.load(std::memory_order_relaxed) != 0) {
                pending_[group] |= summary.exchange(0, std::memory_order_acq_rel);
            }
            while (pending_[group] != 0 && words_left != 0) {
                const auto bit = static_cast<std::uint32_t>(std::countr_zero(pending_[group]));
                pending_[group] &= pending_[group] - 1;
                scan_word(group * 64 + bit, ring);
                --words_left;
                any = true;
            }
        }
        return any;
    }

  private:
    template <typename Ring>
    void scan_word(std::uint32_t word, Ring& ring) {
        std::uint64_t bits = doorbell_->words[word].exchange(0, std::memory_order_acq_rel);
        while (bits != 0) {
            const std::uint32_t slot = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
            bits &= bits - 1;
            if (slot < slots_.size() && slots_[slot] != nullptr) {
                ring(*slots_[slot]);
            }
        }
    }

    std::uint32_t client_id_;
    abi::WorkerDoorbell* doorbell_;
    int wake_fd_;
    std::array<std::uint64_t, abi::kDoorbellSlots / 64 / 64>
        pending_{};  // taken from summary, not yet looked at
    std::vector<QpSlot*> slots_;
};

}  // namespace urnic::dataplane
