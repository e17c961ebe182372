// Messages about connections that there are (IBA 12.9), and what all messages have in common.
#include <algorithm>

#include "rnic/cm/checks.h"
#include "rnic/cm/manager.h"
#include "rnic/cm/manager_send.h"

namespace urnic::cm {

namespace {

bool has_addresses(const Connection& connection, const ReceivedMad& mad) {
    return connection.info.route.remote_gid == mad.src_gid && connection.info.route.local_gid == mad.dst_gid;
}

/// There is none, or but the handle of one: whoever thinks otherwise is told.
bool has_ended(const Connection* connection) {
    return connection == nullptr ||
           (connection->state() == State::kClosed && !connection->remembered.is_in());
}

/// Local ACK timeout of the QP: the time of a packet there and back, and of the peer's answer (IBA 12.7; both
/// are exponents, and the sum of two powers is less than the next power of the greater one, or of both).
std::uint8_t ack_timeout_of(std::uint8_t asked, std::uint8_t target_ack_delay) {
    if (asked == 0) {
        return 0;
    }
    if (target_ack_delay < asked - 1) {
        return asked;
    }
    return static_cast<std::uint8_t>(
        std::min(31, std::max<int>(asked, target_ack_delay) + (target_ack_delay >= asked - 1 ? 1 : 0)));
}

/// The CA that an additional reject information names.
std::uint64_t guid_of(std::span<const std::uint8_t> info) {
    std::uint64_t guid = 0;
    for (std::size_t i = 0; i < sizeof guid; ++i) {
        guid = (guid << 8U) | info[i];
    }
    return guid;
}

}  // namespace

/// The handler of each message.
struct Manager::Handlers {
    Manager& manager;
    const Incoming& in;
    Call call;

