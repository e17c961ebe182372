// MADs on their way from the worker that receives for QP1 of a device to the control thread.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>

#include "os/unique_fd.h"
#include "rnic/device/gsi.h"

namespace urnic::dataplane {

class MadInbox {
  public:
    /// Further MADs are dropped, as MADs may be (IBA 13.6.3); each then costs its sender a time-out of
    /// seconds. As many as one listener may have requests waiting: programs connect by the thousand, and the
    /// control thread serves them meanwhile.
    static constexpr std::uint32_t kMads = 8192;

    /// Throws std::system_error when no descriptor is left.
    MadInbox();
    MadInbox(const MadInbox&) = delete;
    MadInbox& operator=(const MadInbox&) = delete;

    /// For the worker. Returns false if there is no room. One system call at most until the control thread
    /// reads.
    [[nodiscard]] bool push(const ReceivedMad& mad);

    /// Becomes readable when MADs have come.
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// For the control thread, before it reads: fd() becomes readable again for what comes later.
    void acknowledge();
    /// Reads the oldest one. Returns whether there was one.
    [[nodiscard]] bool pop(ReceivedMad& mad) { return mads_.pop(mad); }
    /// For the control thread, after it has read: makes fd() readable again if there are more.
    void wake_for_rest();

  private:
    UniqueFd fd_;
    std::atomic<bool> signalled_{false};
    boost::lockfree::spsc_queue<ReceivedMad, boost::lockfree::capacity<kMads>> mads_;
};

}  // namespace urnic::dataplane
