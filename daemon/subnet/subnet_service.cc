#include "daemon/subnet/subnet_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "daemon/cm/service.h"
#include "daemon/control/port_counters.h"
#include "daemon/state/port_state.h"
#include "os/log.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

namespace {

namespace mad = wire::mad;
using subnet::PortCounter;

/// What management packets take of a round of the event loop, before clients have their turn.
constexpr TimeNs kRoundNs = 2'000'000;
constexpr std::size_t kPacketsPerStep = 32;

std::uint64_t host_order(std::uint64_t guid) {
    return std::endian::native == std::endian::little ? __builtin_bswap64(guid) : guid;
}

/// Of what is no RNIC: the first RNIC's with another bit of the company's part, and a number where all RNICs
/// have the same (EUI-64 of a MAC has 0xfffe there), so that it is no RNIC's whatever MAC that has.
constexpr std::uint64_t kSwitchGuidBit = 0x0400'0000'0000'0000;
constexpr std::uint64_t kIdleHostGuidBit = 0x0800'0000'0000'0000;
std::uint64_t guid_beside(std::uint64_t first_rnic_guid, std::uint64_t bit, std::uint32_t number) {
    return first_rnic_guid ^ bit ^ (std::uint64_t{number} + 1) << 24U;
}

struct CounterName {
    PortCounter counter;
    const char* name;         // as daemon/control/port_counters.h has it
    const char* at_the_peer;  // what the other end of the cable counts for it; nullptr: nothing is known
};
constexpr CounterName kCounterNames[] = {
    {PortCounter::kLinkDowned, "link_downed", "link_downed"},
    {PortCounter::kRcvErrors, "port_rcv_errors", nullptr},
    {PortCounter::kXmitDiscards, "port_xmit_discards", nullptr},
    {PortCounter::kXmitData, "port_xmit_data", "port_rcv_data"},
    {PortCounter::kRcvData, "port_rcv_data", "port_xmit_data"},
    {PortCounter::kXmitPkts, "port_xmit_packets", "port_rcv_packets"},
    {PortCounter::kRcvPkts, "port_rcv_packets", "port_xmit_packets"},
    {PortCounter::kXmitWait, "port_xmit_wait", nullptr},
    {PortCounter::kUnicastXmitPkts, "unicast_xmit_packets", "unicast_rcv_packets"},
    {PortCounter::kUnicastRcvPkts, "unicast_rcv_packets", "unicast_xmit_packets"},
    {PortCounter::kMulticastXmitPkts, "multicast_xmit_packets", "multicast_rcv_packets"},
    {PortCounter::kMulticastRcvPkts, "multicast_rcv_packets", "multicast_xmit_packets"},
};

template <class Ports>
auto* find_port(Ports& ports, const RnicState& rnic) {
    const auto found = std::find_if(ports.begin(), ports.end(),
                                    [&](const auto& candidate) { return candidate.rnic == &rnic; });
    return found == ports.end() ? nullptr : &*found;
}

}  // namespace

SubnetService::SubnetService(ControlState& control, std::vector<InfinibandFabric> fabrics,
                             const std::string& tree)
    : control_(control), fabrics_(std::move(fabrics)) {
    subnet_.set_tap(&capture_);
    for (std::uint32_t i = 0; i < fabrics_.size(); ++i) {
        add_fabric(i);
    }
    // The number of a umad is its RNIC's place among those of InfiniBand (Sysroot::write()).
    std::sort(ports_.begin(), ports_.end(),
              [](const Port& a, const Port& b) { return a.rnic->device->index < b.rnic->device->index; });
    UmadServer::Effects effects;
    effects.send = [this](std::uint32_t port, const subnet::MadPacket& packet) {
        subnet_.send(ports_.at(port).node, packet);
    };
    effects.set_is_sm = [this](std::uint32_t port, bool is_sm) { set_program(ports_.at(port), is_sm); };
    effects.after_input = [this] { run(); };
    umads_.emplace(control, tree, static_cast<std::uint32_t>(ports_.size()), std::move(effects));
    timer_events_ = control.event_loop.add(timer_.fd(), [this] {
        timer_.acknowledge();
        armed_for_ = kNever;
        run();
    });
    listen_for_key_violations();
    control.observers.push_back(this);
    control.gsi = this;
}

SubnetService::~SubnetService() {
    control_.gsi = nullptr;
    std::erase(control_.observers, static_cast<RnicObserver*>(this));
    control_.event_loop.remove(timer_events_);
    ignore_key_violations();
}

