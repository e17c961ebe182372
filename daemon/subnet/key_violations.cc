// Of SubnetService: packets with a wrong P_Key or Q_Key, which ports of RNICs count and tell of, and switches
// tell of where they have dropped them.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "daemon/subnet/subnet_service.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

namespace {

void add_saturating(std::uint16_t& counter, std::uint64_t more) {
    counter = static_cast<std::uint16_t>(std::min<std::uint64_t>(counter + more, 0xffff));
}

}  // namespace

/// When all ports and switches are where they stay.
void SubnetService::listen_for_key_violations() {
    for (Port& port : ports_) {
        port.rnic->key_violations = std::make_unique<dataplane::KeyViolationInbox>();
        port.keys.inbox = port.rnic->key_violations.get();
        listen_for_key_violations(port.node, port.keys);
        port.rnic->device->key_violations = port.keys.inbox;
    }
    for (Switch& each : switches_) {
        each.keys.inbox = fabrics_[each.fabric].wire->pkey_violations(each.at);
        if (each.keys.inbox != nullptr) {
            listen_for_key_violations(each.node, each.keys);
        }
    }
}

void SubnetService::listen_for_key_violations(subnet::NodeId node, KeyReports& keys) {
    keys.events = control_.event_loop.add(keys.inbox->fd(), [this, node, &keys] {
        if (const auto violation = keys.inbox->take()) {
            keys.next_trap = subnet_.report(node, *violation, clock_now());
            run();
        }
    });
}

void SubnetService::ignore_key_violations() {
    for (const Port& port : ports_) {
        port.rnic->device->key_violations = nullptr;
    }
    for_each_key_reports([&](const KeyReports& keys) { control_.event_loop.remove(keys.events); });
}

/// Of nodes that tell.
template <typename Visit>
void SubnetService::for_each_key_reports(const Visit& visit) const {
    for (const Port& port : ports_) {
        visit(port.keys);
    }
    for (const Switch& each : switches_) {
        if (each.keys.inbox != nullptr) {
            visit(each.keys);
        }
    }
}

/// A flood of them wakes nobody more often than a trap may leave.
void SubnetService::want_key_violations(TimeNs now) {
    for_each_key_reports([&](const KeyReports& keys) {
        if (keys.inbox->was_taken() && keys.next_trap <= now) {
            keys.inbox->want_next();
        }
    });
}

/// When want_key_violations() has something to do.
TimeNs SubnetService::next_key_event() const {
    TimeNs next = kNever;
    for_each_key_reports([&](const KeyReports& keys) {
        next = keys.inbox->was_taken() ? std::min(next, keys.next_trap) : next;
    });
    return next;
}

void SubnetService::refresh_port_info(subnet::NodeId node) {
    Port* const port = port_of_node(node);
    if (port == nullptr) {
        return;
    }
    std::uint64_t bad_pkeys = 0;
    std::uint64_t bad_qkeys = 0;
    for (std::uint32_t worker = 0; worker < control_.num_workers(); ++worker) {
        bad_pkeys += port->rnic->device->counters[worker].drop_pkey.value();
        bad_qkeys += port->rnic->device->counters[worker].drop_qkey.value();
    }
    wire::mad::PortInfo& info = subnet_.node(node).ports[1].info;
    add_saturating(info.p_key_violations, bad_pkeys - port->seen_bad_pkeys);
    add_saturating(info.q_key_violations, bad_qkeys - port->seen_bad_qkeys);
    port->seen_bad_pkeys = bad_pkeys;
    port->seen_bad_qkeys = bad_qkeys;
}

}  // namespace urnic::daemon
