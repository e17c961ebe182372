#include "dataplane/worker/event_notifier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <limits>

namespace urnic::dataplane {

namespace {

/// Counts the event in `events` if it got into the socket. Counted first: who reads it may destroy the object
/// at once and must find it counted.
void send_event(const EventSocket& socket, std::uint64_t element, AsyncEventType type,
                std::atomic<std::uint32_t>& events) {
    if (!socket.is_open()) {
        return;
    }
    const abi::AsyncEvent event{element, static_cast<std::uint32_t>(type), 0};
    events.fetch_add(1);
    if (socket.send(&event, sizeof(event), EventSocket::Urgent::kYes) != EventSocket::Sent::kSent) {
        events.fetch_sub(1);
    }
}

/// Wakes the threads of `sleepers` that wait for `word`. Those that are about to wait see that it has
/// changed.
void wake_sleepers(std::atomic<std::uint32_t>& word, std::uint32_t sleepers) {
    word.fetch_add(1);
    static_assert(sizeof word == sizeof(std::uint32_t));
    (void)syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, sleepers);
}

}  // namespace

EventNotifier::EventNotifier(std::uint32_t worker, bool pollers_sleep, TscClock& clock)
    : worker_(worker), pollers_sleep_(pollers_sleep), clock_(clock) {
    dirty_cqs_.reserve(kMaxDirtyCqs);
}

bool EventNotifier::complete(NotifyingCq& cq, const Completion& completion, TimeNs now) {
    const bool known = cq.pending(worker_);
    if (!cq.push(worker_, completion, cq.per_cqe_timestamp ? clock_.now() : now)) {
        if (!cq.ignore_overrun && !cq.error_reported.exchange(true)) {
            send_event(cq.async, cq.user_handle, AsyncEventType::kCqErr, cq.async_events);
        }
        return false;
    }
    if (cq.channel == nullptr && !pollers_sleep_) {
        return true;
    }
    if (!known) {
        mark_dirty(cq, now);
    }
    if (cq.channel == nullptr) [[likely]] {
        return true;
    }
    const NotifyingCq::Moderation moderation = cq.moderation.load(std::memory_order_relaxed);
    if (moderation.count != 0 || moderation.period_us != 0) [[unlikely]] {
        cq.since_event.fetch_add(1, std::memory_order_relaxed);
    }
    return true;
}

void EventNotifier::mark_dirty(NotifyingCq& cq, TimeNs now) {
    if (dirty_cqs_.size() == kMaxDirtyCqs) [[unlikely]] {
        flush(now);
        if (dirty_cqs_.size() == kMaxDirtyCqs) {
            raise(now, Moderate::kNo);  // moderation gives way: there is no place to remember one more
        }
    }
    dirty_cqs_.push_back(&cq);
}

void EventNotifier::event(QpSlot& slot, AsyncEventType type) {
    send_event(slot.async, slot.user_handle, type, slot.async_events);
    for (QpEventSubscriber* to = slot.subscribers; to != nullptr; to = to->next) {
        send_event(to->async, to->user_handle, type, to->async_events);
    }
}

void EventNotifier::srq_event(NotifyingSrq& srq, AsyncEventType type) {
    send_event(srq.async, srq.user_handle, type, srq.async_events);
}

void EventNotifier::notify(NotifyingCq& cq, TimeNs now) {
    // Behind those that wait already; and what was full a moment ago is not tried for each event.
    const bool is_blocked = cq.channel->per_worker[worker_].blocked_first != nullptr;
    if (is_blocked || !tell_channel(cq)) {
        add_blocked(cq, now);
    }
}

bool EventNotifier::tell_channel(NotifyingCq& cq) {
    cq.completion_events.fetch_add(1);  // first, as in send_event()
    const EventSocket::Sent sent = cq.channel->socket.send(&cq.user_handle, sizeof(cq.user_handle));
    if (sent != EventSocket::Sent::kSent) {
        cq.completion_events.fetch_sub(1);
    }
    return sent != EventSocket::Sent::kLater;
}

void EventNotifier::append_channel(CompletionChannel& channel) {
    channel.per_worker[worker_].next_blocked = nullptr;
    if (blocked_first_ == nullptr) {
        blocked_first_ = &channel;
    } else {
        blocked_last_->per_worker[worker_].next_blocked = &channel;
    }
    blocked_last_ = &channel;
    ++num_blocked_;
}

CompletionChannel& EventNotifier::take_first_channel() {
    CompletionChannel& channel = *blocked_first_;
    blocked_first_ = channel.per_worker[worker_].next_blocked;
    --num_blocked_;
    return channel;
}

void EventNotifier::add_blocked(NotifyingCq& cq, TimeNs now) {
    NotifyingCq::PerWorker& own = cq.per_worker[worker_];
    // An application that arms its CQ and never reads its channel comes to the end of the count; past it the
    // CQ would seem to be in no list.
    if (own.pending_events == std::numeric_limits<std::uint32_t>::max() || own.pending_events++ != 0) {
        return;
    }
    CompletionChannel::PerWorker& of_channel = cq.channel->per_worker[worker_];
    own.next_blocked = nullptr;
    if (of_channel.blocked_first != nullptr) {
        of_channel.blocked_last->per_worker[worker_].next_blocked = &cq;
        of_channel.blocked_last = &cq;
        return;
    }
    of_channel.blocked_first = of_channel.blocked_last = &cq;
    if (blocked_first_ == nullptr) {
        retry_at_ = now + kChannelRetryNs;
    }
    append_channel(*cq.channel);
}

