#include "daemon/cm/infiniband.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "daemon/cm/attributes.h"
#include "daemon/cm/client.h"
#include "daemon/state/subnet_gsi.h"
#include "rnic/subnet/sa_components.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

namespace mad = wire::mad;
namespace pc = subnet::path_component;

constexpr TimeNs kMillisecondNs = 1'000'000;
constexpr std::uint8_t kOnlyPort = 1;
constexpr std::size_t kIpv4InGid = 12;
constexpr unsigned kTrafficClassPlace = 20;  // in the flow information of an address
/// Of the path that librdmacm sets: of both directions, and the primary one.
constexpr std::uint32_t kUsedPath = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

/// A path that packets can follow: between these ports, by a partition of ours.
bool is_usable_path(const mad::PathRecord& path, const CmId& id) {
    const dataplane::Device& device = *id.device->device;
    return path.dgid == id.remote_gid && path.sgid == id.local_gid && path.dlid != 0 &&
           path.dlid <= subnet::kLastUnicastLid && device.subnet.has_lid(path.slid) && path.mtu >= 1 &&
           path.mtu <= 5 && device.pkeys.index_of(path.pkey).has_value();
}

void use_path(CmId& id, const mad::PathRecord& path) {
    id.path = path;
    id.pkey_index = *id.device->device->pkeys.index_of(path.pkey);
    id.has_route = true;
    id.state = CmId::State::kRouteResolved;
}

std::uint8_t source_path_bits(const CmId& id) {
    const unsigned mask = (1U << id.device->device->subnet.lmc.load()) - 1U;
    return static_cast<std::uint8_t>(id.path->slid & mask);
}

}  // namespace

wire::Gid multicast_gid(const wire::Gid& ip, std::uint16_t pkey, std::uint16_t space) {
    const bool is_ipv4 = wire::is_ipv4_mapped(ip);
    if (!is_ipv4 && (ip[1] & 0xf0U) == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b) {
        return ip;  // an MGID that subnet administration has assigned
    }
    wire::Gid gid{};
    gid[0] = 0xff;
    gid[1] = 0x12;  // transient, link-local
    gid[2] = is_ipv4 ? 0x40 : 0x60;
    gid[3] = space == RDMA_PS_UDP ? 0x01 : 0x1b;
    gid[4] = static_cast<std::uint8_t>(pkey >> 8U);
    gid[5] = static_cast<std::uint8_t>(pkey);
    if (is_ipv4) {
        std::copy(ip.begin() + kIpv4InGid, ip.end(), gid.begin() + kIpv4InGid);
        gid[kIpv4InGid] &= 0x0fU;
    } else {
        std::copy(ip.begin() + 6, ip.end(), gid.begin() + 6);  // the last 80 bits
    }
    return gid;
}

ib_user_path_rec user_path(const mad::PathRecord& path) {
    ib_user_path_rec user{};
    std::copy(path.dgid.begin(), path.dgid.end(), std::begin(user.dgid));
    std::copy(path.sgid.begin(), path.sgid.end(), std::begin(user.sgid));
    user.dlid = htons(path.dlid);
    user.slid = htons(path.slid);
    user.flow_label = htonl(path.flow_label);
    user.reversible = 1;
    user.mtu = path.mtu;
    user.pkey = htons(path.pkey);
    user.hop_limit = path.hop_limit;
    user.traffic_class = path.tclass;
    user.sl = path.sl;
    user.mtu_selector = user.rate_selector = user.packet_life_time_selector = 2;  // exactly
    user.rate = path.rate;
    user.packet_life_time = path.packet_life_time;
    user.preference = path.preference;
    return user;
}

ib_uverbs_ah_attr path_attributes(const CmId& id) {
    ib_uverbs_ah_attr attr{};
    attr.port_num = kOnlyPort;
    if (id.path) {
        attr.dlid = id.path->dlid;
        attr.sl = id.path->sl;
        attr.static_rate = id.path->rate;
        attr.src_path_bits = source_path_bits(id);
    }
    return attr;
}

ib_uverbs_ah_attr group_attributes(const mad::McMemberRecord& group) {
    ib_uverbs_ah_attr attr{};
    std::copy(group.mgid.begin(), group.mgid.end(), std::begin(attr.grh.dgid));
    attr.grh.flow_label = group.flow_label;
    attr.grh.hop_limit = group.hop_limit;
    attr.grh.traffic_class = group.tclass;
    attr.is_global = 1;
    attr.dlid = group.mlid;
    attr.sl = group.sl;
    attr.static_rate = group.rate;
    attr.port_num = kOnlyPort;
    return attr;
}

mad::PathRecord path_of_request(const RnicState& device, const cm::Event& event) {
    mad::PathRecord path;
    path.sgid = event.route.local_gid;
    path.dgid = event.route.remote_gid;
    path.slid = event.route.local_lid != 0 ? event.route.local_lid : device.device->subnet.lid.load();
    path.dlid = event.route.remote_lid;
    path.sl = event.route.sl;
    path.pkey = event.route.pkey;
    path.mtu = static_cast<std::uint8_t>(std::bit_width(device.device->mtu_bytes / 256));
    if (const auto* req = event.as<wire::cm::Req>(); req != nullptr) {
        path.mtu = req->path_mtu;
        path.rate = req->primary.packet_rate;
        const std::uint8_t timeout = req->primary.local_ack_timeout;
        path.packet_life_time = timeout == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(timeout - 1);
    }
    return path;
}

