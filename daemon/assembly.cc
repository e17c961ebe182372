#include "daemon/assembly.h"

#include <algorithm>

#include "daemon/config/pfc.h"
#include "daemon/device_caps.h"
#include "daemon/neighbour/link_monitor.h"
#include "daemon/port_hints.h"
#include "os/log.h"
#include "os/secure_random.h"
#include "os/setup_error.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

/// Ethernet groups in which an RNIC with addresses of its own is: questions for its IPv6 addresses and
/// answers to all (RFC 4861 2.3), and pauses, where the NIC leaves them to others.
std::vector<wire::Mac> own_groups(const dataplane::Device& device) {
    // Queries of IGMP go to all hosts, those of MLD to all nodes.
    constexpr wire::Mac kAllHosts{0x01, 0x00, 0x5e, 0x00, 0x00, 0x01};
    std::vector<wire::Mac> groups{wire::kMacControlAddress, wire::multicast_mac(net::kAllNodes), kAllHosts};
    const auto add = [&](const wire::Gid& gid) {
        const wire::Mac group = wire::multicast_mac(net::solicited_node(gid));
        if (!wire::is_ipv4_mapped(gid) && std::find(groups.begin(), groups.end(), group) == groups.end()) {
            groups.push_back(group);
        }
    };
    add(link_local_gid(device.mac));
    for (std::size_t i = 1; i < device.gids.size(); ++i) {
        if (device.gids[i] != wire::Gid{}) {
            add(device.gids[i]);
        }
    }
    return groups;
}

static_assert(kMaxXoffFramesOnNetwork < dataplane::InProcessSwitch::kRingFrames);

netsim::Topology topology_of(const NetworkConfig& network, std::uint32_t num_rnics) {
    const netsim::LinkSpec edge{.rate = network.link_rate, .delay_ns = network.delay_ns};
    const netsim::LinkSpec trunk{
        .rate = network.trunk_rate != 0 ? network.trunk_rate : network.link_rate,
        .delay_ns = network.trunk_delay_ns != kNever ? network.trunk_delay_ns : network.delay_ns};
    const std::uint32_t on_each = num_rnics / network.switches;
    return network.shape == NetworkShape::kLeafSpine
               ? netsim::leaf_spine(network.switches, network.spines, on_each, edge, trunk)
               : netsim::parking_lot(network.switches, on_each, edge, trunk);
}

}  // namespace

std::string memif_arguments(const RnicConfig& rnic, std::uint32_t index) {
    // A buffer holds a whole frame; the rest are the driver's defaults.
    return dpdk_name(rnic, index) + ",role=" + (rnic.is_memif_server ? "server" : "client") +
           ",id=" + std::to_string(rnic.memif_id) +
           ",bsize=8192,socket-abstract=no,socket=" + rnic.port_device;
}

std::string dpdk_name(const RnicConfig& rnic, std::uint32_t index) {
    if (rnic.port == PortKind::kMemif) {
        return "net_memif" + std::to_string(index);
    }
    // DPDK knows a vdev by what stands before its arguments.
    return rnic.port_device.substr(0, rnic.port_device.find(','));
}

Assembly::Assembly(const Config& config, dataplane::WorkerHandoff& handoff, rte_mempool* frames) {
    for (std::uint32_t i = 0; i < config.rnics.size(); ++i) {
        add_device(config.rnics[i], i);
    }
    add_fabrics(config, handoff, frames);
    for (std::uint32_t i = 0; i < config.rnics.size(); ++i) {
        if (config.rnics[i].port != PortKind::kFabric) {
            open_port(*devices_[i], config.rnics[i], handoff.num_workers(), frames);
        }
        dataplane::Device& device = *devices_[i];
        device.gids[0] = link_local_gid(device.mac);
        device.node_guid = node_guid(device.mac);
        device.caps = caps_of(device);
        if (config.daemon.has_histograms) {
            device.message_histograms = std::vector<MessageHistograms>(handoff.num_workers());
        }
    }
    add_hairpins(config, handoff);
    add_networks(config);
}

