/// A thread that waits for the end of a call, or of a reply.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace urnic::rpcrdma {

/// CLOCK_MONOTONIC.
[[nodiscard]] inline std::int64_t now_ns() {
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Its fields are changed with the mutex of the Transport, but for what its own thread does with `state` once
/// it runs.
struct Waiter {
    enum State : std::uint32_t {
        kRunning,   ///< what it waits for has not ended; its thread polls, or is about to sleep
        kSleeping,  ///< its thread sleeps on `state`
        kToPoll,    ///< its thread polls the CQ next
        kDone,
    };
    /// A futex.
    std::atomic<std::uint32_t> state{kRunning};
    /// When the engine's timer has to run for it; 0: never.
    std::int64_t deadline_ns = 0;
    // Its place among those who sleep.
    Waiter* next = nullptr;
    Waiter* previous = nullptr;
    bool is_follower = false;
    bool is_promoted = false;  ///< was made the poller; stays so when it is done before it knows
};

/// Sleeps while the word has that value, until woken or until the deadline (0: none). Returns whether the
/// deadline has passed.
bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns);
/// Wakes the thread that sleeps on it, if one does; the word may be freed by now.
void futex_wake(const std::atomic<std::uint32_t>* word);

/// Those who sleep, in the order of their coming.
class Followers {
  public:
    void add(Waiter& waiter);
    void remove(Waiter& waiter);
    [[nodiscard]] Waiter* first() const { return first_; }

  private:
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
};

}  // namespace urnic::rpcrdma
