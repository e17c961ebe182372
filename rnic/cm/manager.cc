// What the owner asks for, and the steps that all parts of the manager are made of.
#include "rnic/cm/manager.h"

#include <algorithm>

#include "rnic/cm/checks.h"
#include "rnic/cm/manager_send.h"

namespace urnic::cm {

namespace {

/// Timewait when a peer has not reported how long its packets live.
constexpr std::uint8_t kDefaultAckTimeout = 19;

bool is_valid(const RejectParams& params) {
    return params.info.size() <= wire::cm::Rej{}.additional_info.size() &&
           params.private_data.size() <= wire::cm::Rej{}.private_data.size();
}

SidrRepParams refusal() {
    SidrRepParams answer;
    answer.status = kSidrRejected;
    return answer;
}

RejectParams by_reason(RejectReason reason) { return {.reason = reason, .info = {}, .private_data = {}}; }

}  // namespace

Manager::Manager(const Config& config)
    : config_(config),
      ids_(config.seed),
      connections_({.max_connections = config.max_connections,
                    .max_half_open = config.max_half_open,
                    .max_remembered = config.max_remembered}) {}

// --- The record of a connection ---------------------------------------------------------------------------

Connections::Made Manager::make(const wire::Gid* source) {
    while (connections_.is_full() && connections_.oldest_remembered() != nullptr) {
        Connection& oldest = *connections_.oldest_remembered();
        connections_.forget(oldest);
        close(oldest);
    }
    const Connections::Made made = connections_.make(ids_, source);
    switch (made.refused) {
        case Connections::Refused::kNot:
            break;
        case Connections::Refused::kHalfOpen:
            ++stats_.dropped_half_open;
            break;
        case Connections::Refused::kFull:
        case Connections::Refused::kNoMemory:
            ++stats_.dropped_full;
    }
    return made;
}

Connection* Manager::find(Handle handle, Kind kind) const {
    Connection* connection = connections_.find(handle);
    return connection != nullptr && connection->is_owned && connection->kind == kind ? connection : nullptr;
}

void Manager::set_state(Connection& connection, State state) {
    connection.info.state = state;
    if (state != State::kReqReceived && state != State::kSidrReqReceived) {
        leave_backlog(connection);
        if (state != State::kRepSent && state != State::kMraRepReceived) {
            connections_.end_half_open(connection);
        }
    }
}

void Manager::leave_backlog(Connection& connection) {
    if (connection.backlog_of != 0) {
        listeners_.leave(connection.backlog_of, connection.info.route.remote_gid);
        connection.backlog_of = 0;
    }
}

void Manager::close(Connection& connection) {
    set_state(connection, State::kClosed);
    connection.sent_attribute_id = 0;
    connections_.set_timer(connection, kNever);
    connections_.clear_remote(connection);
    connections_.clear_qp(connection);
    if (!connection.is_owned) {
        connections_.erase(connection);
    }
}

void Manager::close_keeping_reply(Connection& connection, TimeNs now) {
    set_state(connection, State::kClosed);
    connections_.clear_qp(connection);
    connections_.set_timer(connection, now + connection.remember_ns);
    connections_.remember(connection);
    if (connections_.has_too_many_remembered()) {
        Connection& oldest = *connections_.oldest_remembered();
        connections_.forget(oldest);
        close(oldest);
    }
}

void Manager::enter_timewait(Connection& connection, TimeNs now) {
    set_state(connection, State::kTimewait);
    const std::uint8_t exponent =
        connection.info.ack_timeout == 0 ? kDefaultAckTimeout : connection.info.ack_timeout;
    connections_.set_timer(connection, now + cm_time_ns(exponent, config_.max_response_timeout));
}

void Manager::raise(const Connection& connection, EventType type, const wire::cm::Message* message,
                    Call call) const {
    if (!connection.is_owned) {
        return;
    }
    Event event;
    event.type = type;
    event.handle = connection.id;
    event.owner = connection.owner;
    event.route = connection.info.route;
    event.message = message;
    if (message != nullptr) {
        event.private_data = private_data_of(*message);
    }
    call.out.event(event);
}

void Manager::raise_rejected(const Connection& connection, std::uint16_t reason,
                             const wire::cm::Message* message, Call call) const {
    if (!connection.is_owned) {
        return;
    }
    Event event;
    event.type = EventType::kRejected;
    event.handle = connection.id;
    event.owner = connection.owner;
    event.reason = reason;
    event.route = connection.info.route;
    event.message = message;
    if (message != nullptr) {
        event.private_data = private_data_of(*message);
    }
    call.out.event(event);
}

void Manager::await_answer(Connection& connection, State state, TimeNs now) {
    set_state(connection, state);
    connection.retries_left = connection.max_retries;
    connection.mra_ns = 0;
    connections_.set_timer(connection, now + connection.response_ns);
}

void Manager::send_again(Connection& connection, Call call) {
    ++stats_.sent;
    call.out.send({connection.info.route, connection.mad});
}

void Manager::send_reject(Connection& connection, AboutMessage about, const RejectParams& params, Call call) {
    ++stats_.rejects_sent;
    send(connection, make_rej(connection.id, connection.info.remote_comm_id, about, params),
         connection.transaction_id, call);
}

void Manager::send_dreq(Connection& connection, std::span<const std::uint8_t> private_data, Call call) {
    wire::cm::Dreq dreq;
    dreq.local_comm_id = connection.id;
    dreq.remote_comm_id = connection.info.remote_comm_id;
    dreq.remote_qpn_eecn = connection.info.remote_qpn;
    fill(dreq.private_data, private_data);
    send(connection, dreq, connection.transaction_id, call);
    await_answer(connection, State::kDreqSent, call.now);
}

void Manager::send_drep(Connection& connection, std::span<const std::uint8_t> private_data,
                        std::uint64_t transaction_id, Call call) {
    wire::cm::Drep drep;
    drep.local_comm_id = connection.id;
    drep.remote_comm_id = connection.info.remote_comm_id;
    fill(drep.private_data, private_data);
    send(connection, drep, transaction_id, call);
}

void Manager::send_mra(const Connection& connection, AboutMessage about, std::uint64_t transaction_id,
                       Call call) {
    wire::cm::Mra mra;
    mra.local_comm_id = connection.id;
    mra.remote_comm_id = connection.info.remote_comm_id;
    mra.message_mraed = about;
    mra.service_timeout = config_.mra_service_timeout;
    ++stats_.sent;
    call.out.send({connection.info.route, build_mad(mra, transaction_id)});
}

void Manager::give_up_request(Connection& connection, Call call) {
    std::array<std::uint8_t, 8> guid{};
    for (std::size_t i = 0; i < guid.size(); ++i) {
        guid[i] = static_cast<std::uint8_t>(config_.ca_guid >> (8 * (7 - i)));
    }
    send_reject(connection, kAboutNone, {.reason = kRejTimeout, .info = guid, .private_data = {}}, call);
}

// --- Listeners --------------------------------------------------------------------------------------------

Manager::Listening Manager::listen(const ListenParams& params) {
    if (listeners_.size() >= config_.max_listeners) {
        return {Status::kFull, 0};
    }
    ListenParams effective = params;
    if (params.backlog == 0 || params.backlog > config_.max_backlog) {
        effective.backlog = config_.max_backlog;
    }
    Listening result;
    result.status = listeners_.add(effective, result.id);
    return result;
}

void Manager::unlisten(ListenerId id) { listeners_.remove(id); }

void Manager::dequeue(Handle handle) {
    if (Connection* connection = connections_.find(handle)) {
        leave_backlog(*connection);
    }
}

// --- The active side --------------------------------------------------------------------------------------

Manager::Opened Manager::connect(const ConnectParams& params, TimeNs now, Outbox& out) {
    if (!is_valid(params)) {
        return {Status::kBadArgument, 0};
    }
    const Connections::Made made = make(nullptr);
    if (made.connection == nullptr) {
        return {made.refused == Connections::Refused::kNoMemory ? Status::kNoMemory : Status::kFull, 0};
    }
    Connection& connection = *made.connection;
    connection.owner = params.owner;
    connection.transaction_id = (ids_.next() << 32U) | connection.id;
    connection.max_retries = params.max_cm_retries;
    // The answer's time and twice that of a packet, which is half the ACK timeout (IBA 12.9).
    connection.response_ns = cm_time_ns(params.response_timeout, config_.max_response_timeout) +
                             cm_time_ns(params.local_ack_timeout, config_.max_response_timeout);
    ConnectionInfo& info = connection.info;
    info.is_active = true;
    info.transport = params.transport;
    info.route = params.route;
    info.service_id = params.service_id;
    info.local_qpn = params.local_qpn;
    info.receive_psn = params.starting_psn;
    info.responder_resources = params.responder_resources;
    info.initiator_depth = params.initiator_depth;
    info.retry_count = params.retry_count;
    info.rnr_retry_count = params.rnr_retry_count;
    info.ack_timeout = params.local_ack_timeout;
    info.path_mtu = params.path_mtu;
    info.packet_rate = params.packet_rate;
    const Call call{now, out};
    send(connection, make_req(connection.id, config_.ca_guid, params), connection.transaction_id, call);
    await_answer(connection, State::kReqSent, now);
    return {Status::kOk, connection.id};
}

Status Manager::send_rtu(Handle handle, std::span<const std::uint8_t> private_data, TimeNs now, Outbox& out) {
    Connection* connection = find(handle, Kind::kConnection);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    if (connection->state() != State::kRepReceived) {
        return Status::kWrongState;
    }
    wire::cm::Rtu rtu;
    if (private_data.size() > rtu.private_data.size()) {
        return Status::kBadArgument;
    }
    rtu.local_comm_id = connection->id;
    rtu.remote_comm_id = connection->info.remote_comm_id;
    fill(rtu.private_data, private_data);
    send(*connection, rtu, connection->transaction_id, {now, out});
    set_state(*connection, State::kEstablished);
    return Status::kOk;
}

Manager::Opened Manager::send_sidr_req(const SidrReqParams& params, TimeNs now, Outbox& out) {
    if (!is_valid(params)) {
        return {Status::kBadArgument, 0};
    }
    const Connections::Made made = make(nullptr);
    if (made.connection == nullptr) {
        return {made.refused == Connections::Refused::kNoMemory ? Status::kNoMemory : Status::kFull, 0};
    }
    Connection& connection = *made.connection;
    connection.kind = Kind::kSidr;
    connection.owner = params.owner;
    connection.transaction_id = (ids_.next() << 32U) | connection.id;
    connection.max_retries = params.max_cm_retries;
    connection.response_ns = cm_time_ns(params.response_timeout, config_.max_response_timeout);
    connection.info.is_active = true;
    connection.info.route = params.route;
    connection.info.service_id = params.service_id;
    send(connection, make_sidr_req(connection.id, params), connection.transaction_id, {now, out});
    await_answer(connection, State::kSidrReqSent, now);
    return {Status::kOk, connection.id};
}

// --- The passive side -------------------------------------------------------------------------------------

Status Manager::accept(Handle handle, const AcceptParams& params, TimeNs now, Outbox& out) {
    Connection* connection = find(handle, Kind::kConnection);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    if (connection->state() != State::kReqReceived) {
        return Status::kWrongState;
    }
    if (!is_valid(params, connection->info.transport)) {
        return Status::kBadArgument;
    }
    ConnectionInfo& info = connection->info;
    info.local_qpn = params.local_qpn;
    info.receive_psn = params.starting_psn;
    info.responder_resources = params.responder_resources;
    info.initiator_depth = params.initiator_depth;
    send(*connection, make_rep(*connection, config_.ca_guid, connection->has_alternate, params),
         connection->transaction_id, {now, out});
    await_answer(*connection, State::kRepSent, now);
    return Status::kOk;
}

Status Manager::established(Handle handle, TimeNs now, Outbox& out) {
    Connection* connection = find(handle, Kind::kConnection);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    switch (connection->state()) {
        case State::kEstablished:
            return Status::kOk;
        case State::kRepSent:
        case State::kMraRepReceived:
            set_state(*connection, State::kEstablished);
            connections_.set_timer(*connection, kNever);
            raise(*connection, EventType::kEstablished, nullptr, {now, out});
            return Status::kOk;
        default:
            return Status::kWrongState;
    }
}

Status Manager::send_sidr_rep(Handle handle, const SidrRepParams& answer, TimeNs now, Outbox& out) {
    Connection* connection = find(handle, Kind::kSidr);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    if (connection->state() != State::kSidrReqReceived) {
        return Status::kWrongState;
    }
    wire::cm::SidrRep rep;
    if (answer.qpn > 0xff'ffff || answer.info.size() > rep.additional_info.size() ||
        answer.private_data.size() > rep.private_data.size()) {
        return Status::kBadArgument;
    }
    rep.request_id = connection->info.remote_comm_id;
    rep.status = answer.status;
    rep.additional_info_length = static_cast<std::uint8_t>(answer.info.size());
    rep.qpn = answer.qpn;
    rep.service_id = connection->info.service_id;
    rep.qkey = answer.qkey;
    fill(rep.additional_info, answer.info);
    fill(rep.private_data, answer.private_data);
    send(*connection, rep, connection->transaction_id, {now, out});
    close_keeping_reply(*connection, now);
    return Status::kOk;
}

// --- Both -------------------------------------------------------------------------------------------------

Status Manager::reject(Handle handle, const RejectParams& params, TimeNs now, Outbox& out) {
    Connection* connection = find(handle, Kind::kConnection);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    const State state = connection->state();
    if (state != State::kReqReceived && state != State::kRepReceived) {
        return Status::kWrongState;
    }
    if (!is_valid(params)) {
        return Status::kBadArgument;
    }
    if (state == State::kReqReceived) {
        send_reject(*connection, kAboutReq, params, {now, out});
        close_keeping_reply(*connection, now);
    } else {
        send_reject(*connection, kAboutRep, params, {now, out});
        enter_timewait(*connection, now);
    }
    return Status::kOk;
}

Status Manager::disconnect(Handle handle, std::span<const std::uint8_t> private_data, TimeNs now,
                           Outbox& out) {
    Connection* connection = find(handle, Kind::kConnection);
    if (connection == nullptr) {
        return Status::kUnknownHandle;
    }
    switch (connection->state()) {
        case State::kEstablished:
            if (private_data.size() > wire::cm::Dreq{}.private_data.size()) {
                return Status::kBadArgument;
            }
            send_dreq(*connection, private_data, {now, out});
            return Status::kOk;
        case State::kDreqReceived:
            if (private_data.size() > wire::cm::Drep{}.private_data.size()) {
                return Status::kBadArgument;
            }
            send_drep(*connection, private_data, connection->transaction_id, {now, out});
            enter_timewait(*connection, now);
            return Status::kOk;
        default:
            return Status::kWrongState;
    }
}

bool Manager::set_owner(Handle handle, Cookie owner) {
    Connection* connection = connections_.find(handle);
    if (connection == nullptr || !connection->is_owned) {
        return false;
    }
    connection->owner = owner;
    return true;
}

void Manager::discard(Handle handle) {
    Connection* connection = connections_.find(handle);
    if (connection != nullptr && connection->is_owned &&
        (connection->state() == State::kReqReceived || connection->state() == State::kSidrReqReceived)) {
        connection->is_owned = false;
        close(*connection);
    }
}

void Manager::destroy(Handle handle, TimeNs now, Outbox& out) {
    Connection* connection = connections_.find(handle);
    if (connection == nullptr || !connection->is_owned) {
        return;
    }
    const Call call{now, out};
    switch (connection->state()) {
        case State::kReqSent:
        case State::kMraReqReceived:
            give_up_request(*connection, call);
            connection->is_owned = false;
            close(*connection);
            return;
        case State::kReqReceived:
            (void)reject(handle, by_reason(kRejConsumer), now, out);
            break;
        case State::kRepSent:
        case State::kMraRepReceived:
            send_reject(*connection, kAboutNone, by_reason(kRejConsumer), call);
            close_keeping_reply(*connection, now);
            break;
        case State::kRepReceived:
            (void)reject(handle, by_reason(kRejConsumer), now, out);
            break;
        case State::kEstablished:
        case State::kDreqReceived:
            (void)disconnect(handle, {}, now, out);
            break;
        case State::kSidrReqReceived:
            (void)send_sidr_rep(handle, refusal(), now, out);
            break;
        case State::kSidrReqSent:
            connection->is_owned = false;
            close(*connection);
            return;
        case State::kDreqSent:
        case State::kTimewait:
        case State::kClosed:
            break;
    }
    // What was answered may have been the memory's oldest already.
    connection = connections_.find(handle);
    connection->is_owned = false;
    if (connection->state() == State::kClosed && !connection->remembered.is_in()) {
        connections_.erase(*connection);
    }
}

std::optional<ConnectionInfo> Manager::info(Handle handle) const {
    const Connection* connection = connections_.find(handle);
    return connection != nullptr && connection->is_owned ? std::optional(connection->info) : std::nullopt;
}

}  // namespace urnic::cm
