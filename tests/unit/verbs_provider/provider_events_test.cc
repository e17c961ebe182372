// The provider as programs use it, through the stock libibverbs: resize and reset, events, ends and
// beginnings.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {

namespace {

TEST_F(Provider, ResizeKeepsCompletionsInOrder) {
    open_with_qp();
    std::vector<std::uint64_t> expected;
    std::uint32_t next = 0;
    const auto complete = [&](int count) {
        for (int i = 0; i < count; ++i) {
            daemon.complete(completion(next, next, true));
            expected.push_back(next++);
        }
    };
    complete(3);
    ASSERT_EQ(ibv_resize_cq(cq, 16), 0);
    EXPECT_GE(cq->cqe, 16);
    complete(2);
    ASSERT_EQ(ibv_resize_cq(cq, 32), 0);  // the first three are copied now, the two wait in the rings before
    complete(4);
    ASSERT_EQ(ibv_resize_cq(cq, 64), 0);
    complete(20);
    EXPECT_EQ(poll_ids(), expected);
    EXPECT_EQ(ibv_resize_cq(cq, 0), EINVAL);
    EXPECT_EQ(ibv_resize_cq(cq, 1 << 20), EINVAL) << "beyond max_cqe";
}

TEST_F(Provider, CompletionsOfADestroyedQpVanish) {
    open_with_qp();
    daemon.complete(completion(1, 0, true));
    daemon.complete(completion(2, 1, true), 1);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_TRUE(poll_ids().empty());
}

TEST_F(Provider, ResetStartsTheRingsAgain) {
    open_with_qp();
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(post_one(qp, send_request(i, &sge)), 0);
    }
    daemon.complete(completion(1, 0));
    to_state(IBV_QPS_RESET);
    EXPECT_TRUE(poll_ids().empty()) << "completions from before the reset";
    to_state(IBV_QPS_RTS);
    ASSERT_EQ(post_one(qp, send_request(42, &sge)), 0);
    SendWork work;
    ASSERT_EQ(daemon.qp().sq.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr_id, 42U);
}

TEST_F(Provider, ReceivesPostedInErrorRingTheDoorbell) {
    open_with_qp();
    ASSERT_EQ(post_receive(qp, 1), 0);
    EXPECT_FALSE(daemon.doorbell_rang(daemon.qp()));
    Completion failed = completion(9, 0);
    failed.status = WcStatus::kRetryExcErr;
    daemon.complete(failed);
    struct ibv_wc wc {};
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_TRUE(daemon.doorbell_rang(daemon.qp())) << "a receive may have been posted after the flush";
    ASSERT_EQ(post_receive(qp, 2), 0);
    EXPECT_TRUE(daemon.doorbell_rang(daemon.qp()));
}

TEST_F(Provider, NotifiesThroughTheChannel) {
    open_with_qp();
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    daemon.complete(completion(1, 0, true));
    ASSERT_TRUE(daemon.notify());
    struct ibv_cq* told = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &told, &cq_context), 0);
    EXPECT_EQ(told, cq);
    ibv_ack_cq_events(cq, 1);
    daemon.complete(completion(2, 1, true));
    EXPECT_FALSE(daemon.notify()) << "not asked for again";
}

TEST_F(Provider, WhatAPollLeavesBehindInAnArmedCqGetsAnEvent) {
    open_with_qp();
    for (std::uint32_t i = 0; i < 4; ++i) {
        daemon.complete(completion(i + 1, i, true));
    }
    struct ibv_wc wc[2];
    ASSERT_EQ(ibv_poll_cq(cq, 1, wc), 1);
    EXPECT_FALSE(readable_now(channel->fd)) << "not armed";
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    EXPECT_FALSE(readable_now(channel->fd)) << "the application has not polled yet";
    ASSERT_EQ(ibv_poll_cq(cq, 1, wc), 1);
    ASSERT_TRUE(readable_now(channel->fd));
    ASSERT_EQ(ibv_poll_cq(cq, 1, wc), 1);
    struct ibv_cq* told = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &told, &cq_context), 0);
    EXPECT_EQ(told, cq);
    ibv_ack_cq_events(cq, 1);
    EXPECT_FALSE(readable_now(channel->fd)) << "asked for once";
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    EXPECT_EQ(ibv_poll_cq(cq, 2, wc), 1);
    EXPECT_FALSE(readable_now(channel->fd)) << "nothing is left";
    daemon.complete(completion(5, 4, true));
    EXPECT_TRUE(daemon.notify()) << "still armed";
}

