// How the daemon's threads are started.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>

namespace urnic {

/// Signals are for the thread that runs the daemon; a channel without a reader raises SIGPIPE in others.
template <typename Function>
[[nodiscard]] std::thread start_thread(Function&& function) {
    sigset_t all{};
    sigset_t before{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::forward<Function>(function));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

/// 0 or errno.
[[nodiscard]] inline int pin_thread(pthread_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    return pthread_setaffinity_np(thread, sizeof(set), &set);
}

/// Asks for time slices of that length for the calling thread, which loses nothing by it: since Linux 6.12 a
/// thread that wakes up may interrupt one with longer slices at once instead of when its slice ends. Older
/// kernels ignore it. Layout: struct sched_attr of sched_setattr(2), which the C library does not declare.
inline void ask_for_time_slice(std::uint64_t slice_ns) {
    struct {
        std::uint32_t size;
        std::uint32_t policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime_ns;  // of a thread without real-time policy: its time slice
        std::uint64_t deadline_ns;
        std::uint64_t period_ns;
    } attr{};
    attr.size = sizeof attr;
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) == 0 && attr.policy == SCHED_OTHER) {
        attr.runtime_ns = slice_ns;
        (void)syscall(SYS_sched_setattr, 0, &attr, 0);
    }
}

}  // namespace urnic
