// Of SubnetService: packets with a wrong P_Key or Q_Key, which ports of RNICs count and tell of.
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

/// When all ports are where they stay.
void SubnetService::listen_for_key_violations() {
    for (Port& port : ports_) {
        port.rnic->key_violations = std::make_unique<dataplane::KeyViolationInbox>();
        port.key_events = control_.event_loop.add(port.rnic->key_violations->fd(),
                                                  [this, &port] { take_key_violation(port); });
        port.rnic->device->key_violations = port.rnic->key_violations.get();
    }
}

void SubnetService::take_key_violation(Port& port) {
    if (const auto violation = port.rnic->key_violations->take()) {
        port.next_key_trap = subnet_.report(port.node, *violation, clock_now());
        run();
    }
}

/// A flood of them wakes nobody more often than a trap may leave.
void SubnetService::want_key_violations(TimeNs now) {
    for (const Port& port : ports_) {
        dataplane::KeyViolationInbox& inbox = *port.rnic->key_violations;
        if (inbox.was_taken() && port.next_key_trap <= now) {
            inbox.want_next();
        }
    }
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
