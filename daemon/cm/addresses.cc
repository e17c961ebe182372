// Local addresses, and the path from one to a peer: which RNIC, which of its addresses.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <span>

#include "daemon/cm/client.h"
#include "daemon/cm/gid_addresses.h"
#include "daemon/cm/infiniband.h"
#include "daemon/state/subnet_gsi.h"
#include "rnic/subnet/endpoint.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

bool is_link_local(const wire::Gid& ip) { return ip[0] == 0xfe && (ip[1] & 0xc0U) == 0x80; }

/// The first address of that family of a device that is not a link-local one; else, over RoCE, any of the
/// family.
std::optional<std::uint8_t> first_ip(const dataplane::Device& device, sa_family_t family) {
    std::optional<std::uint8_t> found;
    const std::span<const wire::Gid> addresses = device.ip_addresses();
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        const wire::Gid& ip = addresses[i];
        if (ip == wire::Gid{} || wire::is_ipv4_mapped(ip) != (family == AF_INET)) {
            continue;
        }
        if (!is_link_local(ip)) {
            return static_cast<std::uint8_t>(i);
        }
        if (!found && !device.is_infiniband()) {
            found = static_cast<std::uint8_t>(i);
        }
    }
    return found;
}

std::optional<std::uint8_t> find_ip(const dataplane::Device& device, const wire::Gid& ip) {
    const std::span<const wire::Gid> addresses = device.ip_addresses();
    const auto found = std::find(addresses.begin(), addresses.end(), ip);
    if (found == addresses.end() || ip == wire::Gid{}) {
        return std::nullopt;
    }
    return static_cast<std::uint8_t>(std::distance(addresses.begin(), found));
}

/// What a local address stands for on a device: an index of its IP addresses, of AF_IB 0.
std::optional<std::uint8_t> find_local(const dataplane::Device& device, const Endpoint& local) {
    if (local.is_ib()) {
        const bool is_ours = device.is_infiniband() && (local.is_loopback() || device.gids[0] == local.gid);
        return is_ours ? std::optional<std::uint8_t>(0) : std::nullopt;
    }
    return local.is_loopback() ? first_ip(device, local.family) : find_ip(device, local.gid);
}

bool owns(const dataplane::Device& device, const wire::Gid& ip) { return find_ip(device, ip).has_value(); }

void use_ip(CmId& id, RnicState& device, std::uint8_t index) {
    id.device = &device;
    id.ip_index = index;
    id.local_ip = device.device->ip_addresses()[index];
    id.gid_index = device.device->is_infiniband() ? std::uint8_t{0} : index;
    id.local_gid = device.device->gids.at(id.gid_index);
}

}  // namespace

