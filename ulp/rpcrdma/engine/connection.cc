#include "ulp/rpcrdma/engine/connection.h"

#include <algorithm>
#include <bit>

#include "ulp/rpcrdma/engine/connection_state.h"

namespace urnic::rpcrdma {

namespace {

[[nodiscard]] bool is_forward_requester(const Config& config) { return config.role == Role::kClient; }

/// A Link refers to the Config that its ConnectionState keeps.
Config bounded(Config config) {
    // Slots of Calls have 16-bit indexes.
    constexpr std::uint32_t kMostCredits = 16384;
    config.granted_credits = std::min(std::max(config.granted_credits, 1U), kMostCredits);
    config.wanted_credits = std::min(std::max(config.wanted_credits, 1U), kMostCredits);
    config.max_queued_calls = std::min(config.max_queued_calls, kMostCredits);
    config.receive_octets = std::max(config.receive_octets, kInlineThreshold2);
    config.max_receive_octets = std::max(config.max_receive_octets, config.receive_octets);
    config.versions &= 1U << kVersion1 | 1U << kVersion2;
    return config;
}

}  // namespace

ConnectionState::ConnectionState(const Config& its_config, Outbox& outbox)
    : config(bounded(its_config)),
      link(config, outbox),
      requester(link, is_forward_requester(config)),
      responder(link, !is_forward_requester(config)),
      properties(link) {
    if (config.versions == 1U << kVersion1 && config.role == Role::kClient) {
        link.version = kVersion1;
    }
}

/// A settled connection has one version (draft, 8.3).
std::uint32_t ConnectionState::served_versions() const {
    return link.version != 0 ? 1U << link.version : config.versions;
}

void ConnectionState::on_message(std::span<const std::byte> message, std::uint32_t invalidated) {
    if (link.is_closed) {
        return;
    }
    Header header;
    const DecodeStatus status = decode_header(message, served_versions(), header);
    if (status == DecodeStatus::kOk) {
        on_header(header, message, invalidated);
    } else {
        on_undecodable(status, header);
    }
    requester.send_queued();
}

void ConnectionState::on_undecodable(DecodeStatus status, const Header& header) {
    ++link.counters.bad_messages;
    if (status == DecodeStatus::kTooShort) {
        ++link.counters.dropped_messages;
        link.close(CloseReason::kUnanswerable);
        return;
    }
    if (header.proc == Proc::kError) {
        ++link.counters.dropped_messages;
        return;
    }
    if (status == DecodeStatus::kVersion) {
        const std::uint32_t served = served_versions();
        const auto low = static_cast<std::uint32_t>(std::countr_zero(served));
        const auto high = static_cast<std::uint32_t>(std::bit_width(served) - 1);
        link.send_error(header.xid, header.version, {ErrorCode::kVers, low, high});
        return;
    }
    const bool is_message = header.proc == Proc::kMsg || header.proc == Proc::kNomsg;
    if (status == DecodeStatus::kBadXdr && is_message && header.direction == Direction::kReply) {
        // Errors go from responder to requester alone (draft, 7.2.4).
        requester.on_bad_reply(header.xid);
        return;
    }
    const ErrorCode code = status == DecodeStatus::kUnknownProc ? ErrorCode::kInvalProc : ErrorCode::kBadXdr;
    link.send_error(header.xid, header.version, {code});
}

void ConnectionState::on_header(const Header& header, std::span<const std::byte> message,
                                std::uint32_t invalidated) {
    const std::span<const std::byte> payload = message.subspan(header.size);
    const bool is_reply =
        (header.proc == Proc::kMsg || header.proc == Proc::kNomsg) && header.direction == Direction::kReply;
    if (invalidated != 0 && !is_reply) {
        // Nothing but a Reply may invalidate (draft, 7.2.3).
        link.close(CloseReason::kWrongInvalidation);
        return;
    }
    if (header.proc == Proc::kError) {
        on_error_message(header);
        return;
    }
    settle(header.version);
    switch (header.proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
            if (is_reply) {
                requester.on_reply(header, payload, invalidated);
            } else {
                responder.on_call(header, payload);
            }
            break;
        case Proc::kOptional:
            // None is defined here; what answers one of ours cannot be (draft, 5.1).
            if (header.direction == Direction::kCall) {
                link.send_error(header.xid, header.version, {ErrorCode::kInvalOption});
            }
            break;
        default:
            on_properties(header);
            break;
    }
}

void ConnectionState::settle(std::uint32_t version) {
    if (link.version != 0) {
        properties.tell_all();
        return;
    }
    link.version = version;
    properties.tell_all();
}

void ConnectionState::on_error_message(const Header& header) {
    if (header.error.code == ErrorCode::kVers) {
        on_version_error(header);
        return;
    }
    if (header.version == kVersion2 && link.version == 0 && requester.has_outstanding(header.xid)) {
        settle(kVersion2);
    }
    if (!requester.on_error(header) && !properties.on_error(header)) {
        ++link.counters.unknown_xids;
    }
}

void ConnectionState::on_version_error(const Header& header) {
    if (!requester.has_outstanding(header.xid)) {
        ++link.counters.unknown_xids;
        return;
    }
    ++link.counters.errors_received;
    std::uint32_t chosen = 0;
    for (std::uint32_t version = kVersion1; version <= kVersion2; ++version) {
        const bool is_common = (config.versions >> version & 1U) != 0 && header.error.first <= version &&
                               version <= header.error.second;
        chosen = is_common ? version : chosen;
    }
    // A server that serves the version that it refuses would be asked for ever.
    if (link.version != 0 || chosen == 0 || chosen == kVersion2) {
        requester.on_version_refused(header.xid);
        link.close(CloseReason::kNoCommonVersion);
        return;
    }
    link.version = chosen;
    requester.send_again(header.xid);
}

void ConnectionState::on_properties(const Header& header) {
    if (!config.has_properties) {
        // An answer to nothing is not answered.
        if (header.proc != Proc::kResprop) {
            link.send_error(header.xid, header.version, {ErrorCode::kInvalOption});
        }
        return;
    }
    if (!properties.on_message(header)) {
        ++link.counters.bad_messages;
        if (header.proc != Proc::kResprop) {
            link.send_error(header.xid, header.version, {ErrorCode::kBadXdr});
        }
    }
}

void ConnectionState::on_disconnected() {
    link.is_closed = true;
    requester.on_disconnected();
    responder.on_disconnected();
}

// --- the interface

Connection::Connection(const Config& config, Outbox& outbox)
    : state_(std::make_unique<ConnectionState>(config, outbox)) {}
Connection::~Connection() = default;

void Connection::call(const CallRequest& request, std::int64_t now_ns) {
    state_->requester.call(request, now_ns);
}
ReplyStatus Connection::reply(std::uint32_t call, const RpcMessage& message) {
    return state_->responder.reply(call, message);
}
void Connection::drop(std::uint32_t call) { state_->responder.drop(call); }

bool Connection::request_receive_size(std::uint32_t octets) {
    while (state_->requester.has_outstanding(state_->next_property_xid) || state_->next_property_xid == 0) {
        ++state_->next_property_xid;
    }
    return state_->properties.request_receive_size(octets, state_->next_property_xid++);
}
bool Connection::grow_receives(std::uint32_t octets) { return state_->properties.grow_receives(octets); }

void Connection::on_receive(std::span<const std::byte> message, std::uint32_t invalidated) {
    state_->on_message(message, invalidated);
}
void Connection::on_sent(std::uint64_t token) { state_->responder.on_sent(token); }
void Connection::on_read(std::uint32_t call, bool ok) { state_->responder.on_read(call, ok); }
void Connection::on_withdrawn(std::uint32_t call) { state_->requester.on_withdrawn(call); }
void Connection::on_receives_resized(std::uint32_t octets) { state_->properties.on_receives_resized(octets); }
void Connection::on_disconnected() { state_->on_disconnected(); }
void Connection::on_timer(std::int64_t now_ns) {
    state_->requester.on_timer(now_ns);
    state_->requester.send_queued();
}
std::int64_t Connection::next_timer_ns() const { return state_->requester.next_timer_ns(); }

std::uint32_t Connection::version() const { return state_->link.version; }
std::uint32_t Connection::send_limit() const { return state_->link.send_limit(); }
std::uint32_t Connection::receive_limit() const { return state_->link.receive_limit(); }
std::uint32_t Connection::credits() const { return state_->requester.credits(); }
const Counters& Connection::counters() const { return state_->link.counters; }

}  // namespace urnic::rpcrdma
