#include "os/event_loop.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "os/monotonic_clock.h"

namespace urnic {

struct EventLoop::Entry {
    int fd = -1;
    bool is_enabled = true;
    std::function<void()> on_input;
};

namespace {

int add_to_epoll(int epoll, int fd, EventLoop::Id id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

}  // namespace

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) {
        throw std::system_error(errno, std::generic_category(), "epoll");
    }
}

EventLoop::~EventLoop() = default;

int EventLoop::add(int fd, std::function<void()> on_input, Id& id) {
    auto entry = std::make_shared<Entry>();
    entry->fd = fd;
    entry->on_input = std::move(on_input);
    const auto made = entries_.emplace(next_id_, std::move(entry)).first;
    if (const int error = add_to_epoll(epoll_.get(), fd, next_id_); error != 0) {
        entries_.erase(made);
        return error;
    }
    id = next_id_++;
    return 0;
}

EventLoop::Id EventLoop::add(int fd, std::function<void()> on_input) {
    Id id = 0;
    if (const int error = add(fd, std::move(on_input), id); error != 0) {
        throw std::system_error(error, std::generic_category(), "epoll");
    }
    return id;
}

void EventLoop::disable(Id id) {
    Entry& entry = *entries_.at(id);
    if (entry.is_enabled) {
        entry.is_enabled = false;
        URNIC_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, entry.fd, nullptr) == 0);
    }
}

bool EventLoop::enable(Id id) {
    Entry& entry = *entries_.at(id);
    if (!entry.is_enabled) {
        entry.is_enabled = add_to_epoll(epoll_.get(), entry.fd, id) == 0;
    }
    return entry.is_enabled;
}

void EventLoop::remove(Id id) {
    disable(id);
    entries_.erase(id);
}

bool EventLoop::run_once(int timeout_ms) {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    URNIC_CHECK(count >= 0 || errno == EINTR);
    woke_at_ = clock_now();
    for (int i = 0; i < count; ++i) {
        const Id id = events[i].data.u64;  // a copy: epoll_event is packed
        const auto found = entries_.find(id);
        if (found == entries_.end() || !found->second->is_enabled) {
            continue;
        }
        // The callback may remove its own entry.
        const std::shared_ptr<Entry> entry = found->second;
        entry->on_input();
    }
    return count > 0;
}

}  // namespace urnic
