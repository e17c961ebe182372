#include "daemon/subnet/infiniband_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <optional>

#include "rnic/wire/fields.h"
#include "rnic/wire/headers.h"

namespace urnic::daemon {

namespace {

namespace mad = wire::mad;
using Counter = subnet::PortCounter;
using SlToVl = dataplane::EmulatedSubnet::SlToVl;
using ArbitrationTable = netsim::VlArbiter::Table;

/// Of VLCap and OperationalVLs (IBA table 146).
std::uint8_t num_vls(std::uint8_t code) {
    constexpr std::array<std::uint8_t, 6> kVlsOfCode = {1, 1, 2, 4, 8, 15};
    return code < kVlsOfCode.size() ? kVlsOfCode.at(code) : kVlsOfCode.back();
}

// Four bits for each SL, as on the wire.
SlToVl vls_of(const mad::SlToVlMapping& map) {
    std::array<std::byte, netsim::kSls / 2> octets{};
    wire::write_fields(mad::kSlToVlMappingTable, &map, octets.data());
    SlToVl vls{};
    for (std::size_t sl = 0; sl < vls.size(); ++sl) {
        vls.at(sl) = std::to_integer<std::uint8_t>(octets.at(sl / 2) >> (sl % 2 == 0 ? 4U : 0U)) & 0x0fU;
    }
    return vls;
}
mad::SlToVlMapping mapping_of(const SlToVl& vls) {
    std::array<std::byte, netsim::kSls / 2> octets{};
    for (std::size_t sl = 0; sl < vls.size(); ++sl) {
        octets.at(sl / 2) |= static_cast<std::byte>(vls.at(sl) << (sl % 2 == 0 ? 4U : 0U));
    }
    mad::SlToVlMapping map;
    wire::read_fields(mad::kSlToVlMappingTable, octets.data(), &map);
    return map;
}

/// Two blocks of 32 entries: a VL in the low four bits of an octet, and its weight.
ArbitrationTable arbitration_of(const mad::VlArbitration& first, const mad::VlArbitration& second) {
    ArbitrationTable table;
    constexpr std::size_t kPerBlock = netsim::VlArbiter::kEntries / 2;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto& octets = (i < kPerBlock ? first : second).vl_and_weight;
        const std::size_t at = i % kPerBlock * 2;
        table.at(i) = {static_cast<std::uint8_t>(octets.at(at) & 0x0fU), octets.at(at + 1)};
    }
    return table;
}
void write_arbitration(const ArbitrationTable& table, mad::VlArbitration* blocks) {
    constexpr std::size_t kPerBlock = netsim::VlArbiter::kEntries / 2;
    for (std::size_t i = 0; i < table.size(); ++i) {
        auto& octets = blocks[i / kPerBlock].vl_and_weight;
        octets.at(i % kPerBlock * 2) = table.at(i).vl;
        octets.at(i % kPerBlock * 2 + 1) = table.at(i).weight;
    }
}

class InProcessWire final : public SubnetWire {
  public:
    explicit InProcessWire(dataplane::InProcessSwitch& wire) : wire_(wire) {}

    void set_linear(std::uint32_t /*at*/, std::uint16_t first, std::span<const std::uint8_t> ports) override {
        for (std::size_t i = 0; i < ports.size(); ++i) {
            const bool leads = ports[i] != 0 && ports[i] != subnet::kNoPort;
            wire_.set_forwarding(static_cast<std::uint16_t>(first + i),
                                 leads ? std::optional<std::uint32_t>(ports[i] - 1U) : std::nullopt);
        }
    }
    // It carries groups to who has attached.
    void set_multicast(std::uint32_t /*at*/, std::uint16_t /*first*/,
                       std::span<const Ports> /*ports*/) override {}
    // RNICs that are not active send and take nothing.
    void set_switch_port(std::uint32_t /*at*/, std::uint8_t /*port*/,
                         const mad::PortInfo& /*info*/) override {}
    void set_rnic_port(std::uint32_t /*rnic*/, const mad::PortInfo& /*info*/) override {}
    // There is one VL, and no partition is enforced.
    void set_pkeys(std::uint32_t /*at*/, std::uint8_t /*port*/, const PkeyTable& /*pkeys*/) override {}
    void set_sl_to_vl(const WirePort& /*out*/, std::uint8_t /*in*/,
                      const mad::SlToVlMapping& /*map*/) override {}
    void set_vl_arbitration(const WirePort& /*port*/, const subnet::PortRecord& /*record*/) override {}
    void read_lanes(const WirePort& /*port*/, subnet::PortRecord& /*record*/) const override {}
    dataplane::KeyViolationInbox* pkey_violations(std::uint32_t /*at*/) override { return nullptr; }
    bool read_counters(std::uint32_t /*at*/, std::uint8_t /*port*/,
                       subnet::PortCounterValues& /*values*/) override {
        return false;
    }

