#include "dataplane/worker/tsc_clock.h"

#include <rte_cycles.h>

#include <algorithm>
#include <ctime>

namespace urnic::dataplane {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
/// The first reading of the system's clock serves for a second / kFirstPart, the next kPartGrowth times as
/// long.
constexpr std::uint64_t kFirstPart = 1000;
constexpr std::uint64_t kPartGrowth = 10;

TimeNs monotonic_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<TimeNs>(time.tv_sec) * kNsPerSecond + static_cast<TimeNs>(time.tv_nsec);
}

struct Reading {
    TimeNs ns;
    std::uint64_t ticks;
};

/// Within 1/64.
bool is_near(std::uint64_t rate, std::uint64_t other) {
    return rate > other - other / 64 && rate < other + other / 64;
}

/// Both clocks at the same moment: of a few readings the quickest, since a thread may lose its core in one.
Reading read_both() {
    constexpr int kTries = 4;
    Reading best{};
    std::uint64_t best_ticks = ~std::uint64_t{0};
    for (int tried = 0; tried < kTries; ++tried) {
        const std::uint64_t before = rte_rdtsc();
        const TimeNs ns = monotonic_ns();
        const std::uint64_t took = rte_rdtsc() - before;
        if (took < best_ticks) {
            best_ticks = took;
            best = {ns, before + took / 2};
        }
    }
    return best;
}

}  // namespace

TscClock::TscClock()
    : ticks_per_second_(rte_get_tsc_hz()),
      nominal_q32_(static_cast<std::uint64_t>((Wide{kNsPerSecond} << 32U) / ticks_per_second_)),
      ns_per_tick_q32_(nominal_q32_),
      anchored_for_ticks_(ticks_per_second_ / kFirstPart) {
    const Reading reading = read_both();
    anchor_ns_ = reading.ns;
    anchor_ticks_ = reading.ticks;
    last_ns_ = anchor_ns_;
}

// The EAL rounds an estimated frequency to 10 MHz: up to milliseconds in each second. So the rate is
// measured, over intervals that grow until they are a second long.
void TscClock::anchor() {
    const Reading reading = read_both();
    const std::uint64_t ticks = reading.ticks - anchor_ticks_;
    const auto measured = static_cast<std::uint64_t>((Wide{reading.ns - anchor_ns_} << 32U) / ticks);
    // Further off than any rounding: the machine was stopped, or the counter was set, unless the interval
    // before says the same. The EAL's estimate is wrong where its thread lost its core in the middle of it.
    if (is_near(measured, nominal_q32_) || is_near(measured, measured_q32_)) {
        ns_per_tick_q32_ = measured;
    }
    measured_q32_ = measured;
    anchored_for_ticks_ = std::min(anchored_for_ticks_ * kPartGrowth, ticks_per_second_);
    anchor_ns_ = reading.ns;
    anchor_ticks_ = reading.ticks;
}

TimeNs TscClock::now() {
    const std::uint64_t ticks = rte_rdtsc() - anchor_ticks_;
    if (ticks > anchored_for_ticks_) [[unlikely]] {
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
