#include "tests/e2e/rpcrdma/raw_peer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"

namespace urnic::e2e {

RawPeer::RawPeer(std::uint16_t port) {
    rdma_addrinfo hints{};
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(server_host(), std::to_string(port).c_str(), &hints, &found), 0);
    ibv_qp_init_attr init{};
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.sq_sig_all = 1;
    EXPECT_EQ(rdma_create_ep(&listener_, found, nullptr, &init), 0) << std::strerror(errno);
    rdma_freeaddrinfo(found);
    EXPECT_EQ(rdma_listen(listener_, 4), 0) << std::strerror(errno);
}

RawPeer::~RawPeer() {
    disconnect();
    if (listener_ != nullptr) rdma_destroy_ep(listener_);
}

// A client that was killed may have asked for one more connection before, which nobody can accept.
void RawPeer::accept() {
    EXPECT_TRUE(comes([this] {
        disconnect();
        accept_next();
        return id_ != nullptr && rdma_accept(id_, nullptr) == 0;
    })) << std::strerror(errno);
}

void RawPeer::accept_next() {
    ASSERT_EQ(rdma_get_request(listener_, &id_), 0) << std::strerror(errno);
    // 4.096 us * 2^12 = 17 ms: a peer that has gone is given up soon.
    std::uint8_t ack_timeout = 12;
    (void)rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout, sizeof ack_timeout);
    region_ = rdma_reg_msgs(id_, memory_.data(), memory_.size());
    ASSERT_NE(region_, nullptr);
    post_receive();
}

void RawPeer::disconnect() {
    if (id_ == nullptr) return;
    (void)rdma_disconnect(id_);
    (void)rdma_dereg_mr(region_);
    rdma_destroy_ep(id_);
    id_ = nullptr;
}

void RawPeer::post_receive() {
    ASSERT_EQ(rdma_post_recv(id_, nullptr, memory_.data(), kOctets, region_), 0) << std::strerror(errno);
}

std::vector<std::uint32_t> RawPeer::receive() {
    constexpr std::uint32_t kConnprop = 6;
    for (;;) {
        ibv_wc completion{};
        int count = 0;
        EXPECT_TRUE(comes([&] { return (count = ibv_poll_cq(id_->recv_cq, 1, &completion)) != 0; }));
        if (count != 1 || completion.status != IBV_WC_SUCCESS) return {};
        std::vector<std::uint32_t> words(completion.byte_len / 4);
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::uint32_t word = 0;
            std::memcpy(&word, memory_.data() + 4 * i, sizeof(word));
            words[i] = be32toh(word);
        }
        post_receive();
        if (words.size() < 4 || words[3] != kConnprop) return words;
    }
}

void RawPeer::send(std::span<const std::uint32_t> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint32_t word = htobe32(words[i]);
        std::memcpy(memory_.data() + kOctets + 4 * i, &word, sizeof(word));
    }
    ASSERT_EQ(
        rdma_post_send(id_, nullptr, memory_.data() + kOctets, words.size() * 4, region_, IBV_SEND_SIGNALED),
        0);
    EXPECT_EQ(sent(), IBV_WC_SUCCESS);
}

ibv_wc_status RawPeer::sent() {
    ibv_wc completion{};
    int count = 0;
    EXPECT_TRUE(comes([&] { return (count = ibv_poll_cq(id_->send_cq, 1, &completion)) != 0; }));
    EXPECT_EQ(count, 1);
    return completion.status;
}

ibv_wc_status RawPeer::write(std::uint32_t handle, std::uint64_t address) {
    std::memset(memory_.data() + kOctets, 0xee, 8);
    EXPECT_EQ(rdma_post_write(id_, nullptr, memory_.data() + kOctets, 8, region_, IBV_SEND_SIGNALED, address,
                              handle),
              0);
    return sent();
}

ibv_wc_status RawPeer::read(std::uint32_t handle, std::uint64_t address) {
    EXPECT_EQ(rdma_post_read(id_, nullptr, memory_.data() + kOctets, 8, region_, IBV_SEND_SIGNALED, address,
                             handle),
              0);
    return sent();
}

}  // namespace urnic::e2e
