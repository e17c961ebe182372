/// One SVCXPRT: the one that svc_rdma_create() returns, or that of a thread of svc_rdma_run(). It has one
/// Call at a time: libtirpc's svc_getreq_common() receives it, finds the program's dispatch function, and
/// that one decodes the arguments and replies.
#pragma once

#include <rpc/rpc.h>

#include "ulp/rpcrdma/onc/call_queue.h"
#include "ulp/rpcrdma/onc/ddp_table.h"
#include "ulp/rpcrdma/onc/libtirpc.h"
#include "ulp/rpcrdma/onc/reply_cache.h"
#include "ulp/rpcrdma/onc/xdr_decoder.h"
#include "ulp/rpcrdma/onc/xdr_encoder.h"

namespace urnic::rpcrdma::onc {

class RdmaServer;

class Transport {
  public:
    explicit Transport(RdmaServer& server) : server_(server), decoder_({}) {}
    ~Transport();
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    /// Makes the SVCXPRT and registers it with libtirpc. Returns 0 or an errno value.
    [[nodiscard]] int create(const char* network_id);
    [[nodiscard]] SVCXPRT* handle() const { return handle_; }
    [[nodiscard]] RdmaServer& server() const { return server_; }
    [[nodiscard]] int read_end() const;
    [[nodiscard]] int write_end() const { return write_end_; }

    /// Has the dispatch function answer `request`.
    void serve(rpcrdma_request* request);
    /// Drops the Call if it has not been answered.
    void end_call();
    /// The transport of `handle`, or nullptr if `handle` is another's.
    [[nodiscard]] static Transport* of(SVCXPRT* handle);

  private:
    friend struct TransportOps;
    [[nodiscard]] bool receive(rpc_msg& message);
    [[nodiscard]] bool accept(rpcrdma_request* request, rpc_msg& message);
    [[nodiscard]] bool decode_call(rpc_msg& message);
    [[nodiscard]] bool reply(rpc_msg& message);
    [[nodiscard]] bool encode_reply(rpc_msg& message, bool leave_out);
    [[nodiscard]] bool send();
    /// The same for a Reply that may not fit into the room of its Call.
    [[nodiscard]] bool answer_with(rpcrdma_request* request, const rpcrdma_message& answer);
    [[nodiscard]] bool deny(reject_stat why, auth_stat auth);
    void note_peer();
    /// Of the procedure that was called.
    [[nodiscard]] std::shared_ptr<const ProcedureItems> items() const;

    RdmaServer& server_;
    SVCXPRT* handle_ = nullptr;
    /// libtirpc's, which free what it allocated.
    TransportFunctions* destroying_ops_ = nullptr;
    int write_end_ = -1;

    /// Given by serve(), for receive() to take.
    rpcrdma_request* given_ = nullptr;
    /// The Call that is being answered.
    rpcrdma_request* request_ = nullptr;
    std::uint32_t xid_ = 0;
    rpcprog_t program_ = 0;
    rpcvers_t version_ = 0;
    rpcproc_t procedure_ = 0;
    bool has_ddp_ = false;
    unsigned served_in_a_row_ = 0;
    XdrDecoder decoder_;
    XdrEncoder encoder_;
};

}  // namespace urnic::rpcrdma::onc
