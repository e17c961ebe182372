#include "dataplane/worker/idle_strategy.h"

#include <rte_pause.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/check.h"

namespace urnic::dataplane {

IdleStrategy::IdleStrategy(std::uint32_t worker, bool may_spin, WorkerWakeup& wakeup)
    : worker_(worker), may_spin_(may_spin), wakeup_(wakeup), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
    const int error = epoll_fd_ < 0 ? errno : watch_edges(wakeup.wake_fd(worker));
    if (error != 0) {
        if (epoll_fd_ >= 0) {
            close(epoll_fd_);
        }
        throw std::system_error(error, std::generic_category(), "cannot make a worker's epoll");
    }
}

IdleStrategy::~IdleStrategy() { close(epoll_fd_); }

int IdleStrategy::watch(int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int IdleStrategy::watch_edges(int fd) { return watch(fd, EPOLLIN | EPOLLET); }
int IdleStrategy::watch_level(int fd) { return watch(fd, EPOLLIN); }
void IdleStrategy::unwatch(int fd) { (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr); }

void IdleStrategy::relax(TimeNs now) {
    if (may_spin_) {
        rte_pause();
    } else {
        yielded_at_ = now;
        sched_yield();
    }
}

void IdleStrategy::measure_yield(TimeNs now) {
    if (yielded_at_ != kNever) {
        yields_.on_yield(now, now - yielded_at_);
    }
    yielded_at_ = kNever;
}

bool IdleStrategy::may_sleep(TimeNs now) const {
    return may_spin_ ? now - idle_since_ >= kSpinNs : misses_ >= kYieldMisses || yields_.contended(now);
}

bool IdleStrategy::after_round(Round round, TimeNs now, TimeNs wake_at) {
    measure_yield(now);
    if (announced_) {
        const bool can_sleep = round == Round::kIdle;
        if (can_sleep) {
            sleep(now, wake_at);
        }
        wakeup_.announce_awake(worker_);
        announced_ = false;
        misses_ = 0;
        return can_sleep;
    }
    if (round == Round::kBusy) {
        misses_ = 0;
        return false;
    }
    idle_since_ = misses_ == 0 ? now : idle_since_;
    ++misses_;
    if (round == Round::kBlocked || !may_sleep(now)) {
        relax(now);
        return false;
    }
    wakeup_.announce_sleep(worker_);
    announced_ = true;
    return false;
}

void IdleStrategy::sleep(TimeNs now, TimeNs wake_at) {
    constexpr TimeNs kNsPerSecond = 1'000'000'000;
    const TimeNs wait_ns = wake_at > now ? wake_at - now : 0;
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(wait_ns / kNsPerSecond);
    timeout.tv_nsec = static_cast<long>(wait_ns % kNsPerSecond);
    std::array<epoll_event, 16> events{};
    awake_.unlock();
    const int got = epoll_pwait2(epoll_fd_, events.data(), static_cast<int>(events.size()),
                                 wake_at == kNever ? nullptr : &timeout, nullptr);
    URNIC_CHECK(got >= 0 || errno == EINTR);
    awake_.lock();
    for (int i = 0; i < got; ++i) {
        if ((events[static_cast<std::size_t>(i)].events & EPOLLERR) != 0) {
            // Of a port whose link is down: the error stays, and wakes the worker, until it is read.
            int error = 0;
            socklen_t length = sizeof error;
            (void)::getsockopt(events[static_cast<std::size_t>(i)].data.fd, SOL_SOCKET, SO_ERROR, &error,
                               &length);
        }
    }
}

}  // namespace urnic::dataplane
