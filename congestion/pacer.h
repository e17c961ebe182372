// When a QP that may send no faster than a rate may send its next packet.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/fraction.h"
#include "base/time.h"

namespace urnic::congestion {

/// A clock of what was sent, which runs ahead of the real one and lags behind it by no more than a burst. It
/// counts parts of nanoseconds: at 1 Tbit/s a frame of 64 bytes takes half of one.
class Pacer {
  public:
    static constexpr std::uint32_t kMaxBytes = 1U << 28U;  // of a packet or a burst; more counts as this

    void start(TimeNs now) {
        next_ns_ = now;
        next_part_ = 0;
    }

    /// When the next packet may go.
    [[nodiscard]] TimeNs next_ns() const { return next_ns_ + (next_part_ != 0 ? 1 : 0); }

    /// A packet of `bytes` went out at `now`, which is not before next_ns(). Who was silent may send up to
    /// `burst_bytes` at once.
    void sent(TimeNs now, std::uint32_t bytes, BitsPerSecond rate, std::uint32_t burst_bytes) {
        const Duration lag = duration(burst_bytes, rate);
        if (const TimeNs earliest = now - std::min(now, lag.ns); next_ns_ < earliest) {
            start(earliest);
        }
        const Duration cost = duration(bytes, rate);
        next_part_ += cost.part;
        next_ns_ += cost.ns + (next_part_ >> kPartBits);
        next_part_ &= (1U << kPartBits) - 1;
    }

  private:
    static constexpr unsigned kPartBits = 24;
    struct Duration {
        TimeNs ns;
        std::uint32_t part;  // 2^-24 ns
    };

    // Rounded down: a packet loses less than 2^-24 ns.
    [[nodiscard]] static Duration duration(std::uint32_t bytes, BitsPerSecond rate) {
        constexpr std::uint64_t kBitNsPerByte = 8'000'000'000;
        const std::uint64_t divisor = std::clamp(rate, kMinRate, kMaxRate);
        const std::uint64_t work = std::min(bytes, kMaxBytes) * kBitNsPerByte;
        return {work / divisor, static_cast<std::uint32_t>(((work % divisor) << kPartBits) / divisor)};
    }

    TimeNs next_ns_ = 0;
    std::uint32_t next_part_ = 0;
};

}  // namespace urnic::congestion