void Assembly::add_device(const RnicConfig& rnic, std::uint32_t index) {
    auto device = std::make_unique<dataplane::Device>();
    device->name = rnic.name;
    device->index = index;
    device->mac = rnic.mac.value_or(wire::Mac{});
    device->mtu_bytes = rnic.mtu_bytes;
    device->use_go_back_n = rnic.use_go_back_n;
    device->nak_failed_invalidation = rnic.nak_failed_invalidation;
    device->profile = rnic.profile;
    device->sends_mig_req = rnic.sends_mig_req;
    device->acks_each_request = rnic.acks_each_request;
    device->timer_tick_ns = rnic.timer_tick_ns;
    device->source_port_rule = rnic.source_port_rule;
    device->congestion.fill(rnic.congestion);
    device->pfc = rnic.pfc;
    device->pkeys = rnic.pkeys;
    device->has_infiniband_link = rnic.is_infiniband;
    device->subnet.lid = rnic.lid;
    device->subnet.lmc = rnic.lmc;
    device->port_state.managed = !rnic.has_external_sm;
    device->is_ecn_capable = rnic.is_ecn_capable;
    device->udp_checksum_enabled = rnic.udp_checksum_enabled;
    if (rnic.is_infiniband) {
        // RFC 4391, section 8: the identifier of the link-local one is the port's GUID, as a universal one.
        wire::Gid link_local = link_local_gid(device->mac);
        link_local[8] |= 0x02U;
        device->ipoib_addresses = {rnic.ipv4.value_or(wire::Gid{}), rnic.ipv6.value_or(wire::Gid{}),
                                   link_local};
        devices_.push_back(std::move(device));
        return;
    }
    std::uint32_t next = 1;
    const auto add_link = [&](const LinkConfig& link) {
        for (const auto& address : {link.ipv4, link.ipv6}) {
            if (address) {
                device->gid_vlans[next] = link.vlan;
                device->gids[next++] = *address;
            }
        }
    };
    add_link(rnic);
    std::for_each(rnic.vlans.begin(), rnic.vlans.end(), add_link);
    devices_.push_back(std::move(device));
}

void Assembly::add_fabrics(const Config& config, dataplane::WorkerHandoff& handoff, rte_mempool* frames) {
    std::map<std::string, std::vector<dataplane::Device*>> members;
    for (std::size_t i = 0; i < config.rnics.size(); ++i) {
        if (config.rnics[i].port == PortKind::kFabric) {
            members[config.rnics[i].port_device].push_back(devices_[i].get());
            fabric_of_[static_cast<std::uint32_t>(i)] = config.rnics[i].port_device;
        }
    }
    for (const auto& [name, devices] : members) {
        std::vector<dataplane::InProcessSwitch::PortSpec> specs;
        for (const dataplane::Device* device : devices) {
            dataplane::InProcessSwitch::PortSpec spec{device->mac,
                                                      {device->gids.begin(), device->gids.end()}};
            spec.gids[0] = link_local_gid(device->mac);
            spec.is_infiniband = device->is_infiniband();
            spec.lid = device->subnet.lid;
            spec.lmc = device->subnet.lmc;
            specs.push_back(spec);
        }
        auto fabric = std::make_unique<dataplane::InProcessSwitch>(specs, handoff);
        for (std::uint32_t i = 0; i < devices.size(); ++i) {
            devices[i]->port = &fabric->port(i);
            devices[i]->neighbours = fabric.get();
        }
        offload(config, devices);
        emulate(config, name, *fabric, devices, handoff, frames);
        fabrics_.emplace(name, std::move(fabric));
    }
}

// All RNICs of a fabric, or none: which of them a packet is for is not known before it is made.
void Assembly::offload(const Config& config, const std::vector<dataplane::Device*>& devices) {
    using enum dataplane::LocalOffload;
    const auto any = [&](auto&& property) { return std::any_of(devices.begin(), devices.end(), property); };
    const dataplane::LocalOffload offload =
        any([&](const auto* device) { return config.rnics[device->index].is_offload_off; }) ? kOff
        : any([](const auto* device) { return device->is_infiniband(); })                   ? kInfiniband
        : any([](const auto* device) { return device->pfc.tx_priorities != 0; })            ? kPfc
                                                                                            : kOn;
    for (dataplane::Device* device : devices) {
        device->local_offload = offload;
    }
}

