/// What the engine wants done: memory, messages, RDMA, and what it tells the program. The verbs engine does
/// it with a QP, tests with plain memory. The engine never waits; what takes time is answered by a call of
/// Connection (on_sent, on_read, on_withdrawn).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {

/// Registered memory of the library's own. `cookie` is the outbox's.
struct Buffer {
    std::span<std::byte> octets;
    std::uint64_t cookie = 0;
    [[nodiscard]] bool is_valid() const { return !octets.empty(); }
};

/// Memory that the peer may reach: one segment, for one RPC. `cookie` is the outbox's.
struct Exposure {
    Segment segment{};
    std::uint64_t cookie = 0;
    /// Whether the peer may end it by SEND with Invalidate: a type 2 window or a key with that property
    /// (draft, 7.2.3).
    bool can_remote_invalidate = false;
};

enum class Access : std::uint8_t { kRead, kWrite };

/// Why a connection ends on our side.
enum class CloseReason : std::uint8_t {
    kNone,
    kWrongInvalidation,  ///< the peer invalidated a handle that was not offered for that RPC (draft, 7.2.3)
    kCreditsExceeded,    ///< more Calls outstanding than granted (RFC 8166, 3.3.1)
    kNoCommonVersion,    ///< ERR_VERS with a range without ours (draft, 8.2)
    kUnanswerable,       ///< a message that is too short to be answered
    kReadFailed,         ///< an RDMA READ of a Call ended with an error: the QP is in error, too
};

/// How a call ended.
enum class CallStatus : std::uint8_t {
    kReplied,
    kTimedOut,
    kDisconnected,     ///< the connection ended; the call may have been executed
    kVersionRefused,   ///< the server does not serve the version; not executed
    kBadReply,         ///< the reply's chunk lists are not those of the call
    kRemoteError,      ///< an error of the peer's: Completion::error
    kTooLarge,         ///< the call, or its segments, exceed what the peer or the engine takes
    kNoMemory,         ///< memory could not be allocated or exposed
    kBackwardRefused,  ///< the peer takes no backward request of this form (property BRS)
    kDuplicateXid,     ///< a call with that XID is outstanding
};

/// What complete() gives for a call.
struct Completion {
    CallStatus status = CallStatus::kDisconnected;
    ErrorBody error;
    /// The RPC Reply without results that are in chunks; the program's now: Outbox::free() ends it. Not valid
    /// unless kReplied.
    Buffer reply;
    std::size_t reply_octets = 0;
    /// Octets in the memory of each result, in the order of the call; 0: that result is in the reply, or
    /// empty.
    std::array<std::uint32_t, kMaxWriteChunks> result_octets{};
    /// How often it was sent again for ERR_READ_CHUNKS, ERR_WRITE_CHUNKS, ERR_REPLY_RESOURCE.
    std::uint8_t resent = 0;
};

/// A Call that has arrived, complete: arguments of Read chunks are in place, with their padding.
struct IncomingCall {
    std::uint32_t id = 0;  ///< for Connection::reply()
    std::uint32_t xid = 0;
    std::uint32_t version = kVersion2;
    /// The RPC Call, the program's now: Outbox::free() ends it.
    Buffer call;
    std::size_t call_octets = 0;
    /// Write chunks that it gives for results.
    std::uint32_t write_chunks = 0;
};

/// A SEND: header and payload pieces are copied before send() returns.
struct OutgoingMessage {
    std::span<const std::byte> header;
    std::span<const std::span<const std::byte>> payload;
    /// SEND with Invalidate of this handle; 0: SEND.
    std::uint32_t invalidate = 0;
    /// Not 0: on_sent() with it when the SEND and what was written before it are complete.
    std::uint64_t token = 0;
};

class Outbox {
  public:
    virtual ~Outbox() = default;
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    /// At least `octets` of registered memory; not valid if there is none.
    [[nodiscard]] virtual Buffer allocate(std::size_t octets) = 0;
    virtual void free(const Buffer& buffer) = 0;

    /// Lets the peer reach `memory` (of the program or of a Buffer) until it is withdrawn. Returns false if
    /// it cannot.
    [[nodiscard]] virtual bool expose(std::span<const std::byte> memory, Access access, Exposure& out) = 0;
    /// Ends the access to `exposures`; `invalidated`: a handle that the peer has ended already (0: none).
    /// Returns whether that is done; else on_withdrawn(`call`) follows.
    [[nodiscard]] virtual bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                        std::uint32_t invalidated) = 0;

    virtual void send(const OutgoingMessage& message) = 0;
    /// RDMA READ into memory of a Buffer; on_read(call, ok) follows.
    virtual void read(std::uint32_t call, const Segment& from, std::span<std::byte> into) = 0;
    /// RDMA WRITE; the memory stays until the token of the next send() is back.
    virtual void write(std::span<const std::byte> from, const Segment& to) = 0;
    /// Receives of `octets` are wanted in place of the smaller ones; on_receives_resized() follows when no
    /// smaller one is left.
    virtual void resize_receives(std::uint32_t octets) = 0;

    /// The call with that token has ended: all its memory is the program's again.
    virtual void complete(std::uint64_t token, const Completion& completion) = 0;
    virtual void execute(const IncomingCall& call) = 0;
    /// The reply's memory is the program's again.
    virtual void replied(std::uint32_t call) = 0;
    /// Disconnect; on_disconnected() follows.
    virtual void close(CloseReason reason) = 0;
};

}  // namespace urnic::rpcrdma
