// The Ethernet addresses that packets are sent to, looked up when a frame leaves: a path names an entry, so
// that it can be made before its neighbour is known, and so that a neighbour's new address is there for
// all QPs at once.
//
// One writer (the control thread), any number of readers (workers).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

#include "rnic/wire/packet_view.h"

namespace urnic {

class NeighbourMacs {
  public:
    static constexpr std::uint32_t kEntries = 4096;

    /// Nullopt: not known, nothing can be sent there.
    void publish(std::uint32_t entry, const std::optional<wire::Mac>& mac) {
        std::uint64_t number = 0;
        if (mac) {
            std::memcpy(&number, mac->data(), mac->size());
        }
        macs_.at(entry).store(number, std::memory_order_relaxed);
    }
    /// Returns whether the MAC is known. `entry` is a path's, so it is valid.
    [[nodiscard]] bool find(std::uint32_t entry, wire::Mac& mac) const {
        const std::uint64_t number = macs_[entry % kEntries].load(std::memory_order_relaxed);
        std::memcpy(mac.data(), &number, mac.size());
        return number != 0;
    }

  private:
    std::array<std::atomic<std::uint64_t>, kEntries> macs_{};
};

}  // namespace urnic
