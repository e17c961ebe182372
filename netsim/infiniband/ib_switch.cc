#include "netsim/infiniband/ib_switch.h"

#include "base/check.h"

namespace urnic::netsim {

namespace {

// A packet is never written by two queues at once: the ring holds those of one packet that are in the switch.
void join_copies(IbPacket& packet, IbPacket& copy) {
    if (packet.next_copy == nullptr) {
        packet.next_copy = packet.previous_copy = &packet;
    }
    copy.next_copy = packet.next_copy;
    copy.previous_copy = &packet;
    packet.next_copy->previous_copy = &copy;
    packet.next_copy = &copy;
}

/// Returns whether it was the last one.
bool leave_copies(IbPacket& packet) {
    if (packet.next_copy == nullptr) {
        return true;
    }
    const bool is_last = packet.next_copy == &packet;
    packet.next_copy->previous_copy = packet.previous_copy;
    packet.previous_copy->next_copy = packet.next_copy;
    packet.next_copy = packet.previous_copy = nullptr;
    return is_last;
}

}  // namespace

IbSwitch::IbSwitch(const IbSwitchOptions& options, IbSwitchOutbox& outbox)
    : outbox_(outbox), info_(options.info) {
    URNIC_CHECK(!options.ports.empty() && options.ports.size() <= kMaxIbPorts);
    ports_.reserve(options.ports.size() + 1);
    ports_.emplace_back(options.ports.front());
    for (const IbPort::Options& port : options.ports) {
        ports_.emplace_back(port);
    }
    sl_to_vl_.resize(ports_.size() * ports_.size());
    for (std::size_t i = 0; i < sl_to_vl_.size(); ++i) {
        const std::uint8_t vls = ports_[i % ports_.size()].info().operational_vls;
        for (std::uint8_t sl = 0; sl < kSls; ++sl) {
            sl_to_vl_[i][sl] = sl % vls;
        }
    }
}

void IbSwitch::set_link(TimeNs now, IbPortNumber number, bool up) {
    IbPort& port = ports_[number];
    while (IbPacket* const packet = port.take_any()) {
        ++port.counters().xmit_discards;
        drop(*packet);
    }
    port.train(up);
    changed(now, number);
}

void IbSwitch::changed(TimeNs now, IbPortNumber port) { on_timer(now, port); }

void IbSwitch::receive(TimeNs now, IbPortNumber ingress, IbPacket& packet) {
    IbPort& in = ports_[ingress];
    packet.ingress = ingress;
    packet.ingress_vl = packet.vl;
    packet.came_at = now;
    packet.next_copy = packet.previous_copy = nullptr;
    if (!in.receive(packet)) {
        outbox_.drop(packet);
        return;
    }
    if (in.info().enforces_pkey_in && packet.has_pkey && packet.vl != kManagementVl &&
        !in.has_pkey(packet.pkey)) {
        ++in.counters().rcv_constraint_errors;
        drop_for_pkey(ingress, packet);
        return;
    }
    forward(now, packet);
}

void IbSwitch::send(TimeNs now, IbPortNumber egress, IbPacket& packet) {
    packet.ingress = 0;
    packet.ingress_vl = packet.vl;
    packet.came_at = now;
    packet.next_copy = packet.previous_copy = nullptr;
    if (egress == kNoIbPort) {
        forward(now, packet);
    } else if (egress == 0 || egress >= ports_.size()) {
        relay_error(packet);
    } else {
        forward_to(now, egress, packet);
    }
}

void IbSwitch::forward(TimeNs now, IbPacket& packet) {
    if (packet.dlid == kPermissiveLid) {
        packet.vl == kManagementVl ? to_management(packet) : relay_error(packet);
        return;
    }
    if (packet.dlid >= kMulticastLids) {
        forward_multicast(now, packet);
        return;
    }
    if (packet.dlid != 0 && is_own(packet.dlid)) {
        to_management(packet);
        return;
    }
    const IbPortNumber egress = packet.dlid == 0 ? kNoIbPort : linear_.port(packet.dlid);
    if (egress == 0 && packet.ingress != 0) {
        to_management(packet);
        return;
    }
    // What would go back where it came from is an error of the tables, too (IBA 18.2.4.2).
    if (egress >= ports_.size() || egress == packet.ingress) {
        relay_error(packet);
        return;
    }
    forward_to(now, egress, packet);
}

void IbSwitch::forward_multicast(TimeNs now, IbPacket& packet) {
    MulticastForwardingTable::Ports ports = multicast_.ports(packet.dlid);
    if (ports.none()) {
        relay_error(packet);
        return;
    }
    ports.reset(packet.ingress);
    const IbPacket* previous = nullptr;
    std::array<IbPacket*, 256> to{};
    // All copies are there before the first one leaves: what it takes up is free when the last one has left.
    for (IbPortNumber port = 0; port <= num_ports(); ++port) {
        if (!ports.test(port)) {
            continue;
        }
        IbPacket* const out = previous == nullptr ? &packet : outbox_.copy(packet);
        if (out == nullptr) {
            ++ports_[port].counters().xmit_discards;
            continue;
        }
        if (previous != nullptr) {
            out->next = nullptr;
            join_copies(packet, *out);
        }
        to[port] = out;
        previous = out;
    }
    if (previous == nullptr) {
        drop(packet);
        return;
    }
    for (IbPortNumber port = 0; port <= num_ports(); ++port) {
        if (to[port] != nullptr) {
            port == 0 ? to_management(*to[0]) : forward_to(now, port, *to[port]);
        }
    }
}

std::uint8_t IbSwitch::egress_vl(IbPortNumber egress, const IbPacket& packet) const {
    if (packet.ingress_vl == kManagementVl) {
        return kManagementVl;
    }
    const std::uint8_t vl = sl_to_vl_[std::size_t{packet.ingress} * ports_.size() + egress][packet.sl % kSls];
    return vl < ports_[egress].info().operational_vls ? vl : static_cast<std::uint8_t>(kVls);
}

void IbSwitch::forward_to(TimeNs now, IbPortNumber egress, IbPacket& packet) {
    IbPort& out = ports_[egress];
    const std::uint8_t vl = egress_vl(egress, packet);
    if (vl == kVls) {
        relay_error(packet);
        return;
    }
    if (out.info().enforces_pkey_out && packet.has_pkey && vl != kManagementVl &&
        !out.has_pkey(packet.pkey)) {
        ++out.counters().xmit_constraint_errors;
        drop_for_pkey(egress, packet);
        return;
    }
    if (packet.hops >= kMostHops) {
        ++out.counters().xmit_discards;
        drop(packet);
        return;
    }
    ++packet.hops;
    packet.vl = vl;
    if (!out.push(now, packet)) {
        drop(packet);
        return;
    }
    run(now, egress);
}

void IbSwitch::to_management(IbPacket& packet) {
    leave(packet);
    outbox_.to_management(packet.ingress, packet);
}

void IbSwitch::relay_error(IbPacket& packet) {
    ++ports_[packet.ingress].counters().rcv_switch_relay_errors;
    drop(packet);
}

void IbSwitch::drop(IbPacket& packet) {
    leave(packet);
    outbox_.drop(packet);
}

void IbSwitch::drop_for_pkey(IbPortNumber port, IbPacket& packet) {
    outbox_.wrong_pkey(port, packet);
    drop(packet);
}

// What it took up at the port where it came is free, when no copy of it is left.
void IbSwitch::leave(IbPacket& packet) {
    if (!leave_copies(packet) || packet.ingress == 0 || packet.ingress_vl == kManagementVl) {
        return;
    }
    ports_[packet.ingress].release(packet.ingress_vl, packet.bytes);
    outbox_.room(packet.ingress, packet.ingress_vl);
}

void IbSwitch::run(TimeNs now, IbPortNumber number) {
    IbPort& port = ports_[number];
    if (IbPacket* const packet = port.pop(now)) {
        leave(*packet);
        outbox_.transmit(number, *packet, port.busy_until());
    }
    outbox_.wake(number);
}

void IbSwitch::discard_expired(TimeNs now, IbPortNumber number) {
    while (IbPacket* const packet = ports_[number].pop_expired(now, ib_lifetime_ns(info_.life_time))) {
        drop(*packet);
    }
}

void IbSwitch::on_timer(TimeNs now, IbPortNumber port) {
    discard_expired(now, port);
    run(now, port);
}

void IbSwitch::receive_credits(TimeNs now, IbPortNumber port, const FlowControlPacket& packet) {
    ports_[port].take(now, packet);
    run(now, port);
}

}  // namespace urnic::netsim
