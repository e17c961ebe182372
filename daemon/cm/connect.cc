// Listening, connecting, and the end of connections.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include "daemon/cm/attributes.h"
#include "daemon/cm/client.h"
#include "os/rollback.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kMostBacklog = 8192;
constexpr std::uint8_t kMostRetries = 7;
constexpr std::uint32_t kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST
/// Of the data path, as Linux puts it into a REQ: 4.096 us * 2^n.
constexpr std::uint8_t kAckTimeout = 17;
constexpr std::uint8_t kRejectVendorOption = 35;

int error_of(cm::Status status) {
    switch (status) {
        case cm::Status::kOk:
            return 0;
        case cm::Status::kFull:
        case cm::Status::kNoMemory:
            return ENOMEM;
        case cm::Status::kInUse:
            return EADDRINUSE;
        case cm::Status::kUnknownHandle:
        case cm::Status::kWrongState:
        case cm::Status::kBadArgument:
            break;
    }
    return EINVAL;
}

cm::Transport transport_of(CmQpType type) {
    switch (type) {
        case CmQpType::kUc:
            return cm::Transport::kUc;
        case CmQpType::kXrcSend:
        case CmQpType::kXrcRecv:
            return cm::Transport::kXrc;
        case CmQpType::kRc:
        case CmQpType::kUd:
            break;
    }
    return cm::Transport::kRc;
}

/// AF_IB says any, as Linux sends it; IP addresses those of their port space.
std::uint64_t service_id_of(const CmId& id) {
    return id.remote.is_ib() ? id.remote.ib.service_id : cm::ip_service_id(id.space, id.remote.port);
}

/// AF_IB has none.
std::optional<wire::cm::IpCmHeader> ip_header(const CmId& id) {
    if (id.remote.is_ib()) {
        return std::nullopt;
    }
    wire::cm::IpCmHeader header;
    header.ip_version = wire::is_ipv4_mapped(id.local_ip) ? 4 : 6;
    header.src_port = id.local.at.port;
    // The loopback address is known by that name here alone.
    header.src_address = ip_cm_address(id.local_ip);
    header.dst_address = ip_cm_address(id.remote_ip);
    return header;
}

std::span<const std::uint8_t> private_data(const rdma_ucm_conn_param& param) {
    return {param.private_data, param.private_data_len};
}

/// Of the data path: twice a packet's lifetime at least (IBA 12.7.34), or what the application has set.
std::uint8_t ack_timeout_of(const CmId& id) {
    if (id.has_ack_timeout) {
        return id.ack_timeout;
    }
    return id.path ? static_cast<std::uint8_t>(std::min(id.path->packet_life_time + 1, 31)) : kAckTimeout;
}

cm::ListenParams listen_params(CmId& id, std::uint32_t backlog) {
    cm::ListenParams params;
    params.owner = std::bit_cast<cm::Cookie>(&id);
    params.service_id = cm::ip_service_id(id.local.space, id.local.at.port);
    if (id.device != nullptr) {
        params.local_gid = id.local_ip;
    }
    if (id.local.at.is_ib()) {
        params.families = cm::Families::kGid;
    } else if (id.device == nullptr && id.local.at.family == AF_INET) {
        params.families = cm::Families::kIpv4;
    } else if (id.device == nullptr && id.local.one_family) {
        params.families = cm::Families::kIpv6;
    }
    params.allow_rc = id.qp_type == CmQpType::kRc;
    params.allow_uc = id.qp_type == CmQpType::kUc;
    params.allow_xrc = id.qp_type == CmQpType::kXrcRecv || id.qp_type == CmQpType::kXrcSend;
    params.allow_sidr = id.is_datagram();
    params.backlog = backlog == 0 || backlog > kMostBacklog ? kMostBacklog : backlog;
    return params;
}

}  // namespace

