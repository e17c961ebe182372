// Frames whose neighbour's MAC is being resolved: the first packets to a new neighbour are sent a little
// later instead of being lost, as Linux does (unres_qlen). One for each device on each worker.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

struct rte_mbuf;

namespace urnic::dataplane {

class UnresolvedFrames {
  public:
    static constexpr std::uint32_t kFrames = 32;
    /// MAX_MULTICAST_SOLICIT solicitations, RETRANS_TIMER apart (RFC 4861 10).
    static constexpr TimeNs kTimeoutNs = 3'000'000'000;

    struct Frame {
        rte_mbuf* mbuf = nullptr;
        std::uint16_t neighbour = 0;  // an entry of NeighbourMacs
        TimeNs since = 0;
    };

    [[nodiscard]] std::uint32_t size() const { return size_; }
    /// Returns whether frames to that neighbour wait. Packets to one neighbour stay in order: later ones
    /// wait, too.
    [[nodiscard]] bool has(std::uint16_t neighbour) const {
        return std::any_of(frames_.begin(), frames_.begin() + size_,
                           [&](const Frame& frame) { return frame.neighbour == neighbour; });
    }

    /// Returns the oldest frame if it was evicted to make room, else nullptr.
    [[nodiscard]] rte_mbuf* add(const Frame& frame) {
        rte_mbuf* evicted = nullptr;
        if (size_ == kFrames) {
            evicted = frames_[0].mbuf;
            std::copy(frames_.begin() + 1, frames_.end(), frames_.begin());
            --size_;
        }
        frames_[size_++] = frame;
        return evicted;
    }

    /// Calls `remove(frame)` for each, the oldest first, and removes those for which it returns true.
    template <typename Remove>
    void remove_if(Remove&& remove) {
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < size_; ++i) {
            if (!remove(frames_[i])) {
                frames_[kept++] = frames_[i];
            }
        }
        size_ = kept;
    }

  private:
    std::uint32_t size_ = 0;
    std::array<Frame, kFrames> frames_{};
};

}  // namespace urnic::dataplane
