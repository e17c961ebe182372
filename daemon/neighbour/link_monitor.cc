#include "daemon/neighbour/link_monitor.h"

#include <new>

#include "daemon/host/port_state.h"
#include "os/log.h"
#include "os/setup_error.h"

namespace urnic::dataplane {

namespace {

/// Workers take the queues one by one; while they do, both the old and the new ones are there.
void replace_queues(Host& host, HostDevice& device, KernelPort& port, KernelPort::Queues& queues, int index) {
    const std::uint32_t number = device.device->index;
    for (std::uint32_t i = 0; i < host.num_workers(); ++i) {
        Worker& worker = *host.workers[i];
        PortQueue* const queue = i < queues.of_worker.size() ? queues.of_worker[i].get() : nullptr;
        worker.call([&] {
            port.use(i, queue);
            worker.watch_port(number);
        });
    }
    port.adopt(queues, index);
}

void open_again(Host& host, HostDevice& device, KernelPort& port, const InterfaceFacts& facts) {
    try {
        KernelPort::Queues queues = port.open(facts);
        replace_queues(host, device, port, queues, facts.index);
    } catch (const SetupError& error) {
        log_error("{}: {}; tried again when something changes", device.device->name, error.what());
    }
}

/// Also when only some interface of the namespace has changed: to look is cheap.
void follow(Host& host, HostDevice& device, KernelPort& port) {
    port.interface().forget_changes();
    const InterfaceFacts facts = port.interface().look();
    if (port.opened_index() != 0 && port.opened_index() != facts.index) {
        report_port(host, device, PortFact::kPresent, false);
        log_warning("{}: the interface {} is gone; the port comes back with an interface of that name",
                    device.device->name, port.interface().name());
        KernelPort::Queues none;
        replace_queues(host, device, port, none, 0);
    }
    if (port.opened_index() == 0 && facts.index != 0 && facts.is_up) {
        open_again(host, device, port, facts);
    }
    if (facts.index == 0) {
        return;
    }
    if (path_mtu_within(facts.mtu_bytes) < device.device->mtu_bytes && facts.mtu_bytes != port.warned_mtu()) {
        log_warning("{}: the MTU of {} is {} now, packets of the path MTU {} do not fit: {}",
                    device.device->name, port.interface().name(), facts.mtu_bytes, device.device->mtu_bytes,
                    port.where_it_is(fmt::format("ip link set {} mtu {}", port.interface().name(),
                                                 interface_mtu_for(device.device->mtu_bytes))));
    }
    port.set_warned_mtu(facts.mtu_bytes);
    report_port(host, device, PortFact::kLink, facts.link && port.opened_index() != 0);
    report_port(host, device, PortFact::kPresent, true);
}

/// When this fails, it is tried again when the port is looked at again.
void give_back(Host& host, DpdkPort& port) {
    for (const auto& worker : host.workers) {
        worker->call([] {});  // whoever was sending or receiving has come to the end of it
    }
    (void)port.give_back();
}

}  // namespace

void watch_port(Host& host, HostDevice& device, KernelPort& port) {
    const auto on_change = [&host, &device, &port] { follow(host, device, port); };
    on_change();
    if (!device.device->port_state.link) {
        log_warning("{}: the interface {} is down or has no carrier: {}", device.device->name,
                    port.interface().name(),
                    port.where_it_is(fmt::format("ip link set {} up", port.interface().name())));
    }
    host.watches.push_back({port.interface().changes_fd(), on_change});
}

void watch_port(Host& host, HostDevice& device, DpdkPort& port) {
    const auto on_change = [&host, &device, &port] {
        port.forget_changes();
        const bool removed = port.removed();
        if (removed && device.device->port_state.present) {
            log_warning("{}: its NIC is gone; start urnicd again when there is another", device.device->name);
        }
        report_port(host, device, PortFact::kPresent, !removed);
        report_port(host, device, PortFact::kLink, port.link_up());
        if (removed && port.holds_device()) {
            give_back(host, port);
        }
    };
    on_change();
    host.watches.push_back({port.changes_fd(), on_change});
}

}  // namespace urnic::dataplane