TEST_F(Provider, WhatAnExtendedPollLeavesBehindGetsAnEvent) {
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
    struct ibv_poll_cq_attr none {};
    daemon.complete(completion(1, 0, true));
    daemon.complete(completion(2, 1, true));
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(ibv_start_poll(ex, &none), 0);
    EXPECT_FALSE(readable_now(channel->fd));
    ibv_end_poll(ex);
    EXPECT_TRUE(readable_now(channel->fd));
}

TEST_F(Provider, SolicitedOnlyIsLessThanAny) {
    open_with_qp();
    ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
    daemon.complete(completion(1, 0, true));
    EXPECT_FALSE(daemon.notify());
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);  // does not lower what is asked for
    daemon.complete(completion(2, 1, true));
    EXPECT_TRUE(daemon.notify());
}

TEST_F(Provider, UnreadCompletionEventsDoNotHoldUpDestruction) {
    open_with_qp();
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    daemon.complete(completion(1, 0, true));
    ASSERT_TRUE(daemon.notify());
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    cq = nullptr;
    EXPECT_FALSE(readable_now(channel->fd)) << "the channel still names the CQ that is gone";
}

TEST_F(Provider, ClosingAChannelEndsIt) {
    open();
    struct ibv_comp_channel* first = ibv_create_comp_channel(context);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(daemon.object_count(), 1U);
    EXPECT_EQ(ibv_destroy_comp_channel(first), 0);
    EXPECT_EQ(daemon.object_count(), 0U);
}

TEST_F(Provider, ForwardsAsyncEvents) {
    open_with_qp();
    daemon.send_async(AsyncEventType::kQpAccessErr, daemon.qp().user_handle);
    struct ibv_async_event event {};
    ASSERT_TRUE(wait_readable(context->async_fd));
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(event.element.qp, qp);
    ibv_ack_async_event(&event);
    daemon.send_async(AsyncEventType::kPortErr, 1);
    ASSERT_TRUE(wait_readable(context->async_fd));
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
}

TEST_F(Provider, UnreadAsyncEventsDoNotHoldUpDestruction) {
    open_with_qp();
    daemon.send_async(AsyncEventType::kQpFatal, daemon.qp().user_handle);
    daemon.send_async(AsyncEventType::kPortActive, 1);
    daemon.send_async(AsyncEventType::kCqErr, daemon.cq().user_handle);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    cq = nullptr;
    ASSERT_TRUE(wait_readable(context->async_fd));
    struct ibv_async_event event {};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE) << "only what is not of the destroyed objects is left";
    EXPECT_FALSE(readable_now(context->async_fd));
}

TEST_F(Provider, FlushesWhenTheDaemonDies) {
    open_with_qp();
    ASSERT_EQ(post_one(qp, send_request(1, &sge)), 0);
    ASSERT_EQ(post_one(qp, send_request(2, &sge)), 0);
    ASSERT_EQ(post_receive(qp, 3), 0);
    daemon.complete(completion(1, 0));
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    daemon.die();
    struct ibv_async_event event {};
    ASSERT_TRUE(wait_readable(context->async_fd));
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    struct ibv_cq* told = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &told, &cq_context), 0);
    EXPECT_EQ(told, cq);
    ibv_ack_cq_events(cq, 1);
    struct ibv_wc wc[8];
    ASSERT_EQ(ibv_poll_cq(cq, 8, wc), 3);
    EXPECT_EQ(wc[0].wr_id, 1U);
    EXPECT_EQ(wc[0].status, IBV_WC_SUCCESS) << "it had completed before";
    EXPECT_EQ(wc[1].wr_id, 2U);
    EXPECT_EQ(wc[1].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc[2].wr_id, 3U);
    EXPECT_EQ(wc[2].status, IBV_WC_WR_FLUSH_ERR);
    // Who continues posting and waiting is told too.
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    EXPECT_FALSE(readable_now(channel->fd));
    ASSERT_EQ(post_one(qp, send_request(4, &sge)), 0);
    EXPECT_TRUE(readable_now(channel->fd));
    EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{4});
    ASSERT_EQ(post_receive(qp, 5), 0);
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(ibv_get_cq_event(channel, &told, &cq_context), 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{5});
    struct ibv_qp_attr attr {};
    attr.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    EXPECT_EQ(ibv_alloc_pd(context), nullptr);
    EXPECT_EQ(errno, EIO);
    // TearDown destroys everything: none of it may fail or hang.
}

