// Messages of the connection manager, both ways.
#include <algorithm>
#include <tuple>

#include "ulp/ipoib/engine/connections.h"

namespace urnic::ipoib {

namespace {

constexpr std::uint8_t kTransportRc = 0;

bool is_greater(const LinkAddress& a, const LinkAddress& b) {
    return std::tie(a.gid, a.qpn) > std::tie(b.gid, b.qpn);
}

}  // namespace

// --- out

void Connections::send_req(const Connection& connection) {
    sender_.send_cm(connection.peer, write_cm({.kind = CmKind::kReq,
                                               .transaction = connection.transaction,
                                               .local_comm_id = connection.local_id,
                                               .service_id = connected_mode_service(connection.peer.qpn),
                                               .qpn = connection.qpn,
                                               .starting_psn = connection.psn,
                                               .transport = kTransportRc,
                                               .pkey = config_.pkey,
                                               .path_mtu = connection.path_mtu,
                                               .local_gid = config_.own.gid,
                                               .remote_gid = connection.peer.gid,
                                               .ud_qpn = config_.own.qpn,
                                               .receive_mtu = config_.receive_mtu}));
}

void Connections::send_rep(const Connection& connection) {
    sender_.send_cm(connection.peer, write_cm({.kind = CmKind::kRep,
                                               .transaction = connection.transaction,
                                               .local_comm_id = connection.local_id,
                                               .remote_comm_id = connection.remote_id,
                                               .qpn = connection.qpn,
                                               .starting_psn = connection.psn,
                                               .ud_qpn = config_.own.qpn,
                                               .receive_mtu = config_.receive_mtu}));
}

void Connections::send_plain(CmKind kind, const Connection& connection) {
    sender_.send_cm(connection.peer, write_cm({.kind = kind,
                                               .transaction = connection.transaction,
                                               .local_comm_id = connection.local_id,
                                               .remote_comm_id = connection.remote_id,
                                               .qpn = connection.remote_qpn}));
}

void Connections::reject(const LinkAddress& to, const CmMessage& message, RejectReason reason) {
    ++counters_.rejects_sent;
    sender_.send_cm(to, write_cm({.kind = CmKind::kRej,
                                  .transaction = message.transaction,
                                  .local_comm_id = message.remote_comm_id,
                                  .remote_comm_id = message.local_comm_id,
                                  .rejected = static_cast<std::uint8_t>(message.kind == CmKind::kRep ? 1 : 0),
                                  .reason = static_cast<std::uint16_t>(reason)}));
}

// --- in

void Connections::on_message(const LinkAddress& from, ConstOctets mad) {
    const std::optional<CmMessage> message = read_cm(mad);
    if (!message) {
        ++counters_.malformed;
        return;
    }
    switch (message->kind) {
        case CmKind::kReq:
            on_req(from, *message);
            break;
        case CmKind::kRep:
            on_rep(from, *message);
            break;
        case CmKind::kRtu:
            on_rtu(from, *message);
            break;
        case CmKind::kRej:
            on_rej(from, *message);
            break;
        case CmKind::kDreq:
            on_dreq(from, *message);
            break;
        case CmKind::kDrep:
            on_drep(from, *message);
            break;
    }
}

/// The RC QP and the private data of a REQ or REP: from who it says, and room for what the link carries.
bool Connections::is_valid_end(const LinkAddress& from, const CmMessage& message) const {
    return message.ud_qpn == from.qpn && message.qpn > 1 && message.qpn < kMulticastQpn &&
           message.receive_mtu >= config_.least_mtu + kEncapsulationOctets;
}

std::optional<RejectReason> Connections::fault_of(const LinkAddress& from, const CmMessage& req) {
    if (!is_valid_end(from, req) || req.local_gid != from.gid || req.remote_gid != config_.own.gid ||
        req.pkey != config_.pkey) {
        ++counters_.forged;
        return RejectReason::kConsumer;
    }
    if (req.service_id != connected_mode_service(config_.own.qpn)) {
        return RejectReason::kInvalidServiceId;
    }
    if (req.transport != kTransportRc) {
        return RejectReason::kInvalidTransport;
    }
    if (req.path_mtu == 0 || req.path_mtu > config_.path_mtu) {
        return RejectReason::kInvalidPathMtu;
    }
    return std::nullopt;
}

bool Connections::gives_way_to(const LinkAddress& from, const CmMessage& req) {
    const auto entry = peers_.find(from);
    if (entry == peers_.end()) {
        return true;
    }
    for (const std::uint32_t local_id : {entry->second.current, entry->second.incoming}) {
        Connection* connection = find(local_id);
        if (connection == nullptr || connection->remote_id != req.local_comm_id) {
            continue;
        }
        // The same REQ again: its REP was lost, or both were on the way.
        if (connection->state == State::kRepSent) {
            send_rep(*connection);
        }
        return false;
    }
    const Connection* current = find(entry->second.current);
    if (current != nullptr && current->state == State::kReqSent) {
        ++counters_.collisions;
        if (is_greater(config_.own, from)) {
            return false;
        }
    }
    if (current != nullptr && current->state != State::kEstablished) {
        erase(current->local_id);
    } else if (entry->second.incoming != 0) {
        erase(entry->second.incoming);
    }
    return true;
}

void Connections::on_req(const LinkAddress& from, const CmMessage& req) {
    if (const std::optional<RejectReason> fault = fault_of(from, req)) {
        reject(from, req, *fault);
    } else if (gives_way_to(from, req)) {
        accept(from, req);
    }
}

void Connections::accept(const LinkAddress& from, const CmMessage& req) {
    RejectReason why_not{};
    Connection* made = make(from, why_not);
    if (made == nullptr) {
        reject(from, req, why_not);
        return;
    }
    made->state = State::kRepSent;
    made->remote_id = req.local_comm_id;
    made->transaction = req.transaction;
    made->remote_qpn = req.qpn;
    made->mtu = std::min(req.receive_mtu - static_cast<std::uint32_t>(kEncapsulationOctets), kConnectedMtu);
    made->path_mtu = req.path_mtu;
    Peer& peer = peers_[from];
    if (peer.current == 0) {
        peer.current = made->local_id;
    } else {
        peer.incoming = made->local_id;
    }
    if (!port_.connect_qp(made->qpn, {from.gid, req.qpn, req.starting_psn, made->psn, req.path_mtu})) {
        reject(from, req, RejectReason::kNoResources);
        fail(made->local_id);
        return;
    }
    send_rep(*made);
    start_timer(*made);
}

Connections::Connection* Connections::named_by(const LinkAddress& from, const CmMessage& message) {
    Connection* connection = find(message.remote_comm_id);
    // The peer's ID is known once it has sent something; a REJ of a REQ may come without one.
    if (connection == nullptr || !(connection->peer == from) ||
        (connection->state != State::kReqSent && connection->remote_id != message.local_comm_id)) {
        ++counters_.unknown;
        return nullptr;
    }
    return connection;
}

void Connections::on_rep(const LinkAddress& from, const CmMessage& rep) {
    Connection* connection = named_by(from, rep);
    if (connection == nullptr) {
        // Who answers a REQ of long ago ends at once.
        reject(from, rep, RejectReason::kInvalidCommId);
        return;
    }
    if (connection->state == State::kEstablished) {
        send_plain(CmKind::kRtu, *connection);
        return;
    }
    if (connection->state != State::kReqSent) {
        ++counters_.unknown;
        return;
    }
    if (!is_valid_end(from, rep)) {
        ++counters_.forged;
        reject(from, rep, RejectReason::kConsumer);
        fail(connection->local_id);
        return;
    }
    connection->remote_id = rep.local_comm_id;
    connection->remote_qpn = rep.qpn;
    connection->mtu =
        std::min(rep.receive_mtu - static_cast<std::uint32_t>(kEncapsulationOctets), kConnectedMtu);
    if (!port_.connect_qp(connection->qpn,
                          {from.gid, rep.qpn, rep.starting_psn, connection->psn, connection->path_mtu})) {
        reject(from, rep, RejectReason::kNoResources);
        fail(connection->local_id);
        return;
    }
    send_plain(CmKind::kRtu, *connection);
    ++counters_.opened;
    establish(*connection);
}

void Connections::on_rtu(const LinkAddress& from, const CmMessage& rtu) {
    Connection* connection = named_by(from, rtu);
    if (connection != nullptr && connection->state == State::kRepSent) {
        ++counters_.accepted;
        establish(*connection);
    }
}

void Connections::on_rej(const LinkAddress& from, const CmMessage& rej) {
    Connection* connection = named_by(from, rej);
    // An established connection ends by a DREQ, or by its QP.
    if (connection == nullptr ||
        (connection->state != State::kReqSent && connection->state != State::kRepSent)) {
        return;
    }
    ++counters_.rejects_taken;
    const std::uint32_t local_id = connection->local_id;
    if (connection->state == State::kReqSent &&
        rej.reason == static_cast<std::uint16_t>(RejectReason::kInvalidPathMtu) && connection->path_mtu > 1) {
        // The peer's port has a smaller one: the next smaller is tried at once.
        --connection->path_mtu;
        peers_[from].path_mtu = connection->path_mtu;
        connection->tries = 0;
        send_req(*connection);
        start_timer(*connection);
        return;
    }
    fail(local_id);
}

void Connections::on_dreq(const LinkAddress& from, const CmMessage& dreq) {
    // Whether it is known or has ended already: the peer is to stop asking (IBA 12.9.8).
    sender_.send_cm(from, write_cm({.kind = CmKind::kDrep,
                                    .transaction = dreq.transaction,
                                    .local_comm_id = dreq.remote_comm_id,
                                    .remote_comm_id = dreq.local_comm_id}));
    const Connection* connection = named_by(from, dreq);
    if (connection == nullptr) {
        return;
    }
    if (connection->state == State::kReqSent || dreq.qpn != connection->qpn) {
        ++counters_.forged;
        return;
    }
    ++counters_.closed_by_peer;
    erase(connection->local_id);
}

void Connections::on_drep(const LinkAddress& from, const CmMessage& drep) {
    const Connection* connection = named_by(from, drep);
    if (connection != nullptr && connection->state == State::kClosing) {
        erase(connection->local_id);
    }
}

}  // namespace urnic::ipoib
