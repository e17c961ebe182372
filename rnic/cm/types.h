// What the connection manager is told and tells: handles, parameters, states.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/packet_view.h"

namespace urnic::cm {

/// 0 and 1 are special QPs: nobody's connection has them.
inline constexpr std::uint32_t kFirstQpn = 2;
/// One source gets so many times what is free at most: alone it takes three quarters, and leaves the rest.
inline constexpr std::uint32_t kShareOfFree = 3;

/// Names a connection, or a service resolution, of ours from the call or event that makes it until destroy().
/// It is the local communication ID that peers see: drawn at random, never 0, unique in the manager, and not
/// given out again while the old one is in timewait.
using Handle = std::uint32_t;
/// Names a listener from listen() to unlisten(); never 0, never used twice.
using ListenerId = std::uint64_t;
/// The owner's own: comes back in events, means nothing to the manager.
using Cookie = std::uint64_t;

enum class Status : std::uint8_t {
    kOk,
    kUnknownHandle,  // there is no such handle, or it was destroyed
    kWrongState,     // not in this state of the connection
    kBadArgument,    // a field out of range, private data too long
    kInUse,          // listen(): the same service ID and address has a listener
    kFull,           // a limit of Config is reached
    kNoMemory,
};

/// Transport services of a REQ (IBA 12.7; annex A14 for XRC); UD is resolved by SIDR and needs no
/// connection.
enum class Transport : std::uint8_t { kRc, kUc, kXrc };

/// IBA 12.9, with the passive and the active side in one.
enum class State : std::uint8_t {
    kClosed,          // nothing more comes; the handle waits for destroy()
    kReqSent,         // active: REQ sent
    kMraReqReceived,  // active: the peer wants more time for its answer
    kReqReceived,     // passive: the owner has a kRequest event to answer with accept() or reject()
    kRepSent,         // passive: accepted, waits for RTU
    kMraRepReceived,  // passive: the peer wants more time for its RTU
    kRepReceived,     // active: the owner has a kReply event to answer with send_rtu() or reject()
    kEstablished,
    kDreqSent,
    kDreqReceived,  // the owner has a kDisconnectRequest event to answer with disconnect()
    kTimewait,      // packets of the old connection may still be on their way
    kSidrReqSent,
    kSidrReqReceived,  // the owner has a kSidrRequest event to answer with send_sidr_rep()
};

/// Reject reasons (IBA 12.6.7.2).
enum RejectReason : std::uint16_t {
    kRejNoQp = 1,
    kRejNoEec = 2,
    kRejNoResources = 3,
    kRejTimeout = 4,
    kRejUnsupported = 5,
    kRejInvalidCommId = 6,
    kRejInvalidCommInstance = 7,
    kRejInvalidServiceId = 8,
    kRejInvalidTransportType = 9,
    kRejStaleConnection = 10,
    kRejNoRdc = 11,
    kRejPrimaryGid = 12,
    kRejPrimaryLid = 13,
    kRejPrimarySl = 14,
    kRejPrimaryTrafficClass = 15,
    kRejPrimaryHopLimit = 16,
    kRejPrimaryPacketRate = 17,
    kRejAlternateGid = 18,
    kRejAlternateLid = 19,
    kRejAlternateSl = 20,
    kRejAlternateTrafficClass = 21,
    kRejAlternateHopLimit = 22,
    kRejAlternatePacketRate = 23,
    kRejPortCmRedirect = 24,
    kRejPortRedirect = 25,
    kRejPathMtu = 26,
    kRejResponderResources = 27,
    kRejConsumer = 28,
    kRejRnrRetry = 29,
    kRejDuplicateCommId = 30,
    kRejClassVersion = 31,
    kRejPrimaryFlowLabel = 32,
    kRejAlternateFlowLabel = 33,
    kRejVendorOption = 35,
};

enum SidrStatus : std::uint8_t {
    kSidrValid = 0,
    kSidrUnsupported = 1,  // no such service
    kSidrRejected = 2,
    kSidrNoQp = 3,
    kSidrRedirect = 4,
    kSidrUnsupportedVersion = 5,
};

/// The RDMA IP CM service (IBA annex A11): service ID of a port space and port, as 0x0106 (TCP) and 7174.
[[nodiscard]] constexpr std::uint64_t ip_service_id(std::uint16_t port_space, std::uint16_t port) {
    return (std::uint64_t{port_space} << 16U) | port;
}

/// Where MADs of a connection go. The GIDs are also those of the connection's data path.
struct Route {
    wire::Gid local_gid{};  // must be in our GID table
    wire::Gid remote_gid{};
    std::uint16_t pkey = 0xffff;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint32_t flow_label = 0;
    std::uint8_t sl = 0;
    std::uint16_t local_lid = 0;   // of InfiniBand; 0 over RoCE
    std::uint16_t remote_lid = 0;  // the same
    [[nodiscard]] bool is_infiniband() const { return remote_lid != 0; }
};

/// kGid: requests over InfiniBand to a service ID of the RDMA IP CM service without its header, as rdma_cm's
/// AF_IB makes them. The others take those with the header, and all of other service IDs.
enum class Families : std::uint8_t { kAny, kIpv4, kIpv6, kGid };

struct ListenParams {
    Cookie owner = 0;
    std::uint64_t service_id = 0;
    /// Of the packets that it takes; nullopt: every address of ours. A listener with an address goes before
    /// one without. Over InfiniBand the IP address, IPv4-mapped or IPv6, that requests of the RDMA IP CM
    /// service name, unless `families` is kGid.
    std::optional<wire::Gid> local_gid;
    /// kIpv4, kIpv6: without local_gid; rdma_cm's afonly and 0.0.0.0.
    Families families = Families::kAny;
    /// What it takes: REQs of these transports, or SIDR_REQs.
    bool allow_rc = true;
    bool allow_uc = true;
    bool allow_xrc = true;
    bool allow_sidr = false;
    /// Requests that the owner has not taken (see Manager::take) at most; more go unanswered, and peers ask
    /// again. 0: Config::max_backlog, which is also the most.
    std::uint32_t backlog = 0;
};

/// A REQ. All PSNs are as the message has them: starting_psn is the first PSN that the *peer* shall send
/// with.
struct ConnectParams {
    Cookie owner = 0;
    Route route;
    std::uint64_t service_id = 0;
    Transport transport = Transport::kRc;
    std::uint32_t local_qpn = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t starting_psn = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t retry_count = 7;
    std::uint8_t rnr_retry_count = 7;
    bool srq = false;
    bool flow_control = false;
    std::uint8_t path_mtu = 3;  // 1: 256 ... 5: 4096
    std::uint8_t packet_rate = 0;
    std::uint8_t local_ack_timeout = 19;  // of the data path: 4.096 us * 2^n
    std::uint8_t response_timeout = 20;   // of CM messages, both directions: 4.096 us * 2^n
    std::uint8_t max_cm_retries = 15;
    /// In front of the private data, for the RDMA IP CM service.
    std::optional<wire::cm::IpCmHeader> ip;
    std::span<const std::uint8_t> private_data;  // 92 bytes at most, 56 with `ip`
};

/// A REP. starting_psn as above.
struct AcceptParams {
    std::uint32_t local_qpn = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t starting_psn = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t target_ack_delay = 15;
    std::uint8_t rnr_retry_count = 7;
    bool srq = false;
    bool flow_control = false;
    std::span<const std::uint8_t> private_data;  // 196 bytes at most
};

/// A REJ. `info` is the additional reject information (72 bytes), private_data 148 bytes at most.
struct RejectParams {
    std::uint16_t reason = kRejConsumer;
    std::span<const std::uint8_t> info;
    std::span<const std::uint8_t> private_data;
};

/// A SIDR_REQ.
struct SidrReqParams {
    Cookie owner = 0;
    Route route;
    std::uint64_t service_id = 0;
    std::uint8_t response_timeout = 20;
    std::uint8_t max_cm_retries = 15;
    std::optional<wire::cm::IpCmHeader> ip;
    std::span<const std::uint8_t> private_data;  // 216 bytes at most, 180 with `ip`
};

/// A SIDR_REP.
struct SidrRepParams {
    std::uint8_t status = kSidrValid;
    std::uint32_t qpn = 0;
    std::uint32_t qkey = 0;
    std::span<const std::uint8_t> info;          // 72 bytes at most
    std::span<const std::uint8_t> private_data;  // 136 bytes at most
};

/// What a QP needs to be connected (rdma_init_qp_attr), seen from our side. Whole once a REP was sent or
/// received; before that what is known is set.
struct ConnectionInfo {
    State state = State::kClosed;
    bool is_active = false;  // we sent the REQ
    Transport transport = Transport::kRc;
    Route route;
    std::uint64_t service_id = 0;
    std::uint32_t local_qpn = 0;
    std::uint32_t remote_qpn = 0;
    std::uint32_t remote_qkey = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint64_t remote_ca_guid = 0;
    std::uint32_t send_psn = 0;            // sq_psn: what the peer asked for
    std::uint32_t receive_psn = 0;         // rq_psn: our starting_psn
    std::uint8_t responder_resources = 0;  // max_dest_rd_atomic
    std::uint8_t initiator_depth = 0;      // max_rd_atomic
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry_count = 0;
    std::uint8_t ack_timeout = 0;
    std::uint8_t path_mtu = 0;
    std::uint8_t packet_rate = 0;  // of the path, as the REQ has it
    bool srq = false;              // the peer's QP has one
};

}  // namespace urnic::cm
