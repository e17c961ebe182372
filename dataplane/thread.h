// How the daemon's threads are started.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <thread>
#include <utility>

namespace urnic::dataplane {

/// Signals are for the thread that runs the daemon; a channel whose reader is gone raises SIGPIPE in others.
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

}  // namespace urnic::dataplane
