// What tests of librdmacm's calls have in common.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace urnic::e2e {

inline constexpr const char* kServer = "198.18.0.1";  // urnic0's
inline constexpr const char* kClient = "198.18.0.2";  // urnic1's

using Bytes = std::vector<std::uint8_t>;

/// `size` bytes, none of them 0.
inline Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
    std::replace(bytes.begin(), bytes.end(), std::uint8_t{0}, std::uint8_t{0xff});
    return bytes;
}

inline sockaddr_in ipv4(const char* address, std::uint16_t port = 0) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, address, &to.sin_addr), 1);
    return to;
}
template <typename Address>
sockaddr* as_sockaddr(Address& address) {
    return reinterpret_cast<sockaddr*>(&address);
}

/// A small RC QP's.
inline ibv_qp_init_attr queues() {
    ibv_qp_init_attr init{};
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16};
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    return init;
}

}  // namespace urnic::e2e
