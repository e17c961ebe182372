#include "netsim/switch/switch.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::netsim {

namespace {
constexpr std::uint16_t kPauseQuanta = 0xffff;
}  // namespace

Fraction EcnOptions::chance(std::uint64_t queue_bytes) const {
    if (kmax_bytes == 0 || queue_bytes <= kmin_bytes) {
        return {};
    }
    if (queue_bytes >= kmax_bytes) {
        return Fraction::one();
    }
    return pmax.times(Fraction::of(queue_bytes - kmin_bytes, kmax_bytes - kmin_bytes));
}

Switch::Switch(const SwitchOptions& options, SwitchOutbox& outbox)
    : options_(options), outbox_(outbox), random_state_(options.seed * 0x9e37'79b9'7f4a'7c15ULL + 1) {
    URNIC_CHECK(options_.ports.size() < kMaxPorts);
    for (const EgressPort::Options& port : options_.ports) {
        ports_.emplace_back(port);
    }
}

// Steele, Lea and Flood's SplitMix64.
std::uint32_t Switch::random24() {
    random_state_ += 0x9e37'79b9'7f4a'7c15ULL;
    std::uint64_t z = random_state_;
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebULL;
    return static_cast<std::uint32_t>((z ^ (z >> 31U)) >> 40U);
}

void Switch::receive(TimeNs now, PortIndex ingress, PortIndex egress, SwitchedPacket& packet) {
    if (ingress >= ports_.size() || egress >= ports_.size() || packet.priority >= kPriorities) {
        outbox_.drop(packet);
        return;
    }
    Port& out = ports_[egress];
    packet.ingress = ingress;
    if (!admit(out, packet)) {
        ++out.counters.dropped;
        outbox_.drop(packet);
        return;
    }
    out.egress.push(packet);
    out.waiting_bytes += packet.bytes;
    out.counters.most_bytes = std::max(out.counters.most_bytes, out.waiting_bytes);
    Ingress& in = ports_[ingress].ingress[packet.priority];
    in.bytes += packet.bytes;
    if (is_lossless(packet.priority) && !in.paused && in.bytes > options_.pfc.xoff_bytes) {
        in.paused = true;
        send_pause(now, ingress, packet.priority);
    }
    send(now, egress);
}

// The shared buffer first, then the headroom that a lossless priority of the port has for itself.
bool Switch::admit(const Port& out, SwitchedPacket& packet) {
    const bool lossless = is_lossless(packet.priority);
    if (!lossless && out.egress.bytes(packet.priority) + packet.bytes > options_.queue_bytes) {
        return false;
    }
    packet.in_headroom = false;
    if (used_bytes_ + packet.bytes <= options_.buffer_bytes) {
        used_bytes_ += packet.bytes;
        return true;
    }
    Ingress& in = ports_[packet.ingress].ingress[packet.priority];
    if (!lossless || in.headroom_bytes + packet.bytes > options_.pfc.headroom_bytes) {
        return false;
    }
    packet.in_headroom = true;
    in.headroom_bytes += packet.bytes;
    headroom_used_bytes_ += packet.bytes;
    return true;
}

// When the packet leaves, by what it leaves behind: a mark made when it came would be as old as the queue is
// long.
void Switch::mark(Port& out, SwitchedPacket& packet) {
    const EcnOptions& ecn = options_.ecn[packet.priority];
    if (packet.ecn_capable && random24() < ecn.chance(out.egress.bytes(packet.priority)).raw()) {
        out.counters.marks_made += packet.marked ? 0 : 1;
        packet.marked = true;
    }
}

// Its room is free again.
void Switch::leave(Port& out, const SwitchedPacket& packet) {
    Ingress& in = ports_[packet.ingress].ingress[packet.priority];
    in.bytes -= packet.bytes;
    out.waiting_bytes -= packet.bytes;
    if (packet.in_headroom) {
        in.headroom_bytes -= packet.bytes;
        headroom_used_bytes_ -= packet.bytes;
    } else {
        used_bytes_ -= packet.bytes;
    }
    if (in.paused && in.bytes <= options_.pfc.xon_bytes) {
        in.paused = false;
        outbox_.pause(packet.ingress, packet.priority, 0);
    }
}

void Switch::send(TimeNs now, PortIndex index) {
    Port& port = ports_[index];
    if (port.egress.busy(now)) {
        return;
    }
    SwitchedPacket* const packet = port.egress.pop(now);
    if (packet == nullptr) {
        return;
    }
    mark(port, *packet);
    const TimeNs done = port.egress.send(now, packet->bytes);
    leave(port, *packet);
    ++port.counters.tx_packets;
    port.counters.tx_bytes += packet->bytes;
    port.counters.marked += packet->marked ? 1 : 0;
    outbox_.transmit(index, *packet, done);
}

// The neighbour's pause runs out by itself: it is renewed when half of it is over.
void Switch::send_pause(TimeNs now, PortIndex index, std::uint8_t priority) {
    Port& port = ports_[index];
    port.ingress[priority].refresh_at = now + port.egress.duration_of(kPauseQuanta * kQuantumBits / 2);
    ++port.counters.pauses_sent;
    outbox_.pause(index, priority, kPauseQuanta);
}

void Switch::receive_pause(TimeNs now, PortIndex index, std::uint8_t priority, std::uint16_t quanta) {
    if (index >= ports_.size() || priority >= kPriorities) {
        return;
    }
    Port& port = ports_[index];
    port.counters.pauses_received += quanta == 0 ? 0 : 1;
    port.egress.pause(now, priority, quanta);
    send(now, index);
}

TimeNs Switch::watchdog_at(const Port& port, std::uint8_t priority) const {
    return options_.pfc.watchdog_ns == 0 ? kNever
                                         : port.egress.paused_for(priority, options_.pfc.watchdog_ns);
}

// A neighbour that never stops pausing must not hold the buffer for ever, and with it all others.
void Switch::watch(TimeNs now, Port& port) {
    for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
        if (watchdog_at(port, priority) > now) {
            continue;
        }
        ++port.counters.watchdog_trips;
        while (SwitchedPacket* const packet = port.egress.take(priority)) {
            leave(port, *packet);
            ++port.counters.watchdog_dropped;
            outbox_.drop(*packet);
        }
    }
}

void Switch::on_timer(TimeNs now) {
    const auto count = static_cast<PortIndex>(ports_.size());
    for (PortIndex index = 0; index < count; ++index) {
        on_timer(now, index);
    }
}

void Switch::on_timer(TimeNs now, PortIndex index) {
    Port& port = ports_[index];
    watch(now, port);
    for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
        const Ingress& in = port.ingress[priority];
        if (in.paused && in.refresh_at <= now) {
            send_pause(now, index, priority);
        }
    }
    send(now, index);
}

TimeNs Switch::deadline() const {
    TimeNs next = kNever;
    const auto count = static_cast<PortIndex>(ports_.size());
    for (PortIndex index = 0; index < count; ++index) {
        next = std::min(next, deadline(index));
    }
    return next;
}

TimeNs Switch::deadline(PortIndex index) const {
    const Port& port = ports_[index];
    TimeNs next = port.egress.deadline();
    for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
        const Ingress& in = port.ingress[priority];
        next = std::min(next, in.paused ? in.refresh_at : kNever);
        next = std::min(next, watchdog_at(port, priority));
    }
    return next;
}

}  // namespace urnic::netsim
