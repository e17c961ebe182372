// RPC programs over RPC-over-RDMA.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/interop/nfs/rpc.h"

struct rpcrdma_request;
struct rpcrdma_server;

namespace urnic::nfs {

class RdmaServer {
  public:
    // Nobody is served with an empty address. Throws std::runtime_error.
    RdmaServer(const std::string& address, std::uint16_t port, std::span<Program* const> programs);
    RdmaServer(const RdmaServer&) = delete;
    RdmaServer& operator=(const RdmaServer&) = delete;
    ~RdmaServer();

    // "name=value ..." of the library's counters.
    [[nodiscard]] std::string statistics() const;

  private:
    static void serve(void* context, rpcrdma_request* request);

    const std::span<Program* const> programs_;
    rpcrdma_server* server_ = nullptr;
};

}  // namespace urnic::nfs
