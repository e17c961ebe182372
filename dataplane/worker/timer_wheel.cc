#include "dataplane/worker/timer_wheel.h"

#include <algorithm>
#include <bit>

namespace urnic::dataplane {

// A timer lies on the level of the highest group of six bits in which its tick differs from the wheel's, in
// the slot that this group names. So a slot never wraps around, all of a level's slots come before those of
// the next level, and the first occupied slot of the lowest occupied level is the next thing to happen.

namespace {

void link_before(TimerNode& head, TimerNode& node) {
    node.prev = head.prev;
    node.next = &head;
    head.prev->next = &node;
    head.prev = &node;
}

}  // namespace

TimerWheel::TimerWheel(TimeNs now) : tick_(now >> kTickShift) {
    for (auto& level : heads_) {
        for (TimerNode& head : level) {
            head.next = &head;
            head.prev = &head;
        }
    }
}

void TimerWheel::insert(TimerNode& node) {
    // Rounded up, so that nothing fires early.
    const std::uint64_t wanted = (node.expires >> kTickShift) + ((node.expires & (kTickNs - 1)) != 0 ? 1 : 0);
    const std::uint64_t tick = std::min(std::max(wanted, tick_), kLastTick);
    const auto highest = static_cast<std::uint32_t>(std::bit_width((tick ^ tick_) | 1U)) - 1;
    const std::uint32_t level = highest / kSlotBits;
    const std::uint32_t shift = level * kSlotBits;
    const auto slot = static_cast<std::uint32_t>((tick >> shift) & (kSlots - 1));
    link_before(heads_[level][slot], node);
    node.slot = static_cast<std::uint16_t>(level * kSlots + slot);
    occupied_[level] |= std::uint64_t{1} << slot;
    const TimeNs event = ((tick >> shift) << shift) << kTickShift;
    next_event_ = event < next_event_ ? event : next_event_;
}

void TimerWheel::unlink(TimerNode& node) {
    node.prev->next = node.next;
    node.next->prev = node.prev;
    node.next = nullptr;
    node.prev = nullptr;
    const std::uint32_t level = node.slot / kSlots;
    const std::uint32_t slot = node.slot % kSlots;
    const TimerNode& head = heads_[level][slot];
    if (head.next == &head) {
        occupied_[level] &= ~(std::uint64_t{1} << slot);
    }
}

void TimerWheel::arm(TimerNode& node, TimeNs expires) {
    cancel(node);
    if (expires == kNever) {
        return;
    }
    node.expires = expires;
    insert(node);
}

void TimerWheel::cancel(TimerNode& node) {
    if (node.armed()) {
        unlink(node);
        node.expires = kNever;
    }
}

void TimerWheel::cascade(std::uint32_t level, std::uint32_t slot) {
    TimerNode& head = heads_[level][slot];
    while (head.next != &head) {
        TimerNode& node = *head.next;
        unlink(node);
        insert(node);  // finer now: the wheel stands at the slot's first tick
    }
}

TimerNode* TimerWheel::pop_expired(TimeNs now) {
    const std::uint64_t now_tick = now >> kTickShift;
    for (;;) {
        std::uint32_t level = 0;
        while (level < kLevels && occupied_[level] == 0) {
            ++level;
        }
        if (level == kLevels) {
            next_event_ = kNever;
            break;
        }
        const std::uint32_t shift = level * kSlotBits;
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(occupied_[level]));
        const std::uint64_t prefix = level + 1 == kLevels ? 0 : (tick_ >> (shift + kSlotBits)) << kSlotBits;
        const std::uint64_t tick = (prefix | slot) << shift;
        if (tick > now_tick) {
            next_event_ = tick << kTickShift;
            break;
        }
        tick_ = tick > tick_ ? tick : tick_;
        if (level == 0) {
            TimerNode& node = *heads_[0][slot].next;
            cancel(node);
            return &node;
        }
        cascade(level, slot);
    }
    tick_ = now_tick > tick_ ? now_tick : tick_;
    return nullptr;
}

}  // namespace urnic::dataplane
