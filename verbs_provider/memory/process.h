// The one registry of this process, and who may look at it when.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "verbs_provider/memory/raw_syscall.h"
#include "verbs_provider/memory/registry.h"

namespace urnic::memory {

/// First come, first served, so that fork() does not starve beside a thread that registers in a loop. The
/// holder may lock it again: a library that hooks mremap() deregisters memory within remap().
///
/// Advisers come beside: they wait for pages that are just moving, never for fork(). Allocators call
/// madvise() with their locks held, and fork() takes those when it has ours.
class FairMutex {
  public:
    void lock() {
        const long self = raw_syscall(SYS_gettid);
        if (holder_ == self) {
            ++depth_;
            return;
        }
        const std::lock_guard guard(queue_);
        held_.lock();
        pthread_rwlock_wrlock(&advisers_);
        holder_ = self;
    }
    void unlock() {
        if (depth_ > 0) {
            --depth_;
            return;
        }
        holder_ = 0;
        pthread_rwlock_unlock(&advisers_);
        held_.unlock();
    }
    /// Returns false if this thread holds it already: then it must not unlock it.
    [[nodiscard]] bool lock_for_advice() {
        if (holder_ == raw_syscall(SYS_gettid)) {
            return false;
        }
        pthread_rwlock_rdlock(&advisers_);
        return true;
    }
    void unlock_after_advice() { pthread_rwlock_unlock(&advisers_); }

    /// Keeps the queue, too: in a child nobody would ever leave it.
    void lock_for_fork() {
        queue_.lock();
        held_.lock();
    }
    void unlock_after_fork() {
        held_.unlock();
        queue_.unlock();
    }
    /// In a child, where nobody is left to unlock what advisers had locked.
    void forget_advisers() { advisers_ = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP; }

  private:
    std::mutex queue_, held_;
    pthread_rwlock_t advisers_ = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    std::atomic<long> holder_{0};  // thread id
    int depth_ = 0;
};

struct Process {
    FairMutex lock;
    Registry registry;
    // Between the fork handlers: the child keeps the write end open until it has its copies.
    int copied[2] = {-1, -1};
};

/// Null before memory was registered for the first time.
[[nodiscard]] Process* existing_process();

}  // namespace urnic::memory
