// The addresses of one RNIC while the daemon runs: the GID table, as Linux keeps it. GID 0 is the link-local
// address made from the MAC; the others come in the order in which the addresses appear, keep their index,
// and free it when the address is removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/device/device.h"

namespace urnic::dataplane {

/// One address of an interface, as it lies on the wire of one VLAN.
struct InterfaceAddress {
    wire::Gid gid{};
    std::uint16_t vlan = 0;
    std::string interface;  // "eth0.7"; empty: none of the kernel's
    bool operator==(const InterfaceAddress&) const = default;
};

/// Sets the device's table to these addresses and the link-local one of `mac`. Addresses for which there is
/// no free entry are left out, which is logged. Returns whether something has changed.
[[nodiscard]] bool set_addresses(Device& device, const wire::Mac& mac,
                                 const std::vector<InterfaceAddress>& addresses);

}  // namespace urnic::dataplane
