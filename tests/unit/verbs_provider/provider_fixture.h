// A program's side of the provider tests: a context of the stock libibverbs on the provider, with a test
// double of the daemon behind the control socket.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/unit/verbs_provider/fake_daemon.h"

namespace urnic::test {

/// The daemon's one device; null and errno when it cannot be opened.
struct ibv_context* open_device();
/// A signaled SEND.
struct ibv_send_wr send_request(std::uint64_t wr_id, struct ibv_sge* sge);
int post_one(struct ibv_qp* qp, struct ibv_send_wr wr);
int post_receive(struct ibv_qp* qp, std::uint64_t wr_id);
/// Waits for as long as a busy machine may need.
bool wait_readable(int fd);
bool readable_now(int fd);

class Provider : public ::testing::Test {
  protected:
    void open() {
        context = open_device();
        ASSERT_NE(context, nullptr) << std::strerror(errno);
        pd = ibv_alloc_pd(context);
        ASSERT_NE(pd, nullptr);
    }
    void open_with_qp(int sq_depth = 4) {
        open();
        channel = ibv_create_comp_channel(context);
        ASSERT_NE(channel, nullptr);
        cq = ibv_create_cq(context, 8, nullptr, channel, 0);
        ASSERT_NE(cq, nullptr);
        qp = ibv_create_qp(pd, &init_attr(sq_depth));
        ASSERT_NE(qp, nullptr) << std::strerror(errno);
        to_state(IBV_QPS_RTS);
    }
    struct ibv_qp_init_attr& init_attr(int sq_depth) {
        init_ = {};
        init_.send_cq = init_.recv_cq = cq;
        init_.qp_type = IBV_QPT_RC;
        init_.cap.max_send_wr = static_cast<std::uint32_t>(sq_depth);
        init_.cap.max_recv_wr = 4;
        init_.cap.max_send_sge = init_.cap.max_recv_sge = 2;
        return init_;
    }
    void to_state(enum ibv_qp_state state) {
        struct ibv_qp_attr attr {};
        attr.qp_state = state;
        ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    }
    [[nodiscard]] Completion completion(std::uint64_t wr_id, std::uint32_t wqe_index,
                                        bool is_recv = false) const {
        Completion done;
        done.wr_id = wr_id;
        done.qp_num = qp->qp_num;
        done.wqe_index = wqe_index;
        done.is_recv = is_recv;
        done.opcode = is_recv ? WcOpcode::kRecv : WcOpcode::kSend;
        return done;
    }
    std::vector<std::uint64_t> poll_ids() const {
        std::vector<std::uint64_t> ids;
        struct ibv_wc wc {};
        while (ibv_poll_cq(cq, 1, &wc) == 1) {
            ids.push_back(wc.wr_id);
        }
        return ids;
    }
    void close_all() {
        if (qp != nullptr) {
            EXPECT_EQ(ibv_destroy_qp(qp), 0);
        }
        if (cq != nullptr) {
            EXPECT_EQ(ibv_destroy_cq(cq), 0);
        }
        if (channel != nullptr) {
            EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
        }
        if (pd != nullptr) {
            EXPECT_EQ(ibv_dealloc_pd(pd), 0);
        }
        if (context != nullptr) {
            EXPECT_EQ(ibv_close_device(context), 0);
        }
        qp = nullptr;
        cq = nullptr;
        channel = nullptr;
        pd = nullptr;
        context = nullptr;
    }
    void TearDown() override { close_all(); }

    FakeDaemon daemon;
    struct ibv_context* context = nullptr;
    struct ibv_pd* pd = nullptr;
    struct ibv_comp_channel* channel = nullptr;
    struct ibv_cq* cq = nullptr;
    struct ibv_qp* qp = nullptr;
    struct ibv_sge sge {
        0x1000, 64, 9
    };

  private:
    struct ibv_qp_init_attr init_ {};
};

}  // namespace urnic::test
