// What a worker does when a round found nothing: spin, yield, sleep.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/time.h"
#include "base/yield_monitor.h"
#include "dataplane/handoff/worker_wakeup.h"

namespace urnic::dataplane {

/// A worker with a core of its own spins for a while; one that shares its core yields after every idle round,
/// since spinning there keeps the thread that it waits for from running until the next scheduler tick. Both
/// then sleep on an epoll until a timer, a client, another worker or the control thread wants something.
///
/// Yielding is fast among threads that yield too. To one that computes or spins it gives away a time slice;
/// there the worker sleeps at once instead (YieldMonitor).
class IdleStrategy {
  public:
    static constexpr TimeNs kSpinNs = 1'000'000;  // then a sleeping core is worth more than the wake-up
    static constexpr std::uint32_t kYieldMisses = 500;
    static constexpr TimeNs kPolledPortNs = 50'000;  // how often a port without a descriptor is polled

    /// Throws std::system_error when no descriptor is left.
    IdleStrategy(std::uint32_t worker, bool may_spin, WorkerWakeup& wakeup);
    ~IdleStrategy();
    IdleStrategy(const IdleStrategy&) = delete;
    IdleStrategy& operator=(const IdleStrategy&) = delete;

    enum class Round : std::uint8_t {
        kBusy,     // something was done
        kBlocked,  // work is left that cannot continue now, and no event tells when it can
        kIdle,     // nothing to do
    };
    /// Called after each round. `wake_at`: the next timer. Returns whether it slept.
    bool after_round(Round round, TimeNs now, TimeNs wake_at);

    /// Returns whether the worker sleeps after this round if nothing is found in it. Others know already: who
    /// wants something from now on wakes it.
    [[nodiscard]] bool is_about_to_sleep() const { return announced_; }

    /// Watches `fd` for input, edge-triggered: it is never read, so that a process that shares it cannot make
    /// a read block. Returns 0 or errno.
    [[nodiscard]] int watch_edges(int fd);
    /// Watches a port's descriptor, level-triggered: the port's receive function clears it.
    [[nodiscard]] int watch_level(int fd);
    void unwatch(int fd);

    /// Locked by the worker's thread, except while it sleeps. Another thread that locks it may use what
    /// belongs to the worker; a worker that is woken meanwhile waits for the lock.
    [[nodiscard]] std::mutex& awake() { return awake_; }

  private:
    [[nodiscard]] int watch(int fd, std::uint32_t events);
    void relax(TimeNs now);
    /// Notes what the last yield cost.
    void measure_yield(TimeNs now);
    [[nodiscard]] bool may_sleep(TimeNs now) const;
    void sleep(TimeNs now, TimeNs wake_at);

    std::uint32_t worker_;
    bool may_spin_;
    WorkerWakeup& wakeup_;
    int epoll_fd_;
    std::mutex awake_;
    bool announced_ = false;  // others know that we sleep: one more round, then really
    std::uint32_t misses_ = 0;
    TimeNs idle_since_ = 0;
    TimeNs yielded_at_ = kNever;  // kNever: the last round did not end in a yield
    YieldMonitor yields_;
};

}  // namespace urnic::dataplane