int CmClient::listen(const rdma_ucm_listen& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->state == CmId::State::kIdle) {
        Endpoint any = endpoint_of({}, 0);
        any.family = AF_INET;
        any.gid[10] = any.gid[11] = 0xff;
        if (const int error = bind_to(*id, any); error != 0) {
            return error;
        }
    }
    if (id->state != CmId::State::kBound) {
        return EINVAL;
    }
    if (const int error = service_.ports.listen(id->local); error != 0) {
        return error;
    }
    const auto& devices = service_.control().devices;
    const cm::ListenParams params = listen_params(*id, command.backlog);
    id->listeners.reserve(devices.size());
    Rollback stop([&] {
        for (const CmId::Listener& listener : id->listeners) {
            service_.use(*listener.device, [&](cm::Manager& manager, TimeNs /*now*/, cm::Outbox& /*out*/) {
                manager.unlisten(listener.id);
            });
        }
        id->listeners.clear();
    });
    for (const auto& device : devices) {
        if ((id->device != nullptr && id->device != device.get()) ||
            (id->local.at.is_ib() && !device->device->is_infiniband())) {
            continue;
        }
        const auto listening =
            service_.use(*device, [&](cm::Manager& manager, TimeNs /*now*/, cm::Outbox& /*out*/) {
                return manager.listen(params);
            });
        if (listening.status != cm::Status::kOk) {
            return error_of(listening.status);
        }
        id->listeners.push_back({device.get(), listening.id});
    }
    stop.keep();
    id->state = CmId::State::kListening;
    return 0;
}

cm::Route CmClient::route_of(const CmId& id) const {
    cm::Route route;
    route.local_gid = id.local_gid;
    route.remote_gid = id.remote_gid;
    route.pkey = id.device->device->pkeys.entries.at(id.pkey_index);
    route.traffic_class = id.tos;
    if (id.path) {
        route.pkey = id.path->pkey;
        route.local_lid = id.path->slid;
        route.remote_lid = id.path->dlid;
        route.sl = id.path->sl;
        route.hop_limit = id.path->hop_limit;
        route.flow_label = id.path->flow_label;
    }
    return route;
}

/// The peer ends what it has with a QP of the same number: nobody names another one's QP, nor one that
/// somebody may get later.
bool CmClient::may_name_qp(CmId& id, std::uint32_t qp_num) const {
    if (owner_.has_qp(*id.device, qp_num) || id.held_qp_num.hold(*id.device, qp_num)) {
        return true;
    }
    user_.refuse("a connection that names QP {} of {}, which is not its own", qp_num,
                 id.device->device->name);
    return false;
}

int CmClient::connect_stream(CmId& id, const rdma_ucm_conn_param& param) {
    if (!may_name_qp(id, param.qp_num)) {
        return EINVAL;
    }
    cm::ConnectParams params;
    params.owner = std::bit_cast<cm::Cookie>(&id);
    params.route = route_of(id);
    params.service_id = service_id_of(id);
    params.transport = transport_of(id.qp_type);
    params.local_qpn = param.qp_num;
    id.starting_psn = secure_random() & 0xff'ffffU;
    params.starting_psn = id.starting_psn;
    params.responder_resources = param.responder_resources;
    params.initiator_depth = param.initiator_depth;
    params.retry_count = std::min(param.retry_count, kMostRetries);
    params.rnr_retry_count = std::min(param.rnr_retry_count, kMostRetries);
    params.srq = param.srq != 0;
    params.flow_control = param.flow_control != 0;
    params.path_mtu = path_mtu_of(id);
    params.packet_rate = id.path ? id.path->rate : std::uint8_t{0};
    params.local_ack_timeout = ack_timeout_of(id);
    params.ip = ip_header(id);
    params.private_data = private_data(param);
    const auto opened = service_.use(*id.device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        return manager.connect(params, now, out);
    });
    id.connection = opened.handle;
    return error_of(opened.status);
}

int CmClient::resolve_service(CmId& id, const rdma_ucm_conn_param& param) {
    cm::SidrReqParams params;
    params.owner = std::bit_cast<cm::Cookie>(&id);
    params.route = route_of(id);
    params.service_id = service_id_of(id);
    params.ip = ip_header(id);
    params.private_data = private_data(param);
    const auto opened = service_.use(*id.device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        return manager.send_sidr_req(params, now, out);
    });
    id.connection = opened.handle;
    return error_of(opened.status);
}