void Assembly::emulate(const Config& config, const std::string& name, dataplane::InProcessSwitch& fabric,
                       const std::vector<dataplane::Device*>& devices, dataplane::WorkerHandoff& handoff,
                       rte_mempool* frames) {
    const auto network =
        std::find_if(config.networks.begin(), config.networks.end(),
                     [&](const NetworkConfig& candidate) { return candidate.fabric == name; });
    if (network == config.networks.end()) {
        return;
    }
    if (devices.front()->is_infiniband()) {
        emulate_subnet(*network, fabric, devices, handoff, frames);
        return;
    }
    const auto num_rnics = static_cast<std::uint32_t>(devices.size());
    dataplane::EmulatedNetwork::Options options;
    options.topology = topology_of(*network, num_rnics);
    options.pool = frames;
    options.weights = network->weights;
    options.switches.buffer_bytes = network->buffer_bytes;
    options.switches.pfc = network->pfc;
    const netsim::EcnOptions ecn{
        network->ecn_kmin_bytes, network->ecn_kmax_bytes,
        Fraction::from_raw(static_cast<std::uint32_t>(network->ecn_pmax * Fraction::kOne))};
    options.switches.ecn.fill(ecn);
    auto made = std::make_unique<dataplane::EmulatedNetwork>(options, fabric, num_rnics, handoff);
    for (std::uint32_t i = 0; i < num_rnics; ++i) {
        devices[i]->port = &made->port(i);
        devices[i]->local_offload = dataplane::LocalOffload::kNetwork;
        devices[i]->pfc.link_bits_per_second = network->link_rate;
    }
    emulated_.emplace(name, std::move(made));
}

void Assembly::emulate_subnet(const NetworkConfig& network, dataplane::InProcessSwitch& fabric,
                              const std::vector<dataplane::Device*>& devices,
                              dataplane::WorkerHandoff& handoff, rte_mempool* frames) {
    const SubnetConfig& subnet = network.subnet;
    dataplane::EmulatedSubnet::Options options;
    options.topology = topology_of(network, static_cast<std::uint32_t>(devices.size()));
    options.pool = frames;
    options.lmc = subnet.lmc;
    options.has_external_sm = !devices.front()->port_state.managed;
    options.network.switches.life_time = subnet.switch_life;
    options.network.sl_to_vl = subnet.sl_to_vl;
    options.network.vl_high = subnet.vl_high;
    options.network.vl_low = subnet.vl_low;
    options.network.vl_high_limit = subnet.vl_high_limit;
    options.network.port.vl_buffer_blocks = subnet.vl_buffer_bytes / netsim::kCreditBlockBytes;
    options.network.port.info.vl_cap = subnet.vls;
    options.network.port.info.operational_vls = subnet.vls;
    options.network.port.info.hoq_life = subnet.hoq_life;
    for (const dataplane::Device* device : devices) {
        options.lids.push_back(device->subnet.lid);
    }
    auto made = std::make_unique<dataplane::EmulatedSubnet>(options, fabric, handoff);
    for (std::uint32_t i = 0; i < devices.size(); ++i) {
        devices[i]->port = &made->port(i);
    }
    subnets_.emplace(network.fabric, std::move(made));
    idle_hosts_.emplace(network.fabric, subnet.idle_hosts);
}

void Assembly::list_networks(ControlState& control) const {
    for (const auto& [name, fabric] : fabrics_) {
        const auto is_its = [&wanted = name](const auto& entry) { return entry.second == wanted; };
        // Not those of RNICs that share a port.
        if (std::any_of(fabric_of_.begin(), fabric_of_.end(), is_its)) {
            control.fabrics.push_back({name, [wire = fabric.get()] { return wire->unknown_mac_frames(); }});
        }
    }
    const auto list = [&](const std::string& name, auto* wire, bool is_infiniband) {
        EmulatedNetworkInfo listed;
        listed.fabric = name;
        listed.is_infiniband = is_infiniband;
        // In the order of the fabric's ports: add_fabrics() has made it.
        for (const auto& device : devices_) {
            if (fabric_of_.contains(device->index) && fabric_of_.at(device->index) == name) {
                listed.devices.push_back(device->name);
            }
        }
        listed.trunks = wire->trunks();
        listed.view = [wire](std::uint32_t port) { return wire->view(port); };
        listed.way = [wire](auto port, auto headers) { return wire->way(port, headers); };
        control.networks.push_back(std::move(listed));
    };
    for (const auto& [name, wire] : emulated_) {
        list(name, wire.get(), false);
    }
    for (const auto& [name, wire] : subnets_) {
        list(name, wire.get(), true);
    }
}

