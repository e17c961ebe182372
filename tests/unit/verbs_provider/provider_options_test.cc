// What programs may ask of CQs and QPs beyond the plain calls: extended CQs and their clocks, moderation,
// rate limits, connection options.
#include <cerrno>
#include <ctime>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

std::uint64_t now_ns(clockid_t clock) {
    struct timespec now {};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

class ProviderOptions : public Provider {
  protected:
    static struct ibv_cq_init_attr_ex cq_attr(std::uint64_t wc_flags, std::uint32_t flags = 0) {
        struct ibv_cq_init_attr_ex attr {};
        attr.cqe = 8;
        attr.wc_flags = wc_flags;
        attr.comp_mask = flags != 0 ? static_cast<std::uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS) : 0U;
        attr.flags = flags;
        return attr;
    }
    int create_error(struct ibv_cq_init_attr_ex attr) const {
        errno = 0;
        EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
        return errno;
    }
    /// The QP with a CQ of these flags.
    void open_ex(std::uint64_t wc_flags, std::uint32_t flags = 0) {
        open();
        struct ibv_cq_init_attr_ex attr = cq_attr(wc_flags, flags);
        ex = ibv_create_cq_ex(context, &attr);
        ASSERT_NE(ex, nullptr) << std::strerror(errno);
        cq = ibv_cq_ex_to_cq(ex);
        qp = ibv_create_qp(pd, &init_attr(8));
        ASSERT_NE(qp, nullptr);
        to_state(IBV_QPS_RTS);
    }
    void post(std::uint64_t wr_id) { ASSERT_EQ(post_one(qp, send_request(wr_id, &sge)), 0); }

    struct ibv_cq_ex* ex = nullptr;
    struct ibv_poll_cq_attr poll_attr {};
};

TEST_F(ProviderOptions, WhatAnExtendedCqCannotReadIsRefused) {
    open();
    for (const std::uint64_t flag : {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO}) {
        EXPECT_EQ(create_error(cq_attr(flag)), EOPNOTSUPP) << flag;
    }
    EXPECT_EQ(create_error(cq_attr(1ULL << 40U)), EOPNOTSUPP);
    EXPECT_EQ(create_error(cq_attr(0, 1U << 2U)), EOPNOTSUPP);
    struct ibv_cq_init_attr_ex attr = cq_attr(0);
    attr.comp_mask = 1U << 7U;
    EXPECT_EQ(create_error(attr), EOPNOTSUPP);
    attr = cq_attr(0);
    attr.cqe = 0;
    EXPECT_EQ(create_error(attr), EINVAL);
    attr = cq_attr(0);
    attr.comp_vector = static_cast<std::uint32_t>(context->num_comp_vectors);
    EXPECT_EQ(create_error(attr), EINVAL);
    attr = cq_attr(0);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = pd;  // an ordinary one
    EXPECT_EQ(create_error(attr), EINVAL);
    EXPECT_EQ(daemon.object_count(), 0U);
}

TEST_F(ProviderOptions, FlagsReachTheDaemon) {
    open();
    struct Case {
        std::uint64_t wc_flags;
        std::uint32_t flags;
        std::uint32_t expected;
    };
    const Case cases[] = {
        {0, 0, 0},
        {IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED, 0},
        {0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, abi::kCqIgnoreOverrun},
        {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0, abi::kCqTimestamps},
        {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0, abi::kCqTimestamps},
    };
    for (const Case& one : cases) {
        struct ibv_cq_init_attr_ex attr = cq_attr(one.wc_flags, one.flags);
        struct ibv_cq_ex* made = ibv_create_cq_ex(context, &attr);
        ASSERT_NE(made, nullptr);
        EXPECT_EQ(daemon.last_create_cq.flags, one.expected);
        EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(made)), 0);
    }
}

TEST_F(ProviderOptions, OnlyWhatWasAskedForHasAReader) {
    open_ex(IBV_WC_EX_WITH_IMM);
    EXPECT_NE(ex->read_imm_data, nullptr);
    EXPECT_NE(ex->read_opcode, nullptr);
    EXPECT_NE(ex->read_vendor_err, nullptr);
    EXPECT_NE(ex->read_wc_flags, nullptr);
    EXPECT_EQ(ex->read_byte_len, nullptr);
    EXPECT_EQ(ex->read_completion_ts, nullptr);
    EXPECT_EQ(ex->read_completion_wallclock_ns, nullptr);
    EXPECT_EQ(ex->read_cvlan, nullptr);
    EXPECT_EQ(ex->read_tm_info, nullptr);
}

