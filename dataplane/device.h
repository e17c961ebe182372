// One emulated RNIC: identity, addresses, keys, counters, and the port it sends through.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/packet_io.h"
#include "rnic/abi/control.h"
#include "rnic/device/address_handles.h"
#include "rnic/device/counters.h"
#include "rnic/mem/key_table.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

class MadInbox;

/// Finds the Ethernet address behind a GID: the in-process wire knows its ports, a real port asks ARP or ND.
class NeighbourResolver {
  public:
    virtual ~NeighbourResolver() = default;
    [[nodiscard]] virtual std::optional<wire::Mac> resolve(const wire::Gid& gid) = 0;
};

/// What is known of a port; changed by report_port() alone.
struct PortState {
    bool wanted = true;
    bool link = true;
    bool present = true;
    [[nodiscard]] bool is_up() const { return wanted && link && present; }
    /// As a NIC reports them (IBA 14.2.5.6, PortPhysicalState).
    enum class Phys : std::uint8_t { kPolling = 2, kDisabled = 3, kLinkUp = 5 };
    [[nodiscard]] Phys phys() const {
        return !wanted ? Phys::kDisabled : is_up() ? Phys::kLinkUp : Phys::kPolling;
    }
};

/// Built by the control thread before the workers start; afterwards only `keys`, `handles` and `port_state`
/// (by the control thread, which alone looks at `port_state`) and `counters` (each by its worker) change.
struct Device {
    static constexpr std::uint32_t kGidTableLength = 16;

    std::string name;  // "urnic0"
    std::uint32_t index = 0;
    std::uint64_t node_guid = 0;  // network order
    wire::Mac mac{};
    std::array<wire::Gid, kGidTableLength> gids{};  // [0] link-local, [1] IPv4-mapped; zeros are free entries
    std::uint32_t mtu_bytes = 4096;                 // largest path MTU
    bool goes_back_n = false;                       // RnicConfig::goes_back_n
    abi::DeviceCaps caps{};
    KeyTable keys;
    AddressHandles handles;
    std::array<Counters, abi::kMaxWorkers> counters;
    PacketIo* port = nullptr;
    PortState port_state;  // see port_state.h
    NeighbourResolver* neighbours = nullptr;
    MadInbox* mads = nullptr;  // nullptr: nobody listens to QP1, what comes for it is dropped
};

}  // namespace urnic::dataplane