  private:
    dataplane::InProcessSwitch& wire_;
};

class EmulatedWire : public SubnetWire {
  public:
    EmulatedWire(const ControlState& control, dataplane::EmulatedSubnet& subnet)
        : control_(control), subnet_(subnet), switches_(subnet.switches()) {}

    void set_linear(std::uint32_t at, std::uint16_t first, std::span<const std::uint8_t> ports) override {
        call([&] { subnet_.set_linear(switches_.at(at), first, ports); });
    }
    void set_multicast(std::uint32_t at, std::uint16_t first, std::span<const Ports> ports) override {
        Ports carried;
        for (std::size_t port = 1; port <= num_ports(at); ++port) {
            carried.set(port);
        }
        std::vector<Ports> known(ports.begin(), ports.end());
        for (Ports& each : known) {
            each &= carried;
        }
        call([&] { subnet_.set_multicast(switches_.at(at), first, known); });
    }
    void set_switch_port(std::uint32_t at, std::uint8_t port, const mad::PortInfo& info) override {
        if (port <= num_ports(at)) {
            call([&] {
                subnet_.set_port(switches_.at(at), port, settings_of(info));
                subnet_.set_state(switches_.at(at), port, state_of(info));
            });
        }
    }
    void set_rnic_port(std::uint32_t rnic, const mad::PortInfo& info) override {
        call([&] {
            subnet_.set_lid(rnic, info.lid, info.lmc);
            subnet_.set_port(subnet_.node_of(rnic), 1, settings_of(info));
            subnet_.set_state(subnet_.node_of(rnic), 1, state_of(info));
        });
    }
    void set_pkeys(std::uint32_t at, std::uint8_t port, const PkeyTable& pkeys) override {
        if (port == 0 || port > num_ports(at)) {
            return;
        }
        std::vector<std::uint16_t> enforced;
        std::copy_if(pkeys.entries.begin(), pkeys.entries.end(), std::back_inserter(enforced),
                     [](std::uint16_t pkey) { return wire::is_partition(pkey); });
        call([&] { subnet_.exchange_pkeys(switches_.at(at), port, enforced); });
    }
    void set_sl_to_vl(const WirePort& out, std::uint8_t in, const mad::SlToVlMapping& map) override {
        if (is_carried(out) && (out.is_rnic || in <= num_ports(out.at))) {
            call([&] { subnet_.set_sl_to_vl(node_of(out), in, out.port, vls_of(map)); });
        }
    }
    void set_vl_arbitration(const WirePort& port, const subnet::PortRecord& record) override {
        if (!is_carried(port)) {
            return;
        }
        dataplane::EmulatedSubnet::VlArbitration wanted;
        wanted.low = arbitration_of(record.vl_arbitration[0], record.vl_arbitration[1]);
        wanted.high = arbitration_of(record.vl_arbitration[2], record.vl_arbitration[3]);
        wanted.high_limit = record.info.vl_high_limit;
        const netsim::VlArbiter& now = subnet_.network().port(node_of(port), port.port).arbiter();
        if (now.table(netsim::VlArbiter::Priority::kLow) == wanted.low &&
            now.table(netsim::VlArbiter::Priority::kHigh) == wanted.high &&
            now.high_limit() == wanted.high_limit) {
            return;  // its turns go on
        }
        call([&] { subnet_.set_vl_arbitration(node_of(port), port.port, wanted); });
    }
    void read_lanes(const WirePort& port, subnet::PortRecord& record) const override {
        if (!is_carried(port)) {
            return;
        }
        const netsim::IbNetwork& network = subnet_.network();
        const netsim::IbSwitch* const at = network.switch_at(node_of(port));
        const std::size_t inputs = at == nullptr ? 1 : at->num_ports() + std::size_t{1};
        for (std::size_t in = 0; in < inputs; ++in) {
            record.sl_to_vl.at(in) =
                mapping_of(at == nullptr ? network.sl_to_vl(node_of(port))
                                         : at->sl_to_vl(static_cast<std::uint8_t>(in), port.port));
        }
        const netsim::VlArbiter& arbiter = network.port(node_of(port), port.port).arbiter();
        write_arbitration(arbiter.table(netsim::VlArbiter::Priority::kLow), &record.vl_arbitration[0]);
        write_arbitration(arbiter.table(netsim::VlArbiter::Priority::kHigh), &record.vl_arbitration[2]);
        record.info.vl_high_limit = arbiter.high_limit();
    }
    dataplane::KeyViolationInbox* pkey_violations(std::uint32_t at) override {
        return subnet_.has_external_sm() ? &subnet_.pkey_violations(switches_.at(at)) : nullptr;
    }
    bool read_counters(std::uint32_t at, std::uint8_t port, subnet::PortCounterValues& values) override {
        if (port == 0 || port > num_ports(at)) {
            return true;
        }
        netsim::IbPortCounters counters;
        call([&] { counters = subnet_.network().port(switches_.at(at), port).counters(); });
        const auto set = [&](Counter counter, std::uint64_t value) {
            values.at(static_cast<std::size_t>(counter)) = value;
        };
        set(Counter::kXmitData, counters.xmit_data);
        set(Counter::kRcvData, counters.rcv_data);
        set(Counter::kXmitPkts, counters.xmit_packets);
        set(Counter::kRcvPkts, counters.rcv_packets);
        set(Counter::kRcvErrors, counters.rcv_errors);
        set(Counter::kRcvSwitchRelayErrors, counters.rcv_switch_relay_errors);
        set(Counter::kRcvConstraintErrors, counters.rcv_constraint_errors);
        set(Counter::kXmitConstraintErrors, counters.xmit_constraint_errors);
        set(Counter::kXmitDiscards, counters.xmit_discards);
        set(Counter::kVl15Dropped, counters.vl15_dropped);
        set(Counter::kLinkDowned, counters.link_downed);
        return true;
    }

