// REQ and SIDR_REQ: what peers begin (IBA 12.9).
#include <algorithm>

#include "base/check.h"
#include "rnic/cm/checks.h"
#include "rnic/cm/manager.h"
#include "rnic/cm/manager_send.h"

namespace urnic::cm {

namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;
/// How long answers are kept at most, 68.7 s; those to a SIDR_REQ, which does not say when its sender repeats
/// it, always.
constexpr std::uint8_t kLongestMemory = 24;

bool is_allowed(const ListenParams& params, Transport transport) {
    switch (transport) {
        case Transport::kRc:
            return params.allow_rc;
        case Transport::kUc:
            return params.allow_uc;
        case Transport::kXrc:
            return params.allow_xrc;
    }
    return false;
}

bool allows_connections(const ListenParams& params) {
    return params.allow_rc || params.allow_uc || params.allow_xrc;
}

/// What a REQ says about the connection, from our side.
void describe(const wire::cm::Req& req, Transport transport, ConnectionInfo& info) {
    info.transport = transport;
    info.route.flow_label = req.primary.flow_label;
    info.route.traffic_class = req.primary.traffic_class;
    info.route.hop_limit = req.primary.hop_limit == 0 ? kDefaultHopLimit : req.primary.hop_limit;
    info.route.sl = req.primary.sl;
    info.route.local_lid = info.route.is_infiniband() ? req.primary.remote_lid : std::uint16_t{0};
    info.packet_rate = req.primary.packet_rate;
    info.service_id = req.service_id;
    info.remote_qpn = req.local_qpn;
    info.remote_qkey = req.local_qkey;
    info.remote_comm_id = req.local_comm_id;
    info.remote_ca_guid = req.local_ca_guid;
    info.send_psn = req.starting_psn;
    info.responder_resources = req.initiator_depth;
    info.initiator_depth = req.responder_resources;
    info.retry_count = req.retry_count;
    info.rnr_retry_count = req.rnr_retry_count;
    info.ack_timeout = req.primary.local_ack_timeout;
    info.path_mtu = req.path_mtu;
    info.srq = req.srq;
}

wire::cm::SidrRep refuse(const wire::cm::SidrReq& req, SidrStatus status) {
    wire::cm::SidrRep rep;
    rep.request_id = req.request_id;
    rep.status = status;
    rep.service_id = req.service_id;
    return rep;
}

}  // namespace

void Manager::handle_req(const wire::cm::Req& req, const Incoming& in, Call call) {
    Connection* known = connections_.find(RemoteId{in.mad.src_gid, req.local_comm_id, Kind::kConnection});
    if (known != nullptr && !known->info.is_active && known->transaction_id == in.transaction_id &&
        known->info.remote_qpn == req.local_qpn && known->info.route.local_gid == in.mad.dst_gid) {
        handle_repeated_req(*known, req, in, call);
        return;
    }
    if (const std::optional<Refusal> refusal =
            check_req(req, in.mad, config_.pkeys, config_.max_path_mtu, config_.ip_owners)) {
        reject_req(req, {.reason = refusal->reason, .info = refusal->information(), .private_data = {}}, in,
                   call);
        return;
    }
    // A connection that the peer has forgotten: it has given the ID, or the QP, to another (IBA 12.9).
    if (known == nullptr) {
        known = connections_.find(RemoteQp{in.mad.src_gid, req.local_ca_guid, req.local_qpn});
    }
    if (known != nullptr) {
        ++stats_.stale;
        reject_req(req, {.reason = kRejStaleConnection, .info = {}, .private_data = {}}, in, call);
        end_stale(*known, call);
        return;
    }
    Listener* listener = listeners_.find(
        req.service_id, requested_address(req.service_id, req.private_data, in.mad, config_.ip_owners));
    if (listener == nullptr || !allows_connections(listener->params)) {
        reject_req(req, {.reason = kRejInvalidServiceId, .info = {}, .private_data = {}}, in, call);
        return;
    }
    if (!is_allowed(listener->params, *transport_of(req))) {
        reject_req(req, {.reason = kRejInvalidTransportType, .info = {}, .private_data = {}}, in, call);
        return;
    }
    begin_request(*listener, req, in, call);
}

void Manager::reject_req(const wire::cm::Req& req, const RejectParams& params, const Incoming& in,
                         Call call) {
    stats_.rejects_sent += answer(in, make_rej(0, req.local_comm_id, kAboutReq, params), call) ? 1 : 0;
}

void Manager::handle_repeated_req(Connection& connection, const wire::cm::Req& req, const Incoming& in,
                                  Call call) {
    ++stats_.duplicates;
    switch (connection.state()) {
        case State::kReqReceived:
            send_mra(connection, kAboutReq, in.transaction_id, call);
            if (!connection.has_sent_mra) {  // the peer may repeat it so much later
                connection.has_sent_mra = true;
                connection.remember_ns +=
                    2 * cm_time_ns(config_.mra_service_timeout, config_.max_service_timeout);
            }
            break;
        case State::kRepSent:
            send_again(connection, call);
            break;
        case State::kTimewait:
            reject_req(req, {.reason = kRejStaleConnection, .info = {}, .private_data = {}}, in, call);
            break;
        case State::kClosed:
            if (connection.sent_attribute_id == wire::cm::Rej::kAttributeId) {
                send_again(connection, call);
            }
            break;
        default:  // late: the peer has had our answer
            break;
    }
}

