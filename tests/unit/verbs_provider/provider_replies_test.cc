// A daemon whose replies do not hold together: what they name is not used, is given back, and the caller is
// told.
#include <unistd.h>

#include <functional>
#include <limits>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

class Replies : public Provider {
  protected:
    struct ibv_srq* make_srq() const {
        struct ibv_srq_init_attr init {};
        init.attr.max_wr = 16;
        init.attr.max_sge = 1;
        errno = 0;
        return ibv_create_srq(pd, &init);
    }
    static int post(struct ibv_srq* srq) {
        struct ibv_recv_wr wr {};
        struct ibv_recv_wr* bad = nullptr;
        return ibv_post_srq_recv(srq, &wr, &bad);
    }
};

using Spoil = std::function<void(abi::SrqReply&)>;
const Spoil kSpoiled[] = {
    [](abi::SrqReply& r) { r.entries = 0; },
    [](abi::SrqReply& r) { r.entries = 15; },
    [](abi::SrqReply& r) { r.stride = sizeof(abi::RecvWqe) - 1; },
    [](abi::SrqReply& r) { r.stride = abi::recv_stride(FakeDaemon::kMaxSge) - 1; },
    [](abi::SrqReply& r) { r.max_sge = abi::kMaxSge + 1; },
    [](abi::SrqReply& r) { r.memory_bytes = abi::srq_bytes(r.entries, r.stride) - 1; },
    [](abi::SrqReply& r) { r.entries *= 128; },
    [](abi::SrqReply& r) { r.memory_bytes += 4096; },
    [](abi::SrqReply& r) { r.memory_offset = ~std::uint64_t{4095}; },
};

TEST_F(Replies, AnSrqThatCannotBeSoIsGivenBack) {
    open();
    for (const Spoil& spoil : kSpoiled) {
        SCOPED_TRACE(&spoil - kSpoiled);
        daemon.spoil_srq = spoil;
        EXPECT_EQ(make_srq(), nullptr);
        EXPECT_EQ(errno, EPROTO);
        EXPECT_EQ(daemon.object_count(), 0U) << "the daemon was not told";
    }
}

TEST_F(Replies, AnSrqThatCannotBecomeSoStaysAsItWas) {
    open();
    struct ibv_srq* srq = make_srq();
    ASSERT_NE(srq, nullptr);
    for (const Spoil& spoil : kSpoiled) {
        SCOPED_TRACE(&spoil - kSpoiled);
        daemon.spoil_srq = spoil;
        struct ibv_srq_attr attr {};
        attr.max_wr = 32;
        EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EPROTO);
    }
    for (int i = 0; i < 16; ++i) EXPECT_EQ(post(srq), 0);
    EXPECT_EQ(post(srq), ENOMEM) << "16 are 16";
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Replies, DeviceMemoryThatIsNotThereIsGivenBack) {
    open();
    struct ibv_alloc_dm_attr attr {};
    attr.length = 5000;
    for (const std::uint64_t length :
         {std::uint64_t{8193}, std::numeric_limits<std::uint64_t>::max() - 4095}) {
        daemon.spoil_dm = [length](abi::DmReply& reply) { reply.length = length; };
        errno = 0;
        EXPECT_EQ(ibv_alloc_dm(context, &attr), nullptr);
        EXPECT_EQ(errno, EPROTO);
        EXPECT_EQ(daemon.object_count(), 0U) << "the daemon was not told";
    }
    daemon.spoil_dm = nullptr;
    struct ibv_dm* dm = ibv_alloc_dm(context, &attr);
    ASSERT_NE(dm, nullptr);
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(Replies, AnSrqSaysWhatItGot) {
    open();
    struct ibv_srq_init_attr init {};
    init.attr.max_wr = 5;
    init.attr.max_sge = 1;
    struct ibv_srq* srq = ibv_create_srq(pd, &init);
    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(init.attr.max_wr, 8U);
    EXPECT_EQ(init.attr.max_sge, FakeDaemon::kMaxSge);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// Nobody says any more how many events there were: all that name the SRQ go.
TEST_F(Replies, AnSrqOfADeadDaemonTakesItsEventsAlong) {
    open();
    struct ibv_srq* srq = make_srq();
    ASSERT_NE(srq, nullptr);
    for (int i = 0; i < 2; ++i) daemon.send_async(AsyncEventType::kSrqLimitReached, daemon.srq().user_handle);
    ASSERT_TRUE(wait_readable(context->async_fd));
    daemon.die();
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    ASSERT_TRUE(wait_readable(context->async_fd));
    struct ibv_async_event event {};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    ASSERT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
}

TEST_F(Replies, AnImportThatCannotBeSoIsGivenBack) {
    open();
    const auto refused = [&](const char* name, bool with_socket, int expected) {
        daemon.imported_name = name;
        daemon.imports_with_event_socket = with_socket;
        const int before = daemon.contexts_closed;
        errno = 0;
        EXPECT_EQ(ibv_import_device(dup(context->cmd_fd)), nullptr);
        EXPECT_EQ(errno, expected);
        EXPECT_EQ(daemon.contexts_closed - before, 1) << "the daemon was not told";
    };
    refused("no such device", true, ENODEV);
    refused(ibv_get_device_name(context->device), false, EPROTO);
    close_all();
    for (int i = 0; i < 3000 && daemon.clients != 0; ++i) usleep(10'000);
    EXPECT_EQ(daemon.clients, 0) << "a connection is held for nobody";
}

TEST_F(Replies, AnImportedPdIsGivenBackWithItsLastUser) {
    open();
    cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    struct ibv_pd* imported = ibv_import_pd(context, 5);
    ASSERT_NE(imported, nullptr) << std::strerror(errno);
    qp = ibv_create_qp(imported, &init_attr(4));
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    ibv_unimport_pd(imported);
    EXPECT_EQ(daemon.pds_ended, 0) << "the QP has it still";
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qp = nullptr;
    EXPECT_EQ(daemon.pds_ended, 1);
    imported = ibv_import_pd(context, 5);
    ASSERT_NE(imported, nullptr);
    ibv_unimport_pd(imported);
    EXPECT_EQ(daemon.pds_ended, 2);
}

}  // namespace
}  // namespace urnic::test
