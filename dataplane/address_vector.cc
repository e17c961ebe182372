#include "dataplane/address_vector.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "rnic/wire/multicast.h"

namespace urnic::dataplane {

namespace {

bool is_ipv4_mapped(const wire::Gid& gid) {
    return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
           gid[10] == 0xff && gid[11] == 0xff;
}

}  // namespace

int resolve_address(const Device& device, const abi::AddressVector& av, wire::PathSpec& spec) {
    if (av.is_global == 0 || av.port_num > 1 || av.sgid_index >= device.gids.size()) {
        return EINVAL;
    }
    spec.src_gid = device.gids[av.sgid_index];
    std::copy(std::begin(av.dgid), std::end(av.dgid), spec.dst_gid.begin());
    if (spec.src_gid == wire::Gid{} || spec.dst_gid == wire::Gid{} ||
        is_ipv4_mapped(spec.src_gid) != is_ipv4_mapped(spec.dst_gid)) {
        return EINVAL;
    }
    const auto mac = wire::is_multicast(spec.dst_gid) ? std::optional(wire::multicast_mac(spec.dst_gid))
                                                      : device.neighbours->resolve(spec.dst_gid);
    if (!mac) {
        return ENETUNREACH;
    }
    spec.src_mac = device.mac;
    spec.dst_mac = *mac;
    spec.traffic_class = av.traffic_class;
    spec.hop_limit = av.hop_limit == 0 ? 64 : av.hop_limit;
    spec.flow_label = av.flow_label & 0xf'ffff;
    return 0;
}

}  // namespace urnic::dataplane
