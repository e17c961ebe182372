// One side of several connections, whose QPs share what the test makes: for SRQs and XRC.
#pragma once

#include <cstring>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {

/// Takes a connected QP of any type from RESET to RTS. PSNs are 0 in both directions.
inline void to_rts(ibv_qp* qp, ibv_context* peer, std::uint32_t peer_qpn) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    const bool answers = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
    const bool asks = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer_qpn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr = address_of(peer);
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    ASSERT_EQ(
        ibv_modify_qp(
            qp, &attr,
            IBV_QP_STATE | IBV_QP_SQ_PSN |
                (asks ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0) |
                (qp->qp_type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0)),
        0);
}

/// Context, PD, CQ and one registered buffer.
struct SharedSide {
    explicit SharedSide(const std::string& device) : context(open_device(device)), buffer(1U << 20U) {
        pd = ibv_alloc_pd(context.get());
        cq = ibv_create_cq(context.get(), 1000, nullptr, nullptr, 0);
        mr = ibv_reg_mr(pd, buffer.data(), buffer.size(),
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
        EXPECT_TRUE(pd != nullptr && cq != nullptr && mr != nullptr);
    }
    ~SharedSide() {
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    }
    SharedSide(const SharedSide&) = delete;
    SharedSide& operator=(const SharedSide&) = delete;

    [[nodiscard]] ibv_sge sge(std::size_t offset, std::size_t length) const {
        return {reinterpret_cast<std::uint64_t>(buffer.data() + offset), static_cast<std::uint32_t>(length),
                mr->lkey};
    }
    [[nodiscard]] ibv_qp* make_qp(ibv_qp_type type, ibv_srq* srq = nullptr) const {
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq;
        init.srq = srq;
        init.cap = {.max_send_wr = 200,
                    .max_recv_wr = 0,
                    .max_send_sge = 2,
                    .max_recv_sge = 0,
                    .max_inline_data = 64};
        init.qp_type = type;
        ibv_qp* qp = ibv_create_qp(pd, &init);
        EXPECT_NE(qp, nullptr) << std::strerror(errno);
        return qp;
    }
    /// Posts one receive; ibv_post_srq_recv()'s answer.
    [[nodiscard]] int post(ibv_srq* srq, std::uint64_t wr_id, std::size_t offset, std::size_t length) const {
        ibv_sge one = sge(offset, length);
        ibv_recv_wr wr{};
        wr.wr_id = wr_id;
        wr.sg_list = &one;
        wr.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        return ibv_post_srq_recv(srq, &wr, &bad);
    }
    /// Sends `length` bytes of the buffer; `srq_number` for XRC.
    void send(ibv_qp* qp, std::uint64_t wr_id, std::size_t offset, std::size_t length,
              std::uint32_t srq_number = 0) const {
        ibv_sge one = sge(offset, length);
        ibv_send_wr wr = request(IBV_WR_SEND, wr_id, &one, 1);
        wr.qp_type.xrc.remote_srqn = srq_number;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    }
    /// The next completion of `from`, waited for.
    static ibv_wc poll(ibv_cq* from) {
        ibv_wc wc{};
        int got = 0;
        EXPECT_TRUE(comes([&] { return (got = ibv_poll_cq(from, 1, &wc)) != 0; })) << "no completion came";
        EXPECT_GE(got, 0) << "ibv_poll_cq failed";
        wc.status = got == 1 ? wc.status : IBV_WC_GENERAL_ERR;
        return wc;
    }

    Context context;
    Buffer buffer;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* mr = nullptr;
};

}  // namespace urnic::e2e
