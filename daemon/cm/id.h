// One rdma_cm id of an application: an endpoint that listens, connects, or was connected to.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "daemon/cm/channel.h"
#include "daemon/cm/port_table.h"
#include "daemon/state/control_state.h"
#include "rnic/cm/types.h"
#include "rnic/subnet/sa_requests.h"
#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::daemon {

class CmClient;

/// Values of rdma_cm_event_type (<rdma/rdma_cma.h>, which only librdmacm has).
enum CmEventType : std::uint32_t {
    kAddrResolved = 0,
    kRouteResolved = 2,
    kRouteError = 3,
    kConnectRequest = 4,
    kConnectResponse = 5,
    kUnreachable = 7,
    kRejected = 8,
    kEstablished = 9,
    kDisconnected = 10,
    kMulticastJoin = 12,
    kMulticastError = 13,
    kTimewaitExit = 15,
};

/// What UD services of rdma_cm use (RDMA_UDP_QKEY).
inline constexpr std::uint32_t kUdpQkey = 0x0123'4567;

/// Of datagrams to a group (IBA 10.5.2).
inline constexpr std::uint32_t kMulticastQp = 0xff'ffff;

/// As events have it: 0, or what went wrong.
[[nodiscard]] constexpr std::uint32_t event_status(int error) { return static_cast<std::uint32_t>(-error); }

/// Values of ibv_qp_type.
enum class CmQpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcRecv = 10 };

/// A multicast group that an id has joined, or of InfiniBand is about to join.
struct CmGroup {
    std::uint64_t uid = 0;
    CmId* id = nullptr;
    User* user = nullptr;
    std::uint32_t handle = 0;
    std::uint32_t events_reported = 0;
    wire::Gid mgid{};             // of InfiniBand: see SubnetMemberships
    std::uint8_t join_state = 0;  // one bit of MCMemberRecord:JoinState
};

/// A number that a connection names and no QP has: none gets it while the connection lives, whose peer would
/// take the QP's own connection for a stale one (IBA 12.9).
class QpNumberHold {
  public:
    QpNumberHold() = default;
    QpNumberHold(const QpNumberHold&) = delete;
    QpNumberHold& operator=(const QpNumberHold&) = delete;
    ~QpNumberHold() { release(); }
    /// Returns false when the number is in use. One that is never handed out needs no hold.
    [[nodiscard]] bool hold(RnicState& rnic, std::uint32_t qp_num) {
        release();
        if (!rnic.qp_numbers.reserve(qp_num)) {
            return !rnic.qp_numbers.is_used(qp_num);
        }
        rnic_ = &rnic;
        qp_num_ = qp_num;
        return true;
    }
    void release() {
        if (rnic_ != nullptr) {
            rnic_->qp_numbers.free(qp_num_);
            rnic_ = nullptr;
        }
    }

  private:
    RnicState* rnic_ = nullptr;
    std::uint32_t qp_num_ = 0;
};

struct CmId {
    enum class State : std::uint8_t {
        kIdle,
        kBound,         // has a local address, which may be the wildcard
        kAddrResolved,  // knows its peer's address and its own
        kAsksForRoute,  // of InfiniBand: subnet administration has not answered yet
        kRouteResolved,
        kConnecting,  // from the request to the end of the connection, on both sides
        kDisconnected,
        kListening,
    };

    std::uint32_t handle = 0;
    std::uint64_t uid = 0;  // the application's name for it; 0: a request that is not accepted
    CmClient* client = nullptr;
    CmChannel* channel = nullptr;
    std::uint16_t space = 0;
    CmQpType qp_type = CmQpType::kRc;
    State state = State::kIdle;

    PortUser local;               // the local address; local.is_bound says whether it owns the port
    bool has_one_family = false;  // the application has said whether `local` is of one family
    Endpoint remote;
    RnicState* device = nullptr;   // nullptr: of no device (yet)
    std::uint8_t ip_index = 0;     // its address among the device's (Device::ip_addresses())
    std::uint8_t gid_index = 0;    // its GID in the device's table
    std::uint16_t pkey_index = 0;  // of a request's id, its peer's partition
    wire::Gid local_ip{};          // that address; the loopback address stands for it
    wire::Gid remote_ip{};
    wire::Gid local_gid{};  // over RoCE the addresses
    wire::Gid remote_gid{};
    bool has_route = false;
    subnet::SaRequests::Id request = 0;         // of InfiniBand: for the path, not answered yet
    std::optional<wire::mad::PathRecord> path;  // of InfiniBand: once there is a route
    bool has_way =
        false;  // holds `neighbour` (NeighbourResolver), so that the neighbour is known when it is needed
    std::uint16_t neighbour = wire::kNoNeighbour;

    std::uint8_t tos = 0;  // the traffic class of what it sends; of a request's id, its peer's
    std::uint8_t ack_timeout = 0;
    bool has_ack_timeout = false;

    std::uint32_t qkey = 0;  // UD; 0: the default
    QpNumberHold held_qp_num;
    std::uint32_t starting_psn = 0;  // that the peer shall send with
    cm::Handle connection = 0;       // of the device's manager; 0: none
    bool is_passive = false;
    bool is_hidden = false;  // a request that waits in its listener's channel, and lives with that listener

    struct Listener {
        RnicState* device = nullptr;
        cm::ListenerId id = 0;
    };
    std::vector<Listener> listeners;  // one, or for the wildcard one for each device

    CmEventsOfId events;  // that wait in `channel`
    std::uint32_t events_reported = 0;
    std::set<std::uint32_t> groups;  // handles of those that it has joined

    [[nodiscard]] bool is_datagram() const { return qp_type == CmQpType::kUd; }
};

}  // namespace urnic::daemon
