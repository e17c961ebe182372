#include "os/timer_fd.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/check.h"
#include "os/monotonic_clock.h"

namespace urnic {

namespace {

timespec to_timespec(TimeNs time) {
    timespec spec{};
    spec.tv_sec = static_cast<time_t>(time / kSecondNs);
    spec.tv_nsec = static_cast<long>(time % kSecondNs);
    return spec;
}

}  // namespace

TimerFd::TimerFd() : fd_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    if (!fd_) {
        throw std::system_error(errno, std::generic_category(), "timerfd");
    }
}

void TimerFd::set_at(TimeNs when) {
    itimerspec setting{};  // zeros: off
    if (when != kNever) {
        setting.it_value = to_timespec(std::max<TimeNs>(when, 1));
    }
    URNIC_CHECK(::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) == 0);
}

void TimerFd::set_after(TimeNs delay_ns) {
    itimerspec setting{};
    setting.it_value = to_timespec(delay_ns);
    URNIC_CHECK(::timerfd_settime(fd_.get(), 0, &setting, nullptr) == 0);
}

void TimerFd::set_every(TimeNs period_ns) {
    const timespec period = to_timespec(period_ns);
    const itimerspec setting{period, period};
    URNIC_CHECK(::timerfd_settime(fd_.get(), 0, &setting, nullptr) == 0);
}

bool TimerFd::is_set() const {
    itimerspec left{};
    URNIC_CHECK(::timerfd_gettime(fd_.get(), &left) == 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

void TimerFd::acknowledge() const {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &expirations, sizeof expirations);
}

}  // namespace urnic
