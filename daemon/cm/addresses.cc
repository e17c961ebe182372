// Local addresses, and the path from one to a peer: which RNIC, which of its addresses.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>

#include "daemon/cm/client.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

/// The first address of that family of a device that is not a link-local one; else any of the family.
std::optional<std::uint8_t> first_gid(const dataplane::Device& device, sa_family_t family) {
    std::optional<std::uint8_t> found;
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
        const wire::Gid& gid = device.gids[i];
        if (device.is_infiniband() || gid == wire::Gid{} ||
            wire::is_ipv4_mapped(gid) != (family == AF_INET)) {
            continue;
        }
        const bool is_link_local = gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80;
        if (!is_link_local) {
            return static_cast<std::uint8_t>(i);
        }
        if (!found) {
            found = static_cast<std::uint8_t>(i);
        }
    }
    return found;
}

std::optional<std::uint8_t> find_gid(const dataplane::Device& device, const wire::Gid& gid) {
    const auto* found = std::find(device.gids.begin(), device.gids.end(), gid);
    // Over InfiniBand a GID is no IP address.
    if (found == device.gids.end() || device.is_infiniband()) {
        return std::nullopt;
    }
    return static_cast<std::uint8_t>(std::distance(device.gids.begin(), found));
}

bool owns(const dataplane::Device& device, const wire::Gid& gid) { return find_gid(device, gid).has_value(); }

void use_gid(CmId& id, RnicState& device, std::uint8_t index) {
    id.device = &device;
    id.gid_index = index;
    id.local_gid = device.device->gids.at(index);
}

}  // namespace

/// Gives the id a local address and a port. 0 or errno: EADDRNOTAVAIL for an address of no RNIC.
int CmClient::bind_to(CmId& id, const Endpoint& local) {
    if (id.state != CmId::State::kIdle) {
        return EINVAL;
    }
    RnicState* device = nullptr;
    std::uint8_t index = 0;
    if (!local.is_any()) {
        for (const auto& candidate : service_.control().devices) {
            const auto found = local.is_loopback() ? first_gid(*candidate->device, local.family)
                                                   : find_gid(*candidate->device, local.gid);
            if (found) {
                device = candidate.get();
                index = *found;
                break;
            }
        }
        if (device == nullptr) {
            return EADDRNOTAVAIL;
        }
    }
    id.local.at = local;
    // As Linux: an IPv4 address says nothing of IPv6, [::] is everybody's unless the application says
    // otherwise.
    if (!id.has_one_family) {
        id.local.one_family = local.family == AF_INET;
    }
    if (!user_.has_room(Resource::kCmPorts)) {
        id.local.at = {};
        return EADDRNOTAVAIL;
    }
    id.local.of_user = &user_.count(Resource::kCmPorts);
    if (const int error = service_.ports.bind(id.local, user_.uid() == 0); error != 0) {
        if (error == EACCES) {
            user_.refuse("port {}: those below 1024 are for root", id.local.at.port);
        }
        id.local.at = {};
        return error;
    }
    if (device != nullptr) {
        use_gid(id, *device, index);
    }
    id.state = CmId::State::kBound;
    return 0;
}

int CmClient::bind_ip(const rdma_ucm_bind_ip& command, Call& call) {
    CmId* id = nullptr;
    Endpoint local;
    if (!read_endpoint(command.addr, false, local)) {
        return EINVAL;
    }
    const int error = find(call, command.id, id);
    return error != 0 ? error : bind_to(*id, local);
}

/// With an AF_IB address librdmacm asks whether we take those.
int CmClient::bind(const rdma_ucm_bind& command, Call& call) {
    CmId* id = nullptr;
    sockaddr_in6 address{};
    Endpoint local;
    if (command.reserved != 0 || command.addr_size < sizeof(sockaddr_in) ||
        command.addr_size > sizeof command.addr) {
        return EINVAL;
    }
    std::memcpy(&address, &command.addr, std::min<std::size_t>(sizeof address, command.addr_size));
    if (!read_endpoint(address, false, local)) {
        return EAFNOSUPPORT;
    }
    const int error = find(call, command.id, id);
    return error != 0 ? error : bind_to(*id, local);
}

/// Acquires the path to the destination, so that the neighbour is resolved before it is needed. 0 or errno.
int CmClient::reach(CmId& id, RnicState& device, std::uint8_t gid_index, const wire::Gid& destination) {
    NeighbourResolver::ResolvedPath path;
    if (!wire::is_multicast(destination)) {
        const int error = device.device->neighbours->acquire(
            device.device->gids.at(gid_index), device.device->gid_vlans.at(gid_index), destination, path);
        if (error != 0) {
            return error;
        }
        if (id.has_way) {
            id.device->device->neighbours->release(id.neighbour);
        }
        id.has_way = true;
        id.neighbour = path.neighbour;
    }
    use_gid(id, device, gid_index);
    id.remote_gid = destination;
    return 0;
}

