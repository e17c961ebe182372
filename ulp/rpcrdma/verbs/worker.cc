#include "ulp/rpcrdma/verbs/worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/transport.h"

namespace urnic::rpcrdma {
namespace {

/// Polls of one connection before the others have their turn.
constexpr int kMostPolls = 64;
/// Polling of more connections than these would take longer than an event.
constexpr std::size_t kMostHot = 8;
/// Rounds over the hot ones between two looks at the events.
constexpr unsigned kRoundsBetweenEvents = 64;
/// How often the worker asks whether callers have stopped polling a connection that does not need it else.
constexpr int kIdleLookMs = 2;

constexpr std::int64_t kNever = INT64_MAX;
/// In the pointer of an event: it is of librdmacm.
constexpr std::uint64_t kCmBit = 1;

thread_local const Worker* t_worker = nullptr;

void register_fd(int epoll, int fd, std::uint64_t data) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

std::shared_ptr<Worker> Worker::start() {
    std::shared_ptr<Worker> worker(new Worker);
    worker->epoll_ = epoll_create1(EPOLL_CLOEXEC);
    worker->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->epoll_ < 0 || worker->wake_ < 0) {
        (void)fail(errno, "no descriptor: %s (ulimit -n)", std::strerror(errno));
        return nullptr;
    }
    register_fd(worker->epoll_, worker->wake_, 0);
    try {
        worker->thread_ = std::thread([raw = worker.get()] { raw->run(); });
    } catch (const std::system_error& error) {
        errno = fail(error.code().value(), "no thread: %s (ulimit -u)", error.what());
        return nullptr;
    }
    return worker;
}

Worker::~Worker() {
    stop();
    if (epoll_ >= 0) (void)::close(epoll_);
    if (wake_ >= 0) (void)::close(wake_);
}

void Worker::stop() {
    is_stopping_.store(true);
    wake();
    if (thread_.joinable()) thread_.join();
}

bool Worker::is_this_thread() const { return t_worker == this; }

void Worker::wake() {
    const std::uint64_t one = 1;
    if (wake_ >= 0) (void)!write(wake_, &one, sizeof(one));
}

void Worker::add(const std::shared_ptr<Transport>& transport) {
    load_.fetch_add(1);
    {
        const std::lock_guard lock(mutex_);
        added_.push_back(transport);
    }
    wake();
}

void Worker::notify(Transport& transport) {
    if (transport.is_notified.exchange(true)) return;
    {
        const std::lock_guard lock(mutex_);
        notified_.push_back(transport.weak_from_this());
    }
    // It looks at the list before it sleeps.
    if (!is_this_thread()) wake();
}

void Worker::wake_before(std::int64_t deadline_ns) {
    if (deadline_ns < sleeps_until_ns_.load() && !is_this_thread()) wake();
}

void Worker::run() {
    t_worker = this;
    while (!is_stopping_.load()) {
        over_.clear();
        take_notified();
        poll_hot();
        run_timers();
        const bool has_hot = !hot_.empty();
        if (!has_hot || ++rounds_ % kRoundsBetweenEvents == 0) take_events(has_hot ? 0 : timeout_ms());
    }
    hot_.clear();
    idle_.clear();
    entries_.clear();
    over_.clear();
    const std::lock_guard lock(mutex_);
    added_.clear();
}

void Worker::take_notified() {
    std::vector<std::shared_ptr<Transport>> added;
    std::vector<std::weak_ptr<Transport>> notified;
    {
        const std::lock_guard lock(mutex_);
        if (added_.empty() && notified_.empty()) return;
        std::swap(added, added_);
        std::swap(notified, notified_);
    }
    for (std::shared_ptr<Transport>& transport : added) {
        Transport* const key = transport.get();
        auto entry = std::make_unique<Entry>();
        entry->transport = std::move(transport);
        Entry& known = *entries_.insert_or_assign(key, std::move(entry)).first->second;
        watch_cm(known);
        service(known);
    }
    for (const std::weak_ptr<Transport>& one : notified) {
        const std::shared_ptr<Transport> transport = one.lock();
        if (transport == nullptr) continue;
        transport->is_notified.store(false);
        const auto found = entries_.find(transport.get());
        if (found != entries_.end()) service(*found->second);
    }
}

/// Something may be there: looks, and continues looking for a while.
void Worker::service(Entry& entry) {
    if (entry.is_over) return;
    entry.transport->deliver();
    if (!begin(entry)) return;
    entry.transport->take_events();
    entry.last_active_ns = now_ns();
    drain(entry);
    if (!is_live(entry)) return;
    const std::uint64_t calls = entry.transport->calls_started();
    if (!entry.transport->is_worker_needed() && calls != entry.calls_seen) {
        // Callers are at it; an event for each of their calls would be of no use.
        entry.calls_seen = calls;
        entry.is_polled = false;
        unwatch(entry);
        entry.transport->end_polling(false);
        return;
    }
    if (hot_.size() >= kMostHot || entry.transport->spin_ns() == 0) {
        cool(entry);
    } else if (!entry.is_hot) {
        entry.is_hot = true;
        hot_.push_back(&entry);
    }
}

bool Worker::is_live(const Entry& entry) {
    const Endpoint* const endpoint = entry.transport->endpoint();
    return entry.is_polled && !entry.is_over && endpoint != nullptr && !endpoint->has_ended();
}

bool Worker::begin(Entry& entry) {
    if (!entry.is_polled) entry.is_polled = entry.transport->begin_polling();
    if (!entry.is_polled) {
        unwatch(entry);
        return false;
    }
    return true;
}

bool Worker::drain(Entry& entry) {
    for (int i = 0; i < kMostPolls; ++i) {
        switch (entry.transport->poll_as_worker()) {
            case Transport::Polled::kNothing:
                return i != 0;
            case Transport::Polled::kSomething:
                entry.last_active_ns = now_ns();
                break;
            case Transport::Polled::kCallersWait:
                entry.is_polled = false;
                watch(entry);
                entry.transport->end_polling(true);
                return true;
            case Transport::Polled::kDeliver:
                entry.is_polled = false;
                entry.last_active_ns = now_ns();
                entry.transport->deliver();
                if (!begin(entry)) return true;
                break;
            case Transport::Polled::kEnded:
                recover(entry);
                return true;
        }
    }
    return true;
}

void Worker::recover(Entry& entry) {
    unwatch(entry);
    unwatch_cm(entry);
    std::erase(hot_, &entry);
    entry.is_hot = false;
    entry.transport->deliver();
    if (entry.transport->recover()) {
        watch_cm(entry);
        if (entry.transport->endpoint() != nullptr && !entry.transport->endpoint()->has_ended()) cool(entry);
        return;
    }
    entry.transport->deliver();
    entry.is_over = true;
    load_.fetch_sub(1);
    std::erase(idle_, &entry);
    const auto found = entries_.find(entry.transport.get());
    over_.push_back(std::move(found->second));
    entries_.erase(found);
}

/// From polling to waiting for an event.
void Worker::cool(Entry& entry) {
    std::erase(hot_, &entry);
    entry.is_hot = false;
    bool is_active = true;
    while (is_active) {
        watch(entry);
        entry.transport->arm();
        // What came before it was armed brings no event; and a reply that waits takes the event.
        is_active = drain(entry);
        if (!is_live(entry)) return;
    }
    entry.is_polled = false;
    entry.transport->end_polling(true);
}

void Worker::watch(Entry& entry) {
    if (entry.completion_fd >= 0) return;
    std::erase(idle_, &entry);
    entry.completion_fd = entry.transport->endpoint()->completion_fd();
    register_fd(epoll_, entry.completion_fd, reinterpret_cast<std::uint64_t>(&entry));
}

void Worker::unwatch(Entry& entry) {
    if (entry.completion_fd >= 0) (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, entry.completion_fd, nullptr);
    entry.completion_fd = -1;
    if (std::find(idle_.begin(), idle_.end(), &entry) == idle_.end()) idle_.push_back(&entry);
}

void Worker::watch_cm(Entry& entry) {
    const Endpoint* const endpoint = entry.transport->endpoint();
    const int fd = endpoint == nullptr ? -1 : endpoint->event_channel_fd();
    if (fd < 0 || entry.cm_fd >= 0) return;
    entry.cm_fd = fd;
    register_fd(epoll_, fd, reinterpret_cast<std::uint64_t>(&entry) | kCmBit);
}

void Worker::unwatch_cm(Entry& entry) {
    if (entry.cm_fd >= 0) (void)epoll_ctl(epoll_, EPOLL_CTL_DEL, entry.cm_fd, nullptr);
    entry.cm_fd = -1;
}

void Worker::poll_hot() {
    for (std::size_t i = 0; i < hot_.size();) {
        Entry& entry = *hot_[i];
        if (!entry.is_polled) {
            // A caller polls it.
            entry.is_hot = false;
            hot_.erase(hot_.begin() + static_cast<std::ptrdiff_t>(i));
            continue;
        }
        drain(entry);
        if (i >= hot_.size() || hot_[i] != &entry) continue;
        if (entry.is_polled && now_ns() - entry.last_active_ns > entry.transport->spin_ns()) {
            cool(entry);
            continue;
        }
        ++i;
    }
}

void Worker::look_at_idle() {
    const std::vector<Entry*> idle = idle_;
    for (Entry* const entry : idle) {
        if (entry->is_over || entry->is_polled) continue;
        const std::uint64_t calls = entry->transport->calls_started();
        if (calls == entry->calls_seen) service(*entry);
        entry->calls_seen = calls;
    }
}

void Worker::run_timers() {
    const std::int64_t now = now_ns();
    for (const auto& [transport, entry] : entries_) {
        const std::int64_t timer = transport->has_submitted() ? transport->timer_ns() : 0;
        if (timer != 0 && timer <= now) {
            transport->run_timer();
            transport->deliver();
        }
    }
}

int Worker::timeout_ms() {
    sleeps_until_ns_.store(kNever);
    std::int64_t until = kNever;
    for (const auto& [transport, entry] : entries_) {
        const std::int64_t timer = transport->has_submitted() ? transport->timer_ns() : 0;
        if (timer != 0) until = std::min(until, timer);
    }
    sleeps_until_ns_.store(until);
    {
        const std::lock_guard lock(mutex_);
        if (!added_.empty() || !notified_.empty()) return 0;
    }
    const bool has_idle = std::any_of(idle_.begin(), idle_.end(), [](const Entry* entry) {
        return !entry->is_polled && entry->completion_fd < 0;
    });
    std::int64_t left_ms = -1;
    if (until != kNever)
        left_ms = std::clamp<std::int64_t>((until - now_ns() + 999'999) / 1'000'000, 0, INT_MAX);
    if (has_idle && (left_ms < 0 || left_ms > kIdleLookMs)) left_ms = kIdleLookMs;
    return static_cast<int>(left_ms);
}

void Worker::take_events(int timeout_ms) {
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
    sleeps_until_ns_.store(0);
    for (int i = 0; i < count; ++i) {
        const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
        if (data == 0) {
            std::uint64_t value = 0;
            (void)!read(wake_, &value, sizeof(value));
            continue;
        }
        // NOLINTNEXTLINE(performance-no-int-to-ptr): epoll carries a number
        auto* const entry = reinterpret_cast<Entry*>(data & ~kCmBit);
        if (entry->is_over) continue;
        if ((data & kCmBit) != 0) {
            entry->transport->on_cm_events();
        } else {
            service(*entry);
        }
    }
    if (count == 0) look_at_idle();
}

}  // namespace urnic::rpcrdma