TEST_F(ProviderOptions, PollingBlocks) {
    open_ex(IBV_WC_STANDARD_FLAGS);
    poll_attr.comp_mask = 1;
    EXPECT_EQ(ibv_start_poll(ex, &poll_attr), EINVAL);
    poll_attr.comp_mask = 0;
    EXPECT_EQ(ibv_start_poll(ex, &poll_attr), ENOENT);
    post(1);
    post(2);
    daemon.complete(completion(1, 0));
    daemon.complete(completion(2, 1));
    ASSERT_EQ(ibv_start_poll(ex, &poll_attr), 0);
    EXPECT_EQ(ex->wr_id, 1U);
    EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_next_poll(ex), 0);
    EXPECT_EQ(ex->wr_id, 2U);
    EXPECT_EQ(ibv_wc_read_slid(ex), 0U);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(ex), 0U);
    EXPECT_EQ(ibv_next_poll(ex), ENOENT);
    EXPECT_EQ(ibv_next_poll(ex), ENOENT) << "stays empty until the block ends";
    ibv_end_poll(ex);
    EXPECT_EQ(ibv_start_poll(ex, &poll_attr), ENOENT);
}

TEST_F(ProviderOptions, TimestampsAreTheDaemonsAndTheWallClockFollows) {
    open_ex(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    constexpr std::uint64_t kAgeNs = 5'000'000'000;
    constexpr std::uint64_t kToleranceNs = 2'000'000'000;  // of a machine that does other things
    const std::uint64_t then = now_ns(CLOCK_MONOTONIC) - kAgeNs;
    for (std::uint64_t i = 0; i < 3; ++i) {
        post(i);
        daemon.complete(completion(i, static_cast<std::uint32_t>(i)), 0, then + i * 1000);
    }
    ASSERT_EQ(ibv_start_poll(ex, &poll_attr), 0);
    EXPECT_EQ(ibv_wc_read_completion_ts(ex), then);
    const std::uint64_t wall = ibv_wc_read_completion_wallclock_ns(ex);
    EXPECT_NEAR(static_cast<double>(now_ns(CLOCK_REALTIME) - wall), static_cast<double>(kAgeNs),
                static_cast<double>(kToleranceNs));
    EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(ex), wall) << "read twice";
    for (std::uint64_t i = 1; i < 3; ++i) {
        ASSERT_EQ(ibv_next_poll(ex), 0);
        EXPECT_EQ(ibv_wc_read_completion_ts(ex), then + i * 1000);
        EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(ex), wall + i * 1000) << "distances stay";
    }
    ibv_end_poll(ex);
}

TEST_F(ProviderOptions, TheRawClockIsThatOfTheTimestamps) {
    open();
    struct ibv_values_ex values {};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | (1U << 9U);
    const std::uint64_t before = now_ns(CLOCK_MONOTONIC);
    ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
    const std::uint64_t after = now_ns(CLOCK_MONOTONIC);
    EXPECT_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    EXPECT_EQ(values.raw_clock.tv_sec, 0);
    EXPECT_GE(static_cast<std::uint64_t>(values.raw_clock.tv_nsec), before);
    EXPECT_LE(static_cast<std::uint64_t>(values.raw_clock.tv_nsec), after);
    values.comp_mask = 0;
    ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
    EXPECT_EQ(values.comp_mask, 0U);
    struct ibv_device_attr_ex attr {};
    ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
    EXPECT_EQ(attr.hca_core_clock, 1'000'000U) << "kHz: one tick a nanosecond";
    EXPECT_EQ(attr.completion_timestamp_mask, ~std::uint64_t{0});
    EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 0xffff);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_period, 0xffff);
}

