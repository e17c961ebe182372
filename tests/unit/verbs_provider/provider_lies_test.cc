// A daemon that lies: no reply, completion or event of it makes the provider, libibverbs or the application
// touch what is not theirs, or wait without end.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

class Lies : public Provider {
  protected:
    /// The next reply to `op` is changed so.
    void spoil(abi::Op op, std::function<void(FakeDaemon::Sent&)> change) {
        daemon.spoil = [op, change](abi::Op of, FakeDaemon::Sent& sent) {
            if (of == op) {
                change(sent);
            }
        };
    }
    template <class Reply>
    void spoil_body(abi::Op op, std::function<void(Reply&)> change) {
        spoil(op, [change](FakeDaemon::Sent& sent) { change(*reinterpret_cast<Reply*>(sent.data)); });
    }
    struct ibv_qp* make_qp() {
        errno = 0;
        return ibv_create_qp(pd, &init_attr(4));
    }
    void get_async_event(enum ibv_event_type type) const {
        ASSERT_TRUE(wait_readable(context->async_fd));
        struct ibv_async_event event {};
        ASSERT_EQ(ibv_get_async_event(context, &event), 0);
        EXPECT_EQ(event.event_type, type);
        ibv_ack_async_event(&event);
    }
};

TEST_F(Lies, AQpThatCannotBeSoIsGivenBack) {
    open();
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    using Reply = abi::CreateQpReply;
    const std::function<void(Reply&)> kSpoiled[] = {
        [](Reply& r) { r.sq_entries = 3; },
        [](Reply& r) { r.sq_entries = abi::kMaxQueueEntries * 2; },
        [](Reply& r) { r.sq_stride -= 1; },
        [](Reply& r) { r.max_send_sge = abi::kMaxSge; },
        [](Reply& r) { r.max_send_sge = ~0U; },
        [](Reply& r) { r.max_inline = abi::kMaxInlineBytes; },
        [](Reply& r) { r.rq_stride -= 1; },
        [](Reply& r) { r.max_recv_sge = abi::kMaxSge; },
        [](Reply& r) { r.rq_offset = ~std::uint64_t{0} - 15; },
        [](Reply& r) { r.rq_offset += 8; },
        [](Reply& r) { r.rq_offset = 0; },
        [](Reply& r) { r.memory_bytes = r.rq_offset; },
        [](Reply& r) { r.memory_bytes += 1U << 20U; },
        [](Reply& r) { r.memory_offset = ~std::uint64_t{4095}; },
        [](Reply& r) { r.worker = FakeDaemon::kWorkers; },
        [](Reply& r) { r.doorbell_slot = abi::kDoorbellSlots; },
        [](Reply& r) { r.qp_num = 0; },
        [](Reply& r) { r.qp_num = 1U << 24U; },
    };
    for (const auto& spoil_reply : kSpoiled) {
        SCOPED_TRACE(&spoil_reply - kSpoiled);
        spoil_body<Reply>(abi::Op::kCreateQp, spoil_reply);
        EXPECT_EQ(make_qp(), nullptr);
        EXPECT_EQ(errno, EPROTO);
        EXPECT_EQ(daemon.object_count(), 1U) << "the daemon was not told";
    }
}

TEST_F(Lies, TwoQpsHaveTwoNumbers) {
    open();
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    qp = make_qp();
    ASSERT_NE(qp, nullptr);
    const std::uint32_t number = qp->qp_num;
    spoil_body<abi::CreateQpReply>(abi::Op::kCreateQp,
                                   [number](abi::CreateQpReply& r) { r.qp_num = number; });
    EXPECT_EQ(make_qp(), nullptr);
    EXPECT_EQ(errno, EPROTO);
}

