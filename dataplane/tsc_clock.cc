#include "dataplane/tsc_clock.h"

#include <rte_cycles.h>

#include <ctime>

namespace urnic::dataplane {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

TimeNs monotonic_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<TimeNs>(time.tv_sec) * kNsPerSecond + static_cast<TimeNs>(time.tv_nsec);
}

}  // namespace

TscClock::TscClock()
    : ticks_per_second_(rte_get_tsc_hz()),
      ns_per_tick_q32_(static_cast<std::uint64_t>((Wide{kNsPerSecond} << 32U) / ticks_per_second_)) {
    anchor();
    last_ns_ = anchor_ns_;
}

void TscClock::anchor() {
    anchor_ns_ = monotonic_ns();
    anchor_ticks_ = rte_rdtsc();
}

TimeNs TscClock::now() {
    const std::uint64_t ticks = rte_rdtsc() - anchor_ticks_;
    if (ticks > ticks_per_second_) [[unlikely]] {
        anchor();
        last_ns_ = anchor_ns_ > last_ns_ ? anchor_ns_ : last_ns_;
        return last_ns_;
    }
    // At most one second of ticks: the product stays within 2^64 for any counter up to 2^32 Hz and beyond.
    const TimeNs ns = anchor_ns_ + static_cast<TimeNs>((Wide{ticks} * ns_per_tick_q32_) >> 32U);
    last_ns_ = ns > last_ns_ ? ns : last_ns_;
    return last_ns_;
}

}  // namespace urnic::dataplane
