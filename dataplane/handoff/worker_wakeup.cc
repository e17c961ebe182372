#include "dataplane/handoff/worker_wakeup.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/check.h"

namespace urnic::dataplane {

WorkerWakeup::WorkerWakeup(abi::DaemonState& state, std::uint32_t num_workers)
    : state_(state), num_workers_(num_workers) {
    URNIC_CHECK(num_workers >= 1 && num_workers <= abi::kMaxWorkers);
    fds_.fill(-1);
    for (std::uint32_t worker = 0; worker < num_workers; ++worker) {
        fds_[worker] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fds_[worker] < 0) {
            const int error = errno;
            for (std::uint32_t made = 0; made < worker; ++made) {
                close(fds_[made]);
            }
            throw std::system_error(error, std::generic_category(), "cannot make a worker's eventfd");
        }
    }
}

WorkerWakeup::~WorkerWakeup() {
    for (std::uint32_t worker = 0; worker < num_workers_; ++worker) {
        close(fds_[worker]);
    }
}

void WorkerWakeup::wake(std::uint32_t worker) {
    // Pairs with announce_sleep(): either the worker's last look sees what was put there, or this load sees
    // that it sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state_.workers[worker].sleeping.load(std::memory_order_relaxed) != 0) {
        // Full (2^64 - 2 wakes unread) cannot happen; the waiter uses edges and never reads the count.
        (void)eventfd_write(fds_[worker], 1);
    }
}

void WorkerWakeup::announce_sleep(std::uint32_t worker) {
    state_.workers[worker].sleeping.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void WorkerWakeup::announce_awake(std::uint32_t worker) {
    state_.workers[worker].cpu.store(static_cast<std::uint32_t>(sched_getcpu()), std::memory_order_relaxed);
    state_.workers[worker].sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace urnic::dataplane