void Manager::end_stale(Connection& connection, Call call) {
    switch (connection.state()) {
        case State::kEstablished:
            send_dreq(connection, {}, call);
            break;
        case State::kReqReceived:
        case State::kRepSent:
        case State::kMraRepReceived:
            close(connection);
            raise_rejected(connection, kRejStaleConnection, nullptr, call);
            break;
        default:  // on its way out, or for its owner to end
            break;
    }
}

Connection* Manager::make_request(Listener& listener, const RemoteId& remote, const ReceivedMad& mad) {
    if (!Listeners::enter(listener, remote.gid)) {
        ++stats_.dropped_backlog;
        return nullptr;
    }
    Connection* connection = make(&remote.gid).connection;
    if (connection == nullptr) {
        listeners_.leave(listener.id, remote.gid);
        return nullptr;
    }
    connection->kind = remote.kind;
    connection->backlog_of = listener.id;
    connection->info.route.local_gid = mad.dst_gid;
    connection->info.route.pkey = mad.pkey;
    connection->info.route.remote_lid = mad.slid;
    connection->info.route.sl = mad.sl;
    URNIC_CHECK(connections_.set_remote(*connection, remote));
    return connection;
}

void Manager::begin_request(Listener& listener, const wire::cm::Req& req, const Incoming& in, Call call) {
    Connection* connection =
        make_request(listener, {in.mad.src_gid, req.local_comm_id, Kind::kConnection}, in.mad);
    if (connection == nullptr) {
        return;
    }
    URNIC_CHECK(connections_.set_qp(*connection, {in.mad.src_gid, req.local_ca_guid, req.local_qpn}));
    describe(req, *transport_of(req), connection->info);
    connection->info.route.pkey = config_.pkeys.match(req.pkey).value_or(in.mad.pkey);
    connection->has_alternate = req.alternate.local_gid != wire::Gid{} || req.alternate.local_lid != 0;
    connection->transaction_id = in.transaction_id;
    connection->max_retries = req.max_cm_retries;
    connection->response_ns = cm_time_ns(req.local_cm_response_timeout, config_.max_response_timeout);
    const TimeNs interval = cm_time_ns(req.remote_cm_response_timeout, config_.max_response_timeout) +
                            cm_time_ns(req.primary.local_ack_timeout, config_.max_response_timeout);
    connection->remember_ns =
        std::min((req.max_cm_retries + TimeNs{2}) * interval, cm_time_ns(kLongestMemory, kLongestMemory));
    set_state(*connection, State::kReqReceived);
    raise_request(*connection, EventType::kRequest, listener, req.private_data, in, call);
}

void Manager::handle_sidr_req(const wire::cm::SidrReq& req, const Incoming& in, Call call) {
    const RemoteId remote{in.mad.src_gid, req.request_id, Kind::kSidr};
    if (Connection* known = connections_.find(remote)) {
        if (known->transaction_id == in.transaction_id) {
            ++stats_.duplicates;
            if (known->sent_attribute_id == wire::cm::SidrRep::kAttributeId) {
                send_again(*known, call);
            }
            return;
        }
        if (known->state() != State::kClosed) {
            ++stats_.stray;
            return;
        }
        connections_.forget(*known);
        close(*known);
    }
    Listener* listener = listeners_.find(
        req.service_id, requested_address(req.service_id, req.private_data, in.mad, config_.ip_owners));
    if (listener == nullptr || !listener->params.allow_sidr) {
        answer(in, refuse(req, kSidrUnsupported), call);
        return;
    }
    if (has_ip_header(req.service_id, req.private_data, config_.ip_owners)) {
        const wire::cm::IpCmHeader ip = ip_header(req.private_data);
        if (!is_known_version(ip) || !is_consistent(ip, in.mad, config_.ip_owners)) {
            answer(in, refuse(req, is_known_version(ip) ? kSidrRejected : kSidrUnsupportedVersion), call);
            return;
        }
    }
    Connection* connection = make_request(*listener, remote, in.mad);
    if (connection == nullptr) {
        return;
    }
    connection->transaction_id = in.transaction_id;
    connection->remember_ns = cm_time_ns(kLongestMemory, kLongestMemory);
    connection->info.service_id = req.service_id;
    connection->info.remote_comm_id = req.request_id;
    set_state(*connection, State::kSidrReqReceived);
    raise_request(*connection, EventType::kSidrRequest, *listener, req.private_data, in, call);
}

void Manager::raise_request(const Connection& connection, EventType type, const Listener& listener,
                            std::span<const std::uint8_t> private_data, const Incoming& in, Call call) {
    Event event;
    event.type = type;
    event.handle = connection.id;
    event.listener = listener.id;
    event.listener_owner = listener.params.owner;
    event.route = connection.info.route;
    event.message = &in.message;
    event.private_data = private_data;
    wire::cm::IpCmHeader ip;
    if (has_ip_header(connection.info.service_id, private_data, config_.ip_owners)) {
        ip = ip_header(private_data);
        event.ip = &ip;
        event.private_data = private_data.subspan(wire::cm::kIpCmHeaderBytes);
    }
    call.out.event(event);
}

}  // namespace urnic::cm
