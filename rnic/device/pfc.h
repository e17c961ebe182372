// Priority flow control at an RNIC's port (IEEE 802.1Qbb): what it goes by and what it counts.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "rnic/wire/priority.h"

namespace urnic {

struct PfcSettings {
    // Bit n: priority n stops when the link's other end asks for it. None, as NICs have it: whoever can send
    // a frame to the port can ask.
    std::uint8_t rx_priorities = 0;
    std::uint64_t link_bits_per_second = 10'000'000'000;  // a quantum is 512 bit times of it
    /// A priority that was paused this long, less 15 times what it was not paused in between, is let go, and
    /// pauses are not honoured for as long, and until they are given up; 0: never.
    TimeNs watchdog_ns = 200'000'000;

    std::uint8_t tx_priorities = 0;   // bit n: priority n is told to stop while too much waits here; 0: never
    std::uint32_t xoff_frames = 512;  // of one worker in the port: more than these wait
    std::uint32_t xon_frames = 64;    // and until no more than these do. Less than xoff_frames

    /// How long so many quanta are, rounded up.
    [[nodiscard]] TimeNs duration_ns(std::uint16_t quanta) const {
        constexpr std::uint64_t kQuantumBits = 512;
        constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
        return (quanta * kQuantumBits * kNsPerSecond + link_bits_per_second - 1) / link_bits_per_second;
    }
};

/// Counts up; any thread writes, any reads. For what happens rarely.
class SharedCounter {
  public:
    void add(std::uint64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
    void operator++() { add(1); }
    [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

/// Of one port. Frames count at each priority that they name.
struct PfcCounters {
    struct Priority {
        SharedCounter rx_pause;    // asked this end to stop
        SharedCounter rx_resume;   // asked it to continue
        SharedCounter rx_ignored;  // of rx_pause: came while the watchdog let the priority go
        SharedCounter watchdog;    // pauses that it ended
        SharedCounter tx_pause;
        SharedCounter tx_resume;
    };
    std::array<Priority, wire::kPriorities> priorities;
    SharedCounter rx_malformed;  // MAC control frames that are no pause frames of priorities
};

}  // namespace urnic
