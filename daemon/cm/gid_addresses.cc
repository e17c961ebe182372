#include "daemon/cm/gid_addresses.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "daemon/cm/client.h"
#include "daemon/state/subnet_gsi.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kPrefixBytes = 8;                                          // of a GID
constexpr std::uint64_t kPortSpaceBits = 0xffff'ffff'ffff'0000;                  // RDMA_IB_IP_PS_MASK
constexpr std::uint16_t kPortSpaces[] = {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};  // in Linux's order

bool have_one_prefix(const wire::Gid& a, const wire::Gid& b) {
    return std::equal(a.begin(), a.begin() + kPrefixBytes, b.begin());
}

bool is_member(const RnicState& rnic, std::uint16_t pkey) {
    return rnic.device->pkeys.index_of(pkey).has_value();
}

}  // namespace

bool has_infiniband(const ControlState& control) {
    return std::any_of(control.devices.begin(), control.devices.end(),
                       [](const auto& rnic) { return rnic->device->is_infiniband(); });
}

std::uint16_t port_space_of(const Endpoint& local, std::uint16_t space) {
    const std::uint64_t said = local.ib.service_mask & kPortSpaceBits;
    for (const std::uint16_t candidate : kPortSpaces) {
        if ((space == RDMA_PS_IB || space == candidate) &&
            ((local.ib.service_id ^ cm::ip_service_id(candidate, 0)) & said) == 0) {
            return candidate;
        }
    }
    return 0;
}

void say_service(PortUser& user) {
    user.at.ib.service_id = cm::ip_service_id(user.space, user.at.port);
    user.at.ib.service_mask = ~std::uint64_t{0};
}

void use_gid(CmId& id, RnicState& device) {
    id.device = &device;
    id.ip_index = id.gid_index = 0;
    id.local_gid = id.local_ip = device.device->gids[0];
}

/// A port in the address's partition, on the subnet of the port that has the GID; of a GID of nobody one with
/// its prefix. The destination's own port is taken last, as for IP addresses; nullptr: there is none.
RnicState* CmClient::find_port_towards(const Endpoint& destination) const {
    const ControlState& control = service_.control();
    const auto& devices = control.devices;
    const auto owner = std::find_if(devices.begin(), devices.end(), [&](const auto& rnic) {
        return rnic->device->is_infiniband() && rnic->device->gids[0] == destination.gid;
    });
    const auto leads_there = [&](const RnicState& rnic) {
        return owner == devices.end() ? have_one_prefix(rnic.device->gids[0], destination.gid)
                                      : control.gsi != nullptr && control.gsi->share_subnet(rnic, **owner);
    };
    for (const auto& rnic : devices) {
        if (rnic->device->is_infiniband() && (owner == devices.end() || rnic != *owner) &&
            is_member(*rnic, destination.ib.pkey) && leads_there(*rnic)) {
            return rnic.get();
        }
    }
    return owner != devices.end() && is_member(**owner, destination.ib.pkey) ? owner->get() : nullptr;
}

/// Whether there is a port with that GID, and a path to it, resolve_route() hears from subnet administration.
int CmClient::resolve_gid(CmId& id, const Endpoint& destination) {
    const bool is_own = destination.is_any() || destination.is_loopback();
    RnicState* device = id.device;
    if (device == nullptr && is_own) {
        const auto& devices = service_.control().devices;
        const auto first = std::find_if(devices.begin(), devices.end(),
                                        [](const auto& rnic) { return rnic->device->is_infiniband(); });
        device = first == devices.end() ? nullptr : first->get();
    } else if (device == nullptr) {
        device = find_port_towards(destination);
    }
    if (device == nullptr) {
        return ENODEV;
    }
    // The partition is the source's, which is the destination's where no source was given. To itself that of
    // entry 0 will do.
    const auto pkey_index = device->device->pkeys.index_of(id.local.at.ib.pkey);
    if (!pkey_index && !is_own) {
        return ENODEV;
    }
    use_gid(id, *device);
    id.pkey_index = pkey_index.value_or(0);
    id.neighbour = wire::kNoNeighbour;
    id.remote_gid = id.remote_ip = is_own ? id.local_gid : destination.gid;
    return 0;
}

}  // namespace urnic::daemon
