// Frames that workers leave for the control thread: ARP and neighbour discovery, which are no worker's
// business. Bounded: more that nobody has taken are dropped, and what is asked is asked again. What is for
// this station alone, as answers to its questions are, has places of its own and comes first: a flood for
// everybody on the link does not hide it.
#pragma once

#include <array>
#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "os/unique_fd.h"

namespace urnic::dataplane {

class FrameInbox {
  public:
    static constexpr std::uint32_t kFrames = 256;  // of either kind
    /// More than any valid message of a station with an Ethernet address needs.
    static constexpr std::size_t kFrameBytes = 190;

    struct Frame {
        std::uint16_t length = 0;
        std::array<std::byte, kFrameBytes> bytes;
        [[nodiscard]] std::span<const std::byte> span() const { return {bytes.data(), length}; }
    };

    /// Throws std::system_error when no descriptor is left.
    FrameInbox();
    FrameInbox(const FrameInbox&) = delete;
    FrameInbox& operator=(const FrameInbox&) = delete;

    /// Any worker. False: no room, or too long. One system call at most until the control thread looks.
    [[nodiscard]] bool push(std::span<const std::byte> frame);

    /// Becomes readable when frames have come.
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// The control thread: begins a look, after which fd() becomes readable again for what comes later.
    void acknowledge();
    /// False: there is none.
    [[nodiscard]] bool pop(Frame& frame) { return for_us_.pop(frame) || for_all_.pop(frame); }
    /// Ends a look: makes fd() readable again if there are more.
    void wake_for_rest();

  private:
    UniqueFd fd_;
    std::atomic<bool> signalled_{false};
    using Frames = boost::lockfree::queue<Frame, boost::lockfree::capacity<kFrames>>;
    Frames for_us_;   // to one station
    Frames for_all_;  // to a group, or to all
};

}  // namespace urnic::dataplane
