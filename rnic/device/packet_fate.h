// What became of a received packet, told by what changed meanwhile in the counters of its RNIC: the engines
// know nothing of captures and traces (docs/adr/0036).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "abi/capture.h"
#include "rnic/device/counters.h"

namespace urnic {

/// What became of a packet, as a record has it.
struct Fate {
    abi::PacketFate fate = abi::PacketFate::kDelivered;
    std::uint8_t drop = 0;  // of kDropped: place in abi::kPacketDrops
};

/// Of one packet at a time.
class FateWatch {
  public:
    /// Before the packet is handled. `held`: references to it, or packets that are held.
    void begin(const Counters& counters, std::uint32_t held);
    /// When it has been handled.
    [[nodiscard]] Fate end(const Counters& counters, std::uint32_t held) const;

  private:
    static constexpr std::size_t kDrops = std::size(abi::kPacketDrops) - abi::kMadDrops;
    struct Seen {
        std::array<std::uint64_t, kDrops> drops{};
        std::uint64_t duplicate = 0;
        std::uint64_t early = 0;
        std::uint64_t no_receive = 0;
        std::uint64_t refused = 0;
    };
    static void look(const Counters& counters, Seen& seen);
    /// Of all that Seen has: counters only count up, so that it stays while they do.
    static std::uint64_t sum_of(const Counters& counters);

    // Most packets change none of them: what was seen before one serves for the next.
    const Counters* of_ = nullptr;
    std::uint64_t sum_ = 0;
    Seen before_;
    std::uint32_t held_before_ = 0;
};

}  // namespace urnic