    void operator()(const wire::cm::Req& req) const { manager.handle_req(req, in, call); }
    void operator()(const wire::cm::Mra& mra) const { manager.handle_mra(mra, in, call); }
    void operator()(const wire::cm::Rej& rej) const { manager.handle_rej(rej, in, call); }
    void operator()(const wire::cm::Rep& rep) const { manager.handle_rep(rep, in, call); }
    void operator()(const wire::cm::Rtu& rtu) const { manager.handle_rtu(rtu, in, call); }
    void operator()(const wire::cm::Dreq& dreq) const { manager.handle_dreq(dreq, in, call); }
    void operator()(const wire::cm::Drep& drep) const { manager.handle_drep(drep, in, call); }
    void operator()(const wire::cm::SidrReq& req) const { manager.handle_sidr_req(req, in, call); }
    void operator()(const wire::cm::SidrRep& rep) const { manager.handle_sidr_rep(rep, in, call); }
    void operator()(const wire::cm::Lap& lap) const { manager.handle_lap(lap, in, call); }
    void operator()(const wire::cm::Apr& apr) const { manager.handle_apr(apr, in, call); }
};

void Manager::receive(const ReceivedMad& mad, TimeNs now, Outbox& out) {
    ++stats_.received;
    wire::MadHeader header;
    const HeaderCheck check = check_header(mad, header);
    const wire::cm::MessageBytes bytes(mad.bytes.data() + wire::kMadHeaderBytes, wire::cm::kMessageBytes);
    const std::optional<wire::cm::Message> message =
        check == HeaderCheck::kMalformed ? std::nullopt : wire::cm::parse_message(header.attribute_id, bytes);
    if (!message) {
        ++stats_.malformed;
        return;
    }
    const Call call{now, out};
    const Incoming in{mad, header.transaction_id, *message};
    if (check == HeaderCheck::kClassVersion) {
        // The ID stands at the same place in all versions.
        reject_req(
            std::get<wire::cm::Req>(*message),
            {.reason = kRejClassVersion, .info = std::span(&wire::cm::kClassVersion, 1), .private_data = {}},
            in, call);
        return;
    }
    std::visit(Handlers{*this, in, call}, *message);
}

Connection* Manager::find(std::uint32_t local_id, std::uint32_t remote_id, const ReceivedMad& mad) const {
    Connection* connection = connections_.find(local_id);
    return connection != nullptr && connection->kind == Kind::kConnection && connection->remote.is_in() &&
                   connection->info.remote_comm_id == remote_id && has_addresses(*connection, mad)
               ? connection
               : nullptr;
}

void Manager::handle_mra(const wire::cm::Mra& mra, const Incoming& in, Call call) {
    Connection* connection = mra.message_mraed == kAboutReq
                                 ? connections_.find(mra.remote_comm_id)
                                 : find(mra.remote_comm_id, mra.local_comm_id, in.mad);
    if (connection == nullptr || connection->kind != Kind::kConnection ||
        !has_addresses(*connection, in.mad)) {
        ++stats_.stray;
        return;
    }
    State next = State::kClosed;
    if (mra.message_mraed == kAboutReq && connection->state() == State::kReqSent) {
        next = State::kMraReqReceived;
    } else if (mra.message_mraed == kAboutRep && connection->state() == State::kRepSent) {
        next = State::kMraRepReceived;
    } else {  // again, or late; once is enough, or a peer could hold us for ever
        ++stats_.stray;
        return;
    }
    set_state(*connection, next);
    connection->mra_ns = cm_time_ns(mra.service_timeout, config_.max_service_timeout);
    connections_.set_timer(*connection, call.now + connection->mra_ns + connection->response_ns);
}

Connection* Manager::find_rejected(const wire::cm::Rej& rej, const ReceivedMad& mad) const {
    if (rej.reason == kRejTimeout) {
        // Its sender may not know our ID (IBA 12.6.7.2): it gives its own, and its CA.
        Connection* connection =
            connections_.find(RemoteId{mad.src_gid, rej.local_comm_id, Kind::kConnection});
        if (connection != nullptr && has_addresses(*connection, mad) &&
            (rej.remote_comm_id == 0 || rej.remote_comm_id == connection->id) &&
            (rej.reject_info_length < sizeof(std::uint64_t) ||
             guid_of(rej.additional_info) == connection->info.remote_ca_guid)) {
            return connection;
        }
    }
    Connection* connection = connections_.find(rej.remote_comm_id);
    if (connection == nullptr || connection->kind != Kind::kConnection || !has_addresses(*connection, mad)) {
        return nullptr;
    }
    const bool waits_for_id =
        connection->state() == State::kReqSent || connection->state() == State::kMraReqReceived;
    return waits_for_id ||
                   (connection->remote.is_in() && connection->info.remote_comm_id == rej.local_comm_id)
               ? connection
               : nullptr;
}

void Manager::handle_rej(const wire::cm::Rej& rej, const Incoming& in, Call call) {
    if (!is_well_formed(rej)) {
        ++stats_.malformed;
        return;
    }
    ++stats_.rejects_received;
    Connection* connection = find_rejected(rej, in.mad);
    if (connection == nullptr) {
        ++stats_.stray;
        return;
    }
    const bool is_stale = rej.reason == kRejStaleConnection;
    switch (connection->state()) {
        case State::kReqSent:
        case State::kMraReqReceived:
            is_stale ? enter_timewait(*connection, call.now) : close(*connection);
            break;
        case State::kReqReceived:
        case State::kRepSent:
        case State::kMraRepReceived:
            // A REQ that comes late gets no answer.
            is_stale ? enter_timewait(*connection, call.now) : close_keeping_reply(*connection, call.now);
            break;
        case State::kRepReceived:
        case State::kEstablished:
            enter_timewait(*connection, call.now);
            break;
        case State::kDreqSent:
            enter_timewait(*connection, call.now);
            raise(*connection, EventType::kDisconnected, &in.message, call);
            return;
        default:
            ++stats_.stray;
            return;
    }
    raise_rejected(*connection, rej.reason, &in.message, call);
}

void Manager::refuse_rep(Connection& connection, RejectReason reason, const Incoming& in, Call call) {
    connection.info.remote_comm_id = std::get<wire::cm::Rep>(in.message).local_comm_id;
    send_reject(connection, kAboutRep, {.reason = reason, .info = {}, .private_data = {}}, call);
    close(connection);
    raise_rejected(connection, reason, nullptr, call);
}

void Manager::reject_unknown(std::uint32_t our_id, std::uint32_t their_id, AboutMessage about,
                             RejectReason reason, const Incoming& in, Call call) {
    const bool sent = answer(
        in, make_rej(our_id, their_id, about, {.reason = reason, .info = {}, .private_data = {}}), call);
    stats_.rejects_sent += sent ? 1 : 0;
}

void Manager::handle_rep(const wire::cm::Rep& rep, const Incoming& in, Call call) {
    Connection* connection = connections_.find(rep.remote_comm_id);
    if (has_ended(connection)) {
        ++stats_.stray;
        reject_unknown(rep.remote_comm_id, rep.local_comm_id, kAboutRep, kRejInvalidCommId, in, call);
        return;
    }
    if (connection->kind != Kind::kConnection || !connection->info.is_active ||
        !has_addresses(*connection, in.mad)) {
        ++stats_.stray;
        return;
    }
    switch (connection->state()) {
        case State::kReqSent:
        case State::kMraReqReceived:
            handle_first_rep(*connection, rep, in, call);
            return;
        case State::kRepReceived:
            if (connection->info.remote_comm_id == rep.local_comm_id) {
                ++stats_.duplicates;
                send_mra(*connection, kAboutRep, in.transaction_id, call);
                return;
            }
            break;
        case State::kEstablished:
        case State::kTimewait: {
            const std::uint16_t answered = connection->state() == State::kEstablished
                                               ? wire::cm::Rtu::kAttributeId
                                               : wire::cm::Rej::kAttributeId;
            if (connection->info.remote_comm_id == rep.local_comm_id &&
                connection->sent_attribute_id == answered) {
                ++stats_.duplicates;
                send_again(*connection, call);
                return;
            }
            break;
        }
        default:
            break;
    }
    ++stats_.stray;
}

void Manager::handle_first_rep(Connection& connection, const wire::cm::Rep& rep, const Incoming& in,
                               Call call) {
    ConnectionInfo& info = connection.info;
    const std::uint32_t qpn = qpn_of(rep, info.transport);
    if (qpn < kFirstQpn) {
        refuse_rep(connection, kRejUnsupported, in, call);
        return;
    }
    const RemoteQp qp{in.mad.src_gid, rep.local_ca_guid, qpn};
    if (Connection* known = connections_.find(qp)) {
        ++stats_.stale;
        refuse_rep(connection, kRejStaleConnection, in, call);
        end_stale(*known, call);
        return;
    }
    if (!connections_.set_remote(connection, {in.mad.src_gid, rep.local_comm_id, Kind::kConnection})) {
        refuse_rep(connection, kRejDuplicateCommId, in, call);
        return;
    }
    (void)connections_.set_qp(connection, qp);  // nobody has it, see above
    info.remote_comm_id = rep.local_comm_id;
    info.remote_ca_guid = rep.local_ca_guid;
    info.remote_qpn = qpn;
    info.remote_qkey = rep.local_qkey;
    info.send_psn = rep.starting_psn;
    info.responder_resources = rep.initiator_depth;
    info.initiator_depth = rep.responder_resources;
    info.rnr_retry_count = rep.rnr_retry_count;
    info.ack_timeout = ack_timeout_of(info.ack_timeout, rep.target_ack_delay);
    info.srq = rep.srq;
    connections_.set_timer(connection, kNever);
    set_state(connection, State::kRepReceived);
    raise(connection, EventType::kReply, &in.message, call);
}

void Manager::handle_rtu(const wire::cm::Rtu& rtu, const Incoming& in, Call call) {
    Connection* connection = find(rtu.remote_comm_id, rtu.local_comm_id, in.mad);
    if (connection == nullptr) {
        ++stats_.stray;
        if (has_ended(connections_.find(rtu.remote_comm_id))) {
            // Its sender takes for established what has ended here.
            reject_unknown(rtu.remote_comm_id, rtu.local_comm_id, kAboutNone, kRejInvalidCommInstance, in,
                           call);
        }
        return;
    }
    switch (connection->state()) {
        case State::kRepSent:
        case State::kMraRepReceived:
            connections_.set_timer(*connection, kNever);
            set_state(*connection, State::kEstablished);
            raise(*connection, EventType::kEstablished, &in.message, call);
            break;
        case State::kEstablished:
            ++stats_.duplicates;
            break;
        case State::kClosed:
            if (connection->sent_attribute_id == wire::cm::Rej::kAttributeId) {
                send_again(*connection, call);
                break;
            }
            [[fallthrough]];
        default:
            ++stats_.stray;
    }
}

void Manager::handle_dreq(const wire::cm::Dreq& dreq, const Incoming& in, Call call) {
    Connection* connection = find(dreq.remote_comm_id, dreq.local_comm_id, in.mad);
    if (connection == nullptr || connection->state() == State::kClosed) {
        // It ended long ago; its peer has not heard so (IBA 12.9).
        ++stats_.stray;
        wire::cm::Drep drep;
        drep.local_comm_id = dreq.remote_comm_id;
        drep.remote_comm_id = dreq.local_comm_id;
        answer(in, drep, call);
        return;
    }
    if (dreq.remote_qpn_eecn != connection->info.local_qpn) {
        ++stats_.stray;
        return;
    }
    switch (connection->state()) {
        case State::kRepSent:
        case State::kMraRepReceived:
        case State::kRepReceived:
        case State::kEstablished:
            connection->transaction_id = in.transaction_id;
            connections_.set_timer(*connection, kNever);
            set_state(*connection, State::kDreqReceived);
            raise(*connection, EventType::kDisconnectRequest, &in.message, call);
            break;
        case State::kDreqSent:
            send_drep(*connection, {}, in.transaction_id, call);
            enter_timewait(*connection, call.now);
            raise(*connection, EventType::kDisconnected, &in.message, call);
            break;
        case State::kTimewait:
            ++stats_.duplicates;
            if (connection->sent_attribute_id == wire::cm::Drep::kAttributeId) {
                send_again(*connection, call);
            } else {
                send_drep(*connection, {}, in.transaction_id, call);
            }
            break;
        case State::kDreqReceived:
            ++stats_.duplicates;
            break;
        default:
            ++stats_.stray;
    }
}

void Manager::handle_drep(const wire::cm::Drep& drep, const Incoming& in, Call call) {
    Connection* connection = find(drep.remote_comm_id, drep.local_comm_id, in.mad);
    if (connection == nullptr || connection->state() != State::kDreqSent) {
        ++stats_.stray;
        return;
    }
    enter_timewait(*connection, call.now);
    raise(*connection, EventType::kDisconnected, &in.message, call);
}

void Manager::handle_sidr_rep(const wire::cm::SidrRep& rep, const Incoming& in, Call call) {
    Connection* connection = connections_.find(rep.request_id);
    if (rep.additional_info_length > rep.additional_info.size()) {
        ++stats_.malformed;
        return;
    }
    if (connection == nullptr || connection->state() != State::kSidrReqSent ||
        !has_addresses(*connection, in.mad) || rep.service_id != connection->info.service_id) {
        ++stats_.stray;
        return;
    }
    close(*connection);
    raise(*connection, EventType::kSidrReply, &in.message, call);
}

// We have one path a connection: no alternate one is ever loaded (IBA 12.8).
void Manager::handle_lap(const wire::cm::Lap& lap, const Incoming& in, Call call) {
    constexpr std::uint8_t kInvalidInstance = 1;
    constexpr std::uint8_t kNotSupported = 2;
    constexpr std::uint8_t kQpnMismatch = 6;
    const Connection* connection = find(lap.remote_comm_id, lap.local_comm_id, in.mad);
    wire::cm::Apr apr;
    apr.local_comm_id = lap.remote_comm_id;
    apr.remote_comm_id = lap.local_comm_id;
    if (connection == nullptr || connection->state() != State::kEstablished) {
        ++stats_.stray;
        apr.ap_status = kInvalidInstance;
    } else {
        apr.ap_status = lap.remote_qpn_eecn == connection->info.local_qpn ? kNotSupported : kQpnMismatch;
    }
    answer(in, apr, call);
}

// Nothing of ours asks for one.
void Manager::handle_apr(const wire::cm::Apr& /*apr*/, const Incoming& /*in*/, Call /*call*/) {
    ++stats_.stray;
}

}  // namespace urnic::cm
