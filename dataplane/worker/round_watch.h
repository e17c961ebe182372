// Rounds of a worker that take long, and in whose turn: a program can make the worker wait in the kernel, as
// for pages that it takes out of its memory. The worker leaves a record, and the control thread logs it.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "dataplane/worker/run_queue.h"

namespace urnic::dataplane {

/// A round that took longer than RoundWatch::kLongNs.
struct LongRound {
    TimeNs took_ns = 0;
    TimeNs longest_turn_ns = 0;  // 0: none of it was a program's
    ProgramId program;           // whose turn that was
    ProgramId sender;            // from whose memory it copied, if that is another one
};

/// Times are ticks of the worker's counter. All but take(), last_round() and long_rounds() are the
/// worker's.
class RoundWatch {
  public:
    static constexpr TimeNs kLongNs = 50'000'000;
    /// Records that wait for take(); of more only the number is kept.
    static constexpr std::uint32_t kRecords = 8;

    explicit RoundWatch(std::uint64_t ticks_per_second)
        : ticks_per_us_(ticks_per_second / 1'000'000), long_ticks_(ticks_per_us_ * (kLongNs / 1'000)) {}
    RoundWatch(const RoundWatch&) = delete;
    RoundWatch& operator=(const RoundWatch&) = delete;

    void begin(std::uint64_t ticks) {
        began_.store(ticks, std::memory_order_relaxed);
        leave();
        longest_ticks_ = 0;
        longest_ = {};
    }
    /// What follows is done for that program. `ticks()` is asked for the time only if that is another one.
    template <typename Ticks>
    void enter(const ProgramShare& program, Ticks&& ticks) {
        if (in_turn_.program != &program || in_turn_.sender != nullptr) [[unlikely]] {
            end_turn(ticks());
            in_turn_ = {&program, nullptr, {program.id, {}}};
        }
    }
    /// The same; it copies from the memory of `sender`.
    template <typename Ticks>
    void enter(const ProgramShare& program, const ProgramShare& sender, Ticks&& ticks) {
        if (in_turn_.program != &program || in_turn_.sender != &sender) [[unlikely]] {
            end_turn(ticks());
            in_turn_ = {&program, &sender, {program.id, sender.id}};
        }
    }
    void end(std::uint64_t ticks) {
        const std::uint64_t took = ticks - began_.load(std::memory_order_relaxed);
        if (took > long_ticks_) [[unlikely]] {
            end_turn(ticks);
            record(took);
        }
        leave();
    }

    /// For the control thread alone: the oldest record that it has not taken. Returns whether there is one.
    [[nodiscard]] bool take(LongRound& round) {
        const std::uint32_t taken = taken_.load(std::memory_order_relaxed);
        if (taken == left_.load(std::memory_order_acquire)) {
            return false;
        }
        round = records_[taken % kRecords];
        taken_.store(taken + 1, std::memory_order_release);
        return true;
    }
    /// For other threads: the tick at which the last round began.
    [[nodiscard]] std::uint64_t last_round() const { return began_.load(std::memory_order_relaxed); }
    /// Since the worker's start.
    [[nodiscard]] std::uint64_t long_rounds() const { return long_rounds_.load(std::memory_order_relaxed); }

  private:
    struct Who {
        ProgramId program;
        ProgramId sender;
    };
    struct Turn {
        const ProgramShare* program = nullptr;  // only compared: they may have ended
        const ProgramShare* sender = nullptr;
        Who who;
    };

    void leave() { in_turn_.program = in_turn_.sender = nullptr; }
    /// Whose turn it was has no more of it.
    void end_turn(std::uint64_t ticks) {
        if (in_turn_.program != nullptr && ticks - entered_ > longest_ticks_) {
            longest_ticks_ = ticks - entered_;
            longest_ = in_turn_.who;
        }
        entered_ = ticks;
    }
    [[nodiscard]] TimeNs ns(std::uint64_t ticks) const { return ticks / ticks_per_us_ * 1'000; }
    void record(std::uint64_t ticks) {
        long_rounds_.store(long_rounds() + 1, std::memory_order_relaxed);
        const std::uint32_t left = left_.load(std::memory_order_relaxed);
        if (left - taken_.load(std::memory_order_acquire) < kRecords) {
            records_[left % kRecords] = {ns(ticks), ns(longest_ticks_), longest_.program, longest_.sender};
            left_.store(left + 1, std::memory_order_release);
        }
    }

    std::uint64_t ticks_per_us_;
    std::uint64_t long_ticks_;
    std::atomic<std::uint64_t> began_{0};
    Turn in_turn_;
    std::uint64_t entered_ = 0;
    std::uint64_t longest_ticks_ = 0;
    Who longest_;
    std::array<LongRound, kRecords> records_;
    std::atomic<std::uint32_t> left_{0};   // records that were written
    std::atomic<std::uint32_t> taken_{0};  // records that were read
    std::atomic<std::uint64_t> long_rounds_{0};
};

}  // namespace urnic::dataplane
