// Frames whose neighbour is being asked for: the first packets to somebody new are sent a little later
// instead of being lost, as Linux does (unres_qlen). A worker's, for one device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

struct rte_mbuf;

namespace urnic::dataplane {

class WaitingFrames {
  public:
    static constexpr std::uint32_t kFrames = 32;
    /// Who has not answered by then does not answer: three questions, a second apart (RFC 4861 10).
    static constexpr TimeNs kPatienceNs = 3'000'000'000;

    struct Frame {
        rte_mbuf* mbuf = nullptr;
        std::uint16_t neighbour = 0;  // an entry of NeighbourMacs
        TimeNs since = 0;
    };

    [[nodiscard]] std::uint32_t size() const { return size_; }
    /// Packets to one neighbour stay in their order: those that come later wait, too.
    [[nodiscard]] bool has(std::uint16_t neighbour) const {
        return std::any_of(frames_.begin(), frames_.begin() + size_,
                           [&](const Frame& frame) { return frame.neighbour == neighbour; });
    }

    /// Returns the one that made room for it, the oldest; nullptr: there was room.
    [[nodiscard]] rte_mbuf* add(const Frame& frame) {
        rte_mbuf* gone = nullptr;
        if (size_ == kFrames) {
            gone = frames_[0].mbuf;
            std::copy(frames_.begin() + 1, frames_.end(), frames_.begin());
            --size_;
        }
        frames_[size_++] = frame;
        return gone;
    }

    /// `leaves(frame)` is called for each, the oldest first; those for which it is true are not here any
    /// more.
    template <typename Leaves>
    void remove_if(Leaves&& leaves) {
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < size_; ++i) {
            if (!leaves(frames_[i])) {
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
