// One connection or service resolution as the manager knows it.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "rnic/cm/index.h"
#include "rnic/cm/types.h"
#include "rnic/wire/mad/mad.h"

namespace urnic::cm {

enum class Kind : std::uint8_t { kConnection, kSidr };

/// How peers' repeated messages find what they belong to: IDs are the sender's own, so its address counts
/// too.
struct RemoteId {
    wire::Gid gid{};
    std::uint32_t id = 0;
    Kind kind = Kind::kConnection;
    bool operator<(const RemoteId& other) const {
        return std::tie(id, kind, gid) < std::tie(other.id, other.kind, other.gid);
    }
};

/// A QP of a peer: what a stale connection is told by (IBA 12.9).
struct RemoteQp {
    wire::Gid gid{};
    std::uint64_t ca_guid = 0;
    std::uint32_t qpn = 0;
    bool operator<(const RemoteQp& other) const {
        return std::tie(qpn, ca_guid, gid) < std::tie(other.qpn, other.ca_guid, other.gid);
    }
};

using TimerIndex = Index<std::pair<TimeNs, Handle>>;
using RemoteIndex = Index<RemoteId>;
using QpIndex = Index<RemoteQp>;
using AgeIndex = Index<std::uint64_t>;

struct Connection {
    Handle id = 0;
    Kind kind = Kind::kConnection;
    bool is_owned = true;  // until destroy(): events go out
    bool is_half_open = false;
    Cookie owner = 0;
    ListenerId backlog_of = 0;  // 0: not in any listener's backlog
    bool has_sent_mra = false;
    bool has_alternate = false;  // the REQ names an alternate path, which we do not take
    ConnectionInfo info;
    std::uint64_t transaction_id = 0;
    std::uint8_t max_retries = 0;
    std::uint8_t retries_left = 0;
    TimeNs response_ns = 0;                        // that the peer has for an answer
    TimeNs mra_ns = 0;                             // more, since it sent an MRA
    TimeNs remember_ns = 0;                        // a peer may repeat its request for so long
    std::uint16_t sent_attribute_id = 0;           // attribute ID of the message in `mad`; 0: none
    std::array<std::byte, wire::kMadBytes> mad{};  // sent last, may have to be sent again

    TimerIndex::Entry timer;
    RemoteIndex::Entry remote;
    QpIndex::Entry qp;
    AgeIndex::Entry remembered;

    [[nodiscard]] State state() const { return info.state; }
};

}  // namespace urnic::cm
