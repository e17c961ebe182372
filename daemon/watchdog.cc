#include "daemon/watchdog.h"

#include <utility>

#include "os/log.h"

namespace urnic::daemon {

namespace {

/// A worker that makes no round for so long is named in the log.
constexpr TimeNs kReportNs = 1'000'000'000;

}  // namespace

Watchdog::Watchdog(Workers workers, std::function<void()> tell_alive)
    : workers_(std::move(workers)), tell_alive_(std::move(tell_alive)), seen_(workers_.number) {}

void Watchdog::look(TimeNs now) {
    told_at_ = told_at_ == kNever ? now : told_at_;
    std::vector<std::uint64_t> rounds(workers_.number);
    bool has_all = true;
    for (std::size_t worker = 0; worker < workers_.number; ++worker) {
        rounds[worker] = workers_.last_round(worker);
        if (rounds[worker] == seen_[worker]) {
            has_all = false;
            report(worker, now);
        }
    }
    if (has_all) {
        seen_ = std::move(rounds);
        told_at_ = now;
        is_reported_ = false;
        tell_alive_();
    }
    // Those that sleep are to have made a round by the next look.
    for (std::size_t worker = 0; worker < workers_.number; ++worker) {
        workers_.wake(worker);
    }
}

void Watchdog::report(std::size_t worker, TimeNs now) {
    if (!is_reported_ && now - told_at_ >= kReportNs) {
        is_reported_ = true;
        log_warning(
            "worker {} has made no round for {} ms: the service manager is not told that urnicd is alive",
            worker, (now - told_at_) / 1'000'000);
    }
}

}  // namespace urnic::daemon