void SubnetService::add_fabric(std::uint32_t index) {
    const InfinibandFabric& fabric = fabrics_[index];
    const std::uint64_t first_guid =
        host_order(control_.devices.at(fabric.devices.front())->device->node_guid);
    std::vector<subnet::NodeId> switches;
    for (std::uint32_t at = 0; at < fabric.switches.size(); ++at) {
        subnet::NodeOptions options;
        options.type = mad::kSwitch;
        options.num_ports = fabric.switches[at].num_ports;
        options.description = fabric.switches[at].description;
        options.guid = guid_beside(first_guid, kSwitchGuidBit, at);
        options.port.vl_cap = fabric.vl_cap;
        options.port.vl_arbitration_cap = fabric.vl_arbitration_cap;
        options.enforces_pkeys = fabric.enforces_pkeys;
        options.port.lid = fabric.is_planned() ? fabric.switch_lids[at] : std::uint16_t{0};
        switches.push_back(subnet_.add(options));
        switches_.push_back({switches.back(), index, at, {}});
        for (unsigned number = 1; number <= options.num_ports; ++number) {
            read_lanes(switches.back(), {false, at, static_cast<std::uint8_t>(number)}, fabric);
        }
    }
    for (const auto& [a, b] : fabric.cables) {
        subnet_.connect(switches[a.at], a.port, switches[b.at], b.port);
    }
    for (std::uint32_t number = 0; number < fabric.devices.size(); ++number) {
        add_port(index, number, switches);
    }
    add_idle_hosts(index, switches);
    administrators_.push_back(nullptr);
    if (fabric.has_external_sm) {
        take_trunks(index);
        return;
    }
    add_administrator(index);
    if (fabric.is_planned()) {
        lock(index);
        take_plan(index);
        follow_trunks(index);
    }
}

void SubnetService::add_port(std::uint32_t index, std::uint32_t number,
                             const std::vector<subnet::NodeId>& switches) {
    const InfinibandFabric& fabric = fabrics_[index];
    RnicState& rnic = *control_.devices.at(fabric.devices[number]);
    const dataplane::Device& device = *rnic.device;
    const InfinibandFabric::SwitchPort uplink = fabric.uplinks[number];
    const subnet::NodeId switch_node = switches[uplink.at];
    subnet::NodeOptions options;
    const auto duplicate = fabric.duplicates.find(device.index);
    const std::uint32_t owner = duplicate == fabric.duplicates.end() ? device.index : duplicate->second;
    options.guid = host_order(control_.devices.at(owner)->device->node_guid);
    options.description = device.name;
    options.pkeys = device.pkeys;
    options.port.lid = device.subnet.lid;
    options.port.mtu = static_cast<std::uint8_t>(std::bit_width(device.mtu_bytes / 256));
    options.port.vl_cap = fabric.vl_cap;
    options.port.vl_arbitration_cap = fabric.vl_arbitration_cap;
    ports_.push_back({subnet_.add(options), &rnic, index, number, switch_node, uplink.port, false, {}});
    read_lanes(ports_.back().node, {true, number}, fabric);
    capture_.add(ports_.back().node, device.index);
    subnet_.node(ports_.back().node).ports[1].info.capability_mask |=
        subnet::kIsCommunicationManagementSupported;
    subnet_.connect(ports_.back().node, 1, switch_node, uplink.port);
    // One switch joins the ports of a fabric that is managed here.
    if (!fabric.has_external_sm) {
        subnet_.node(switch_node).linear.at(device.subnet.lid) = uplink.port;
        subnet_.node(switch_node).ports[uplink.port].info.port_state = mad::kActive;
        mad::PortInfo& info = subnet_.node(ports_.back().node).ports[1].info;
        info.port_state = mad::kActive;
        info.lmc = device.subnet.lmc;
        info.master_sm_lid = home_lid(index);
    }
    sync(ports_.back(), false);
}

/// They answer for themselves, and nobody has to be told of what changes them.
void SubnetService::add_idle_hosts(std::uint32_t index, const std::vector<subnet::NodeId>& switches) {
    const InfinibandFabric& fabric = fabrics_[index];
    const dataplane::Device& first = *control_.devices.at(fabric.devices.front())->device;
    std::uint32_t number = 0;
    for (const InfinibandFabric::SwitchPort& place : fabric.idle_hosts) {
        subnet::NodeOptions options;
        options.guid = guid_beside(host_order(first.node_guid), kIdleHostGuidBit, number);
        options.description = fmt::format("idle host {} of {}", ++number, fabric.name);
        options.pkeys = first.pkeys;
        options.port.mtu = static_cast<std::uint8_t>(std::bit_width(first.mtu_bytes / 256));
        options.port.vl_cap = fabric.vl_cap;
        options.port.vl_arbitration_cap = fabric.vl_arbitration_cap;
        subnet_.connect(subnet_.add(options), 1, switches[place.at], place.port);
    }
}

