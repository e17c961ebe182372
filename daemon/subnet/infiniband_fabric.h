// A fabric of InfiniBand as a subnet manager meets it: switches, RNICs, cables, and who carries its packets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/state/control_state.h"
#include "dataplane/wire/emulated_subnet.h"
#include "dataplane/wire/in_process_switch.h"
#include "netsim/infiniband/forwarding_tables.h"
#include "rnic/subnet/node.h"
#include "rnic/subnet/performance_agent.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::daemon {

/// A port whose packets a SubnetWire carries.
struct WirePort {
    bool is_rnic = false;   // with one port
    std::uint32_t at = 0;   // the RNIC's number on the fabric, or the switch's place in its `switches`
    std::uint8_t port = 1;  // of the switch
};

/// Who carries the data packets of a fabric, ruled by its subnet manager. For the control thread. `at`: the
/// switch's place in InfinibandFabric::switches.
class SubnetWire {
  public:
    using Ports = netsim::MulticastForwardingTable::Ports;

    virtual ~SubnetWire() = default;
    /// Where a switch sends packets to the LIDs from `first` on; kNoPort: nowhere.
    virtual void set_linear(std::uint32_t at, std::uint16_t first, std::span<const std::uint8_t> ports) = 0;
    virtual void set_multicast(std::uint32_t at, std::uint16_t first, std::span<const Ports> ports) = 0;
    /// The state of a switch's port, or the state and LIDs of an RNIC's (its number on the fabric).
    virtual void set_switch_port(std::uint32_t at, std::uint8_t port, const wire::mad::PortInfo& info) = 0;
    virtual void set_rnic_port(std::uint32_t rnic, const wire::mad::PortInfo& info) = 0;
    /// The P_Keys that a switch's port enforces.
    virtual void set_pkeys(std::uint32_t at, std::uint8_t port, const PkeyTable& pkeys) = 0;
    /// The VLs of what leaves by `out` and came by `in` (0: by the switch's own, or the RNIC's).
    virtual void set_sl_to_vl(const WirePort& out, std::uint8_t in, const wire::mad::SlToVlMapping& map) = 0;
    /// VLArbitrationTable and VLHighLimit of the port.
    virtual void set_vl_arbitration(const WirePort& port, const subnet::PortRecord& record) = 0;
    /// The same as they are now; what it has no tables for stays as it is.
    virtual void read_lanes(const WirePort& port, subnet::PortRecord& record) const = 0;
    /// Packets that a switch has dropped for their P_Key; nullptr: it enforces none.
    [[nodiscard]] virtual dataplane::KeyViolationInbox* pkey_violations(std::uint32_t at) = 0;
    /// Returns whether switches count themselves; else their ports count what RNICs do.
    virtual bool read_counters(std::uint32_t at, std::uint8_t port, subnet::PortCounterValues& values) = 0;
};

struct InfinibandFabric {
    struct Switch {
        std::string description;
        std::uint8_t num_ports = 0;
    };
    struct SwitchPort {
        std::uint32_t at = 0;  // in `switches`
        std::uint8_t port = 0;
    };

    std::string name;
    std::vector<std::uint32_t> devices;  // Device::index
    bool has_external_sm = false;
    /// Devices whose agents say the GUIDs of another one, which is theirs to say.
    std::map<std::uint32_t, std::uint32_t> duplicates;
    std::vector<Switch> switches;
    std::vector<SwitchPort> uplinks;                        // of the devices
    std::vector<std::pair<SwitchPort, SwitchPort>> cables;  // between switches
    std::vector<SwitchPort> trunks;                         // as EmulatedNetworkInfo numbers them
    std::vector<SwitchPort> idle_hosts;                     // ports of nodes that have no RNIC
    std::uint8_t vl_cap = 1;                                // PortInfo:VLCap
    std::uint8_t vl_arbitration_cap = 0;                    // of both tables
    bool enforces_pkeys = false;                            // its switches, as a subnet manager says
    std::unique_ptr<SubnetWire> wire;
    /// Where the daemon has planned several switches: their LIDs, by switch, and the linear forwarding tables
    /// that they have now, by switch and LID. Else empty.
    std::vector<std::uint16_t> switch_lids;
    std::function<std::vector<std::vector<std::uint8_t>>()> find_routes;
    [[nodiscard]] bool is_planned() const { return find_routes != nullptr; }
};

/// One switch, whose port i + 1 has devices[i].
[[nodiscard]] InfinibandFabric fabric_of(const std::string& name, std::vector<std::uint32_t> devices,
                                         dataplane::InProcessSwitch& wire);
/// The switches of a topology. `subnet` is worker 0's; where it has no external subnet manager, its routes
/// and states remain its own, and no MAD changes them. `idle_hosts`: on each switch that has RNICs, at ports
/// that the wire does not have: nothing but management packets goes there.
[[nodiscard]] InfinibandFabric fabric_of(const std::string& name, std::vector<std::uint32_t> devices,
                                         const ControlState& control, dataplane::EmulatedSubnet& subnet,
                                         std::uint8_t idle_hosts);

}  // namespace urnic::daemon