TEST_F(Provider, ANewDaemonServesNewContexts) {
    open_with_qp();
    daemon.die();
    struct ibv_async_event event {};
    ASSERT_TRUE(wait_readable(context->async_fd));
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    FakeDaemon second;
    struct ibv_context* fresh = open_device();
    ASSERT_NE(fresh, nullptr);
    struct ibv_pd* fresh_pd = ibv_alloc_pd(fresh);
    EXPECT_NE(fresh_pd, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(fresh_pd), 0);
    EXPECT_EQ(ibv_close_device(fresh), 0);
    close_all();
}

TEST_F(Provider, OneConnectionServesAllContexts) {
    open();
    struct ibv_context* other = open_device();
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(daemon.clients, 1);
    EXPECT_EQ(ibv_close_device(other), 0);
    EXPECT_NE(ibv_query_port(context, 1, std::make_unique<struct ibv_port_attr>().get()), EIO);
}

bool child_opens_device() {
#ifdef __SANITIZE_THREAD__
    return true;  // TSan cannot start a thread in the child of a threaded process; the other builds look
#else
    struct ibv_context* own = open_device();
    struct ibv_pd* pd = own != nullptr ? ibv_alloc_pd(own) : nullptr;
    return pd != nullptr && ibv_dealloc_pd(pd) == 0 && ibv_close_device(own) == 0;
#endif
}

TEST_F(Provider, AForkedChildStartsAnew) {
    open_with_qp();
    ASSERT_EQ(post_one(qp, send_request(1, &sge)), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        struct ibv_wc wc {};
        const bool parents = post_one(qp, send_request(2, &sge)) == EIO && ibv_poll_cq(cq, 1, &wc) < 0 &&
                             ibv_alloc_pd(context) == nullptr;
        const bool works = child_opens_device();
        const bool let_go =
            ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_close_device(context) == 0;
        _exit((parents ? 0 : 1) + (works ? 0 : 2) + (let_go ? 0 : 4));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    // The parent's objects have not noticed.
    EXPECT_FALSE(daemon.qp().sq.has(1));
    daemon.complete(completion(1, 0));
    EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{1});
}

TEST_F(Provider, ThreadDomains) {
    open();
    struct ibv_td_init_attr td_attr {};
    struct ibv_td* td = ibv_alloc_td(context, &td_attr);
    ASSERT_NE(td, nullptr);
    struct ibv_parent_domain_init_attr attr {};
    attr.pd = pd;
    attr.td = td;
    struct ibv_pd* parent = ibv_alloc_parent_domain(context, &attr);
    ASSERT_NE(parent, nullptr);
    EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    qp = ibv_create_qp(parent, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
    to_state(IBV_QPS_RTS);
    EXPECT_EQ(post_one(qp, send_request(1, &sge)), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), EBUSY) << "a QP uses it";
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(Provider, DaemonErrorsReachTheCaller) {
    open();
    daemon.next_error = ENOMEM;
    EXPECT_EQ(ibv_create_cq(context, 8, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    daemon.next_error = EMFILE;
    EXPECT_EQ(ibv_create_qp(pd, &init_attr(4)), nullptr);
    EXPECT_EQ(errno, EMFILE);
    daemon.next_error = EMFILE;
    EXPECT_EQ(ibv_create_comp_channel(context), nullptr);
    EXPECT_EQ(errno, EMFILE);
    qp = ibv_create_qp(pd, &init_attr(4));
    ASSERT_NE(qp, nullptr);
    struct ibv_qp_attr attr {};
    daemon.next_error = EINVAL;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
}

}  // namespace

}  // namespace urnic::test