bool EventNotifier::retry_first() {
    CompletionChannel::PerWorker& of_channel = blocked_first_->per_worker[worker_];
    NotifyingCq& cq = *of_channel.blocked_first;
    NotifyingCq::PerWorker& own = cq.per_worker[worker_];
    if (!tell_channel(cq)) {
        append_channel(take_first_channel());
        return false;
    }
    if (--own.pending_events == 0) {
        of_channel.blocked_first = own.next_blocked;
    }
    if (of_channel.blocked_first == nullptr) {
        (void)take_first_channel();
    }
    return true;
}

void EventNotifier::retry_blocked(TimeNs now) {
    if (blocked_first_ == nullptr || now < retry_at_) {
        return;
    }
    std::uint32_t full = 0;
    for (std::uint32_t tries = 0; tries < kChannelTries && full < num_blocked_; ++tries) {
        full += retry_first() ? 0 : 1;
    }
    // Where there was room for all there may be room for more.
    retry_at_ = full == 0 ? now : now + kChannelRetryNs;
}

void EventNotifier::flush(TimeNs now) {
    retry_blocked(now);
    if (dirty_cqs_.empty()) {
        next_due_ = kNever;  // whatever was held back has been released
        return;
    }
    raise(now, Moderate::kYes);
}

void EventNotifier::raise(TimeNs now, Moderate moderate) {
    // Pairs with the application's arm-then-poll: it sees the completion, or this sees that the CQ is armed.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    next_due_ = kNever;
    std::size_t kept = 0;
    for (NotifyingCq* cq : dirty_cqs_) {
        if (const std::uint32_t sleepers = cq->take_sleepers(worker_); sleepers != 0) [[unlikely]] {
            wake_sleepers(*cq->wake_word, sleepers);
        }
        if (cq->channel == nullptr) [[likely]] {
            cq->skip_notification(worker_);
            continue;
        }
        if (moderate == Moderate::kYes && try_defer(*cq, now)) [[unlikely]] {
            dirty_cqs_[kept++] = cq;
            next_due_ = std::min(next_due_, cq->per_worker[worker_].due);
            continue;
        }
        cq->per_worker[worker_].due = 0;
        if (!cq->take_notification(worker_)) {
            continue;
        }
        cq->since_event.store(0, std::memory_order_relaxed);
        notify(*cq, now);
    }
    dirty_cqs_.resize(kept);
}

bool EventNotifier::try_defer(NotifyingCq& cq, TimeNs now) {
    const NotifyingCq::Moderation moderation = cq.moderation.load(std::memory_order_relaxed);
    if (moderation.count == 0 && moderation.period_us == 0) [[likely]] {
        return false;
    }
    if (!cq.notification_wanted(worker_)) {
        // Completions while the CQ was not armed do not count for the next event.
        cq.since_event.store(0, std::memory_order_relaxed);
        return false;
    }
    // A full CQ gets its event in any case: no further completion could raise it.
    const std::uint32_t enough = std::min<std::uint32_t>(moderation.count, cq.entries(worker_));
    if (enough != 0 && cq.since_event.load(std::memory_order_relaxed) >= enough) {
        return false;
    }
    if (cq.unpolled(worker_) == cq.entries(worker_)) {
        return false;
    }
    TimeNs& due = cq.per_worker[worker_].due;
    if (due == 0) {
        constexpr TimeNs kNsPerUs = 1000;
        due = moderation.period_us == 0 ? kNever : now + moderation.period_us * kNsPerUs;
    }
    return now < due;
}

void EventNotifier::release(NotifyingCq& cq) {
    std::erase(dirty_cqs_, &cq);
    NotifyingCq::PerWorker& own = cq.per_worker[worker_];
    if (own.pending_events == 0) {
        return;
    }
    own.pending_events = 0;
    CompletionChannel::PerWorker& of_channel = cq.channel->per_worker[worker_];
    NotifyingCq* previous = nullptr;
    NotifyingCq** at = &of_channel.blocked_first;
    while (*at != &cq) {
        previous = *at;
        at = &previous->per_worker[worker_].next_blocked;
    }
    *at = own.next_blocked;
    if (of_channel.blocked_last == &cq) {
        of_channel.blocked_last = previous;
    }
    if (of_channel.blocked_first == nullptr) {
        remove_channel(*cq.channel);
    }
}

void EventNotifier::remove_channel(CompletionChannel& channel) {
    for (std::uint32_t left = num_blocked_; left != 0; --left) {
        CompletionChannel& first = take_first_channel();
        if (&first != &channel) {
            append_channel(first);
        }
    }
}

}  // namespace urnic::dataplane
