#include "ulp/ipoib/engine/connections.h"

#include <algorithm>
#include <limits>

namespace urnic::ipoib {

namespace {

constexpr std::uint64_t kFirstTimeoutMs = 250;
constexpr unsigned kTries = 5;
constexpr std::uint64_t kFirstBackoffMs = 1000;
constexpr std::uint64_t kLongestBackoffMs = 60'000;
/// A connection that was used within this time is not closed to make room for another.
constexpr std::uint64_t kBusyMs = 1000;
/// After so many failures a peer counts as one that takes datagrams alone, until the next try.
constexpr unsigned kFailuresToGiveUp = 3;

}  // namespace

Connections::Connections(const ConnectionConfig& config, RcPort& port, CmSender& sender)
    : config_(config), port_(port), sender_(sender), random_(config.seed) {}

Connections::~Connections() {
    for (const auto& [local_id, connection] : connections_) {
        // The peer learns of it now and not from retries; nobody waits for its answer.
        if (connection.state == State::kEstablished) {
            send_plain(CmKind::kDreq, connection);
        }
        port_.destroy_qp(connection.qpn);
    }
}

/// SplitMix64.
std::uint64_t Connections::next_random() {
    random_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = random_;
    z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ z >> 27U) * 0x94D049BB133111EBULL;
    return z ^ z >> 31U;
}

std::size_t Connections::established() const {
    return static_cast<std::size_t>(
        std::count_if(connections_.begin(), connections_.end(),
                      [](const auto& entry) { return entry.second.state == State::kEstablished; }));
}

bool Connections::is_established(std::uint32_t qpn) const {
    const auto local_id = by_qpn_.find(qpn);
    const auto found = local_id == by_qpn_.end() ? connections_.end() : connections_.find(local_id->second);
    return found != connections_.end() && found->second.state == State::kEstablished;
}

Connections::Connection* Connections::find(std::uint32_t local_id) {
    const auto found = connections_.find(local_id);
    return found == connections_.end() ? nullptr : &found->second;
}

Connections::Connection* Connections::find_qp(std::uint32_t qpn) {
    const auto found = by_qpn_.find(qpn);
    return found == by_qpn_.end() ? nullptr : find(found->second);
}

// --- making

bool Connections::make_room() {
    if (connections_.size() < config_.max_connections) {
        return true;
    }
    // One that ends anyway; else the one that was not used for the longest time.
    Connection* oldest = nullptr;
    for (auto& [local_id, connection] : connections_) {
        if (connection.state == State::kClosing) {
            erase(local_id);
            return true;
        }
        if (connection.state == State::kEstablished && connection.last_used + kBusyMs <= now_ &&
            (oldest == nullptr || connection.last_used < oldest->last_used)) {
            oldest = &connection;
        }
    }
    if (oldest == nullptr) {
        ++counters_.no_room;
        return false;
    }
    ++counters_.evicted;
    send_plain(CmKind::kDreq, *oldest);
    erase(oldest->local_id);
    return true;
}

Connections::Connection* Connections::make(const LinkAddress& peer, RejectReason& why_not) {
    why_not = RejectReason::kNoResources;
    if (!make_room()) {
        return nullptr;
    }
    const std::uint32_t qpn = port_.create_qp();
    if (qpn == 0) {
        why_not = RejectReason::kNoQp;
        return nullptr;
    }
    std::uint32_t local_id = 0;
    while (local_id == 0 || connections_.contains(local_id)) {
        local_id = static_cast<std::uint32_t>(next_random());
    }
    Connection& made = connections_[local_id];
    made.peer = peer;
    made.local_id = local_id;
    made.qpn = qpn;
    made.psn = static_cast<std::uint32_t>(next_random() & 0xFFFFFFU);
    made.last_used = now_;
    by_qpn_[qpn] = local_id;
    return &made;
}

Connections::PeerRoute Connections::route_to(const LinkAddress& address) {
    auto entry = peers_.find(address);
    if (entry != peers_.end()) {
        Peer& peer = entry->second;
        if (Connection* current = find(peer.current); current != nullptr) {
            if (current->state != State::kEstablished) {
                return {RouteKind::kPending, 0, 0};
            }
            current->last_used = now_;
            return {RouteKind::kConnected, current->qpn, current->mtu};
        }
        if (now_ < peer.retry_at) {
            return {peer.failures < kFailuresToGiveUp ? RouteKind::kLater : RouteKind::kDatagram, 0, 0};
        }
    } else if (peers_.size() >= 2 * config_.max_connections) {
        // Peers that have failed are remembered until they are tried again.
        std::erase_if(peers_, [this](const auto& old) {
            return old.second.current == 0 && old.second.incoming == 0 && old.second.retry_at <= now_;
        });
        if (peers_.size() >= 2 * config_.max_connections) {
            ++counters_.no_room;
            return {RouteKind::kLater, 0, 0};
        }
    }
    RejectReason why_not{};
    Connection* made = make(address, why_not);
    if (made == nullptr) {
        return {RouteKind::kLater, 0, 0};
    }
    Peer& peer = peers_[address];
    peer.path_mtu = peer.path_mtu == 0 ? config_.path_mtu : peer.path_mtu;
    peer.current = made->local_id;
    made->state = State::kReqSent;
    made->path_mtu = peer.path_mtu;
    made->transaction = next_random();
    send_req(*made);
    start_timer(*made);
    return {RouteKind::kPending, 0, 0};
}

