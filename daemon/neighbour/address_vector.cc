#include "daemon/neighbour/address_vector.h"

#include <algorithm>
#include <cerrno>

#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;
constexpr std::uint8_t kLastServiceLevel = 15;

/// Whoever has the DLID gets the packets: nobody has to be found. Groups have a GRH with their GID (IBA
/// 10.5.2.3).
int resolve_lid(const dataplane::Device& device, const abi::AddressVector& av, wire::PathSpec& spec) {
    const bool is_group = wire::is_multicast_lid(av.dlid);
    if (av.port_num > 1 || av.dlid == 0 || av.dlid == wire::kPermissiveLid || av.sl > kLastServiceLevel ||
        (is_group && av.is_global == 0)) {
        return EINVAL;
    }
    // Those that are the port's to choose; ibacm, which gives seven bits of a LID, counts on it.
    const unsigned path_bits = av.src_path_bits & ((1U << device.subnet.lmc.load()) - 1U);
    spec.is_infiniband = true;
    spec.slid = static_cast<std::uint16_t>(device.subnet.lid.load() | path_bits);
    spec.dlid = av.dlid;
    spec.sl = av.sl;
    spec.has_grh = av.is_global != 0;
    if (!spec.has_grh) {
        return 0;
    }
    std::copy(std::begin(av.dgid), std::end(av.dgid), spec.dst_gid.begin());
    if (av.sgid_index >= device.gids.size() || device.gids[av.sgid_index] == wire::Gid{} ||
        spec.dst_gid == wire::Gid{} || wire::is_multicast(spec.dst_gid) != is_group) {
        return EINVAL;
    }
    spec.src_gid = device.gids[av.sgid_index];
    spec.traffic_class = av.traffic_class;
    spec.hop_limit = av.hop_limit;
    spec.flow_label = av.flow_label & 0xf'ffff;
    return 0;
}

}  // namespace

int resolve_address(const dataplane::Device& device, const abi::AddressVector& av, wire::PathSpec& spec) {
    if (device.is_infiniband()) {
        return resolve_lid(device, av, spec);
    }
    if (av.is_global == 0 || av.port_num > 1 || av.sgid_index >= device.gids.size()) {
        return EINVAL;
    }
    spec.src_gid = device.gids[av.sgid_index];
    std::copy(std::begin(av.dgid), std::end(av.dgid), spec.dst_gid.begin());
    if (spec.src_gid == wire::Gid{} || spec.dst_gid == wire::Gid{} ||
        wire::is_ipv4_mapped(spec.src_gid) != wire::is_ipv4_mapped(spec.dst_gid)) {
        return EINVAL;
    }
    const std::uint16_t vlan = device.gid_vlans[av.sgid_index];
    NeighbourResolver::ResolvedPath path;
    if (wire::is_multicast(spec.dst_gid)) {
        path.mac = wire::multicast_mac(spec.dst_gid);
    } else if (const int error = device.neighbours->acquire(spec.src_gid, vlan, spec.dst_gid, path);
               error != 0) {
        return error;
    }
    spec.src_mac = device.mac;
    spec.dst_mac = path.mac;
    spec.neighbour = path.neighbour;
    // The priority is the service level's (annex A17.9.4); without a tag there is no place for it.
    spec.vlan_tci = vlan == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>((av.sl & 7U) << 13U | vlan);
    spec.traffic_class = device.is_ecn_capable
                             ? static_cast<std::uint8_t>((av.traffic_class & ~wire::kEcnMask) | wire::kEct0)
                             : av.traffic_class;
    // Linux takes the route's hop limit, which is 64, whatever a program says; programs say 0 or 1 when they
    // do not care.
    spec.hop_limit = av.hop_limit <= 1 ? kDefaultHopLimit : av.hop_limit;
    spec.flow_label = av.flow_label & 0xf'ffff;
    return 0;
}

}  // namespace urnic::daemon