TEST_F(Lies, MemoryThatCouldGoAwayIsNotMapped) {
    open();
    for (const unsigned seals : {0U, unsigned{F_SEAL_GROW}}) {
        spoil(abi::Op::kCreateCq, [seals](FakeDaemon::Sent& sent) {
            const int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            ASSERT_EQ(ftruncate(fd, 1U << 20U), 0);
            ASSERT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
            sent.replace_fd(0, fd);
        });
        EXPECT_EQ(ibv_create_cq(context, 8, nullptr, nullptr, 0), nullptr);
        EXPECT_EQ(errno, EPROTO);
    }
    spoil(abi::Op::kCreateCq, [](FakeDaemon::Sent& sent) { sent.replace_fd(0, eventfd(0, EFD_CLOEXEC)); });
    EXPECT_EQ(ibv_create_cq(context, 8, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_EQ(daemon.object_count(), 0U);
}

TEST_F(Lies, AChannelIsASocket) {
    open();
    spoil(abi::Op::kCreateChannel, [](FakeDaemon::Sent& sent) {
        // Read as events it has no end.
        const int fd = memfd_create("large", MFD_CLOEXEC);
        ASSERT_EQ(ftruncate(fd, std::int64_t{1} << 42U), 0);
        sent.replace_fd(0, fd);
    });
    EXPECT_EQ(ibv_create_comp_channel(context), nullptr);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_EQ(daemon.object_count(), 0U);
}

TEST_F(Lies, ACqThatCannotBeSoIsGivenBack) {
    open();
    for (const std::uint32_t entries : {0U, 9U, abi::kMaxCqEntries * 2, 1U << 31U}) {
        spoil(abi::Op::kCreateCq, [entries](FakeDaemon::Sent& sent) {
            // There would be room for them.
            const int fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            ASSERT_EQ(ftruncate(fd, std::int64_t{1} << 42U), 0);
            ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
            sent.replace_fd(0, fd);
            reinterpret_cast<abi::CreateCqReply*>(sent.data)->entries = entries;
        });
        EXPECT_EQ(ibv_create_cq(context, 8, nullptr, nullptr, 0), nullptr);
        EXPECT_EQ(errno, EPROTO);
    }
    EXPECT_EQ(daemon.object_count(), 0U);
}

TEST_F(Lies, WhatIsNoReplyEndsTheConnection) {
    const std::function<void(FakeDaemon::Sent&)> kSpoiled[] = {
        [](FakeDaemon::Sent& s) { s.length = 4; },
        [](FakeDaemon::Sent& s) { s.length -= 1; },
        [](FakeDaemon::Sent& s) { s.length += 1; },
        [](FakeDaemon::Sent& s) { s.length = 0; },
        [](FakeDaemon::Sent& s) { s.header().magic ^= 1; },
        [](FakeDaemon::Sent& s) { s.header().op = abi::Op::kHello; },
        [](FakeDaemon::Sent& s) { s.header().cookie += 1; },
        [](FakeDaemon::Sent& s) { s.header().error = -EPERM; },
        [](FakeDaemon::Sent& s) { s.header().error = 4096; },
    };
    for (const auto& spoil_reply : kSpoiled) {
        SCOPED_TRACE(&spoil_reply - kSpoiled);
        open_with_qp();
        spoil(abi::Op::kAllocPd, spoil_reply);
        EXPECT_EQ(ibv_alloc_pd(context), nullptr);
        EXPECT_EQ(errno, EIO);
        daemon.spoil = nullptr;
        EXPECT_EQ(ibv_alloc_pd(context), nullptr) << "nothing is asked any more";
        get_async_event(IBV_EVENT_DEVICE_FATAL);
        ASSERT_EQ(post_receive(qp, 7), 0);
        EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{7}) << "flushed, as without a daemon";
        close_all();
    }
}

TEST_F(Lies, ACompletionOfAnotherCqsQpIsNobodys) {
    open_with_qp();
    struct ibv_cq* other = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ASSERT_NE(other, nullptr);
    std::swap(cq, other);
    struct ibv_qp* first = qp;
    qp = make_qp();
    ASSERT_NE(qp, nullptr);
    std::swap(cq, other);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(post_receive(first, 1), 0);
    ASSERT_EQ(post_receive(first, 1), ENOMEM);
    // The daemon's first CQ is `cq`; the QP that it names completes in the other.
    daemon.complete(completion(2, 0, true));
    EXPECT_TRUE(poll_ids().empty());
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = first;
    daemon.complete(completion(3, 0, true));
    EXPECT_EQ(poll_ids(), std::vector<std::uint64_t>{3});
    EXPECT_EQ(post_receive(qp, 1), 0) << "its own does complete";
    EXPECT_EQ(ibv_destroy_cq(other), 0);
}

// Else there would be four thousand million flushes.
TEST_F(Lies, NoMoreCompletesThanWasPosted) {
    open_with_qp();
    for (std::uint64_t id : {1, 2}) ASSERT_EQ(post_receive(qp, id), 0);
    daemon.complete(completion(9, 0x8000'0000, true));
    daemon.complete(completion(9, 1000, true));
    daemon.complete(completion(9, 3, true));
    EXPECT_EQ(poll_ids().size(), 3U);
    daemon.die();
    get_async_event(IBV_EVENT_DEVICE_FATAL);
    EXPECT_TRUE(poll_ids().empty()) << "the third was possible: all four slots";
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
}

TEST_F(Lies, EventsOfNobodyDoNotPass) {
    open_with_qp();
    struct ibv_cq* of = nullptr;
    void* with = nullptr;
    daemon.send_completion_event(0x10);
    daemon.send_completion_event(daemon.cq().user_handle + 8);
    daemon.send_completion_event(daemon.qp().user_handle);
    daemon.send_completion_event(daemon.cq().user_handle);
    ASSERT_EQ(ibv_get_cq_event(channel, &of, &with), 0);
    EXPECT_EQ(of, cq);
    ibv_ack_cq_events(cq, 1);
    daemon.send_async(AsyncEventType::kQpFatal, 0x10);
    daemon.send_async(AsyncEventType::kQpFatal, daemon.cq().user_handle);
    daemon.send_async(AsyncEventType::kCqErr, daemon.qp().user_handle);
    daemon.send_async(AsyncEventType::kSrqErr, daemon.qp().user_handle);
    daemon.send_async(static_cast<AsyncEventType>(19), daemon.qp().user_handle);  // IBV_EVENT_WQ_FATAL
    daemon.send_async(static_cast<AsyncEventType>(~0U), 0x10);
    daemon.send_async(AsyncEventType::kQpReqErr, daemon.qp().user_handle);
    get_async_event(IBV_EVENT_QP_REQ_ERR);
}

TEST_F(Lies, DestructionWaitsForWhatWasReportedAlone) {
    open_with_qp();
    const auto many = [](abi::DestroyReply& r) { r.async_events = r.completion_events = 1000; };
    spoil_body<abi::DestroyReply>(abi::Op::kDestroyQp, many);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    spoil_body<abi::DestroyReply>(abi::Op::kDestroyCq, many);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    qp = nullptr;
    cq = nullptr;
    struct ibv_srq_init_attr init {};
    init.attr.max_wr = 4;
    struct ibv_srq* srq = ibv_create_srq(pd, &init);
    ASSERT_NE(srq, nullptr);
    spoil_body<abi::DestroyReply>(abi::Op::kDestroySrq, many);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// What is being built stands where the daemon can write.
TEST_F(Lies, WhatStandsInTheRingIsNotReadBack) {
    open();
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    struct ibv_qp_init_attr_ex init {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 2, 2, 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    init.send_ops_flags = std::uint64_t{IBV_QP_EX_WITH_SEND} | IBV_QP_EX_WITH_BIND_MW;
    qp = ibv_create_qp_ex(context, &init);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    to_state(IBV_QPS_RTS);
    struct ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    ASSERT_NE(mw, nullptr);
    const std::uint32_t key = mw->rkey;
    struct ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    const struct ibv_mw_bind_info info {};
    std::byte* ring = daemon.qp().memory->data();
    ibv_wr_start(ex);
    ibv_wr_bind_mw(ex, mw, key + 1, &info);
    std::memset(ring, 0x41, 4 * std::size_t{192});
    ibv_wr_send(ex);
    reinterpret_cast<abi::SendWqe*>(ring + 192)->opcode = 200;
    ibv_wr_set_inline_data(ex, &init, 8);
    EXPECT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_EQ(mw->rkey & 0xffU, (key + 1) & 0xffU);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
}  // namespace urnic::test
