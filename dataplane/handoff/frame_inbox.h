// ARP and neighbour discovery frames on their way from the workers to the control thread. Bounded: further
// frames are dropped, since requests are sent again. Frames to this station alone, such as replies, have a
// queue of their own, which is read first: a flood of broadcasts does not hide them.
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

    /// For any worker. Returns false if there is no room, or the frame is too long. One system call at most
    /// until the control thread reads.
    [[nodiscard]] bool push(std::span<const std::byte> frame);

    /// Becomes readable when frames have come.
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// For the control thread, before it reads: fd() becomes readable again for what comes later.
    void acknowledge();
    /// Returns whether there was one.
    [[nodiscard]] bool pop(Frame& frame) { return for_us_.pop(frame) || for_all_.pop(frame); }
    /// For the control thread, after it has read: makes fd() readable again if there are more.
    void wake_for_rest();

  private:
    UniqueFd fd_;
    std::atomic<bool> signalled_{false};
    using Frames = boost::lockfree::queue<Frame, boost::lockfree::capacity<kFrames>>;
    Frames for_us_;   // to one station
    Frames for_all_;  // to a group, or to all
};

}  // namespace urnic::dataplane
