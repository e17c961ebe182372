/// The C interface of RPC-over-RDMA without RDMA, in one process: what its client gives, its server gets. For
/// tests of what stands on it. Messages are taken apart and put together as the real one does, and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace urnic::rpcrdma::loopback {

/// What the last Call or Reply was made of.
struct Seen {
    std::vector<std::size_t> call_items;
    std::vector<std::size_t> result_rooms;
    std::vector<std::size_t> reply_items;
    std::vector<const void*> reply_data;
    std::uint64_t max_reply_octets = 0;
    std::uint32_t xid = 0;
    std::uint64_t calls = 0;
};

/// Settings of all that is in this process.
struct Settings {
    std::uint32_t version = 2;
    /// Octets that a Reply may have without a Reply chunk.
    std::size_t inline_octets = 988;
    /// The next calls end with this, without being sent.
    int next_error = 0;
    std::uint32_t next_error_code = 0;
    int next_errors = 0;
};

[[nodiscard]] Seen seen();
void set(const Settings& settings);
/// Memory of rpcrdma_alloc() that has not been freed.
[[nodiscard]] std::size_t allocated_blocks();

}  // namespace urnic::rpcrdma::loopback