void SubnetService::add_administrator(std::uint32_t index) {
    std::vector<const subnet::Node*> nodes;
    for (const Switch& each : switches_) {
        if (each.fabric == index) {
            nodes.push_back(&subnet_.node(each.node));
        }
    }
    subnet::NodeId home = 0;
    for (const Port& port : ports_) {
        if (port.fabric == index) {
            nodes.push_back(&subnet_.node(port.node));
            home = port.number == 0 ? port.node : home;
        }
    }
    using Succession = subnet::SubnetAdministrator::Succession;
    administrators_[index] = std::make_unique<subnet::SubnetAdministrator>(
        subnet_.node(home), std::move(nodes),
        [this, home](const subnet::MadPacket& packet) { subnet_.send(home, packet); },
        fabrics_[index].is_planned() ? Succession::kStaysMaster : Succession::kHandsOver);
    // From the beginning on: nobody has to be told.
    subnet_.node(home).ports[1].info.capability_mask |= subnet::kIsSm;
    sync(*port_of_node(home), false);
}

/// Who administers the subnet at this port: nobody any more once a program has become its manager elsewhere.
subnet::SubnetAdministrator* SubnetService::administrator_at(const Port& port) {
    const subnet::Node& node = subnet_.node(port.node);
    return port.number == 0 && node.has_lid(node.ports[1].info.master_sm_lid)
               ? administrators_[port.fabric].get()
               : nullptr;
}

/// It takes the place of the built-in manager at its port, where it can manage the subnet, too.
void SubnetService::set_program(Port& port, bool has_program) {
    port.has_program = has_program;
    subnet::SubnetAdministrator* const administrator = administrators_[port.fabric].get();
    if (administrator != nullptr && port.number == 0 && !fabrics_[port.fabric].is_planned()) {
        administrator->set_program(has_program);
    }
    say_is_sm(port);
    sync(port, false);
}

/// PortInfo:CapabilityMask says so of a port with a subnet manager, a program or the built-in one.
void SubnetService::say_is_sm(const Port& port) {
    subnet_.set_is_sm(port.node, port.has_program || administrator_at(port) != nullptr, clock_now());
}

SubnetService::Port* SubnetService::port_of_node(subnet::NodeId node) {
    const auto port = std::find_if(ports_.begin(), ports_.end(),
                                   [&](const Port& candidate) { return candidate.node == node; });
    return port == ports_.end() ? nullptr : &*port;
}

SubnetService::Port* SubnetService::port_of_rnic(const RnicState& rnic) { return find_port(ports_, rnic); }

const SubnetService::Port* SubnetService::port_of_rnic(const RnicState& rnic) const {
    return find_port(ports_, rnic);
}

/// Carries what is under way to its end, and no more than a round's share.
void SubnetService::run() {
    if (is_running_) {
        return;
    }
    is_running_ = true;
    bool has_more = true;
    // Whatever ends a round, another one follows.
    const struct Finish {
        SubnetService& service;
        const bool& has_more;
        ~Finish() {
            service.is_running_ = false;
            service.arm(has_more);
        }
    } finish{*this, has_more};
    const TimeNs now = clock_now();
    want_key_violations(now);
    umads_->advance(now);
    for (const auto& administrator : administrators_) {
        if (administrator != nullptr) {
            administrator->advance(now);
        }
    }
    while (has_more && clock_now() - now < kRoundNs) {
        has_more = subnet_.advance(now, kPacketsPerStep);
    }
}

void SubnetService::arm(bool has_more) {
    TimeNs next = has_more ? clock_now() : std::min(umads_->next_event(), subnet_.next_event());
    for (const auto& administrator : administrators_) {
        next = administrator == nullptr ? next : std::min(next, administrator->next_event());
    }
    next = std::min(next, next_key_event());
    if (next != armed_for_) {
        armed_for_ = next;
        timer_.set_at(next);
    }
}

void SubnetService::tell(const Port& port, std::optional<AsyncEventType> event) {
    for (RnicObserver* observer : control_.observers) {
        observer->on_subnet(*port.rnic, event);
    }
}

/// The RNIC follows its port's attributes.
void SubnetService::sync(Port& port, bool is_reregister) {
    const mad::PortInfo& info = subnet_.node(port.node).ports[1].info;
    dataplane::SubnetPortInfo& own = port.rnic->device->subnet;
    const bool has_new_lid = own.lid != info.lid || own.lmc != info.lmc;
    const bool has_new_sm = own.sm_lid != info.master_sm_lid || own.sm_sl != info.master_sm_sl;
    own.lid = info.lid;
    own.lmc = info.lmc;
    own.sm_lid = info.master_sm_lid;
    own.sm_sl = info.master_sm_sl;
    own.capability_mask = info.capability_mask;
    own.state = info.port_state;
    fabrics_[port.fabric].wire->set_rnic_port(port.number, info);
    tell(port, has_new_lid ? std::optional(AsyncEventType::kLidChange) : std::nullopt);
    if (has_new_sm) {
        tell(port, AsyncEventType::kSmChange);
    }
    if (is_reregister) {
        tell(port, AsyncEventType::kClientReregister);
    }
    const bool is_active = info.port_state == mad::kActive;
    // A port that nobody manages is active while it has a link.
    if (fabrics_[port.fabric].has_external_sm) {
        report_port(control_, *port.rnic, PortFact::kManaged, is_active);
    }
}

