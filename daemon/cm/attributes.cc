#include "daemon/cm/attributes.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "daemon/cm/client.h"
#include "daemon/cm/infiniband.h"

namespace urnic::daemon {

namespace {

// Values of ibv_qp_state, ibv_qp_attr_mask and ibv_access_flags.
enum QpState : std::uint32_t { kInit = 1, kRtr = 2, kRts = 3 };
enum Mask : std::uint32_t {
    kMaskState = 1U << 0U,
    kMaskAccess = 1U << 3U,
    kMaskPkeyIndex = 1U << 4U,
    kMaskPort = 1U << 5U,
    kMaskQkey = 1U << 6U,
    kMaskAv = 1U << 7U,
    kMaskPathMtu = 1U << 8U,
    kMaskTimeout = 1U << 9U,
    kMaskRetryCount = 1U << 10U,
    kMaskRnrRetry = 1U << 11U,
    kMaskRqPsn = 1U << 12U,
    kMaskMaxRdAtomic = 1U << 13U,
    kMaskMinRnrTimer = 1U << 15U,
    kMaskSqPsn = 1U << 16U,
    kMaskMaxDestRdAtomic = 1U << 17U,
    kMaskDestQpn = 1U << 20U,
};
constexpr std::uint32_t kRemoteWrite = 1U << 1U;
constexpr std::uint32_t kRemoteRead = 1U << 2U;
constexpr std::uint32_t kRemoteAtomic = 1U << 3U;

// A path record of RoCE, as Linux makes them.
constexpr std::uint8_t kExactly = 2;  // the selector of MTU, rate and lifetime (IBA 15.2.5.16)
constexpr std::uint8_t kRate100Gbps = 16;
constexpr std::uint8_t kPacketLifeTime = 16;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kPort = 1;

bool is_reliable(CmQpType type) {
    return type == CmQpType::kRc || type == CmQpType::kXrcSend || type == CmQpType::kXrcRecv;
}

/// Before there is a connection, and for UD always.
void describe_basic(const CmId& id, ib_uverbs_qp_attr& attr) {
    attr.qp_attr_mask = kMaskState | kMaskPkeyIndex | kMaskPort;
    if (id.is_datagram()) {
        attr.qkey = id.qkey != 0 ? id.qkey : kUdpQkey;
        attr.qp_attr_mask |= kMaskQkey;
    } else {
        attr.qp_attr_mask |= kMaskAccess;
    }
}

int describe_init(const cm::ConnectionInfo& info, ib_uverbs_qp_attr& attr) {
    attr.qp_attr_mask = kMaskState | kMaskAccess | kMaskPkeyIndex | kMaskPort;
    attr.qp_access_flags = kRemoteWrite;
    if (info.responder_resources != 0) {
        attr.qp_access_flags |= kRemoteRead | kRemoteAtomic;
    }
    return 0;
}

bool knows_peer(cm::State state) {
    switch (state) {
        case cm::State::kReqReceived:
        case cm::State::kRepSent:
        case cm::State::kMraRepReceived:
        case cm::State::kRepReceived:
        case cm::State::kEstablished:
            return true;
        default:
            return false;
    }
}

int describe_rtr(const CmId& id, const cm::ConnectionInfo& info, ib_uverbs_qp_attr& attr) {
    if (!knows_peer(info.state)) {
        return EINVAL;
    }
    attr.qp_attr_mask = kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
    attr.ah_attr = address_attributes(id);
    attr.path_mtu = info.path_mtu;
    attr.dest_qp_num = info.remote_qpn;
    // Passive: what accept() will ask for.
    attr.rq_psn = id.starting_psn;
    if (id.qp_type == CmQpType::kRc || id.qp_type == CmQpType::kXrcRecv) {
        attr.qp_attr_mask |= kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
        attr.max_dest_rd_atomic = info.responder_resources;
    }
    return 0;
}

int describe_rts(const CmId& id, const cm::ConnectionInfo& info, ib_uverbs_qp_attr& attr) {
    if (!knows_peer(info.state)) {
        return EINVAL;
    }
    attr.qp_attr_mask = kMaskState | kMaskSqPsn;
    attr.sq_psn = info.send_psn;
    if (id.qp_type == CmQpType::kRc || id.qp_type == CmQpType::kXrcSend) {
        attr.qp_attr_mask |= kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
        attr.retry_cnt = info.retry_count;
        attr.rnr_retry = info.rnr_retry_count;
        attr.max_rd_atomic = info.initiator_depth;
    }
    if (is_reliable(id.qp_type)) {
        attr.qp_attr_mask |= kMaskTimeout;
        attr.timeout = id.has_ack_timeout ? id.ack_timeout : info.ack_timeout;
    }
    return 0;
}

}  // namespace

std::uint8_t path_mtu_of(const CmId& id) {
    if (id.path) {
        return id.path->mtu;
    }
    // 256 bytes are 1, and each step doubles.
    return static_cast<std::uint8_t>(std::bit_width(id.device->device->mtu_bytes / 256));
}

wire::mad::PathRecord path_of(const CmId& id) {
    wire::mad::PathRecord path;
    if (id.path) {
        path = *id.path;
    } else {
        path.dgid = id.remote_gid;
        path.sgid = id.local_gid;
        path.mtu = path_mtu_of(id);
        path.pkey = id.device->device->pkeys.entries.at(id.pkey_index);
        path.hop_limit = kHopLimit;
        path.tclass = id.tos;
        path.rate = kRate100Gbps;
        path.packet_life_time = kPacketLifeTime;
    }
    path.reversible = true;
    path.numb_path = 1;
    path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
    return path;
}

ib_uverbs_ah_attr address_attributes(const CmId& id) {
    if (id.device->device->is_infiniband()) {
        return path_attributes(id);
    }
    ib_uverbs_ah_attr attr{};
    std::copy(id.remote_gid.begin(), id.remote_gid.end(), std::begin(attr.grh.dgid));
    attr.grh.sgid_index = id.gid_index;
    attr.grh.hop_limit = kHopLimit;
    attr.grh.traffic_class = id.tos;
    attr.is_global = 1;
    attr.port_num = kPort;
    return attr;
}

int describe_qp_attr(const CmService& service, const CmId& id, std::uint32_t state, ib_uverbs_qp_attr& attr) {
    if (id.device == nullptr || state < kInit || state > kRts) {
        return EINVAL;
    }
    attr.qp_state = state;
    attr.port_num = kPort;
    attr.pkey_index = id.pkey_index;
    if (id.is_datagram() || id.connection == 0) {
        describe_basic(id, attr);
        return 0;
    }
    const auto info = service.manager(*id.device).info(id.connection);
    if (!info) {
        return EINVAL;
    }
    if (state == kInit) {
        return describe_init(*info, attr);
    }
    return state == kRtr ? describe_rtr(id, *info, attr) : describe_rts(id, *info, attr);
}

rdma_ucm_query_route_resp describe_route(const CmId& id) {
    rdma_ucm_query_route_resp answer{};
    answer.src_addr = write_endpoint(id.local.at);
    answer.dst_addr = write_endpoint(id.remote);
    answer.ibdev_index = ~0U;  // devices are told apart by their GUIDs
    if (id.device != nullptr) {
        answer.node_guid = id.device->device->node_guid;
        answer.port_num = kPort;
        const ib_user_path_rec path = user_path(path_of(id));
        answer.ib_route[0] = path;
        answer.num_paths = id.has_route ? 1 : 0;
    }
    return answer;
}

abi::CmIdSnapshot snapshot_of(const CmService& service, const CmId& id) {
    using Snapshot = abi::CmIdSnapshot;
    static_assert(sizeof(rdma_ucm_query_route_resp) == Snapshot::kRouteBytes);
    static_assert(sizeof(ib_uverbs_qp_attr) == Snapshot::kQpAttrBytes);
    static_assert(kInit == Snapshot::kFirstState && kRts == kInit + Snapshot::kStates - 1);
    Snapshot snapshot{};
    snapshot.id = id.handle;
    snapshot.is_valid = 1;
    const rdma_ucm_query_route_resp route = describe_route(id);
    std::memcpy(snapshot.route, &route, sizeof route);
    for (std::uint32_t i = 0; i < Snapshot::kStates; ++i) {
        ib_uverbs_qp_attr attr{};
        if (describe_qp_attr(service, id, kInit + i, attr) == 0) {
            snapshot.qp_attr_states |= static_cast<std::uint16_t>(1U << i);
            std::memcpy(snapshot.qp_attr[i], &attr, sizeof attr);
        }
    }
    return snapshot;
}

int CmClient::init_qp_attr(const rdma_ucm_init_qp_attr& command, Call& call) {
    CmId* id = nullptr;
    if (call.out.size() < sizeof(ib_uverbs_qp_attr)) {
        return ENOSPC;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    ib_uverbs_qp_attr attr{};
    const int error = describe_qp_attr(service_, *id, command.qp_state, attr);
    return error != 0 ? error : call.answer(attr);
}

int CmClient::query_route(const rdma_ucm_query& command, Call& call) {
    CmId* id = nullptr;
    constexpr std::size_t kLeast = offsetof(rdma_ucm_query_route_resp, ibdev_index);
    if (call.out.size() < kLeast) {
        return ENOSPC;
    }
    const int error = find(call, command.id, id);
    return error != 0 ? error : call.answer(describe_route(*id), kLeast);
}

}  // namespace urnic::daemon
