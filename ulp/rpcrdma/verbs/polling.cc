// Who polls a Transport's CQ, and how the others wait.
#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ulp/rpcrdma/verbs/transport.h"

namespace urnic::rpcrdma {

Transport::Polling Transport::poll(Waiter* waiter) {
    std::array<ibv_wc, 16> completions;
    const int count = endpoint_->poll(completions);
    if (count == 0) return {};
    Lock lock(mutex_);
    is_failed_ = is_failed_ || count < 0;
    for (int i = 0; i < count; ++i) {
        const bool is_good = endpoint_->handle(completions[static_cast<std::size_t>(i)], connection());
        is_failed_ = is_failed_ || !is_good;
    }
    if (is_failed_) end_connection();
    settle();
    Polling result{count, false};
    const bool has_ended = endpoint_->has_ended();
    if (waiter != nullptr) {
        result.has_left = has_ended || waiter->state.load() == Waiter::kDone;
    } else {
        result.has_left = !has_ended && !deliveries_.is_empty();
        // The worker delivers next.
        must_notify_ = false;
    }
    if (result.has_left) leave_polling(waiter == nullptr);
    unlock(lock);
    return result;
}

void Transport::leave_polling(bool is_worker) {
    Waiter* const next = followers_.first();
    if (next == nullptr || !has_connection()) {
        has_poller_ = false;
        // A worker that waits for an event must get one: callers may have taken it.
        const bool is_unseen = is_watched_ ? !is_armed_ : is_worker_needed();
        const bool has_ended = endpoint_ != nullptr && endpoint_->has_ended();
        must_notify_ = must_notify_ || has_ended || (!is_worker && is_unseen);
        return;
    }
    followers_.remove(*next);
    next->is_promoted = true;
    has_followers_.store(followers_.first() != nullptr);
    const std::atomic<std::uint32_t>* const word = &next->state;
    if (next->state.exchange(Waiter::kToPoll) == Waiter::kSleeping) to_wake_.push_back(word);
}

void Transport::wait(Waiter& waiter, bool is_poller) {
    for (;;) {
        if (is_poller) poll_until_done(waiter);
        if (waiter.state.load() == Waiter::kDone) return;
        is_poller = sleep_as_follower(waiter);
    }
}

void Transport::poll_until_done(Waiter& waiter) {
    std::int64_t idle_since = 0;
    for (;;) {
        const Polling polled = poll(&waiter);
        if (polled.has_left) return;
        if (polled.count != 0) {
            idle_since = 0;
            continue;
        }
        const std::int64_t now = now_ns();
        if (waiter.deadline_ns != 0 && now >= waiter.deadline_ns) {
            waiter.deadline_ns = 0;
            run_timer();
        }
        if (waiter.state.load() == Waiter::kDone) {
            // Another thread ran the timer, or this one.
            Lock lock(mutex_);
            leave_polling(false);
            unlock(lock);
            return;
        }
        if (idle_since == 0) idle_since = now;
        if (now - idle_since < spin_ns_) {
            __builtin_ia32_pause();
            continue;
        }
        arm();
        const Polling missed = poll(&waiter);
        if (missed.has_left) return;
        if (missed.count == 0) sleep_as_poller(waiter);
        idle_since = 0;
    }
}

void Transport::sleep_as_poller(Waiter& waiter) {
    pollfd entry{endpoint_->completion_fd(), POLLIN, 0};
    timespec timeout{};
    if (waiter.deadline_ns != 0) {
        const std::int64_t left = std::max<std::int64_t>(waiter.deadline_ns - now_ns(), 0);
        timeout.tv_sec = left / 1'000'000'000;
        timeout.tv_nsec = left % 1'000'000'000;
    }
    if (ppoll(&entry, 1, waiter.deadline_ns == 0 ? nullptr : &timeout, nullptr) > 0) take_events();
}

bool Transport::sleep_as_follower(Waiter& waiter) {
    Lock lock(mutex_);
    if (waiter.state.load() == Waiter::kDone) return false;
    if (!has_poller_ && has_connection()) {
        has_poller_ = true;
        return true;
    }
    followers_.add(waiter);
    has_followers_.store(true);
    waiter.state.store(Waiter::kSleeping);
    unlock(lock);
    for (;;) {
        const bool is_late = futex_wait(waiter.state, Waiter::kSleeping, waiter.deadline_ns);
        if (waiter.state.load() != Waiter::kSleeping) break;
        if (is_late) {
            waiter.deadline_ns = 0;
            run_timer();
        }
    }
    lock.lock();
    std::uint32_t to_poll = Waiter::kToPoll;
    (void)waiter.state.compare_exchange_strong(to_poll, Waiter::kRunning);
    return std::exchange(waiter.is_promoted, false);
}

}  // namespace urnic::rpcrdma
