#include "daemon/neighbour/link_monitor.h"

#include <new>

#include "daemon/state/port_state.h"
#include "os/log.h"
#include "os/setup_error.h"

namespace urnic::daemon {

namespace {

/// Workers take the queues one by one; while they do, both the old and the new ones are there.
void replace_queues(ControlState& control, RnicState& device, dataplane::KernelPort& port,
                    dataplane::KernelPort::Queues& queues, int index) {
    const std::uint32_t number = device.device->index;
    for (std::uint32_t i = 0; i < control.num_workers(); ++i) {
        dataplane::Worker& worker = *control.workers[i];
        dataplane::KernelQueue* const queue =
            i < queues.of_worker.size() ? queues.of_worker[i].get() : nullptr;
        worker.call([&] {
            port.use(i, queue);
            worker.watch_port(number);
        });
    }
    port.adopt(queues, index);
}

void open_again(ControlState& control, RnicState& device, dataplane::KernelPort& port,
                const InterfaceFacts& facts) {
    try {
        dataplane::KernelPort::Queues queues = port.open(facts);
        replace_queues(control, device, port, queues, facts.index);
    } catch (const SetupError& error) {
        log_error("{}: {}; tried again when something changes", device.device->name, error.what());
    }
}

/// Also when only some interface of the namespace has changed: to look is cheap.
void follow(ControlState& control, RnicState& device, dataplane::KernelPort& port) {
    port.interface().forget_changes();
    const InterfaceFacts facts = port.interface().look();
    if (port.opened_index() != 0 && port.opened_index() != facts.index) {
        report_port(control, device, PortFact::kPresent, false);
        log_warning("{}: the interface {} is gone; the port comes back with an interface of that name",
                    device.device->name, port.interface().name());
        dataplane::KernelPort::Queues none;
        replace_queues(control, device, port, none, 0);
    }
    if (port.opened_index() == 0 && facts.index != 0 && facts.is_up) {
        open_again(control, device, port, facts);
    }
    if (facts.index == 0) {
        return;
    }
    if (path_mtu_within(facts.mtu_bytes) < device.device->mtu_bytes && facts.mtu_bytes != port.warned_mtu()) {
        log_warning("{}: the MTU of {} is {} now, packets of the path MTU {} do not fit: {}",
                    device.device->name, port.interface().name(), facts.mtu_bytes, device.device->mtu_bytes,
                    port.command_in_netns(fmt::format("ip link set {} mtu {}", port.interface().name(),
                                                      interface_mtu_for(device.device->mtu_bytes))));
    }
    port.set_warned_mtu(facts.mtu_bytes);
    port.set_interface_mtu(facts.mtu_bytes);
    report_port(control, device, PortFact::kLink, facts.link && port.opened_index() != 0);
    report_port(control, device, PortFact::kPresent, true);
}

/// When this fails, it is tried again when the port is looked at again.
void give_back(ControlState& control, dataplane::DpdkPort& port) {
    for (const auto& worker : control.workers) {
        worker->call([] {});  // whoever was sending or receiving has come to the end of it
    }
    (void)port.release_device();
}

}  // namespace

void monitor_link(ControlState& control, RnicState& device, dataplane::KernelPort& port) {
    const auto on_change = [&control, &device, &port] { follow(control, device, port); };
    on_change();
    if (!device.device->port_state.link) {
        log_warning("{}: the interface {} is down or has no carrier: {}", device.device->name,
                    port.interface().name(),
                    port.command_in_netns(fmt::format("ip link set {} up", port.interface().name())));
    }
    control.event_loop.add(port.interface().changes_fd(), on_change);
}

void monitor_link(ControlState& control, RnicState& device, dataplane::DpdkPort& port) {
    const auto on_change = [&control, &device, &port] {
        port.clear_changes();
        const bool removed = port.removed();
        if (removed && device.device->port_state.present) {
            log_warning("{}: its NIC is gone; start urnicd again when there is another", device.device->name);
        }
        report_port(control, device, PortFact::kPresent, !removed);
        report_port(control, device, PortFact::kLink, port.link_up());
        if (removed && port.has_device()) {
            give_back(control, port);
        }
    };
    on_change();
    control.event_loop.add(port.changes_fd(), on_change);
}

}  // namespace urnic::daemon