int CmClient::ask_for_path(CmId& id, std::uint32_t timeout_ms) {
    mad::PathRecord wanted;
    wanted.dgid = id.remote_gid;
    wanted.sgid = id.local_gid;
    wanted.reversible = true;
    wanted.numb_path = 1;
    wanted.pkey = id.device->device->pkeys.entries.at(id.pkey_index);
    std::uint64_t components = pc::kDgid | pc::kSgid | pc::kReversible | pc::kNumbPath | pc::kPkey;
    // As Linux: the type of service of IPv4 is the path's QoS class; AF_IB has the traffic class in its
    // source address.
    if (id.local.at.is_ib()) {
        wanted.tclass = static_cast<std::uint8_t>(id.local.at.ib.flow_info >> kTrafficClassPlace);
        components |= wanted.tclass != 0 ? pc::kTclass : 0;
    } else if (id.tos != 0 && wire::is_ipv4_mapped(id.remote_ip)) {
        wanted.qos_class = id.tos;
        components |= pc::kQosClass;
    } else if (id.tos != 0) {
        wanted.tclass = id.tos;
        components |= pc::kTclass;
    }
    id.request = service_.ask_administration(
        *id.device,
        subnet::sa_request(wire::kMadGet, mad::kPathRecord, components, mad::kPathRecordTable, wanted),
        timeout_ms * kMillisecondNs, &id);
    id.state = CmId::State::kAsksForRoute;
    return 0;
}

/// RDMA_OPTION_IB_PATH. What a program says is looked at as closely as what subnet administration says, and
/// the LID must be of the port that has the GID.
int CmClient::set_paths(CmId& id, std::span<const std::uint8_t> records) {
    ib_path_rec_data data{};
    bool is_found = false;
    if (id.state != CmId::State::kAddrResolved || !id.device->device->is_infiniband() ||
        records.size() % sizeof data != 0) {
        return EINVAL;
    }
    for (; !records.empty() && !is_found; records = records.subspan(sizeof data)) {
        std::memcpy(&data, records.data(), sizeof data);
        is_found = data.flags == kUsedPath;
    }
    if (!is_found) {
        return EINVAL;
    }
    mad::PathRecord path;
    wire::read_fields(mad::kPathRecordTable, std::as_bytes(std::span(data.path_rec)).data(), &path);
    const SubnetGsi* const gsi = service_.control().gsi;
    const RnicState* const other = gsi == nullptr ? nullptr : gsi->find_lid(*id.device, path.dlid);
    if (!is_usable_path(path, id) || !path.reversible || path.raw_traffic || path.mtu > path_mtu_of(id) ||
        other == nullptr || other->device->gids[0] != path.dgid) {
        user_.refuse("a path by RDMA_OPTION_IB_PATH that is none of {}: LIDs, GIDs, P_Key or MTU",
                     id.device->device->name);
        return EINVAL;
    }
    raise(id, kRouteResolved);
    use_path(id, path);
    return 0;
}

void CmClient::on_path(CmId& id, const subnet::SaRequests::Answer* answer) {
    id.request = 0;
    id.state = CmId::State::kAddrResolved;
    const auto path =
        answer == nullptr ? mad::PathRecord{} : answer->record<mad::PathRecord>(mad::kPathRecordTable);
    const bool is_found = answer != nullptr && answer->status == 0 && is_usable_path(path, id);
    if (is_found) {
        use_path(id, path);
    }
    try {
        // As Linux, whatever the status is.
        raise(id, is_found ? kRouteResolved : kRouteError,
              is_found            ? 0
              : answer == nullptr ? ETIMEDOUT
                                  : EINVAL);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the event is lost, as in Linux
    }
}

/// The groups of IPoIB itself have the Q_Key of its broadcast group, which is not looked for here.
int CmClient::join_by_administration(CmGroup& group, const Endpoint& address) {
    const CmId& id = *group.id;
    if (id.space == RDMA_PS_IPOIB) {
        return EOPNOTSUPP;
    }
    mad::McMemberRecord wanted;
    // Full and limited members are in one group.
    wanted.pkey = id.device->device->pkeys.entries.at(id.pkey_index) | wire::kFullMember;
    wanted.mgid = address.is_ib() ? address.gid : multicast_gid(address.gid, wanted.pkey, id.space);
    wanted.port_gid = id.local_gid;
    wanted.qkey = id.qkey != 0 ? id.qkey : kUdpQkey;
    wanted.join_state = group.join_state;
    group.mgid = wanted.mgid;
    return service_.memberships(*id.device).join(group, wanted);
}

void CmClient::on_group(CmGroup& group, const SubnetMemberships::Record* record, int error) {
    CmEvent event;
    event.id = group.id;
    event.group = &group;
    event.body.uid = group.uid;
    event.body.id = group.handle;
    event.body.event = record != nullptr ? kMulticastJoin : kMulticastError;
    event.body.status = event_status(error);
    if (record != nullptr) {
        rdma_ucm_ud_param& ud = event.body.param.ud;
        ud.qp_num = kMulticastQp;
        ud.qkey = record->qkey;
        ud.ah_attr = group_attributes(*record);
    }
    try {
        group.id->channel->push(event);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the event is lost, as in Linux
    }
}

/// Before the group ends.
void CmClient::leave_group(CmGroup& group) {
    if (group.mgid != wire::Gid{}) {
        service_.memberships(*group.id->device).leave(group, group.mgid);
    }
}

}  // namespace urnic::daemon
