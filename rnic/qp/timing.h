// Code tables of times and credits (IBA 9.7.5.2.8 table 45, 9.7.7.2.2 table 43, 9.9.2.1.1).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace urnic {

/// RNR NAK timer: hundredths of a millisecond for each of the 32 codes.
inline constexpr std::array<std::uint32_t, 32> kRnrTimerCentiMs = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

/// Time that a requester waits after an RNR NAK with timer code `code` (low 5 bits).
constexpr TimeNs rnr_timer_ns(std::uint8_t code) { return TimeNs{kRnrTimerCentiMs[code & 0x1fU]} * 10'000; }

/// Local ACK timeout 4.096 us * 2^code; code 0 means that the requester waits for ever.
constexpr TimeNs ack_timeout_ns(std::uint8_t code) {
    return code == 0 ? kNever : TimeNs{4096} << (code & 0x1fU);
}

/// Credits for each AETH credit code; code 31 says "unlimited" and has no number.
inline constexpr std::array<std::uint16_t, 31> kCreditsOfCode = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The largest code whose credits do not exceed `credits`: from 2 on there are two codes for each power of
/// two, 2^k and 1.5 * 2^k.
constexpr std::uint8_t credit_code(std::uint32_t credits) {
    if (credits < 2) {
        return static_cast<std::uint8_t>(credits);
    }
    const auto log2 = static_cast<std::uint32_t>(std::bit_width(credits)) - 1;
    const std::uint32_t half = (credits >> (log2 - 1)) & 1U;
    const std::uint32_t code = 2 * log2 + half;
    return static_cast<std::uint8_t>(code < 30 ? code : 30);
}

}  // namespace urnic
