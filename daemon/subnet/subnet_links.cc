// Of SubnetService: links between switches, and subnets whose routes the daemon has planned.
#include <algorithm>

#include "daemon/subnet/subnet_service.h"
#include "os/monotonic_clock.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

namespace mad = wire::mad;

}  // namespace

/// `urnic port` takes links between switches down and up where a subnet manager sees them go.
void SubnetService::take_trunks(std::uint32_t index) {
    const InfinibandFabric& fabric = fabrics_[index];
    for (EmulatedNetworkInfo& network : control_.networks) {
        if (network.fabric != fabric.name) {
            continue;
        }
        network.set_link = [this, index](std::uint32_t port, bool up) {
            set_trunk(index, port, up);
            run();
        };
    }
}

/// No program sets what the plan would not follow: no M_Key is good enough (IBA 14.2.4).
void SubnetService::lock(std::uint32_t index) {
    const std::uint64_t key = std::uint64_t{secure_random()} << 32U | secure_random();
    const auto lock_node = [&](subnet::NodeId node) {
        subnet_.node(node).is_locked = true;
        mad::PortInfo& info = subnet_.node(node).base_port().info;
        info.m_key = key;
        info.m_key_protect_bits = 1;
    };
    for (const Switch& each : switches_) {
        if (each.fabric == index) {
            lock_node(each.node);
            subnet_.node(each.node).base_port().info.master_sm_lid = home_lid(index);
        }
    }
    for (const Port& port : ports_) {
        if (port.fabric == index) {
            lock_node(port.node);
        }
    }
}

/// Ports whose links are up are Active, and tables are those of the plan.
void SubnetService::take_plan(std::uint32_t index) {
    const std::vector<std::vector<std::uint8_t>> tables = fabrics_[index].find_routes();
    for (const Switch& each : switches_) {
        if (each.fabric != index) {
            continue;
        }
        subnet::Node& node = subnet_.node(each.node);
        for (std::size_t number = 1; number < node.ports.size(); ++number) {
            mad::PortInfo& info = node.ports[number].info;
            if (info.port_state == mad::kInit || info.port_state == mad::kArmed) {
                info.port_state = mad::kActive;
            }
        }
        std::fill(node.linear.begin(), node.linear.end(), subnet::kNoPort);
        std::copy(tables[each.at].begin(), tables[each.at].end(), node.linear.begin());
    }
}

/// `urnic port` takes links between switches down and up.
void SubnetService::follow_trunks(std::uint32_t index) {
    for (EmulatedNetworkInfo& network : control_.networks) {
        if (network.fabric != fabrics_[index].name) {
            continue;
        }
        network.set_link = [this, index, set = std::move(network.set_link)](std::uint32_t port, bool up) {
            set(port, up);
            set_trunk(index, port, up);
            take_plan(index);
            run();
        };
    }
}

void SubnetService::set_trunk(std::uint32_t index, std::uint32_t port, bool up) {
    const InfinibandFabric& fabric = fabrics_[index];
    const InfinibandFabric::SwitchPort& trunk = fabric.trunks.at(port - fabric.devices.size());
    const auto at = std::find_if(switches_.begin(), switches_.end(), [&](const Switch& candidate) {
        return candidate.fabric == index && candidate.at == trunk.at;
    });
    subnet_.set_enabled(at->node, trunk.port, up, clock_now());
}

/// Where the administrator is.
std::uint16_t SubnetService::home_lid(std::uint32_t index) const {
    return control_.devices.at(fabrics_[index].devices.front())->device->subnet.lid;
}

}  // namespace urnic::daemon
