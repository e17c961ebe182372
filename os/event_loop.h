// Callbacks for descriptors that have input, on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/time.h"
#include "os/unique_fd.h"

namespace urnic {

class EventLoop {
  public:
    /// Names a descriptor that was added. Not a pointer, and never used again: a callback may remove what has
    /// an event in the same round.
    using Id = std::uint64_t;

    /// Throws std::system_error.
    EventLoop();
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;
    ~EventLoop();

    /// From now on `on_input` is called in each round in which `fd` has input or is hung up. Returns 0 and
    /// sets `id`, or returns an errno value. Throws std::bad_alloc, and then nothing has changed.
    [[nodiscard]] int add(int fd, std::function<void()> on_input, Id& id);
    /// The same for descriptors that are there as long as the loop runs. Throws std::system_error.
    Id add(int fd, std::function<void()> on_input);
    /// Until enable() the descriptor's input is left alone.
    void disable(Id id);
    /// Returns whether that was possible; no memory of ours is needed.
    [[nodiscard]] bool enable(Id id);
    /// Before the descriptor is closed.
    void remove(Id id);

    /// Waits until a descriptor has input, for at most that long, and calls whom it concerns. Returns whether
    /// any had. What a callback throws ends the round; the input of the others is still there in the next
    /// one.
    bool run_once(int timeout_ms);
    /// When the last wait ended, by clock_now().
    [[nodiscard]] TimeNs woke_at() const { return woke_at_; }

  private:
    struct Entry;
    UniqueFd epoll_;
    std::map<Id, std::shared_ptr<Entry>> entries_;
    Id next_id_ = 1;
    TimeNs woke_at_ = 0;
};

}  // namespace urnic
