// The first packet with a wrong P_Key or Q_Key on its way from a worker to the control thread, whose port
// tells the subnet manager. Further ones are counted alone until the control thread wants another.
#pragma once

#include <atomic>
#include <optional>

#include "os/unique_fd.h"
#include "rnic/subnet/key_violation.h"

namespace urnic::dataplane {

class KeyViolationInbox {
  public:
    /// Throws std::system_error when no descriptor is left.
    KeyViolationInbox();
    KeyViolationInbox(const KeyViolationInbox&) = delete;
    KeyViolationInbox& operator=(const KeyViolationInbox&) = delete;

    /// For any worker: whether the next one is wanted; then push() it.
    [[nodiscard]] bool is_wanted() const { return is_wanted_.load(std::memory_order_relaxed); }
    /// For any worker. Only the first of several is taken. One system call at most until want_next().
    void push(const subnet::KeyViolation& violation);

    /// Becomes readable when there is one.
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// For the control thread.
    [[nodiscard]] std::optional<subnet::KeyViolation> take();
    /// Returns whether one was taken, and the next is not wanted yet.
    [[nodiscard]] bool was_taken() const { return was_taken_; }
    void want_next();

  private:
    UniqueFd fd_;
    std::atomic<bool> is_wanted_{true};
    std::atomic<bool> is_full_{false};
    subnet::KeyViolation
        violation_;           // of whoever took is_wanted_ back, and once is_full_ of the control thread
    bool was_taken_ = false;  // the control thread's
};

}  // namespace urnic::dataplane
