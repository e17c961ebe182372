// Time that receivers take to copy payload out of a sender's memory (docs/adr/0035). With frames the sender
// copies it in a turn of his own, so without them he is the one who pays, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/worker/run_queue.h"

namespace urnic::dataplane {

/// Times are ticks of the worker's counter, as RunQueue::charge() has them.
class CopyCharge {
  public:
    /// Nobody pays more than 0.1 ns a byte and 100 ns a packet for what is copied from his memory, about
    /// twice what the copy takes on a quick machine. What takes longer, the receiver's memory or rings have
    /// made so, or the kernel, which gave the CPU to others: it is nobody's, as all receiving is.
    static constexpr std::uint64_t kBytesPerUs = 10'000;
    static constexpr std::uint64_t kPacketsPerUs = 10;

    explicit CopyCharge(std::uint64_t ticks_per_second)
        : ticks_per_packet_(ticks_per_second / (kPacketsPerUs * 1'000'000)),
          ticks_per_64_kb_(ticks_per_second * 65'536 / (kBytesPerUs * 1'000'000)) {}

    /// What follows copies that payload from the memory of that program. `ticks()` is asked for the time only
    /// if the program is another one.
    template <typename Ticks>
    void begin(ProgramShare& sender, std::uint32_t payload_bytes, std::uint32_t packets, Ticks&& ticks) {
        if (sender_ != &sender) {
            const std::uint64_t now = ticks();
            charge(now);
            sender_ = &sender;
            began_ = now;
            most_ = 0;
        }
        most_ += packets * ticks_per_packet_ + payload_bytes * ticks_per_64_kb_ / 65'536;
    }
    /// What follows does not. To be called before programs can go.
    template <typename Ticks>
    void end(Ticks&& ticks) {
        if (sender_ != nullptr) [[unlikely]] {
            charge(ticks());
            sender_ = nullptr;
        }
    }

  private:
    void charge(std::uint64_t now) {
        if (sender_ != nullptr) {
            sender_->copied += static_cast<std::int64_t>(std::min(now - began_, most_));
        }
    }

    std::uint64_t ticks_per_packet_;
    std::uint64_t ticks_per_64_kb_;
    ProgramShare* sender_ = nullptr;
    std::uint64_t began_ = 0;
    std::uint64_t most_ = 0;
};

}  // namespace urnic::dataplane
