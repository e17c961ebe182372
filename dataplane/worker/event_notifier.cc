#include "dataplane/worker/event_notifier.h"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

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

Notifier::Notifier(std::uint32_t worker, bool pollers_sleep, TscClock& clock)
    : worker_(worker), pollers_sleep_(pollers_sleep), clock_(clock) {
    touched_.reserve(kMaxTouched);
}

bool Notifier::complete(NotifyingCq& cq, const Completion& completion, TimeNs now) {
    const bool known = cq.pending(worker_);
    if (!cq.push(worker_, completion, cq.stamps ? clock_.now() : now)) {
        if (!cq.ignores_overrun && !cq.error_reported.exchange(true)) {
            send_event(cq.async_fd, cq.user_handle, AsyncEventType::kCqErr, cq.async_events);
        }
        return false;
    }
    if (cq.channel_fd < 0 && !pollers_sleep_) {
        return true;
    }
    if (!known) {
        note_touched(cq, now);
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

void Notifier::note_touched(NotifyingCq& cq, TimeNs now) {
    if (touched_.size() == kMaxTouched) [[unlikely]] {
        flush(now);
        if (touched_.size() == kMaxTouched) {
            tell(now, false);  // moderation gives way: there is no place to remember one more
        }
    }
    touched_.push_back(&cq);
}

void Notifier::event(QpSlot& slot, AsyncEventType type) {
    send_event(slot.async_fd, slot.user_handle, type, slot.async_events);
    for (QpListener* listener = slot.listeners; listener != nullptr; listener = listener->next) {
        send_event(listener->async_fd, listener->user_handle, type, listener->async_events);
    }
}

void Notifier::srq_event(NotifyingSrq& srq, AsyncEventType type) {
    send_event(srq.async_fd, srq.user_handle, type, srq.async_events);
}

bool Notifier::write_channel(NotifyingCq& cq) {
    cq.completion_events.fetch_add(1);  // first, as in send_event()
    const ssize_t written = write(cq.channel_fd, &cq.user_handle, sizeof(cq.user_handle));
    if (written == sizeof(cq.user_handle)) {
        return true;
    }
    cq.completion_events.fetch_sub(1);
    // Anything else than a full pipe means that nobody reads it any more.
    return errno != EAGAIN;
}

void Notifier::wait_for_room(NotifyingCq& cq) {
    NotifyingCq::Waiting& waiting = cq.waiting[worker_];
    if (waiting.owed++ == 0) {
        waiting.next = nullptr;
        (full_last_ == nullptr ? full_first_ : full_last_->waiting[worker_].next) = &cq;
        full_last_ = &cq;
    }
}

template <typename Keep>
void Notifier::sort_full(Keep&& keep) {
    full_last_ = nullptr;
    for (NotifyingCq* cq = std::exchange(full_first_, nullptr); cq != nullptr;) {
        NotifyingCq::Waiting& waiting = cq->waiting[worker_];
        NotifyingCq* const next = waiting.next;
        const std::uint32_t owed = keep(*cq) ? std::exchange(waiting.owed, 0) : 0;
        if (owed != 0) {
            wait_for_room(*cq);
        }
        waiting.owed = owed;
        cq = next;
    }
}

void Notifier::retry_full() {
    sort_full([this](NotifyingCq& cq) {
        std::uint32_t& owed = cq.waiting[worker_].owed;
        while (owed != 0 && write_channel(cq)) {
            --owed;
        }
        return owed != 0;
    });
}

void Notifier::flush(TimeNs now) {
    retry_full();
    if (touched_.empty()) {
        next_due_ = kNever;  // whatever was held back has been released
        return;
    }
    tell(now, true);
}

void Notifier::tell(TimeNs now, bool hold_back) {
    // Pairs with the application's arm-then-poll: it sees the completion, or we see that it asked.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    next_due_ = kNever;
    std::size_t kept = 0;
    for (NotifyingCq* cq : touched_) {
        if (const std::uint32_t sleepers = cq->take_sleepers(worker_); sleepers != 0) [[unlikely]] {
            wake_sleepers(*cq->wake_word, sleepers);
        }
        if (cq->channel_fd < 0) [[likely]] {
            cq->skip_notification(worker_);
            continue;
        }
        if (hold_back && too_early(*cq, now)) [[unlikely]] {
            touched_[kept++] = cq;
            next_due_ = std::min(next_due_, cq->waiting[worker_].due);
            continue;
        }
        cq->waiting[worker_].due = 0;
        if (!cq->take_notification(worker_)) {
            continue;
        }
        cq->since_event.store(0, std::memory_order_relaxed);
        if (!write_channel(*cq)) {
            wait_for_room(*cq);
        }
    }
    touched_.resize(kept);
}

bool Notifier::too_early(NotifyingCq& cq, TimeNs now) {
    const NotifyingCq::Moderation moderation = cq.moderation.load(std::memory_order_relaxed);
    if (moderation.count == 0 && moderation.period_us == 0) [[likely]] {
        return false;
    }
    if (!cq.notification_wanted(worker_)) {
        // Completions that nobody asked to be told of do not count for the next event.
        cq.since_event.store(0, std::memory_order_relaxed);
        return false;
    }
    // A full CQ gets its event whatever was asked for: no further completion could raise it.
    const std::uint32_t enough = std::min<std::uint32_t>(moderation.count, cq.entries(worker_));
    if (enough != 0 && cq.since_event.load(std::memory_order_relaxed) >= enough) {
        return false;
    }
    if (cq.unpolled(worker_) == cq.entries(worker_)) {
        return false;
    }
    TimeNs& due = cq.waiting[worker_].due;
    if (due == 0) {
        constexpr TimeNs kNsPerUs = 1000;
        due = moderation.period_us == 0 ? kNever : now + moderation.period_us * kNsPerUs;
    }
    return now < due;
}

void Notifier::release(NotifyingCq& cq) {
    std::erase(touched_, &cq);
    sort_full([&](const NotifyingCq& waiting) { return &waiting != &cq; });
}

}  // namespace urnic::dataplane
