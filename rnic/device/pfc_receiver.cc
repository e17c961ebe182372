#include "rnic/device/pfc_receiver.h"

#include <algorithm>

namespace urnic {

namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;
/// Time that is not paused counts so many times: a link that is really congested is paused for long, but not
/// all the time.
constexpr TimeNs kRelief = 15;
}  // namespace

void PfcReceiver::set_active(std::uint32_t index, bool active) {
    const auto bit = static_cast<std::uint8_t>(1U << index);
    const std::uint8_t before = active_.load(kRelaxed);
    // Who sees the bit sees the time.
    active_.store(static_cast<std::uint8_t>(active ? before | bit : before & ~bit),
                  std::memory_order_release);
}

bool PfcReceiver::receive(TimeNs now, const wire::Pfc& frame) {
    expire(now);
    bool sooner = false;
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        if ((frame.class_enable >> index & 1U) == 0) {
            continue;
        }
        const std::uint16_t quanta = frame.pause_quanta[index];
        PfcCounters::Priority& counters = counters_.priorities[index];
        ++(quanta != 0 ? counters.rx_pause : counters.rx_resume);
        if ((settings_.rx_priorities >> index & 1U) != 0) {
            sooner |= quanta != 0 ? pause(now, index, quanta) : resume(now, index);
        }
    }
    return sooner;
}

/// A resume does not set it back: otherwise who pauses anew right after each would not be noticed.
TimeNs PfcReceiver::debt(const Priority& priority, TimeNs now) {
    const TimeNs relief = (now - priority.debt_at) * kRelief;
    return priority.debt_ns - std::min(priority.debt_ns, relief);
}

// A pause that comes before the last one has run out continues with it: for the watchdog they are one.
bool PfcReceiver::pause(TimeNs now, std::uint32_t index, std::uint16_t quanta) {
    Priority& priority = priorities_[index];
    priority.asked_until = now + settings_.duration_ns(quanta);
    if (priority.stormy) {
        ++counters_.priorities[index].rx_ignored;
        return false;
    }
    const bool was_active = is_active(index);
    if (!was_active) {
        priority.debt_ns = debt(priority, now);
        priority.debt_at = now;
    }
    const TimeNs since = was_active ? priority.since.load(kRelaxed) : now;
    const TimeNs before = was_active ? priority.until.load(kRelaxed) : 0;
    const TimeNs until =
        settings_.watchdog_ns == 0
            ? priority.asked_until
            : std::min(priority.asked_until, since + settings_.watchdog_ns - priority.debt_ns);
    priority.since.store(since, kRelaxed);
    priority.until.store(until, kRelaxed);
    set_active(index, true);
    return until < before;
}

bool PfcReceiver::resume(TimeNs now, std::uint32_t index) {
    Priority& priority = priorities_[index];
    priority.stormy = priority.stormy && now < priority.storm_until;
    priority.asked_until = 0;
    if (!is_active(index)) {
        return false;
    }
    end(priority, index, now);
    return true;
}

void PfcReceiver::end(Priority& priority, std::uint32_t index, TimeNs at) {
    const TimeNs since = priority.since.load(kRelaxed);
    priority.until.store(0, kRelaxed);
    priority.before_ns.store(priority.before_ns.load(kRelaxed) + (at - since), kRelaxed);
    set_active(index, false);
    priority.debt_ns += at - since;
    priority.debt_at = at;
}

bool PfcReceiver::clear(TimeNs now) {
    expire(now);
    bool any = false;
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        any |= resume(now, index);
        priorities_[index].stormy = false;
        priorities_[index].debt_ns = 0;
    }
    return any;
}

void PfcReceiver::expire(TimeNs now) {
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        Priority& priority = priorities_[index];
        const TimeNs until = priority.until.load(kRelaxed);
        if (is_active(index) && until <= now) {
            end(priority, index, until);
            priority.stormy = until < priority.asked_until;
            if (priority.stormy) {
                ++counters_.priorities[index].watchdog;
                priority.storm_until = until + settings_.watchdog_ns;
                priority.debt_ns = 0;
            }
        }
        // Nobody renews it any more: the next pause is one like any other.
        priority.stormy = priority.stormy && (now < priority.asked_until || now < priority.storm_until);
    }
}

std::uint8_t PfcReceiver::paused(TimeNs now) const {
    const std::uint8_t active = active_.load(std::memory_order_acquire);
    std::uint32_t result = 0;
    for (std::uint32_t index = 0; active >> index != 0; ++index) {
        const bool is_paused = (active >> index & 1U) != 0 && priorities_[index].until.load(kRelaxed) > now;
        result |= is_paused ? 1U << index : 0U;
    }
    return static_cast<std::uint8_t>(result);
}

TimeNs PfcReceiver::first_end(TimeNs now) const {
    const std::uint8_t active = active_.load(std::memory_order_acquire);
    TimeNs first = kNever;
    for (std::uint32_t index = 0; active >> index != 0; ++index) {
        const TimeNs until = priorities_[index].until.load(kRelaxed);
        first = (active >> index & 1U) != 0 && until > now ? std::min(first, until) : first;
    }
    return first;
}

TimeNs PfcReceiver::paused_ns(TimeNs now, std::uint32_t index) const {
    const Priority& priority = priorities_[index];
    const TimeNs before = priority.before_ns.load(kRelaxed);
    const TimeNs until = std::min(priority.until.load(kRelaxed), now);
    return before + (until - std::min(priority.since.load(kRelaxed), until));
}

}  // namespace urnic
