// Locks of the provider. Nothing here throws or needs the C++ runtime of the host program.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace urnic::provider {

/// Guards a QP's or a CQ's fast path: held for nanoseconds. A waiter that does not get it soon yields,
/// because the holder may have lost its core. With a thread domain (or a single-threaded CQ) it does nothing
/// at all.
class FastLock {
  public:
    void disable() { disabled_ = true; }
    void lock() {
        if (disabled_) {
            return;
        }
        while (taken_.exchange(1, std::memory_order_acquire) != 0) {
            wait();
        }
    }
    void unlock() {
        if (!disabled_) {
            taken_.store(0, std::memory_order_release);
        }
    }

  private:
    void wait() {
        constexpr int kSpins = 64;
        for (int spin = 0; spin < kSpins; ++spin) {
            if (taken_.load(std::memory_order_relaxed) == 0) {
                return;
            }
            __builtin_ia32_pause();
        }
        sched_yield();
    }

    std::atomic<std::uint32_t> taken_{0};
    bool disabled_ = false;
};

/// pthread mutex; for everything that is not a fast path.
class Mutex {
  public:
    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }
    /// In the child of a fork, where the thread that held it does not exist.
    void reset() { pthread_mutex_init(&mutex_, nullptr); }

  private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

template <class L>
class Guard {
  public:
    explicit Guard(L& lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

  private:
    L& lock_;
};
template <class L>
Guard(L&) -> Guard<L>;

}  // namespace urnic::provider
