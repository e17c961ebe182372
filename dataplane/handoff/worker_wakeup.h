// Which workers sleep, and how to wake them.
#pragma once

#include <array>
#include <cstdint>

#include "abi/queues.h"

namespace urnic::dataplane {

/// One eventfd for each worker, known to the daemon alone (clients have eventfds of their own). Any thread
/// may wake any worker.
class WorkerWakeup {
  public:
    /// `state` is where the sleepers announce themselves; it outlives this. Throws std::system_error when no
    /// descriptor is left.
    WorkerWakeup(abi::DaemonState& state, std::uint32_t num_workers);
    ~WorkerWakeup();
    WorkerWakeup(const WorkerWakeup&) = delete;
    WorkerWakeup& operator=(const WorkerWakeup&) = delete;

    /// Called after work was put into one of the worker's sources: wakes it if it sleeps. No system call
    /// while it is awake.
    void wake(std::uint32_t worker);
    [[nodiscard]] int wake_fd(std::uint32_t worker) const { return fds_[worker]; }

    /// Called by the worker itself: from now on others wake it. It must poll every source once more
    /// afterwards.
    void announce_sleep(std::uint32_t worker);
    void announce_awake(std::uint32_t worker);

  private:
    abi::DaemonState& state_;
    std::uint32_t num_workers_;
    std::array<int, abi::kMaxWorkers> fds_{};
};

}  // namespace urnic::dataplane