/// An RNIC and an address of it that reach the destination, for an id that has none. On the in-process wire
/// the destination's own RNIC is taken last: there each stands for a machine. On other ports an address of
/// ours is reached from the RNIC that has it, as on Linux.
int CmClient::find_source(CmId& id, const Endpoint& destination) {
    const auto& devices = service_.control().devices;
    int error = ENETUNREACH;
    for (const bool own : {false, true}) {
        for (const auto& device : devices) {
            if (device->device->is_infiniband() || owns(*device->device, destination.gid) != own) {
                continue;
            }
            for (std::size_t i = 0; i < device->device->gids.size(); ++i) {
                const wire::Gid& gid = device->device->gids.at(i);
                const bool is_link_local = gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80;
                const bool to_link_local = destination.gid[0] == 0xfe && (destination.gid[1] & 0xc0U) == 0x80;
                if (gid == wire::Gid{} || wire::is_ipv4_mapped(gid) != (destination.family == AF_INET) ||
                    is_link_local != to_link_local) {
                    continue;
                }
                const int result = reach(id, *device, static_cast<std::uint8_t>(i), destination.gid);
                const bool is_local = std::any_of(devices.begin(), devices.end(), [&](const auto& other) {
                    return owns(*other->device, destination.gid);
                });
                if (result == 0 && (own || !is_local || id.neighbour == wire::kNoNeighbour)) {
                    return 0;
                }
                if (result == 0) {
                    device->device->neighbours->release(id.neighbour);
                    id.has_way = false;
                    id.device = nullptr;
                } else if (result == ENOMEM) {
                    error = result;
                }
            }
        }
    }
    return error;
}

int CmClient::resolve(CmId& id, const Endpoint& source, const Endpoint& destination) {
    if (id.state == CmId::State::kIdle) {
        Endpoint local = source;
        if (!local.is_set()) {
            local.family = destination.family;
            if (wire::is_ipv4_mapped(destination.gid)) {
                local.gid[10] = local.gid[11] = 0xff;
            }
        }
        if (const int error = bind_to(id, local); error != 0) {
            return error;
        }
    }
    if (id.state != CmId::State::kBound || id.local.at.family != destination.family) {
        return EINVAL;
    }
    int error = 0;
    if (destination.is_any() || destination.is_loopback()) {
        // To itself: the RNIC that it is bound to, or the first that has such an address.
        RnicState* device = id.device;
        std::optional<std::uint8_t> index = id.gid_index;
        for (auto at = service_.control().devices.begin();
             device == nullptr && at != service_.control().devices.end(); ++at) {
            index = first_gid(*(*at)->device, destination.family);
            device = index ? at->get() : nullptr;
        }
        error = device == nullptr ? ENODEV
                                  : reach(id, *device, *index, wire::Gid(device->device->gids.at(*index)));
    } else if (id.device != nullptr) {
        error = reach(id, *id.device, id.gid_index, destination.gid);
    } else if (destination.is_multicast()) {
        error = ENODEV;
        for (const auto& device : service_.control().devices) {
            if (const auto index = first_gid(*device->device, destination.family); index) {
                error = reach(id, *device, *index, destination.gid);
                break;
            }
        }
    } else {
        error = find_source(id, destination);
    }
    if (error != 0) {
        return error;
    }
    id.remote = destination;
    if (id.local.at.is_any()) {
        id.local.at.gid = destination.is_loopback() ? destination.gid : id.local_gid;
    }
    if (id.remote.is_any()) {
        id.remote.gid = id.local.at.gid;
    }
    raise(id, kAddrResolved);
    id.state = CmId::State::kAddrResolved;
    return 0;
}

int CmClient::resolve_ip(const rdma_ucm_resolve_ip& command, Call& call) {
    CmId* id = nullptr;
    Endpoint source;
    Endpoint destination;
    if (!read_endpoint(command.src_addr, true, source) ||
        !read_endpoint(command.dst_addr, false, destination)) {
        return EINVAL;
    }
    const int error = find(call, command.id, id);
    return error != 0 ? error : resolve(*id, source, destination);
}

int CmClient::resolve_route(const rdma_ucm_resolve_route& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->state != CmId::State::kAddrResolved) {
        return EINVAL;
    }
    raise(*id, kRouteResolved);
    id->state = CmId::State::kRouteResolved;
    id->has_route = true;
    return 0;
}

}  // namespace urnic::daemon
