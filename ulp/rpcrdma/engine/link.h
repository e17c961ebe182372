/// What the parts of a connection share: what is known of the peer, how messages leave, what is counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/engine/config.h"
#include "ulp/rpcrdma/engine/outbox.h"

namespace urnic::rpcrdma {

class Link {
  public:
    Link(const Config& config, Outbox& outbox) : config(config), outbox(outbox) {}

    /// Octets of a SEND of ours: what the peer has posted (draft, 3.3; RFC 8797, section 4.1).
    [[nodiscard]] std::uint32_t send_limit() const {
        if (version == kVersion2) {
            return std::min(config.send_octets, peer_receive_octets);
        }
        // Before the version is known: the default of version 1 (draft, section 8).
        const std::uint32_t peer =
            config.peer_private_data ? config.peer_private_data->receive_octets : kInlineThreshold1;
        return version == kVersion1 ? std::min(config.own_private_data.send_octets, peer) : kInlineThreshold1;
    }
    /// Octets of a SEND that the peer may send us.
    [[nodiscard]] std::uint32_t receive_limit() const {
        if (version == kVersion2) {
            return told_receive_octets;
        }
        const std::uint32_t peer =
            config.peer_private_data ? config.peer_private_data->send_octets : kInlineThreshold1;
        return version == kVersion1 ? std::min(config.own_private_data.receive_octets, peer)
                                    : kInlineThreshold1;
    }
    /// Whether a peer of version 1 takes SEND with Invalidate of any handle of a Call (RFC 8797,
    /// section 4.1.1).
    [[nodiscard]] bool can_invalidate_at_peer() const {
        return config.peer_private_data && config.peer_private_data->can_remote_invalidate;
    }

    /// Sends a header alone or with payload behind it.
    void send(const Header& header, std::span<const std::span<const std::byte>> payload = {},
              std::uint32_t invalidate = 0, std::uint64_t token = 0) {
        std::array<std::byte, kInlineThreshold2> room;
        const std::size_t octets = encode_header(header, room);
        outbox.send({.header = std::span(room).first(octets),
                     .payload = payload,
                     .invalidate = invalidate,
                     .token = token});
    }
    /// An ERROR copies XID and version of what it answers (draft, 7.2.4).
    void send_error(std::uint32_t xid, std::uint32_t its_version, const ErrorBody& error) {
        Header header;
        header.xid = xid;
        header.version = its_version;
        header.credits = config.granted_credits;
        header.proc = Proc::kError;
        header.direction = Direction::kReply;
        header.error = error;
        send(header);
        ++counters.errors_sent;
    }
    void close(CloseReason reason) {
        if (!is_closed) {
            is_closed = true;
            outbox.close(reason);
        }
    }

    const Config& config;
    Outbox& outbox;
    Counters counters;
    /// 0: not settled.
    std::uint32_t version = 0;
    /// Property RBSIZ of the peer; own as the peer was told.
    std::uint32_t peer_receive_octets = kInlineThreshold2;
    std::uint32_t told_receive_octets = kInlineThreshold2;
    BackwardSupport peer_backward = BackwardSupport::kInline;
    bool is_closed = false;
};

}  // namespace urnic::rpcrdma
