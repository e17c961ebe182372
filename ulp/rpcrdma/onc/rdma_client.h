/// What stands behind a CLIENT of clnt_rdma_create(). Any thread may call; each call has a message, a Reply
/// and an error of its own.
#pragma once

#include <rpc/rpc.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "ulp/rpcrdma/onc/address.h"
#include "ulp/rpcrdma/onc/reply_rooms.h"
#include "ulp/rpcrdma/onc/result_memory.h"
#include "ulp/rpcrdma/onc/xdr_encoder.h"

namespace urnic::rpcrdma::onc {

/// The arguments of clnt_call().
struct ProcedureCall {
    rpcproc_t procedure = 0;
    xdrproc_t encode = nullptr;
    void* arguments = nullptr;
    xdrproc_t decode = nullptr;
    void* results = nullptr;
};

class RdmaClient {
  public:
    /// The connection is this object's then.
    RdmaClient(rpcrdma_client* connection, const SocketAddress& server, rpcprog_t program, rpcvers_t version,
               std::uint64_t max_message_octets);
    ~RdmaClient();
    RdmaClient(const RdmaClient&) = delete;
    RdmaClient& operator=(const RdmaClient&) = delete;

    [[nodiscard]] CLIENT* handle() { return &handle_; }
    [[nodiscard]] rpcrdma_client* connection() const { return connection_; }
    [[nodiscard]] clnt_stat call(const ProcedureCall& call, const timeval& timeout);
    [[nodiscard]] rpc_err last_error() const;
    [[nodiscard]] bool control(u_int request, void* info);

  private:
    struct Attempt;
    [[nodiscard]] rpc_err perform(const ProcedureCall& call, std::uint32_t timeout_ms);
    [[nodiscard]] rpc_err send_without_reply(const ProcedureCall& call);
    [[nodiscard]] bool encode(const ProcedureCall& call, XdrEncoder& encoder, bool leave_out);
    [[nodiscard]] bool encode_once(const ProcedureCall& call, XdrEncoder& encoder, bool leave_out);
    [[nodiscard]] int exchange(const ProcedureCall& call, Attempt& attempt, std::uint32_t timeout_ms);
    /// Returns whether the call may go again, with more room than before.
    [[nodiscard]] bool give_more_room(Attempt& attempt, int error);
    [[nodiscard]] bool raise_reply_room(Attempt& attempt, std::uint64_t octets) const;
    [[nodiscard]] bool is_version_1() const;
    /// Returns whether the call may go again, with other credentials.
    [[nodiscard]] bool take_reply(const ProcedureCall& call, const Attempt& attempt, rpc_err& error);
    [[nodiscard]] bool is_auth_known() const;
    [[nodiscard]] std::uint32_t next_xid() { return xid_.fetch_add(1, std::memory_order_relaxed) + 1; }
    [[nodiscard]] bool control_timeout(u_int request, timeval& value);

    CLIENT handle_{};
    std::string network_id_;
    std::string device_;
    rpcrdma_client* connection_;
    SocketAddress server_;
    netbuf server_buffer_{};
    std::uint64_t max_message_octets_;
    std::atomic<rpcprog_t> program_;
    std::atomic<rpcvers_t> version_;
    std::atomic<std::uint32_t> xid_;
    std::uint64_t serial_;
    ReplyRooms reply_rooms_;
    /// Of cl_auth's own state: credentials are renewed in place.
    std::mutex auth_mutex_;
    mutable std::mutex mutex_;
    timeval timeout_{.tv_sec = 25, .tv_usec = 0};
    bool has_timeout_ = false;
};

}  // namespace urnic::rpcrdma::onc
