/// One connection of RPC-over-RDMA: version, properties, and a requester and a responder, whoever opened it
/// (forward and backward calls: RFC 8167; draft, section 7.2.2). Pure: time is an argument, effects go to the
/// outbox. One thread at a time; the outbox may not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ulp/rpcrdma/engine/config.h"
#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/engine/rpc_message.h"

namespace urnic::rpcrdma {

class ConnectionState;

class Connection {
  public:
    Connection(const Config& config, Outbox& outbox);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // --- the program
    /// Sends the Call, now or when a credit is there; complete() follows in any case, perhaps at once.
    void call(const CallRequest& request, std::int64_t now_ns);
    /// Answers an IncomingCall; the memory is the engine's until replied(). An unknown id is ignored (the
    /// connection ended).
    ReplyStatus reply(std::uint32_t call, const RpcMessage& message);
    /// No Reply will be sent (the RPC layer drops a Call that it cannot even refuse); its credit comes with
    /// the next Reply.
    void drop(std::uint32_t call);
    /// Asks the peer for receives of that size (REQPROP); false: not in version 2, or one request is
    /// outstanding.
    bool request_receive_size(std::uint32_t octets);
    /// Makes own receives larger and tells the peer (UPDPROP); false: not in version 2, they are as large, or
    /// a change is in progress.
    bool grow_receives(std::uint32_t octets);

    // --- the transport
    /// A SEND has arrived. `invalidated`: the R_Key of its Invalidate; 0: none. The octets are not needed
    /// after the return.
    void on_receive(std::span<const std::byte> message, std::uint32_t invalidated);
    void on_sent(std::uint64_t token);
    void on_read(std::uint32_t call, bool ok);
    void on_withdrawn(std::uint32_t call);
    void on_receives_resized(std::uint32_t octets);
    /// The QP has ended: keys are dead, all calls end with kDisconnected (kVersionRefused: what ERR_VERS
    /// answered).
    void on_disconnected();
    /// To be called at next_timer_ns() or later.
    void on_timer(std::int64_t now_ns);
    /// 0: none.
    [[nodiscard]] std::int64_t next_timer_ns() const;

    // --- what it knows
    /// 0: not settled yet.
    [[nodiscard]] std::uint32_t version() const;
    /// Octets of a SEND that the peer takes now, and that it may send.
    [[nodiscard]] std::uint32_t send_limit() const;
    [[nodiscard]] std::uint32_t receive_limit() const;
    [[nodiscard]] std::uint32_t credits() const;
    [[nodiscard]] const Counters& counters() const;

  private:
    std::unique_ptr<ConnectionState> state_;
};

}  // namespace urnic::rpcrdma