/// Gives the id a local address and a port. 0 or errno: for an address of no RNIC EADDRNOTAVAIL, for a GID
/// ENODEV, and EAFNOSUPPORT where no RNIC is of InfiniBand.
int CmClient::bind_to(CmId& id, const Endpoint& local) {
    if (local.is_ib() && !has_infiniband(service_.control())) {
        return EAFNOSUPPORT;
    }
    if (id.state != CmId::State::kIdle) {
        return EINVAL;
    }
    RnicState* device = nullptr;
    std::uint8_t index = 0;
    if (!local.is_any()) {
        for (const auto& candidate : service_.control().devices) {
            if (const auto found = find_local(*candidate->device, local); found) {
                device = candidate.get();
                index = *found;
                break;
            }
        }
        if (device == nullptr) {
            return local.is_ib() ? ENODEV : EADDRNOTAVAIL;
        }
    }
    const std::uint16_t space = local.is_ib() ? port_space_of(local, id.space) : id.space;
    if (space == 0) {
        return EPROTONOSUPPORT;
    }
    id.local.space = space;
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
    if (local.is_ib()) {
        say_service(id.local);
    }
    if (device != nullptr && local.is_ib()) {
        use_gid(id, *device);
    } else if (device != nullptr) {
        use_ip(id, *device, index);
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

int CmClient::bind(const rdma_ucm_bind& command, Call& call) {
    CmId* id = nullptr;
    Endpoint local;
    if (command.reserved != 0 || !read_address(command.addr, command.addr_size, local)) {
        return EINVAL;
    }
    const int error = find(call, command.id, id);
    return error != 0 ? error : bind_to(*id, local);
}

/// Acquires the path to the destination, so that the neighbour is resolved before it is needed. 0 or errno.
int CmClient::reach(CmId& id, RnicState& device, std::uint8_t ip_index, const wire::Gid& destination) {
    if (device.device->is_infiniband()) {
        return reach_port(id, device, ip_index, destination);
    }
    NeighbourResolver::ResolvedPath path;
    if (!wire::is_multicast(destination)) {
        const int error = device.device->neighbours->acquire(
            device.device->gids.at(ip_index), device.device->gid_vlans.at(ip_index), destination, path);
        if (error != 0) {
            return error;
        }
        if (id.has_way) {
            id.device->device->neighbours->release(id.neighbour);
        }
        id.has_way = true;
        id.neighbour = path.neighbour;
    }
    use_ip(id, device, ip_index);
    id.remote_ip = id.remote_gid = destination;
    return 0;
}

/// Of InfiniBand: the port on the same subnet that has the address. How it is reached resolve_route() asks.
int CmClient::reach_port(CmId& id, RnicState& device, std::uint8_t ip_index, const wire::Gid& destination) {
    const SubnetGsi* const gsi = service_.control().gsi;
    if (gsi == nullptr || !gsi->share_subnet(device, device)) {
        return ENETUNREACH;  // the daemon is ending
    }
    id.neighbour = wire::kNoNeighbour;
    if (wire::is_multicast(destination)) {
        use_ip(id, device, ip_index);
        id.remote_ip = destination;
        id.remote_gid = multicast_gid(
            destination, device.device->pkeys.entries.at(id.pkey_index) | wire::kFullMember, id.space);
        return 0;
    }
    for (const auto& other : service_.control().devices) {
        if (owns(*other->device, destination) && gsi->share_subnet(device, *other)) {
            // As on Linux the partition is known before the path: UD QPs are brought up in it.
            const auto pkey = subnet::shared_pkey(device.device->pkeys, other->device->pkeys, std::nullopt);
            if (!pkey) {
                return EHOSTUNREACH;
            }
            id.pkey_index = *device.device->pkeys.index_of(*pkey);
            use_ip(id, device, ip_index);
            id.remote_ip = destination;
            id.remote_gid = other->device->gids[0];
            return 0;
        }
    }
    return EHOSTUNREACH;
}

/// An RNIC and an address of it that reach the destination, for an id that has none. On the in-process wire
/// the destination's own RNIC is taken last: there each stands for a machine. On other ports an address of
/// ours is reached from the RNIC that has it, as on Linux.
int CmClient::find_source(CmId& id, const Endpoint& destination) {
    const auto& devices = service_.control().devices;
    int error = ENETUNREACH;
    for (const bool own : {false, true}) {
        for (const auto& device : devices) {
            if (owns(*device->device, destination.gid) != own) {
                continue;
            }
            const std::span<const wire::Gid> addresses = device->device->ip_addresses();
            for (std::size_t i = 0; i < addresses.size(); ++i) {
                const wire::Gid& ip = addresses[i];
                if (ip == wire::Gid{} || wire::is_ipv4_mapped(ip) != (destination.family == AF_INET) ||
                    is_link_local(ip) != is_link_local(destination.gid)) {
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

/// The RNIC and its address for a bound id.
int CmClient::resolve_ip_address(CmId& id, const Endpoint& destination) {
    if (destination.is_any() || destination.is_loopback()) {
        // To itself: the RNIC that it is bound to, or the first that has such an address.
        RnicState* device = id.device;
        std::optional<std::uint8_t> index = id.ip_index;
        for (auto at = service_.control().devices.begin();
             device == nullptr && at != service_.control().devices.end(); ++at) {
            index = first_ip(*(*at)->device, destination.family);
            device = index ? at->get() : nullptr;
        }
        return device == nullptr
                   ? ENODEV
                   : reach(id, *device, *index, wire::Gid(device->device->ip_addresses()[*index]));
    }
    if (id.device != nullptr) {
        return reach(id, *id.device, id.ip_index, destination.gid);
    }
    if (!destination.is_multicast()) {
        return find_source(id, destination);
    }
    for (const auto& device : service_.control().devices) {
        if (const auto index = first_ip(*device->device, destination.family); index) {
            return reach(id, *device, *index, destination.gid);
        }
    }
    return ENODEV;
}

int CmClient::resolve(CmId& id, const Endpoint& source, const Endpoint& destination) {
    if (id.state == CmId::State::kIdle) {
        Endpoint local = source;
        if (!local.is_set()) {
            local.family = destination.family;
            if (destination.is_ib()) {
                local.ib.pkey = destination.ib.pkey;
            } else if (wire::is_ipv4_mapped(destination.gid)) {
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
    const int error =
        destination.is_ib() ? resolve_gid(id, destination) : resolve_ip_address(id, destination);
    if (error != 0) {
        return error;
    }
    id.remote = destination;
    if (id.local.at.is_any()) {
        id.local.at.gid = destination.is_loopback() ? destination.gid : id.local_ip;
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

int CmClient::resolve_addr(const rdma_ucm_resolve_addr& command, Call& call) {
    CmId* id = nullptr;
    Endpoint source;
    Endpoint destination;
    if (command.reserved != 0 ||
        (command.src_size != 0 && !read_address(command.src_addr, command.src_size, source)) ||
        !read_address(command.dst_addr, command.dst_size, destination)) {
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
    if (id->device->device->is_infiniband()) {
        return ask_for_path(*id, command.timeout_ms);
    }
    raise(*id, kRouteResolved);
    id->state = CmId::State::kRouteResolved;
    id->has_route = true;
    return 0;
}

}  // namespace urnic::daemon
