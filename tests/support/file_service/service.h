/// The file service: what its program is called with, and which of its data may go by RDMA.
#pragma once

#include <rpc/rpc.h>

#include <cstdint>
#include <vector>

#include "file_service.h"
#include "ulp/rpcrdma/include/urnic/rpcrdma_onc.h"

// What rpcgen makes and declares nowhere.
extern "C" void file_service_1(struct svc_req* request, SVCXPRT* transport);

namespace urnic::file_service {

/// DDP-eligible data: data of WRITE, READ, ECHO and SAMPLE of at least `least_octets`. READ's room is what is
/// asked for, that of ECHO what is sent if `echoes_know_their_size`, that of others `most_octets`.
[[nodiscard]] std::vector<rpcrdma_onc_item> ddp_items(std::uint32_t least_octets, std::uint32_t most_octets,
                                                      bool echoes_know_their_size);

/// Octet `at` of what the tests send: another for each seed.
[[nodiscard]] inline char pattern_octet(std::uint64_t seed, std::uint64_t at) {
    const std::uint64_t mixed = (seed * 0x9E3779B97F4A7C15ULL) ^ (at * 0xC2B2AE3D27D4EB4FULL);
    return static_cast<char>(mixed >> 32U);
}
void fill_pattern(std::uint64_t seed, std::uint64_t offset, char* data, std::size_t octets);
[[nodiscard]] bool has_pattern(std::uint64_t seed, std::uint64_t offset, const char* data,
                               std::size_t octets);

/// A sample with everything in it; free it by xdr_free().
[[nodiscard]] sample make_sample(std::uint64_t seed, std::uint32_t data_octets);
[[nodiscard]] bool are_equal(const sample& left, const sample& right);

}  // namespace urnic::file_service
