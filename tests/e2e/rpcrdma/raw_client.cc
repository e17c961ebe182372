#include "tests/e2e/rpcrdma/raw_client.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"

namespace urnic::e2e {

RawClient::RawClient(const sockaddr_in& server) : memory_(kMemoryOctets) { connect(server); }

void RawClient::connect(const sockaddr_in& server) {
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    const std::string port = std::to_string(ntohs(server.sin_port));
    ASSERT_EQ(rdma_getaddrinfo(server_host(), port.c_str(), &hints, &found), 0);
    ibv_qp_init_attr init{};
    init.cap = {.max_send_wr = 128,
                .max_recv_wr = kReceives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.sq_sig_all = 1;
    const int error = rdma_create_ep(&id_, found, nullptr, &init);
    rdma_freeaddrinfo(found);
    ASSERT_EQ(error, 0) << std::strerror(errno);
    messages_ = rdma_reg_msgs(id_, message_memory_.data(), message_memory_.size());
    region_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    read_only_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(), IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(messages_ != nullptr && region_ != nullptr && read_only_ != nullptr) << std::strerror(errno);
    for (std::size_t i = 0; i < kReceives; ++i) {
        post_receive(i);
    }
    rdma_conn_param param{};
    param.responder_resources = 4;
    param.initiator_depth = 4;
    param.retry_count = 6;
    param.rnr_retry_count = 7;
    ASSERT_EQ(rdma_connect(id_, &param), 0) << std::strerror(errno);
}

RawClient::~RawClient() {
    if (id_ == nullptr) return;
    (void)rdma_disconnect(id_);
    for (ibv_mr* const region : {messages_, region_, read_only_}) {
        if (region != nullptr) (void)ibv_dereg_mr(region);
    }
    rdma_destroy_ep(id_);
}

void RawClient::post_receive(std::size_t index) {
    std::uint8_t* const to = message_memory_.data() + index * kReceiveOctets;
    ASSERT_EQ(rdma_post_recv(id_, to, to, kReceiveOctets, messages_), 0) << std::strerror(errno);
}

void RawClient::send(std::span<const std::uint32_t> words) {
    ASSERT_LE(words.size() * 4, kSendOctets);
    std::uint8_t* const from = message_memory_.data() + kReceives * kReceiveOctets;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint32_t word = htobe32(words[i]);
        std::memcpy(from + 4 * i, &word, sizeof(word));
    }
    ASSERT_EQ(rdma_post_send(id_, nullptr, from, words.size() * 4, messages_, IBV_SEND_SIGNALED), 0)
        << std::strerror(errno);
    // The next message is written where this one was.
    ibv_wc completion{};
    EXPECT_TRUE(comes([&] { return ibv_poll_cq(id_->send_cq, 1, &completion) != 0; }));
}

bool RawClient::has_ended() {
    pollfd entry{id_->channel->fd, POLLIN, 0};
    if (!is_over_ && poll(&entry, 1, 0) == 1) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(id_->channel, &event) == 0) {
            is_over_ = event->event == RDMA_CM_EVENT_DISCONNECTED;
            (void)rdma_ack_cm_event(event);
        }
    }
    return is_over_;
}

bool RawClient::ends() {
    return comes([this] { return has_ended(); });
}

Words RawClient::receive() {
    constexpr std::uint32_t kConnprop = 6;
    for (;;) {
        ibv_wc completion{};
        int count = 0;
        EXPECT_TRUE(comes([&] {
            // What came before the end counts.
            const bool is_end = has_ended();
            count = ibv_poll_cq(id_->recv_cq, 1, &completion);
            return count != 0 || is_end;
        })) << "neither a message nor the end of the connection";
        if (count != 1 || completion.status != IBV_WC_SUCCESS) return {};
        // NOLINTNEXTLINE(performance-no-int-to-ptr): what post_receive() gave
        const auto* const from = reinterpret_cast<const std::uint8_t*>(completion.wr_id);
        Words words(completion.byte_len / 4);
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::uint32_t word = 0;
            std::memcpy(&word, from + 4 * i, sizeof(word));
            words[i] = be32toh(word);
        }
        post_receive(static_cast<std::size_t>(from - message_memory_.data()) / kReceiveOctets);
        if (words.size() < 4 || words[3] != kConnprop) return words;
    }
}

}  // namespace urnic::e2e