TEST_F(ProviderOptions, ModerationReachesTheDaemon) {
    open_ex(0);
    struct ibv_modify_cq_attr attr {};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {16, 500};
    EXPECT_EQ(ibv_modify_cq(cq, &attr), 0);
    EXPECT_EQ(daemon.last_modify_cq.cq, cq->handle);
    EXPECT_EQ(daemon.last_modify_cq.count, 16);
    EXPECT_EQ(daemon.last_modify_cq.period_us, 500);
    attr.attr_mask = 0;
    EXPECT_EQ(ibv_modify_cq(cq, &attr), EINVAL);
    attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
    EXPECT_EQ(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
    daemon.next_error = ENOMEM;
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    EXPECT_EQ(ibv_modify_cq(cq, &attr), ENOMEM);
}

// A poll that leaves completions behind raises their event itself if they were there when the CQ was armed;
// of a moderated CQ the others are counted by the daemon.
TEST_F(ProviderOptions, APollTakesNoEventOfAModeratedCqForward) {
    open();
    channel = ibv_create_comp_channel(context);
    ASSERT_NE(channel, nullptr);
    cq = ibv_create_cq(context, 8, nullptr, channel, 0);
    ASSERT_NE(cq, nullptr);
    qp = ibv_create_qp(pd, &init_attr(8));
    ASSERT_NE(qp, nullptr);
    to_state(IBV_QPS_RTS);
    struct ibv_modify_cq_attr attr {};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {16, 0};
    ASSERT_EQ(ibv_modify_cq(cq, &attr), 0);
    std::uint32_t index = 0;
    struct ibv_wc wc {};
    const auto complete_two_and_poll_one = [&](bool arm_between) {
        for (const bool first : {true, false}) {
            post(index);
            if (first && !arm_between) {
                ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
            }
            daemon.complete(completion(index, index));
            ++index;
        }
        if (arm_between) {
            ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
        }
        ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    };
    complete_two_and_poll_one(false);
    EXPECT_FALSE(readable_now(channel->fd));
    EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    complete_two_and_poll_one(true);
    EXPECT_TRUE(readable_now(channel->fd));
    struct ibv_cq* of_event = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &of_event, &cq_context), 0);
    ibv_ack_cq_events(of_event, 1);
}

TEST_F(ProviderOptions, AResizeCountsWhatEarlierRingsLeft) {
    open_ex(0);
    for (std::uint64_t i = 0; i < 3; ++i) {
        post(i);
        daemon.complete(completion(i, static_cast<std::uint32_t>(i)));
    }
    ASSERT_EQ(ibv_resize_cq(cq, 16), 0);
    EXPECT_EQ(daemon.last_resize_cq.unpolled, 0U) << "the daemon knows those of the rings in use";
    daemon.next_error = EINVAL;
    EXPECT_EQ(ibv_resize_cq(cq, 2), EINVAL);
    EXPECT_EQ(daemon.last_resize_cq.unpolled, 0U);
    EXPECT_EQ(ibv_resize_cq(cq, 32), 0);
    EXPECT_EQ(daemon.last_resize_cq.unpolled, 3U);
    EXPECT_EQ(poll_ids(), (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST_F(ProviderOptions, ARateLimitIsAnAttribute) {
    open_ex(0);
    struct ibv_qp_rate_limit_attr limit {};
    limit.rate_limit = 123'456;
    EXPECT_EQ(ibv_modify_qp_rate_limit(qp, &limit), 0);
    EXPECT_EQ(daemon.qp().attr.mask, std::uint32_t{kQpAttrRateLimit});
    EXPECT_EQ(daemon.qp().attr.rate_limit, 123'456U);
    for (const int wrong : {0, 1, 2}) {
        struct ibv_qp_rate_limit_attr bad = limit;
        (wrong == 0 ? bad.comp_mask : bad.max_burst_sz) = wrong == 2 ? 0 : 1;
        bad.typical_pkt_sz = wrong == 2 ? 1 : 0;
        EXPECT_EQ(ibv_modify_qp_rate_limit(qp, &bad), EINVAL) << wrong;
    }
}

TEST_F(ProviderOptions, NoConnectionOptionsAndNoPromiseOfOrder) {
    open_ex(0);
    struct ibv_ece ece {
        1, 2, 3
    };
    EXPECT_EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    ece = {0x2c9, 1, 0};
    EXPECT_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
}

TEST_F(ProviderOptions, WhatAReadBringsCannotGoInline) {
    open_ex(0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    struct ibv_qp_init_attr_ex attr {};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {8, 4, 2, 2, 64};
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE;
    qp = ibv_create_qp_ex(context, &attr);
    ASSERT_NE(qp, nullptr);
    to_state(IBV_QPS_RTS);
    struct ibv_qp_ex* post = ibv_qp_to_qp_ex(qp);
    char byte = 1;
    ibv_wr_start(post);
    ibv_wr_rdma_read(post, 1, 2);
    ibv_wr_set_inline_data(post, &byte, 1);
    EXPECT_EQ(ibv_wr_complete(post), EINVAL);
    EXPECT_FALSE(daemon.doorbell_rang(daemon.qp()));
    ibv_wr_start(post);
    ibv_wr_rdma_write(post, 1, 2);
    ibv_wr_set_inline_data(post, &byte, 1);
    EXPECT_EQ(ibv_wr_complete(post), 0);
}

}  // namespace
}  // namespace urnic::test
