/// The RC connections of a link in connected mode (RFC 4755): one for each pair of neighbours, made on
/// demand, used in both directions, closed when idle. Pure: time comes by advance(), effects go out by two
/// interfaces.
///
///     this end asks                            the other end asks
///       route_to()                               REQ
///         |  REQ, again until tries end            |  REP, again until tries end
///       kReqSent --REJ, time-out--> datagrams    kRepSent --REJ, time-out--> nothing
///         |  REP: RTU                              |  RTU, or a message of the connection
///       kEstablished ---------------------------------- kEstablished
///         |  idle: DREQ, again until tries end     |  DREQ: DREP
///       kClosing --DREP, time-out--> nothing      nothing
///
/// Two REQs that cross: the one of the end with the greater address counts (GID, then QPN); that end ignores
/// the other's, and the other gives up its own. A REQ of a peer that has a connection is answered beside it:
/// the new one takes the old one's place when it is up, so a REQ that was on the way for long ends nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ulp/ipoib/codec/cm_message.h"
#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

/// The largest IP packet of a connection (Linux's connected mode has the same).
inline constexpr std::uint32_t kConnectedMtu = 65520;

/// The other end of an RC QP.
struct RemoteQp {
    Gid gid{};
    std::uint32_t qpn = 0;
    std::uint32_t psn = 0;      ///< of its first packet
    std::uint32_t own_psn = 0;  ///< of the first packet to it
    std::uint8_t path_mtu = 0;  ///< 1: 256 octets ... 5: 4096
};

/// RC QPs.
class RcPort {
  public:
    virtual ~RcPort() = default;
    RcPort() = default;
    RcPort(const RcPort&) = delete;
    RcPort& operator=(const RcPort&) = delete;
    /// The number of a new RC QP; 0: none can be made.
    [[nodiscard]] virtual std::uint32_t create_qp() = 0;
    /// Takes it to RTS. Returns false when the device refuses it.
    [[nodiscard]] virtual bool connect_qp(std::uint32_t qpn, const RemoteQp& remote) = 0;
    virtual void destroy_qp(std::uint32_t qpn) = 0;
    /// One message of both pieces, copied before it returns. Returns false when there is no send slot,
    /// or this QP has its share.
    [[nodiscard]] virtual bool send(std::uint32_t qpn, ConstOctets header, ConstOctets payload) = 0;
    /// SENDs that there is room for, over all QPs.
    [[nodiscard]] virtual std::size_t free_slots() const = 0;
};

/// Where messages of the connection manager go.
class CmSender {
  public:
    virtual ~CmSender() = default;
    CmSender() = default;
    CmSender(const CmSender&) = delete;
    CmSender& operator=(const CmSender&) = delete;
    /// By the UD QP; it may be lost.
    virtual void send_cm(const LinkAddress& to, const Mad& mad) = 0;
};

struct ConnectionConfig {
    LinkAddress own;
    std::uint16_t pkey = 0xFFFF;
    /// Octets that a receive has room for, encapsulation header included.
    std::uint32_t receive_mtu = kConnectedMtu + kEncapsulationOctets;
    /// The least that a peer must take: the MTU of the link.
    std::uint32_t least_mtu = kDefaultMtu;
    std::uint8_t path_mtu = 5;  ///< 1: 256 octets ... 5: 4096
    std::size_t max_connections = 128;
    std::uint64_t idle_ms = 300'000;
    /// Communication IDs and PSNs come from it.
    std::uint64_t seed = 1;
};

struct ConnectionCounters {
    std::uint64_t opened = 0;         ///< established that this end asked for
    std::uint64_t accepted = 0;       ///< established that the peer asked for
    std::uint64_t collisions = 0;     ///< REQs that crossed
    std::uint64_t timed_out = 0;      ///< no answer
    std::uint64_t rejects_sent = 0;   ///< REJ
    std::uint64_t rejects_taken = 0;  ///< REJ
    std::uint64_t broken = 0;         ///< a QP in error
    std::uint64_t closed_idle = 0;
    std::uint64_t closed_by_peer = 0;
    std::uint64_t evicted = 0;    ///< closed to make room
    std::uint64_t no_room = 0;    ///< not made, since there were too many
    std::uint64_t malformed = 0;  ///< messages of another length, class, version or kind
    std::uint64_t forged = 0;     ///< messages that say that they come from elsewhere, or QPNs that cannot be
    std::uint64_t unknown = 0;    ///< messages of no connection
};

