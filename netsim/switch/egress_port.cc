#include "netsim/switch/egress_port.h"

#include <algorithm>

namespace urnic::netsim {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kPsPerNs = 1'000;
// Of a weight of 1 in one turn: less than a frame, so that small weights take turns finely.
constexpr std::int64_t kTurnBytes = 512;

}  // namespace

EgressPort::EgressPort(const Options& options) : options_(options) {
    options_.rate = std::clamp(options_.rate, kMinRate, kMaxRate);
}

void EgressPort::push(SwitchedPacket& packet) {
    Queue& queue = queues_[packet.priority];
    packet.next = nullptr;
    if (queue.head == nullptr) {
        queue.head = &packet;
    } else {
        queue.tail->next = &packet;
    }
    queue.tail = &packet;
    queue.bytes += packet.bytes;
}

SwitchedPacket* EgressPort::take(std::uint8_t priority) {
    Queue& queue = queues_[priority];
    SwitchedPacket* const packet = queue.head;
    if (packet != nullptr) {
        queue.head = packet->next;
        packet->next = nullptr;
        queue.bytes -= packet->bytes;
    }
    return packet;
}

SwitchedPacket* EgressPort::pop(TimeNs now) {
    for (std::uint32_t priority = kPriorities; priority-- != 0;) {
        if (strict(priority) && ready(now, priority)) {
            return take(static_cast<std::uint8_t>(priority));
        }
    }
    return pop_weighted(now);
}

// Deficit round robin (Shreedhar and Varghese, 1995): a queue gets bytes by its weight when its turn comes,
// and keeps what it could not use while it has packets.
SwitchedPacket* EgressPort::pop_weighted(TimeNs now) {
    const auto waits = [&](std::uint32_t priority) { return !strict(priority) && ready(now, priority); };
    std::uint32_t waiting = 0;
    for (std::uint32_t priority = 0; priority < kPriorities; ++priority) {
        waiting += waits(priority) ? 1 : 0;
    }
    while (waiting != 0) {
        Queue& queue = queues_[turn_];
        if (waits(turn_)) {
            if (queue.credit >= static_cast<std::int64_t>(queue.head->bytes)) {
                queue.credit -= queue.head->bytes;
                return take(static_cast<std::uint8_t>(turn_));
            }
        } else {
            queue.credit = 0;
        }
        turn_ = (turn_ + 1) % kPriorities;
        queues_[turn_].credit += waits(turn_) ? kTurnBytes * options_.weights[turn_] : 0;
    }
    return nullptr;
}

TimeNs EgressPort::duration_of(std::uint64_t bits) const {
    return (bits * kNsPerSecond + options_.rate - 1) / options_.rate;
}

TimeNs EgressPort::send(TimeNs now, std::uint32_t bytes) {
    // Picoseconds are carried on, so that many small frames take as long as they should.
    const std::uint64_t work = std::uint64_t{bytes} * 8 * kNsPerSecond;
    const std::uint64_t ps = work % options_.rate * kPsPerNs / options_.rate;
    const bool follows = busy_until_ >= now;
    part_ps_ = static_cast<std::uint32_t>(ps) + (follows ? part_ps_ : 0);
    busy_until_ = (follows ? busy_until_ : now) + work / options_.rate + part_ps_ / kPsPerNs;
    part_ps_ %= kPsPerNs;
    return busy_until_;
}

TimeNs EgressPort::paused_for(std::uint8_t priority, TimeNs duration) const {
    const Queue& queue = queues_[priority];
    const TimeNs then = queue.paused_since + duration;
    return queue.head != nullptr && then < queue.paused_until ? then : kNever;
}

void EgressPort::pause(TimeNs now, std::uint8_t priority, std::uint16_t quanta) {
    Queue& queue = queues_[priority];
    if (quanta == 0) {
        resume(priority);
        return;
    }
    queue.paused_since = now < queue.paused_until ? queue.paused_since : now;
    queue.paused_until = now + duration_of(quanta * kQuantumBits);
}

TimeNs EgressPort::deadline() const {
    TimeNs first = kNever;
    for (const Queue& queue : queues_) {
        if (queue.head != nullptr) {
            first = std::min(first, queue.paused_until);
        }
    }
    return first == kNever ? kNever : std::max(first, busy_until_);
}

}  // namespace urnic::netsim
