// From a GID to an Ethernet address, for whoever sets up a path.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>

#include "rnic/wire/packet_view.h"

namespace urnic {

/// Finds the Ethernet address behind a GID: the in-process wire knows its ports, a real port asks ARP or ND.
class NeighbourResolver {
  public:
    /// Where frames go: a MAC that stays, or an entry of Device::neighbour_macs.
    struct ResolvedPath {
        wire::Mac mac{};
        std::uint16_t neighbour = wire::kNoNeighbour;
    };

    virtual ~NeighbourResolver() = default;
    /// The MAC, if it is known at once and stays.
    [[nodiscard]] virtual std::optional<wire::Mac> resolve(const wire::Gid& gid) const = 0;
    /// Resolves the path from a GID of the device on a VLAN; never blocks. Returns 0, ENETUNREACH (there is
    /// no route) or ENOMEM. The entry belongs to the path until release().
    [[nodiscard]] virtual int acquire(const wire::Gid& /*source*/, std::uint16_t /*vlan*/,
                                      const wire::Gid& destination, ResolvedPath& path) {
        const auto mac = resolve(destination);
        path = {mac.value_or(wire::Mac{}), wire::kNoNeighbour};
        return mac ? 0 : ENETUNREACH;
    }
    /// Releases what acquire() gave, once no worker uses it any more.
    virtual void release(std::uint16_t /*neighbour*/) {}
};

}  // namespace urnic
