// Of SubnetService: what a Set of a subnet manager changes for those who carry packets.
#include <algorithm>
#include <array>
#include <vector>

#include "daemon/subnet/subnet_service.h"

namespace urnic::daemon {

namespace {

constexpr std::uint16_t kLidsPerBlock = 64;
constexpr std::size_t kMlidsPerBlock = 32;

}  // namespace

void SubnetService::on_change(subnet::NodeId node, const subnet::Change& change) {
    if (Port* const port = port_of_node(node); port != nullptr) {
        on_rnic_change(*port, change);
    } else if (const Switch* const at = switch_of_node(node); at != nullptr) {
        on_switch_change(*at, change);
    }
}

void SubnetService::on_rnic_change(Port& port, const subnet::Change& change) {
    using Kind = subnet::Change::Kind;
    const subnet::PortRecord& record = subnet_.node(port.node).ports[1];
    SubnetWire& wire = *fabrics_[port.fabric].wire;
    switch (change.kind) {
        case Kind::kPort:
            say_is_sm(port);  // MasterSMLID may be another's
            sync(port, change.is_reregister);
            wire.set_vl_arbitration({true, port.number}, record);  // VLHighLimit
            return;
        case Kind::kPkeys:
            // QPs keep what stood in their entry until they are modified.
            port.rnic->device->pkeys = record.pkeys;
            tell(port, AsyncEventType::kPkeyChange);
            return;
        case Kind::kSlToVl:
            wire.set_sl_to_vl({true, port.number}, 0, record.sl_to_vl[0]);
            return;
        case Kind::kVlArbitration:
            wire.set_vl_arbitration({true, port.number}, record);
            return;
        default:
            return;
    }
}

const SubnetService::Switch* SubnetService::switch_of_node(subnet::NodeId node) const {
    const auto at = std::find_if(switches_.begin(), switches_.end(),
                                 [&](const Switch& candidate) { return candidate.node == node; });
    return at == switches_.end() ? nullptr : &*at;
}

void SubnetService::on_switch_change(const Switch& at, const subnet::Change& change) {
    using Kind = subnet::Change::Kind;
    const subnet::PortRecord& record = subnet_.node(at.node).ports.at(change.port);
    SubnetWire& wire = *fabrics_[at.fabric].wire;
    const WirePort port{false, at.at, change.port};
    switch (change.kind) {
        case Kind::kPort:
            on_port_state(at.node, change.port);
            wire.set_vl_arbitration(port, record);  // VLHighLimit
            return;
        case Kind::kPkeys:
            wire.set_pkeys(at.at, change.port, record.pkeys);
            return;
        case Kind::kSlToVl:
            wire.set_sl_to_vl(port, static_cast<std::uint8_t>(change.block),
                              record.sl_to_vl.at(change.block));
            return;
        case Kind::kVlArbitration:
            wire.set_vl_arbitration(port, record);
            return;
        case Kind::kLinear:
            write_linear(at, static_cast<std::uint16_t>(change.block * kLidsPerBlock), kLidsPerBlock);
            return;
        case Kind::kSwitch:
            // Its top may be another.
            write_linear(at, 0, subnet::kLinearFdbCap);
            return;
        case Kind::kMulticast:
            write_multicast(at, change.block);
            return;
        default:
            return;
    }
}

void SubnetService::write_linear(const Switch& at, std::uint16_t first, std::size_t count) {
    const subnet::Node& node = subnet_.node(at.node);
    std::vector<std::uint8_t> ports(count);
    for (std::size_t i = 0; i < count; ++i) {
        ports[i] = node.forward(static_cast<std::uint16_t>(first + i));
    }
    fabrics_[at.fabric].wire->set_linear(at.at, first, ports);
}

/// A block of MLIDs: its ports come in masks of 16, one for each position.
void SubnetService::write_multicast(const Switch& at, std::uint16_t block) {
    const subnet::Node& node = subnet_.node(at.node);
    std::array<SubnetWire::Ports, kMlidsPerBlock> ports;
    const std::size_t first = std::size_t{block} * kMlidsPerBlock;
    for (std::size_t port = 1; port <= node.num_ports(); ++port) {
        for (std::size_t i = 0; i < ports.size(); ++i) {
            ports[i][port] = (node.multicast[port / 16][first + i] >> port % 16 & 1U) != 0;
        }
    }
    fabrics_[at.fabric].wire->set_multicast(
        at.at, static_cast<std::uint16_t>(subnet::SaGroups::kFirstMlid + first), ports);
}

/// Until a subnet manager sets them, lanes are those of the wire.
void SubnetService::read_lanes(subnet::NodeId node, WirePort port, const InfinibandFabric& fabric) {
    fabric.wire->read_lanes(port, subnet_.node(node).ports.at(port.port));
}

}  // namespace urnic::daemon
