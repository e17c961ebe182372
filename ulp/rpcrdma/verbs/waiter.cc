#include "ulp/rpcrdma/verbs/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace urnic::rpcrdma {

bool futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns) {
    timespec until{};
    until.tv_sec = deadline_ns / 1'000'000'000;
    until.tv_nsec = deadline_ns % 1'000'000'000;
    // BITSET: an absolute time of CLOCK_MONOTONIC.
    const long result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value,
                                deadline_ns == 0 ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    return result != 0 && errno == ETIMEDOUT;
}

void futex_wake(const std::atomic<std::uint32_t>* word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Followers::add(Waiter& waiter) {
    waiter.is_follower = true;
    waiter.next = nullptr;
    waiter.previous = last_;
    if (last_ == nullptr) {
        first_ = &waiter;
    } else {
        last_->next = &waiter;
    }
    last_ = &waiter;
}

void Followers::remove(Waiter& waiter) {
    if (!waiter.is_follower) return;
    waiter.is_follower = false;
    if (waiter.previous == nullptr) {
        first_ = waiter.next;
    } else {
        waiter.previous->next = waiter.next;
    }
    if (waiter.next == nullptr) {
        last_ = waiter.previous;
    } else {
        waiter.next->previous = waiter.previous;
    }
}

}  // namespace urnic::rpcrdma
