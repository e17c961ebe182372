#include "dataplane/handoff/key_violation_inbox.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

namespace urnic::dataplane {

KeyViolationInbox::KeyViolationInbox() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_) {
        throw std::system_error(errno, std::generic_category(), "eventfd");
    }
}

void KeyViolationInbox::push(const subnet::KeyViolation& violation) {
    if (!is_wanted_.exchange(false, std::memory_order_acquire)) {
        return;
    }
    violation_ = violation;
    is_full_.store(true, std::memory_order_release);
    (void)::eventfd_write(fd_.get(), 1);
}

std::optional<subnet::KeyViolation> KeyViolationInbox::take() {
    eventfd_t count = 0;
    (void)::eventfd_read(fd_.get(), &count);
    if (!is_full_.exchange(false, std::memory_order_acquire)) {
        return std::nullopt;
    }
    was_taken_ = true;
    return violation_;
}

void KeyViolationInbox::want_next() {
    was_taken_ = false;
    is_wanted_.store(true, std::memory_order_release);
}

}  // namespace urnic::dataplane
