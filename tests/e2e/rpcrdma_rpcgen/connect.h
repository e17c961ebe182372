/// The file service's programs over TCP, by libtirpc's own transport, and over RDMA: they differ in the line
/// that makes the CLIENT or the SVCXPRT.
#pragma once

#include <rpc/rpc.h>

#include <cstdint>
#include <string>

#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"

namespace urnic::e2e {

/// Beside the file service: it needs AUTH_SYS, and answers with the caller's uid.
constexpr rpcprog_t kGuardedProgram = 0x20004712;
constexpr std::uint32_t kLeastDdpOctets = 1024;
/// Of a result whose size the arguments do not tell.
constexpr std::uint32_t kMostDdpOctets = 64U << 10U;
constexpr std::uint64_t kMostMessageOctets = 65U << 20U;

struct Address {
    bool is_rdma = false;
    std::string host;
    std::string port;
    /// Of RPC-over-RDMA: 1 or 2.
    std::uint32_t version = 2;

    /// "tcp", "rdma1" or "rdma2".
    void set_transport(const std::string& name);
};

[[nodiscard]] rpcrdma_options options_of(const Address& address);
/// Adds the file service's table to this process.
void add_ddp_items();

[[nodiscard]] CLIENT* make_client(const Address& address, rpcprog_t program, rpcvers_t version);
/// Returns nullptr with errno set.
[[nodiscard]] SVCXPRT* make_transport(const Address& address);

}  // namespace urnic::e2e