int CmClient::connect(const rdma_ucm_connect& command, Call& call) {
    CmId* id = nullptr;
    if (command.conn_param.valid == 0) {
        return EINVAL;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->state != CmId::State::kRouteResolved) {
        return EINVAL;
    }
    id->state = CmId::State::kConnecting;
    const int error = id->is_datagram() ? resolve_service(*id, command.conn_param)
                                        : connect_stream(*id, command.conn_param);
    if (error != 0) {
        id->connection = 0;
        id->state = CmId::State::kRouteResolved;
    }
    return error;
}

/// What the passive side says to a request.
int CmClient::answer_request(CmId& id, const rdma_ucm_conn_param& param) {
    cm::Status status = cm::Status::kWrongState;
    if (id.is_datagram()) {
        cm::SidrRepParams answer;
        answer.qpn = param.qp_num;
        answer.qkey = param.qkey != 0 ? param.qkey : kUdpQkey;
        answer.private_data = private_data(param);
        id.qkey = answer.qkey;
        status = service_.use(*id.device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            return manager.send_sidr_rep(id.connection, answer, now, out);
        });
    } else {
        if (!may_name_qp(id, param.qp_num)) {
            return EINVAL;
        }
        cm::AcceptParams params;
        params.local_qpn = param.qp_num;
        params.starting_psn = id.starting_psn;
        params.responder_resources = param.responder_resources;
        params.initiator_depth = param.initiator_depth;
        params.rnr_retry_count = std::min(param.rnr_retry_count, kMostRetries);
        params.srq = param.srq != 0;
        params.flow_control = param.flow_control != 0;
        params.private_data = private_data(param);
        status = service_.use(*id.device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            return manager.accept(id.connection, params, now, out);
        });
    }
    return error_of(status);
}

int CmClient::accept(const rdma_ucm_accept& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->state != CmId::State::kConnecting) {
        return EINVAL;
    }
    if (command.conn_param.valid != 0) {
        if (!id->is_passive) {
            return EINVAL;
        }
        // Before the answer: events that it causes at once find the name.
        const std::uint64_t before = id->uid;
        id->uid = command.uid;
        const int error = answer_request(*id, command.conn_param);
        if (error != 0) {
            id->uid = before;
        }
        return error;
    }
    return error_of(service_.use(*id->device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        return manager.send_rtu(id->connection, {}, now, out);
    }));
}

int CmClient::reject(const rdma_ucm_reject& command, Call& call) {
    CmId* id = nullptr;
    const std::uint8_t reason =
        command.reason == 0 ? static_cast<std::uint8_t>(cm::kRejConsumer) : command.reason;
    if (reason != cm::kRejConsumer && reason != kRejectVendorOption) {
        return EINVAL;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->connection == 0) {
        return EINVAL;
    }
    const std::span<const std::uint8_t> data{command.private_data, command.private_data_len};
    return error_of(service_.use(*id->device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        if (id->is_datagram()) {
            cm::SidrRepParams answer;
            answer.status = cm::kSidrRejected;
            answer.private_data = data;
            return manager.send_sidr_rep(id->connection, answer, now, out);
        }
        return manager.reject(id->connection, {.reason = reason, .info = {}, .private_data = data}, now, out);
    }));
}

int CmClient::disconnect(const rdma_ucm_disconnect& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->connection == 0 || id->is_datagram()) {
        return EINVAL;
    }
    // One that has ended already is fine, too.
    (void)service_.use(*id->device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        return manager.disconnect(id->connection, {}, now, out);
    });
    return 0;
}

int CmClient::notify(const rdma_ucm_notify& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->connection == 0 || id->is_datagram() || command.event != kCommunicationEstablished) {
        return EINVAL;
    }
    return error_of(service_.use(*id->device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
        return manager.established(id->connection, now, out);
    }));
}

}  // namespace urnic::daemon
