// How large the messages of one device's QPs are, and how long they take: histograms of one worker.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "abi/verbs_values.h"
#include "rnic/device/counters.h"

namespace urnic {

/// Counts values in buckets whose bounds are powers of two, from 2^First to 2^Last. One writer (a worker),
/// any reader, no locked instruction.
template <unsigned First, unsigned Last>
class Log2Histogram {
  public:
    /// Buckets with a bound; one more has what is larger.
    static constexpr std::size_t kBounds = Last - First + 1;
    /// The largest value of a bucket.
    [[nodiscard]] static constexpr std::uint64_t bound(std::size_t bucket) {
        return std::uint64_t{1} << (First + bucket);
    }

    void add(std::uint64_t value) {
        const auto bucket = static_cast<std::size_t>(std::bit_width((value - (value != 0 ? 1 : 0)) >> First));
        ++buckets_[std::min(bucket, kBounds)];
        sum_.add(value);
    }
    /// Values in one bucket alone.
    [[nodiscard]] std::uint64_t count(std::size_t bucket) const { return buckets_[bucket].value(); }
    [[nodiscard]] std::uint64_t sum() const { return sum_.value(); }

  private:
    std::array<Counter, kBounds + 1> buckets_{};
    Counter sum_;
};

/// What a message is; the two kinds of atomics and ATOMIC WRITE are one.
enum class MessageOperation : std::uint8_t { kSend, kWrite, kRead, kAtomic, kFlush };
inline constexpr std::size_t kMessageOperations = 5;

/// `completion` is not that of a WQE which sends nothing.
[[nodiscard]] constexpr MessageOperation message_operation(WcOpcode completion) {
    return completion == WcOpcode::kSend        ? MessageOperation::kSend
           : completion == WcOpcode::kRdmaWrite ? MessageOperation::kWrite
           : completion == WcOpcode::kRdmaRead  ? MessageOperation::kRead
           : completion == WcOpcode::kFlush     ? MessageOperation::kFlush
                                                : MessageOperation::kAtomic;
}

/// Of one device on one worker; the worker's own but for reading.
struct alignas(64) MessageHistograms {
    using Sizes = Log2Histogram<6, 24>;       // 64 bytes to 16 MiB
    using Latencies = Log2Histogram<10, 32>;  // 1.024 us to 4.3 s
    struct OfOperation {
        Sizes size_bytes;
        Latencies latency_ns;  // of messages that a peer acknowledges
    };
    std::array<OfOperation, kMessageOperations> operations;

    [[nodiscard]] OfOperation& of(MessageOperation operation) {
        return operations[static_cast<std::size_t>(operation)];
    }
};

}  // namespace urnic