void Connections::establish(Connection& connection) {
    connection.state = State::kEstablished;
    connection.last_used = now_;
    connection.deadline = now_ + config_.idle_ms;
    Peer& peer = peers_[connection.peer];
    if (peer.incoming == connection.local_id) {
        const std::uint32_t old = std::exchange(peer.current, connection.local_id);
        peer.incoming = 0;
        // The peer has no such connection any more.
        if (old != 0) {
            erase(old);
        }
    }
    settled_.push_back(connection.peer);
}

// --- ending

void Connections::detach(const Connection& connection) {
    const auto entry = peers_.find(connection.peer);
    if (entry == peers_.end()) {
        return;
    }
    Peer& peer = entry->second;
    if (peer.incoming == connection.local_id) {
        peer.incoming = 0;
    }
    if (peer.current == connection.local_id) {
        peer.current = std::exchange(peer.incoming, 0);
        settled_.push_back(connection.peer);
    }
    if (peer.current == 0 && peer.retry_at <= now_ && peer.failures == 0) {
        peers_.erase(entry);
    }
}

void Connections::erase(std::uint32_t local_id) {
    const auto found = connections_.find(local_id);
    if (found == connections_.end()) {
        return;
    }
    const Connection ended = found->second;
    connections_.erase(found);
    by_qpn_.erase(ended.qpn);
    detach(ended);
    port_.destroy_qp(ended.qpn);
}

void Connections::fail(std::uint32_t local_id) {
    const Connection* failed = find(local_id);
    if (failed == nullptr) {
        return;
    }
    if (const auto entry = peers_.find(failed->peer);
        entry != peers_.end() && entry->second.current == local_id) {
        Peer& peer = entry->second;
        peer.retry_at = now_ + std::min(kLongestBackoffMs, kFirstBackoffMs << std::min(peer.failures, 6U));
        ++peer.failures;
    }
    erase(local_id);
}

void Connections::close(Connection& connection) {
    detach(connection);
    connection.state = State::kClosing;
    connection.tries = 0;
    send_plain(CmKind::kDreq, connection);
    start_timer(connection);
}

void Connections::on_broken(std::uint32_t qpn) {
    const Connection* connection = find_qp(qpn);
    if (connection == nullptr) {
        return;
    }
    ++counters_.broken;
    // A connection that has carried something is made again as soon as there is something to send.
    if (connection->has_worked || connection->state == State::kClosing) {
        erase(connection->local_id);
    } else {
        fail(connection->local_id);
    }
}

// --- use

const LinkAddress* Connections::on_received(std::uint32_t qpn) {
    Connection* connection = find_qp(qpn);
    if (connection == nullptr) {
        return nullptr;
    }
    if (connection->state == State::kRepSent) {
        // Its RTU was lost, or comes later (IBA 12.9.7).
        ++counters_.accepted;
        establish(*connection);
    }
    connection->last_used = now_;
    on_acknowledged(qpn);
    return &connection->peer;
}

void Connections::on_acknowledged(std::uint32_t qpn) {
    Connection* connection = find_qp(qpn);
    if (connection == nullptr || connection->has_worked) {
        return;
    }
    connection->has_worked = true;
    if (const auto entry = peers_.find(connection->peer); entry != peers_.end()) {
        entry->second.failures = 0;
        entry->second.retry_at = 0;
    }
}

// --- timers

void Connections::start_timer(Connection& connection) {
    connection.deadline = now_ + (kFirstTimeoutMs << connection.tries);
    ++connection.tries;
}

void Connections::on_deadline(std::uint32_t local_id) {
    Connection& connection = *find(local_id);
    if (connection.state == State::kEstablished) {
        if (connection.last_used + config_.idle_ms > now_) {
            connection.deadline = connection.last_used + config_.idle_ms;
            return;
        }
        ++counters_.closed_idle;
        close(connection);
        return;
    }
    if (connection.tries >= kTries) {
        if (connection.state == State::kClosing) {
            erase(local_id);
        } else {
            ++counters_.timed_out;
            fail(local_id);
        }
        return;
    }
    switch (connection.state) {
        case State::kReqSent:
            send_req(connection);
            break;
        case State::kRepSent:
            send_rep(connection);
            break;
        default:
            send_plain(CmKind::kDreq, connection);
            break;
    }
    start_timer(connection);
}

void Connections::advance(std::uint64_t now_ms) {
    if (now_ms <= now_) {
        return;
    }
    now_ = now_ms;
    std::vector<std::uint32_t> due;
    for (const auto& [local_id, connection] : connections_) {
        if (connection.deadline <= now_) {
            due.push_back(local_id);
        }
    }
    for (const std::uint32_t local_id : due) {
        if (find(local_id) != nullptr) {
            on_deadline(local_id);
        }
    }
}

std::uint64_t Connections::next_deadline() const {
    std::uint64_t next = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [local_id, connection] : connections_) {
        next = std::min(next, connection.deadline);
    }
    return next;
}

}  // namespace urnic::ipoib
