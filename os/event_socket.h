// Telling another process of events through a socket, without ever waiting for that process.
//
// The other process has the other end, and perhaps ours as well. The kernel's locks of an object can be held
// for as long as a page of that process is missing, so what tells it must not need such a lock: a pipe's
// mutex is one, the lock of a socket's receiving side another. Sending on a Unix datagram or packet socket
// takes none. It does wake whoever watches the socket, and of watchers a process can have hundreds of
// thousands: their time is charged to the user (docs/adr/0025).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "os/unique_fd.h"

namespace urnic {

/// What the wakes of one user's processes may cost each thread that sends to them: after one that took longer
/// than kLongNs of processor time nothing is sent to that user for kRestFactor times as long. All sockets of
/// a user share it, so it holds for the user however many processes there are.
class WakeBudget {
  public:
    static constexpr TimeNs kLongNs = 100'000;
    static constexpr std::uint64_t kRestFactor = 100;
    /// Messages that are sent during a rest all the same, because they would be lost.
    static constexpr std::uint32_t kUrgentInRest = 4;

    /// Returns whether sends are allowed at that time of CLOCK_MONOTONIC.
    [[nodiscard]] bool can_send(TimeNs now) const {
        return now >= rests_until_.load(std::memory_order_relaxed);
    }
    /// Returns whether one more urgent message may be sent during the rest.
    [[nodiscard]] bool take_urgent() {
        const std::uint32_t left = urgent_left_.load(std::memory_order_relaxed);
        urgent_left_.store(left == 0 ? 0 : left - 1, std::memory_order_relaxed);
        return left != 0;
    }
    /// A send at `now` has taken that much processor time.
    void charge(TimeNs now, TimeNs cpu_ns) {
        if (cpu_ns > kLongNs) {
            if (can_send(now)) {
                urgent_left_.store(kUrgentInRest, std::memory_order_relaxed);
            }
            rests_until_.store(now + kRestFactor * cpu_ns, std::memory_order_relaxed);
        }
    }

    /// Returns whether a send seemed long not long ago: then the thread's processor time is looked at, which
    /// tells a long send from one during which the thread was preempted.
    [[nodiscard]] bool is_suspect(TimeNs now) const {
        return now < suspect_until_.load(std::memory_order_relaxed);
    }
    /// A send at `now` took that long by the clock.
    void note(TimeNs now, TimeNs wall_ns) {
        if (wall_ns > kLongNs) {
            suspect_until_.store(now + 2 * kRestFactor * wall_ns, std::memory_order_relaxed);
        }
    }

  private:
    std::atomic<TimeNs> rests_until_{0};
    std::atomic<TimeNs> suspect_until_{0};
    std::atomic<std::uint32_t> urgent_left_{0};
};

/// Our end, borrowed: for threads other than its owner's.
struct EventSocket {
    int fd = -1;                   // of a connected Unix socket; -1: none
    WakeBudget* budget = nullptr;  // nullptr: not limited

    enum class Sent : std::uint8_t {
        kSent,
        kLater,  // no room, or not now
        kGone,   // nobody reads it any more
    };
    enum class Urgent : bool { kNo, kYes };
    /// Sends one message; `urgent`: there is no later for it. Does not block, and does not raise SIGPIPE.
    [[nodiscard]] Sent send(const void* message, std::size_t bytes, Urgent urgent = Urgent::kNo) const;
    [[nodiscard]] bool is_open() const { return fd >= 0; }
};

/// Makes both ends for messages from us alone: what the other process sends does not arrive, so that no
/// descriptor comes to lie in our end, whose close would have to close it. 0 or errno.
[[nodiscard]] int make_event_socket(UniqueFd& ours, UniqueFd& theirs);

}  // namespace urnic