  private:
    /// Those behind them, of idle hosts, carry nothing.
    [[nodiscard]] std::uint8_t num_ports(std::uint32_t at) const {
        return subnet_.network().switch_at(switches_.at(at))->num_ports();
    }
    [[nodiscard]] bool is_carried(const WirePort& port) const {
        return port.is_rnic || (port.port != 0 && port.port <= num_ports(port.at));
    }
    [[nodiscard]] netsim::NodeIndex node_of(const WirePort& port) const {
        return port.is_rnic ? subnet_.node_of(port.at) : switches_.at(port.at);
    }
    static dataplane::EmulatedSubnet::PortSettings settings_of(const mad::PortInfo& info) {
        return {num_vls(info.operational_vls), info.partition_enforcement_inbound,
                info.partition_enforcement_outbound};
    }
    static netsim::IbPortState state_of(const mad::PortInfo& info) {
        using enum netsim::IbPortState;
        return info.port_state == mad::kActive  ? kActive
               : info.port_state == mad::kArmed ? kArmed
               : info.port_state == mad::kInit  ? kInit
                                                : kDown;
    }
    template <typename Function>
    void call(const Function& function) const {
        control_.workers[0]->call(function);
    }

    const ControlState& control_;
    dataplane::EmulatedSubnet& subnet_;
    std::vector<netsim::NodeIndex> switches_;
};

/// Whose routes, states and lanes are planned elsewhere.
class PlannedWire final : public EmulatedWire {
  public:
    using EmulatedWire::EmulatedWire;
    void set_linear(std::uint32_t /*at*/, std::uint16_t /*first*/,
                    std::span<const std::uint8_t> /*ports*/) override {}
    void set_multicast(std::uint32_t /*at*/, std::uint16_t /*first*/,
                       std::span<const Ports> /*ports*/) override {}
    void set_switch_port(std::uint32_t /*at*/, std::uint8_t /*port*/,
                         const mad::PortInfo& /*info*/) override {}
    void set_rnic_port(std::uint32_t /*rnic*/, const mad::PortInfo& /*info*/) override {}
};

void take_plan(InfinibandFabric& fabric, const ControlState& control, dataplane::EmulatedSubnet& subnet) {
    for (const netsim::NodeIndex node : subnet.switches()) {
        fabric.switch_lids.push_back(subnet.plan().lids[node]);
    }
    fabric.find_routes = [&subnet] {
        netsim::LinearRoutes routes = netsim::find_linear_routes(subnet.network(), subnet.plan());
        std::vector<std::vector<std::uint8_t>> tables;
        for (const netsim::NodeIndex node : subnet.switches()) {
            tables.push_back(std::move(routes[node]));
        }
        return tables;
    };
    fabric.wire = std::make_unique<PlannedWire>(control, subnet);
}

}  // namespace

