#include "dataplane/worker/event_notifier.h"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace urnic::dataplane {

namespace {

/// Counts the event in `events` if it got into the socket. Counted first: who reads it may destroy the object
/// at once and must find it counted.
void send_event(int fd, std::uint64_t element, AsyncEventType type, std::atomic<std::uint32_t>& events) {
    if (fd < 0) {
        return;
    }
    const abi::AsyncEvent event{element, static_cast<std::uint32_t>(type), 0};
    events.fetch_add(1);
    if (send(fd, &event, sizeof(event), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(event)) {
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
            send_event(cq.async_fd, cq.user_handle, AsyncEventType::kCqErr, cq.async_events);
        }
        return false;
    }
    if (cq.channel_fd < 0 && !pollers_sleep_) {
        return true;
    }
    if (!known) {
        mark_dirty(cq, now);
    }
    if (cq.channel_fd < 0) [[likely]] {
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
    send_event(slot.async_fd, slot.user_handle, type, slot.async_events);
    for (QpEventSubscriber* to = slot.subscribers; to != nullptr; to = to->next) {
        send_event(to->async_fd, to->user_handle, type, to->async_events);
    }
}

void EventNotifier::srq_event(NotifyingSrq& srq, AsyncEventType type) {
    send_event(srq.async_fd, srq.user_handle, type, srq.async_events);
}

bool EventNotifier::write_channel(NotifyingCq& cq) {
    cq.completion_events.fetch_add(1);  // first, as in send_event()
    const ssize_t written = write(cq.channel_fd, &cq.user_handle, sizeof(cq.user_handle));
    if (written == sizeof(cq.user_handle)) {
        return true;
    }
    cq.completion_events.fetch_sub(1);
    // Any error but a full pipe means that the pipe has no reader any more.
    return errno != EAGAIN;
}

void EventNotifier::add_blocked(NotifyingCq& cq) {
    NotifyingCq::PerWorker& own = cq.per_worker[worker_];
    if (own.pending_events++ == 0) {
        own.next_blocked = nullptr;
        *blocked_end_ = &cq;
        blocked_end_ = &own.next_blocked;
    }
}

template <typename Keep>
void EventNotifier::filter_blocked(Keep&& keep) {
    NotifyingCq** at = &blocked_first_;
    while (NotifyingCq* const cq = *at) {
        NotifyingCq::PerWorker& own = cq->per_worker[worker_];
        if (keep(*cq)) {
            at = &own.next_blocked;
        } else {
            own.pending_events = 0;
            *at = own.next_blocked;
        }
    }
    blocked_end_ = at;
}

void EventNotifier::retry_blocked() {
    filter_blocked([this](NotifyingCq& cq) {
        std::uint32_t& pending_events = cq.per_worker[worker_].pending_events;
        while (pending_events != 0 && write_channel(cq)) {
            --pending_events;
        }
        return pending_events != 0;
    });
}

void EventNotifier::flush(TimeNs now) {
    retry_blocked();
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
        if (cq->channel_fd < 0) [[likely]] {
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
        if (!write_channel(*cq)) {
            add_blocked(*cq);
        }
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
    filter_blocked([&](const NotifyingCq& blocked) { return &blocked != &cq; });
}

}  // namespace urnic::dataplane