void Assembly::route_groups(ControlState& control) {
    for (const auto& [name, subnet] : subnets_) {
        if (subnet->has_external_sm()) {
            continue;
        }
        subnet_routes_.push_back(std::make_unique<SubnetRoutes>(*subnet));
        SubnetRoutes& routes = *subnet_routes_.back();
        std::uint32_t rnic = 0;
        // In the order of the fabric's ports: add_fabrics() has made it.
        for (const auto& device : control.devices) {
            const std::uint32_t index = device->device->index;
            if (fabric_of_.contains(index) && fabric_of_.at(index) == name) {
                device->groups.set_on_lids([&routes, &control, rnic](std::span<const std::uint16_t> lids) {
                    routes.set_groups(control, rnic, lids);
                });
                ++rnic;
            }
        }
        for (EmulatedNetworkInfo& network : control.networks) {
            if (network.fabric == name) {
                network.set_link = [&routes, &control](std::uint32_t port, bool up) {
                    routes.set_link(control, port, up);
                };
            }
        }
    }
}

std::vector<InfinibandFabric> Assembly::infiniband_fabrics(const ControlState& control) const {
    std::vector<InfinibandFabric> result;
    for (const auto& [name, fabric] : fabrics_) {
        std::vector<std::uint32_t> devices;
        bool has_external_sm = false;
        // In the order of the fabric's ports: add_fabrics() has made it.
        for (const auto& device : devices_) {
            if (device->is_infiniband() && fabric_of_.contains(device->index) &&
                fabric_of_.at(device->index) == name) {
                devices.push_back(device->index);
                has_external_sm = !device->port_state.managed;
            }
        }
        const auto subnet = subnets_.find(name);
        if (devices.empty()) {
            continue;
        }
        result.push_back(subnet == subnets_.end() ? fabric_of(name, std::move(devices), *fabric)
                                                  : fabric_of(name, std::move(devices), control,
                                                              *subnet->second, idle_hosts_.at(name)));
        result.back().has_external_sm = has_external_sm;
    }
    return result;
}

void Assembly::open_port(dataplane::Device& device, const RnicConfig& rnic, std::uint32_t num_workers,
                         rte_mempool* frames) {
    if (rnic.port == PortKind::kAfPacket || rnic.port == PortKind::kAfXdp) {
        open_kernel_port(device, rnic, num_workers, frames);
        return;
    }
    dataplane::DpdkPortConfig config;
    config.name = dpdk_name(rnic, device.index);
    config.hint = port_hint(rnic);
    config.num_queues = num_workers;
    config.path_mtu_bytes = rnic.port == PortKind::kPci ? rnic.mtu_bytes : 0;
    config.promiscuous = rnic.mac.has_value();
    config.frames = frames;
    auto port = std::make_unique<dataplane::DpdkPort>(config);
    if (!rnic.mac) {
        device.mac = port->mac();
    }
    port->set_own_groups(own_groups(device));
    device.port = port.get();
    if (rnic.pfc.tx_priorities != 0 && !port->can_count_waiting()) {
        if (rnic.pfc.xoff_frames >= dataplane::PrefetchPort::kMaxFrames) {
            throw SetupError(
                rnic.name + ": [rnic.pfc]: its port's driver does not tell how many frames wait, and " +
                "'xoff_frames' must be less than " + std::to_string(dataplane::PrefetchPort::kMaxFrames));
        }
        prefetch_ports_.push_back(
            std::make_unique<dataplane::PrefetchPort>(*port, num_workers, rnic.pfc.xoff_frames + 1));
        device.port = prefetch_ports_.back().get();
    }
    dpdk_ports_.emplace(device.index, std::move(port));
}

void Assembly::open_kernel_port(dataplane::Device& device, const RnicConfig& rnic, std::uint32_t num_workers,
                                rte_mempool* frames) {
    dataplane::KernelPortConfig config;
    config.interface = rnic.port_device;
    config.netns = rnic.netns;
    config.xdp = rnic.port == PortKind::kAfXdp;
    config.num_queues = num_workers;
    config.mac = rnic.mac;
    config.frames = frames;
    config.counters = &device.counters;
    if (rnic.is_segmentation_off) {
        device.segmentation = dataplane::SegmentationOffload::kOff;
    }
    config.segmentation = &device.segmentation;
    auto port = std::make_unique<dataplane::KernelPort>(config);
    if (!rnic.is_mtu_set) {
        device.mtu_bytes = port->max_path_mtu();
    } else if (rnic.mtu_bytes > port->max_path_mtu()) {
        throw SetupError(rnic.name + ": " + port->explain_mtu_limit(rnic.mtu_bytes));
    }
    device.mac = port->mac();
    device.port = port.get();
    kernel_ports_.emplace(device.index, std::move(port));
}

