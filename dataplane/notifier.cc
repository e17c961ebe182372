#include "dataplane/notifier.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

}  // namespace

Notifier::Notifier(std::uint32_t worker) : worker_(worker) {
    touched_.reserve(kMaxTouched);
    full_.reserve(kMaxTouched);
}

bool Notifier::complete(NotifyingCq& cq, const Completion& completion, TimeNs now) {
    const bool known = cq.pending(worker_);
    if (!cq.push(worker_, completion, now)) {
        if (!cq.error_reported.exchange(true)) {
            send_event(cq.async_fd, cq.user_handle, AsyncEventType::kCqErr, cq.async_events);
        }
        return false;
    }
    if (!known && cq.channel_fd >= 0) {
        if (touched_.size() == kMaxTouched) {
            flush();
        }
        touched_.push_back(&cq);
    }
    return true;
}

void Notifier::event(QpSlot& slot, AsyncEventType type) {
    send_event(slot.async_fd, slot.user_handle, type, slot.async_events);
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

void Notifier::flush() {
    if (!full_.empty()) {
        std::erase_if(full_, [](NotifyingCq* cq) { return write_channel(*cq); });
    }
    if (touched_.empty()) {
        return;
    }
    // Pairs with the application's arm-then-poll: it sees the completion, or we see that it asked.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (NotifyingCq* cq : touched_) {
        if (cq->take_notification(worker_) && !write_channel(*cq)) {
            full_.push_back(cq);
        }
    }
    touched_.clear();
}

void Notifier::release(NotifyingCq& cq) {
    std::erase(touched_, &cq);
    std::erase(full_, &cq);
}

}  // namespace urnic::dataplane
