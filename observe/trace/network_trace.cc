#include "observe/trace/network_trace.h"

#include <algorithm>
#include <bit>

namespace urnic::trace {

void NetworkTrace::emit(TimeNs now, const std::string& group, const char* name, const EventData& data) {
    qps_.settle();
    output_.add({now, group, name, data});
}

void NetworkTrace::add_port(TimeNs now, const NetworkPort& port) {
    Port& made = ports_.emplace_back();
    made.name = port.name;
    if (port.is_host) made.host = port.node;
    emit(now, port.name, "port_added",
         {{"node", port.node},
          {"node_type", port.is_host ? "host" : "switch"},
          {"neighbour", port.neighbour},
          {"link_layer", port.is_infiniband ? "infiniband" : "ethernet"},
          {"bits_per_s", port.bits_per_s},
          {"delay", Milliseconds{port.delay_ns}}});
}

void NetworkTrace::add_path(TimeNs now, const NetworkPath& path) {
    std::vector<std::string> ports;
    for (const std::size_t port : path.ports) ports.push_back(ports_[port].name);
    emit(now, path.qp, "path_assigned",
         {{"peer", path.peer},
          {"flow", path.flow},
          {"payload", path.has_payload},
          {path.is_infiniband ? "sl" : "priority", path.level},
          {"ports", ports}});
}

void NetworkTrace::look(TimeNs now, std::size_t index, const PortView& view) {
    Port& port = ports_[index];
    if (view.marks != port.seen.marks) {
        emit(now, port.name, "packets_marked", {{"count", view.marks - port.seen.marks}});
    }
    count(now, port, "dropped", port.seen.dropped, view.dropped);
    count(now, port, "watchdog_dropped", port.seen.watchdog_dropped, view.watchdog_dropped);
    count(now, port, "xmit_discards", port.seen.discards, view.discards);
    look_at_pauses(now, port, view);
    look_at_wait(now, port, view.waits_since);
    port.seen = view;
    look_at_queue(now, port);
    due_ = std::min({due_, port.queue_due(), port.wait_due()});
}

void NetworkTrace::count(TimeNs now, const Port& port, const char* trigger, std::uint64_t before,
                         std::uint64_t after) {
    if (after == before) return;
    emit(now, port.name, "packets_dropped", {{"count", after - before}, {"trigger", trigger}});
}

/// Those that stop a host are its RNIC's, as in the trace of a daemon.
void NetworkTrace::look_at_pauses(TimeNs now, const Port& port, const PortView& view) {
    const std::string& group = port.host.empty() ? port.name : port.host;
    const auto say = [&](std::uint8_t before, std::uint8_t after, const char* direction) {
        for (unsigned changed = before ^ after; changed != 0; changed &= changed - 1) {
            const int priority = std::countr_zero(changed);
            emit(now, group,
                 (after >> static_cast<unsigned>(priority) & 1U) != 0 ? "pfc_paused" : "pfc_resumed",
                 {{"priority", priority}, {"direction", direction}});
        }
    };
    say(port.seen.stopped, view.stopped, "received");
    say(port.seen.stops, view.stops, "sent");
}

void NetworkTrace::look_at_wait(TimeNs now, Port& port, TimeNs since) {
    if (port.is_waiting && since > now) {
        port.is_waiting = false;
        emit(now, port.name, "credit_wait_ended", {{"duration", Milliseconds{now - port.wait_begin}}});
    }
    if (port.is_waiting) return;
    port.wait_begin = since;
    if (since <= now) begin_wait(now, port);
}

void NetworkTrace::begin_wait(TimeNs now, Port& port) {
    port.is_waiting = true;
    port.wait_begin = now;
    emit(now, port.name, "credit_wait_began", {});
}

TimeNs NetworkTrace::Port::queue_due() const {
    const bool has_changed = seen.queue_bytes != told_bytes || most_bytes != told_bytes;
    return has_changed ? may_tell_at : kNever;
}

void NetworkTrace::look_at_queue(TimeNs now, Port& port) {
    // At a host's port a packet waits behind the one that goes: a QP makes the next when there is room.
    if (!port.host.empty()) port.seen.queue_bytes = 0;
    port.most_bytes = std::max(port.most_bytes, port.seen.queue_bytes);
    if (port.queue_due() <= now) tell_queue(now, port);
}

void NetworkTrace::tell_queue(TimeNs now, Port& port) {
    const std::uint64_t bytes = port.seen.queue_bytes;
    emit(now, port.name, "queue_updated", {{"bytes", bytes}, {"most_bytes", port.most_bytes}});
    port.told_bytes = port.most_bytes = bytes;
    port.may_tell_at = now + kQueueInterval;
}

void NetworkTrace::pass(TimeNs next) {
    while (due_ < next) {
        for (Port& port : ports_) {
            if (port.queue_due() == due_) tell_queue(due_, port);
            if (port.wait_due() == due_) begin_wait(due_, port);
        }
        due_ = kNever;
        for (const Port& port : ports_) due_ = std::min({due_, port.queue_due(), port.wait_due()});
    }
}

void NetworkTrace::finish(TimeNs now) {
    pass(now);
    for (Port& port : ports_) {
        if (port.queue_due() != kNever) tell_queue(now, port);
    }
}

}  // namespace urnic::trace
