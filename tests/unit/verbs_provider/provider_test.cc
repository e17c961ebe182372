// The provider as programs use it, through the stock libibverbs: opening, posting, polling.
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {

namespace {

TEST_F(Provider, OpenFailsWithoutDaemon) {
    daemon.die();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(open_device(), nullptr);
    EXPECT_EQ(errno, ENOENT);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("control.sock"), std::string::npos) << said;
    EXPECT_NE(said.find("start urnicd"), std::string::npos) << said;
}

TEST_F(Provider, OpenFailsWithAnotherVersion) {
    daemon.version = 99;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(open_device(), nullptr);
    EXPECT_EQ(errno, EPROTO);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("version 99"), std::string::npos) << said;
}

TEST_F(Provider, QueriesDeviceAndPort) {
    open();
    struct ibv_device_attr_ex attr {};
    ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
    EXPECT_EQ(attr.orig_attr.max_qp, 100);
    EXPECT_EQ(attr.orig_attr.phys_port_cnt, 1);
    EXPECT_EQ(attr.hca_core_clock, 1'000'000U);
    struct ibv_port_attr port[2];
    std::memset(port, 0x5a, sizeof port);
    ASSERT_EQ(ibv_query_port(context, 1, port), 0);
    EXPECT_EQ(port[0].state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port[0].link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(reinterpret_cast<unsigned char*>(port)[52], 0x5a) << "wrote past the struct of older releases";
}

TEST_F(Provider, AnswersNotOfferedVerbs) {
    open();
    cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
    struct ibv_qp_init_attr attr = init_attr(1);
    attr.qp_type = IBV_QPT_RAW_PACKET;
    EXPECT_EQ(ibv_create_qp(pd, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Provider, RegistersMemory) {
    open();
    const std::size_t length = 8192;
    void* memory = std::aligned_alloc(4096, length);
    std::memset(memory, 0x42, length);
    struct ibv_mr* mr = ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    EXPECT_EQ(mr->lkey, 0x1234U);
    EXPECT_EQ(mr->rkey, 0x5678U);
    EXPECT_EQ(daemon.last_reg_mr.addr, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_EQ(daemon.last_reg_mr.iova, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_EQ(static_cast<unsigned char*>(memory)[length - 1], 0x42);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_mr(pd, memory, 0, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr) << "ibv_rc_pingpong -s 0 does this";
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    daemon.next_error = ENOSPC;
    EXPECT_EQ(ibv_reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_EQ(ibv_reg_mr(pd, memory, length, IBV_ACCESS_ON_DEMAND), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    std::free(memory);
}

TEST_F(Provider, PostsWhatTheDaemonReads) {
    open_with_qp();
    struct ibv_send_wr wr = send_request(11, &sge);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = 0x01020304;
    wr.wr.rdma.remote_addr = 0xabcdef;
    wr.wr.rdma.rkey = 55;
    ASSERT_EQ(post_one(qp, wr), 0);
    EXPECT_TRUE(daemon.doorbell_rang(daemon.qp()));
    EXPECT_EQ(daemon.wakeups(1), 0U) << "the worker was awake";
    SendWork work;
    ASSERT_EQ(daemon.qp().sq.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr_id, 11U);
    EXPECT_EQ(work.opcode, static_cast<std::uint8_t>(WrOpcode::kWriteWithImm));
    EXPECT_EQ(work.imm_or_rkey, 0x01020304U);
    EXPECT_EQ(work.wr.rdma.remote_addr, 0xabcdefU);
    EXPECT_EQ(work.wr.rdma.rkey, 55U);
    EXPECT_EQ(work.flags, kSendSignaled);
    ASSERT_EQ(work.num_sge, 1);
    EXPECT_EQ(work.sge[0].addr, 0x1000U);
    EXPECT_EQ(work.sge[0].lkey, 9U);
}

TEST_F(Provider, WakesASleepingWorker) {
    open_with_qp();
    daemon.set_sleeping(1, true);
    ASSERT_EQ(post_one(qp, send_request(1, &sge)), 0);
    EXPECT_EQ(daemon.wakeups(1), 1U);
    daemon.set_sleeping(1, false);
    ASSERT_EQ(post_one(qp, send_request(2, &sge)), 0);
    EXPECT_EQ(daemon.wakeups(1), 0U);
}

TEST_F(Provider, FullSendQueueIsFreedByCompletions) {
    open_with_qp(4);
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(post_one(qp, send_request(i, &sge)), 0);
    }
    EXPECT_EQ(post_one(qp, send_request(4, &sge)), ENOMEM);
    // One completion for three requests: two were not signaled.
    daemon.complete(completion(2, 2));
    EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{2});
    for (std::uint64_t i = 4; i < 7; ++i) {
        EXPECT_EQ(post_one(qp, send_request(i, &sge)), 0);
    }
    EXPECT_EQ(post_one(qp, send_request(7, &sge)), ENOMEM);
}

TEST_F(Provider, RefusesBadSendRequests) {
    open_with_qp();
    struct ibv_sge many[5] = {sge, sge, sge, sge, sge};
    char bytes[200] = {};
    struct ibv_send_wr wr = send_request(1, many);
    wr.num_sge = 5;
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    wr.num_sge = -1;
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    wr = send_request(1, &sge);
    wr.opcode = IBV_WR_TSO;
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    wr.opcode = static_cast<enum ibv_wr_opcode>(77);
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    struct ibv_sge large {
        reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, 0
    };
    wr = send_request(1, &large);
    wr.send_flags |= IBV_SEND_INLINE;
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    large.length = FakeDaemon::kMaxInline;
    EXPECT_EQ(post_one(qp, wr), 0);
    wr.opcode = IBV_WR_RDMA_READ;
    EXPECT_EQ(post_one(qp, wr), EINVAL);
    to_state(IBV_QPS_RESET);
    EXPECT_EQ(post_one(qp, send_request(1, &sge)), EINVAL);
    EXPECT_EQ(post_receive(qp, 1), EINVAL);
}

TEST_F(Provider, AGoodRequestBeforeABadOneIsPosted) {
    open_with_qp();
    struct ibv_send_wr second = send_request(2, &sge);
    second.num_sge = 100;
    struct ibv_send_wr first = send_request(1, &sge);
    first.next = &second;
    struct ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &second);
    EXPECT_TRUE(daemon.qp().sq.has(0));
    EXPECT_FALSE(daemon.qp().sq.has(1));
    EXPECT_TRUE(daemon.doorbell_rang(daemon.qp()));
}

TEST_F(Provider, PollsTheRingsOfAllWorkers) {
    open_with_qp();
    for (std::uint32_t i = 0; i < 3; ++i) {
        ASSERT_EQ(post_receive(qp, i), 0);
    }
    daemon.complete(completion(10, 0, true), 0);
    daemon.complete(completion(11, 1, true), 1);
    daemon.complete(completion(12, 2, true), 0);
    struct ibv_wc wc[8];
    ASSERT_EQ(ibv_poll_cq(cq, 8, wc), 3);
    EXPECT_EQ(wc[0].wr_id + wc[1].wr_id + wc[2].wr_id, 33U);
    EXPECT_EQ(wc[0].qp_num, qp->qp_num);
    EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
    EXPECT_EQ(ibv_poll_cq(cq, 8, wc), 0);
    // A ring holds 8: if the taken ones were not given back, this would not fit.
    for (std::uint32_t i = 0; i < 8; ++i) {
        daemon.complete(completion(i, i, true), 0);
    }
    EXPECT_EQ(ibv_poll_cq(cq, 5, wc), 5);
    EXPECT_EQ(ibv_poll_cq(cq, 5, wc), 3);
}

TEST_F(Provider, ExtendedPostBuildsInPlace) {
    open();
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    struct ibv_qp_init_attr_ex attr {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {2, 1, 2, 1, 0};
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_TSO;
    EXPECT_EQ(ibv_create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    qp = ibv_create_qp_ex(context, &attr);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    struct ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(ex, nullptr);

    ibv_wr_start(ex);
    ibv_wr_send_imm(ex, 1);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL) << "the QP is in RESET";
    to_state(IBV_QPS_RTS);

    ibv_wr_start(ex);
    ex->wr_id = 5;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(ex, 99);
    ibv_wr_set_sge(ex, 9, 0x2000, 32);
    ibv_wr_abort(ex);
    EXPECT_FALSE(daemon.qp().sq.has(0));

    char text[] = "inline";
    ibv_wr_start(ex);
    ex->wr_id = 6;
    ibv_wr_send_imm(ex, 98);
    ibv_wr_set_inline_data(ex, text, sizeof text);
    ex->wr_id = 7;
    ibv_wr_atomic_cmp_swp(ex, 3, 0x3000, 1, 2);
    ibv_wr_set_sge(ex, 9, 0x2000, 8);
    EXPECT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_TRUE(daemon.doorbell_rang(daemon.qp()));
    SendWork work;
    ASSERT_EQ(daemon.qp().sq.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr_id, 6U);
    EXPECT_EQ(work.imm_or_rkey, 98U);
    EXPECT_EQ(work.length_bytes, sizeof text);
    EXPECT_EQ(std::memcmp(work.inline_data, text, sizeof text), 0);
    ASSERT_EQ(daemon.qp().sq.fetch(1, work), Fetch::kOk);
    EXPECT_EQ(work.wr.atomic.compare_add, 1U);
    EXPECT_EQ(work.wr.atomic.swap, 2U);
    EXPECT_EQ(work.wr.atomic.rkey, 3U);

    ibv_wr_start(ex);
    ibv_wr_send_imm(ex, 97);
    EXPECT_EQ(ibv_wr_complete(ex), ENOMEM) << "two requests fill the queue";
}

TEST_F(Provider, ExtendedPollReadsFields) {
    open_with_qp();
    struct ibv_cq_init_attr_ex attr {};
    attr.cqe = 4;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    attr.wc_flags |= IBV_WC_EX_WITH_CVLAN;
    EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    close_all();
    open();
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    attr.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    struct ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
    ASSERT_NE(ex, nullptr) << std::strerror(errno);
    cq = ibv_cq_ex_to_cq(ex);
    qp = ibv_create_qp(pd, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    struct ibv_poll_cq_attr none {};
    EXPECT_EQ(ibv_start_poll(ex, &none), ENOENT);
    Completion done = completion(21, 0, true);
    done.byte_len = 77;
    done.imm_or_rkey = 0x0a0b0c0d;
    done.wc_flags = kWcWithImm;
    done.src_qp = 5;
    daemon.complete(done, 0, 123456789);
    daemon.complete(completion(22, 1, true));
    ASSERT_EQ(ibv_start_poll(ex, &none), 0);
    EXPECT_EQ(ex->wr_id, 21U);
    EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(ex), 77U);
    EXPECT_EQ(ibv_wc_read_imm_data(ex), 0x0a0b0c0dU);
    EXPECT_EQ(ibv_wc_read_wc_flags(ex), IBV_WC_WITH_IMM);
    EXPECT_EQ(ibv_wc_read_qp_num(ex), qp->qp_num);
    EXPECT_EQ(ibv_wc_read_src_qp(ex), 5U);
    EXPECT_EQ(ibv_wc_read_completion_ts(ex), 123456789U);
    ASSERT_EQ(ibv_next_poll(ex), 0);
    EXPECT_EQ(ex->wr_id, 22U);
    EXPECT_EQ(ibv_next_poll(ex), ENOENT);
    ibv_end_poll(ex);
    EXPECT_EQ(ibv_start_poll(ex, &none), ENOENT);
}

TEST_F(Provider, VerbsInTheMiddleOfAnExtendedPoll) {
    open();
    channel = ibv_create_comp_channel(context);
    struct ibv_cq_init_attr_ex attr {};
    attr.cqe = 8;
    attr.channel = channel;
    struct ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
    ASSERT_NE(ex, nullptr);
    cq = ibv_cq_ex_to_cq(ex);
    qp = ibv_create_qp(pd, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    to_state(IBV_QPS_RTS);
    struct ibv_poll_cq_attr none {};
    daemon.complete(completion(1, 0, true));
    ASSERT_EQ(ibv_start_poll(ex, &none), 0);
    EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ibv_end_poll(ex);
    daemon.complete(completion(2, 1, true));
    daemon.complete(completion(3, 2, true));
    ASSERT_EQ(ibv_start_poll(ex, &none), 0);
    daemon.die();
    struct ibv_async_event event {};
    ASSERT_TRUE(wait_readable(context->async_fd));
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(post_one(qp, send_request(4, &sge)), 0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(ibv_next_poll(ex), ENOENT) << "the QP of the third completion is gone";
    ibv_end_poll(ex);
}

}  // namespace

}  // namespace urnic::test