InfinibandFabric fabric_of(const std::string& name, std::vector<std::uint32_t> devices,
                           dataplane::InProcessSwitch& wire) {
    InfinibandFabric fabric;
    fabric.name = name;
    fabric.switches.push_back({"urnic switch of " + name, static_cast<std::uint8_t>(devices.size())});
    for (std::size_t i = 0; i < devices.size(); ++i) {
        fabric.uplinks.push_back({0, static_cast<std::uint8_t>(i + 1)});
    }
    fabric.devices = std::move(devices);
    fabric.wire = std::make_unique<InProcessWire>(wire);
    return fabric;
}

InfinibandFabric fabric_of(const std::string& name, std::vector<std::uint32_t> devices,
                           const ControlState& control, dataplane::EmulatedSubnet& subnet,
                           std::uint8_t idle_hosts) {
    const netsim::IbNetwork& network = subnet.network();
    const netsim::Topology& topology = network.topology();
    InfinibandFabric fabric;
    fabric.name = name;
    std::vector<std::uint32_t> places(topology.nodes.size());  // in fabric.switches
    for (const netsim::NodeIndex node : subnet.switches()) {
        places[node] = static_cast<std::uint32_t>(fabric.switches.size());
        fabric.switches.push_back({fmt::format("urnic switch {} of {}", topology.nodes[node].name, name),
                                   network.switch_at(node)->num_ports()});
    }
    for (std::uint32_t rnic = 0; rnic < devices.size(); ++rnic) {
        const netsim::TopologyPort& link = network.routes().ports(subnet.node_of(rnic))[0];
        fabric.uplinks.push_back({places[link.neighbour], static_cast<std::uint8_t>(link.port_there + 1)});
    }
    for (const netsim::NodeIndex node : subnet.switches()) {
        std::uint8_t number = 1;
        for (const netsim::TopologyPort& link : network.routes().ports(node)) {
            const InfinibandFabric::SwitchPort here{places[node], number++};
            if (topology.nodes[link.neighbour].is_host) {
                continue;
            }
            fabric.trunks.push_back(here);
            // Each cable once.
            if (node < link.neighbour || (node == link.neighbour && here.port <= link.port_there)) {
                fabric.cables.emplace_back(
                    here, InfinibandFabric::SwitchPort{places[link.neighbour],
                                                       static_cast<std::uint8_t>(link.port_there + 1)});
            }
        }
    }
    for (std::uint32_t at = 0; at < fabric.switches.size(); ++at) {
        if (std::any_of(fabric.uplinks.begin(), fabric.uplinks.end(),
                        [&](const InfinibandFabric::SwitchPort& uplink) { return uplink.at == at; })) {
            for (std::uint8_t i = 0; i < idle_hosts; ++i) {
                fabric.idle_hosts.push_back({at, ++fabric.switches[at].num_ports});
            }
        }
    }
    // 1, 2, 4, 8, 15 VLs (IBA table 146).
    const unsigned vls = network.port(subnet.switches().front(), 1).info().vl_cap;
    fabric.vl_cap = static_cast<std::uint8_t>(vls == 15 ? 5 : std::bit_width(vls));
    // With one VL there is nothing to arbitrate (IBA 7.6.9).
    fabric.vl_arbitration_cap = vls == 1 ? 0 : netsim::VlArbiter::kEntries;
    fabric.enforces_pkeys = subnet.has_external_sm();
    fabric.devices = std::move(devices);
    if (subnet.has_external_sm()) {
        fabric.wire = std::make_unique<EmulatedWire>(control, subnet);
    } else {
        take_plan(fabric, control, subnet);
    }
    return fabric;
}

}  // namespace urnic::daemon