void Assembly::add_hairpins(const Config& config, dataplane::WorkerHandoff& handoff) {
    std::map<std::string, std::vector<dataplane::Device*>> ports;
    for (std::uint32_t i = 0; i < config.rnics.size(); ++i) {
        const RnicConfig& rnic = config.rnics[i];
        dataplane::Device& device = *devices_[i];
        if (rnic.port == PortKind::kFabric) {
            continue;
        }
        ports[rnic.port == PortKind::kAfPacket ? rnic.netns + '\n' + rnic.port_device : rnic.name].push_back(
            &device);
    }
    std::vector<NeighbourConfig> neighbours = config.neighbours;
    for (const auto& [key, devices] : ports) {
        std::vector<dataplane::InProcessSwitch::PortSpec> specs;
        for (const dataplane::Device* device : devices) {
            specs.push_back({device->mac, {}});
            // RNICs that share a port do not hear each other's ARP.
            for (const wire::Gid& gid : device->gids) {
                if (devices.size() > 1 && gid != wire::Gid{}) {
                    neighbours.push_back({gid, device->mac});
                }
            }
        }
        auto fabric = std::make_unique<dataplane::InProcessSwitch>(specs, handoff);
        for (std::uint32_t i = 0; i < devices.size(); ++i) {
            hairpins_.push_back(std::make_unique<dataplane::HairpinPort>(*fabric, i, *devices[i]->port));
            devices[i]->port = hairpins_.back().get();
        }
        fabrics_.emplace("port " + devices.front()->name, std::move(fabric));
    }
    neighbours_ = std::make_unique<StaticNeighbours>(neighbours);
}

void Assembly::add_networks(const Config& config) {
    for (std::uint32_t i = 0; i < config.rnics.size(); ++i) {
        const RnicConfig& rnic = config.rnics[i];
        dataplane::Device& device = *devices_[i];
        if (rnic.port == PortKind::kFabric) {
            continue;
        }
        report_groups(rnic, device);
        if (borrows_addresses(rnic)) {
            auto& network = kernel_networks_[i] =
                std::make_unique<KernelNetwork>(device, rnic.port_device, rnic.netns, *neighbours_);
            device.neighbours = &network->path_resolver();
        } else {
            auto& network = userspace_networks_[i] =
                std::make_unique<UserspaceNetwork>(device, rnic, *neighbours_);
            device.neighbours = &network->path_resolver();
            if (rnic.port == PortKind::kAfXdp) {
                network->listen(rnic.port_device, rnic.netns);
            }
        }
    }
}

/// Of an RNIC on a real port: switches that listen to IGMP and MLD learn of its groups.
void Assembly::report_groups(const RnicConfig& rnic, dataplane::Device& device) {
    const bool has_kernel_port = rnic.port == PortKind::kAfPacket || rnic.port == PortKind::kAfXdp;
    if (!rnic.reports_multicast || (!has_kernel_port && rnic.port != PortKind::kPci)) {
        return;
    }
    auto& reports = membership_reports_[device.index] =
        std::make_unique<MembershipReports>(device, !borrows_addresses(rnic), secure_random());
    if (has_kernel_port) {
        reports->listen(rnic.port_device, rnic.netns);
    } else {
        reports->listen_to_port();
    }
}

void Assembly::monitor_links(ControlState& control) {
    for (const auto& [index, reports] : membership_reports_) {
        reports->start(control);
        control.devices.at(index)->groups.set_on_change(
            [to = reports.get()](std::span<const wire::Gid> groups) { to->set_groups(groups); });
    }
    for (const auto& [index, network] : userspace_networks_) {
        network->start(control);
    }
    for (const auto& [index, network] : kernel_networks_) {
        network->start(control, *control.devices.at(index));
    }
    for (const auto& [index, port] : kernel_ports_) {
        monitor_link(control, *control.devices.at(index), *port);
    }
    for (const auto& [index, port] : dpdk_ports_) {
        monitor_link(control, *control.devices.at(index), *port);
    }
}

void Assembly::log_refusals() const {
    for (const auto& [index, port] : kernel_ports_) {
        if (port->take_segmentation_refusal()) {
            log_info(
                "{}: the kernel does not cut frames apart that leave together (Linux 6.2 does): each is sent "
                "alone",
                devices_[index]->name);
        }
    }
}

void Assembly::run_on_port_threads(FunctionRef function) const {
    for (const auto& [index, port] : kernel_ports_) {
        port->run_in_netns(function);
    }
}

std::vector<dataplane::Device*> Assembly::devices() const {
    std::vector<dataplane::Device*> result;
    std::transform(devices_.begin(), devices_.end(), std::back_inserter(result),
                   [](const auto& device) { return device.get(); });
    return result;
}

}  // namespace urnic::daemon