class Connections {
  public:
    Connections(const ConnectionConfig& config, RcPort& port, CmSender& sender);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    enum class RouteKind : std::uint8_t {
        kDatagram,   ///< no connection: tries have failed again and again
        kLater,      ///< none now, for want of room or after a failure; it is tried again
        kPending,    ///< a connection is being made
        kConnected,  ///< by `qpn`
    };
    struct PeerRoute {
        RouteKind kind = RouteKind::kDatagram;
        std::uint32_t qpn = 0;
        std::uint32_t mtu = 0;  ///< octets of an IP packet
    };
    /// How a packet to that peer goes, which takes connections; begins to make one where there is none.
    [[nodiscard]] PeerRoute route_to(const LinkAddress& peer);
    /// The peer of a QP that a message has come by; nullptr: it is no connection's.
    [[nodiscard]] const LinkAddress* on_received(std::uint32_t qpn);
    /// A SEND has been acknowledged.
    void on_acknowledged(std::uint32_t qpn);
    /// A QP is in error.
    void on_broken(std::uint32_t qpn);
    /// A message of the connection manager that has come from that UD QP.
    void on_message(const LinkAddress& from, ConstOctets mad);
    /// Time passes, in milliseconds: timers.
    void advance(std::uint64_t now_ms);
    /// The time of the next timer.
    [[nodiscard]] std::uint64_t next_deadline() const;
    /// Peers that were pending and no longer are, since the last call.
    [[nodiscard]] std::vector<LinkAddress> take_settled() { return std::exchange(settled_, {}); }

    [[nodiscard]] std::size_t size() const { return connections_.size(); }
    [[nodiscard]] std::size_t peers() const { return peers_.size(); }
    [[nodiscard]] std::size_t established() const;
    [[nodiscard]] bool is_established(std::uint32_t qpn) const;
    [[nodiscard]] const ConnectionCounters& counters() const { return counters_; }

  private:
    enum class State : std::uint8_t { kReqSent, kRepSent, kEstablished, kClosing };
    struct Connection {
        LinkAddress peer;
        State state = State::kReqSent;
        std::uint32_t local_id = 0;
        std::uint32_t remote_id = 0;
        std::uint64_t transaction = 0;
        std::uint32_t qpn = 0;
        std::uint32_t psn = 0;
        std::uint32_t remote_qpn = 0;
        std::uint32_t mtu = 0;
        std::uint8_t path_mtu = 0;
        unsigned tries = 0;
        std::uint64_t deadline = 0;
        std::uint64_t last_used = 0;
        bool has_worked = false;  ///< something has come, or was acknowledged
    };
    /// Communication IDs, 0: none.
    struct Peer {
        std::uint32_t current = 0;
        std::uint32_t incoming = 0;  ///< on its way to take the place of `current`
        unsigned failures = 0;
        std::uint64_t retry_at = 0;
        std::uint8_t path_mtu = 0;
    };

    // Messages.
    void on_req(const LinkAddress& from, const CmMessage& req);
    void on_rep(const LinkAddress& from, const CmMessage& rep);
    void on_rtu(const LinkAddress& from, const CmMessage& rtu);
    void on_rej(const LinkAddress& from, const CmMessage& rej);
    void on_dreq(const LinkAddress& from, const CmMessage& dreq);
    void on_drep(const LinkAddress& from, const CmMessage& drep);
    /// Why a REQ cannot be taken, whatever this end does.
    [[nodiscard]] std::optional<RejectReason> fault_of(const LinkAddress& from, const CmMessage& req);
    /// Makes room for a REQ among what the peer has already; false: it is to be ignored.
    [[nodiscard]] bool gives_way_to(const LinkAddress& from, const CmMessage& req);
    void accept(const LinkAddress& from, const CmMessage& req);
    void reject(const LinkAddress& to, const CmMessage& message, RejectReason reason);
    void send_req(const Connection& connection);
    void send_rep(const Connection& connection);
    void send_plain(CmKind kind, const Connection& connection);
    [[nodiscard]] bool is_valid_end(const LinkAddress& from, const CmMessage& message) const;
    /// The connection that a message names and whose peer has sent it; nullptr: counted.
    [[nodiscard]] Connection* named_by(const LinkAddress& from, const CmMessage& message);

    // Connections.
    [[nodiscard]] Connection* find(std::uint32_t local_id);
    [[nodiscard]] Connection* find_qp(std::uint32_t qpn);
    /// A connection with a QP; nullptr: no room, or no QP.
    [[nodiscard]] Connection* make(const LinkAddress& peer, RejectReason& why_not);
    [[nodiscard]] bool make_room();
    void establish(Connection& connection);
    /// Ends a connection, without a word.
    void erase(std::uint32_t local_id);
    /// Ends it by a DREQ.
    void close(Connection& connection);
    /// The same after it could not be made, or has never worked: the next one is tried later.
    void fail(std::uint32_t local_id);
    void detach(const Connection& connection);
    void start_timer(Connection& connection);
    void on_deadline(std::uint32_t local_id);
    [[nodiscard]] std::uint64_t next_random();

    ConnectionConfig config_;
    RcPort& port_;
    CmSender& sender_;
    std::uint64_t now_ = 0;
    std::uint64_t random_;
    std::unordered_map<std::uint32_t, Connection> connections_;  ///< by communication ID
    std::unordered_map<std::uint32_t, std::uint32_t> by_qpn_;
    std::unordered_map<LinkAddress, Peer, LinkAddressHash> peers_;
    std::vector<LinkAddress> settled_;
    ConnectionCounters counters_;
};

}  // namespace urnic::ipoib