void SubnetService::on_port_state(subnet::NodeId node, std::uint8_t number) {
    if (Port* port = port_of_node(node); port != nullptr) {
        sync(*port, false);
    } else if (const Switch* const at = switch_of_node(node); at != nullptr && number != 0) {
        fabrics_[at->fabric].wire->set_switch_port(at->at, number, subnet_.node(node).ports[number].info);
    }
}

void SubnetService::on_link(RnicState& rnic, bool has_link) {
    Port* port = port_of_rnic(rnic);
    if (port == nullptr) {
        return;
    }
    const TimeNs now = clock_now();
    subnet_.set_enabled(port->node, 1, has_link, now);
    subnet::SubnetAdministrator* const administrator = administrators_[port->fabric].get();
    if (!has_link && administrator != nullptr) {
        administrator->on_port_down(subnet_.node(port->node), now);
    }
    if (has_link && administrator != nullptr) {
        subnet_.node(port->node).ports[1].info.port_state = mad::kActive;
        subnet_.node(port->switch_node).ports[port->switch_port].info.port_state = mad::kActive;
        sync(*port, false);
        administrator->on_port_up(subnet_.node(port->node), now);
    }
    run();
}

bool SubnetService::deliver(subnet::NodeId node, const subnet::MadPacket& packet) {
    const Port* port = port_of_node(node);
    if (port == nullptr) {
        return false;
    }
    if (control_.cm != nullptr && control_.cm->receive(*port->rnic, packet)) {
        return true;
    }
    const auto number = static_cast<std::uint32_t>(std::distance(std::as_const(ports_).data(), port));
    subnet::SubnetAdministrator* const administrator = administrator_at(*port);
    const auto administer = [&] {
        return administrator != nullptr && administrator->handle(packet, clock_now());
    };
    // A program takes its place where it can manage the subnet, too.
    if (fabrics_[port->fabric].is_planned() && administer()) {
        return true;
    }
    return umads_->deliver(number, packet, clock_now()) || administer();
}

bool SubnetService::share_subnet(const RnicState& a, const RnicState& b) const {
    const Port* const one = port_of_rnic(a);
    const Port* const other = port_of_rnic(b);
    return one != nullptr && other != nullptr && one->fabric == other->fabric;
}

RnicState* SubnetService::find_lid(const RnicState& on, std::uint16_t lid) const {
    const Port* const port = port_of_rnic(on);
    const auto found = std::find_if(ports_.begin(), ports_.end(), [&](const Port& candidate) {
        return port != nullptr && candidate.fabric == port->fabric &&
               subnet_.node(candidate.node).has_lid(lid);
    });
    return found == ports_.end() ? nullptr : found->rnic;
}

/// Those who send may be in the middle of a call that its answer would change: it waits for the event loop.
void SubnetService::send(const RnicState& from, const subnet::MadPacket& packet) {
    const Port* const port = port_of_rnic(from);
    if (port == nullptr) {
        return;
    }
    try {
        subnet_.send(port->node, packet);
    } catch (const std::bad_alloc&) {
        return;
    }
    if (!is_running_ && armed_for_ > clock_now()) {
        arm(true);
    }
}

/// A switch's port counts what its RNIC counts, the other way round.
void SubnetService::read_counters(subnet::NodeId node, std::uint8_t port, subnet::PortCounterValues& values) {
    const auto is_meant = [&](const Port& candidate) {
        return candidate.node == node || (candidate.switch_node == node && candidate.switch_port == port);
    };
    const Switch* const at = switch_of_node(node);
    if (at != nullptr && fabrics_[at->fabric].wire->read_counters(at->at, port, values)) {
        return;
    }
    const auto found = std::find_if(ports_.begin(), ports_.end(), is_meant);
    if (found == ports_.end()) {
        return;
    }
    std::map<std::string, std::uint64_t> named;
    for (const auto& [name, value] :
         port_counters(sum_counters(*found->rnic->device, control_.num_workers()))) {
        named[name] = value;
    }
    for (const CounterName& one : kCounterNames) {
        const char* name = found->node == node ? one.name : one.at_the_peer;
        values.at(static_cast<std::size_t>(one.counter)) = name == nullptr ? 0 : named.at(name);
    }
}

}  // namespace urnic::daemon
