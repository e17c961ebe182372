/// What stands behind an SVCXPRT of svc_rdma_create(): the server of the C interface, the Calls that wait,
/// and the transports through which libtirpc's dispatching answers them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "ulp/rpcrdma/onc/address.h"
#include "ulp/rpcrdma/onc/call_queue.h"
#include "ulp/rpcrdma/onc/reply_cache.h"
#include "ulp/rpcrdma/onc/transport.h"

namespace urnic::rpcrdma::onc {

class RdmaServer {
  public:
    RdmaServer() : listener_(*this) {}
    ~RdmaServer();
    RdmaServer(const RdmaServer&) = delete;
    RdmaServer& operator=(const RdmaServer&) = delete;

    /// Returns 0 or an errno value.
    [[nodiscard]] int listen(const SocketAddress& address, const rpcrdma_options* options);
    /// Serves with `threads` threads until queue().stop_waiting().
    [[nodiscard]] int run(unsigned threads);

    [[nodiscard]] Transport& listener() { return listener_; }
    [[nodiscard]] CallQueue& queue() { return queue_; }
    [[nodiscard]] ReplyCache& replies() { return replies_; }
    [[nodiscard]] rpcrdma_server* server() const { return server_; }

  private:
    void serve_calls();
    [[nodiscard]] int note_address();

    CallQueue queue_;
    ReplyCache replies_;
    Transport listener_;
    rpcrdma_server* server_ = nullptr;
};

}  // namespace urnic::rpcrdma::onc
