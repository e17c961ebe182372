// Finding the QPs whose doorbells an application has rung.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "abi/queues.h"
#include "base/time.h"
#include "dataplane/worker/run_queue.h"
#include "dataplane/worker/slot_table.h"
#include "dataplane/worker/worker.h"

namespace urnic::dataplane {

/// One client's doorbells on one worker. The memory is the client's: any bit may be set at any time, and a
/// client that sets them all gets no more of a round than kWordsPerRound allows. Made by the control thread;
/// stays at its address while a worker has it.
class ClientDoorbells {
  public:
    static constexpr std::uint32_t kWordsPerRound = 4;

    /// `doorbell`: the worker's part of the client's doorbells. `wake_fd`: an eventfd that the client writes
    /// to when DaemonState says that the worker sleeps; never read here (the client can change its flags).
    /// `user`: what the client's user has on that worker.
    ClientDoorbells(abi::WorkerDoorbell* doorbell, int wake_fd, UserShare& user, ProgramId id = {})
        : doorbell_(doorbell), wake_fd_(wake_fd) {
        share_.user = &user;
        share_.id = id;
    }
    ClientDoorbells(const ClientDoorbells&) = delete;
    ClientDoorbells& operator=(const ClientDoorbells&) = delete;

    [[nodiscard]] int wake_fd() const { return wake_fd_; }
    [[nodiscard]] ProgramShare& share() { return share_; }

    /// doorbell_slot < abi::kDoorbellSlots; `spare` as in SlotTable::set().
    void set(std::uint32_t doorbell_slot, QpSlot& slot, std::unique_ptr<SlotTable::Page>& spare) {
        num_qps_ += slots_.find(doorbell_slot) == nullptr ? 1 : 0;
        slots_.set(doorbell_slot, slot, spare);
    }
    void clear(std::uint32_t doorbell_slot) {
        num_qps_ -= slots_.find(doorbell_slot) != nullptr ? 1 : 0;
        slots_.clear(doorbell_slot);
    }
    /// How many QPs it has on the worker.
    [[nodiscard]] std::uint32_t num_qps() const { return num_qps_; }

    // DoorbellScan's own:
    ClientDoorbells* next_in_turn = nullptr;
    TimeNs rang_at = 0;
    bool is_busy = false;

    /// Calls ring(slot) for QPs whose doorbells were rung. Returns whether any bit was set.
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
            if (QpSlot* const rung = slots_.find(slot)) {
                ring(*rung);
            }
        }
    }

    abi::WorkerDoorbell* doorbell_;
    int wake_fd_;
    ProgramShare share_;
    std::array<std::uint64_t, abi::kDoorbellSlots / 64 / 64>
        pending_{};  // taken from summary, not yet scanned
    SlotTable slots_{abi::kDoorbellSlots};
    std::uint32_t num_qps_ = 0;
};

}  // namespace urnic::dataplane
