// The control thread without memory: at each allocation of each request in turn, the one who asked gets
// ENOMEM, nothing of the request is left, and what ends needs no memory to do so.
#include <fcntl.h>
#include <poll.h>

#include <functional>

#include "tests/support/allocation_hook.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

thread_local bool is_the_test = false;
std::atomic<long> allocations_left{0};
std::atomic<bool> ran_out{false};

/// Memory that ends after some allocations of the server's thread, and is there again when this goes.
class MemoryFor {
  public:
    explicit MemoryFor(long allocations) {
        is_the_test = true;
        allocations_left = allocations;
        ran_out = false;
        allocation_fails = [] {
            const bool fails = !is_the_test && allocations_left.fetch_sub(1) <= 0;
            ran_out = ran_out || fails;
            return fails;
        };
    }
    ~MemoryFor() { allocation_fails = nullptr; }
    MemoryFor(const MemoryFor&) = delete;
    MemoryFor& operator=(const MemoryFor&) = delete;
};

// Room for the rings of what the tests make (a CQ before and after its resize, a QP, an SRQ while it is
// resized) and for nothing more: a piece that a failed request keeps is missed.
constexpr std::uint64_t kRingBytes = 8192 + 12288 + 2 * 4096 + 2 * 4096;

class WithoutMemory : public ControlTest {
  protected:
    WithoutMemory() : ControlTest({}, {.max_ring_bytes = kRingBytes}) {}

    /// Asks with memory for 0, 1, 2... allocations until the answer is not ENOMEM any more. Gives that
    /// answer.
    static Answer ask_until_it_fits(const char* what, const std::function<Answer()>& ask) {
        for (long allocations = 0; allocations < 500; ++allocations) {
            Answer answer;
            {
                const MemoryFor some(allocations);
                answer = ask();
            }
            if (answer.closed || answer.error() != ENOMEM) {
                EXPECT_FALSE(answer.closed) << what << " with memory for " << allocations << " allocations";
                EXPECT_EQ(answer.error(), 0) << what;
                EXPECT_GT(allocations, 0) << what << " needs no memory: this tests nothing";
                EXPECT_FALSE(ran_out) << what << " succeeded although memory had run out";
                return answer;
            }
        }
        ADD_FAILURE() << what << " never succeeds: something of the failed requests was kept";
        return {};
    }
    template <typename T>
    static Answer ask_until_it_fits(const char* what, const TestClient& client, Op op, const T& request) {
        return ask_until_it_fits(what, [&] { return client.ask(op, request); });
    }
    void make_srq_and_xrc(const TestClient& client, std::uint32_t context, std::uint32_t pd,
                          std::uint32_t cq) const;
    /// Windows, null regions, device memory and imports; `token` is the context's command fd.
    void memory_objects(const TestClient& client, std::uint32_t context, std::uint32_t pd, int token) const {
        abi::AllocMwRequest mw{};
        mw.pd = pd;
        mw.type = 2;
        (void)ask_until_it_fits("AllocMw", client, Op::kAllocMw, mw);
        EXPECT_EQ(control.devices[0]->num_mws, 1U);
        abi::HandleRequest null_mr{};
        null_mr.handle = pd;
        (void)ask_until_it_fits("AllocNullMr", client, Op::kAllocNullMr, null_mr);
        abi::AllocDmRequest dm{};
        dm.context = context;
        dm.length = 4096;
        abi::RegDmMrRequest dm_mr{};
        dm_mr.pd = pd;
        dm_mr.dm = ask_until_it_fits("AllocDm", client, Op::kAllocDm, dm).as<abi::DmReply>().handle;
        dm_mr.access = kAccessZeroBased;
        dm_mr.length = 4096;
        EXPECT_EQ(control.devices[0]->num_dms, 1U);
        (void)ask_until_it_fits("RegDmMr", client, Op::kRegDmMr, dm_mr);
        EXPECT_EQ(control.devices[0]->num_mrs, 3U);
        const auto imported = ask_until_it_fits("ImportDevice", [&] {
                                  return client.ask(Op::kImportDevice, abi::ImportDeviceRequest{}, {token});
                              }).as<abi::ImportDeviceReply>();
        abi::ImportRequest import{};
        import.into = imported.context;
        import.handle = pd;
        (void)ask_until_it_fits("ImportPd", client, Op::kImportPd, import);
        import.handle = dm_mr.dm;
        (void)ask_until_it_fits("ImportDm", client, Op::kImportDm, import);
    }
};

void WithoutMemory::make_srq_and_xrc(const TestClient& client, std::uint32_t context, std::uint32_t pd,
                                     std::uint32_t cq) const {
    const UniqueFd file = make_memory_file(0, 1);
    abi::OpenXrcdRequest open{};
    open.context = context;
    open.flags = abi::kXrcdCreate;
    const auto xrcd = ask_until_it_fits("OpenXrcdOfFile",
                                        [&] { return client.ask(Op::kOpenXrcdOfFile, open, {file.get()}); })
                          .as<abi::HandleReply>()
                          .handle;
    EXPECT_EQ(control.devices[0]->xrc_domains.size(), 1U);
    abi::CreateSrqRequest srq{};
    srq.pd = pd;
    srq.xrcd = xrcd;
    srq.cq = cq;
    srq.max_wr = 16;
    srq.max_sge = 1;
    const auto made = ask_until_it_fits("CreateSrq", client, Op::kCreateSrq, srq).as<abi::SrqReply>();
    EXPECT_EQ(control.devices[0]->num_srqs, 1U);
    abi::ModifySrqRequest resize{};
    resize.srq = made.handle;
    resize.mask = kSrqMaxWr;
    resize.max_wr = 32;
    (void)ask_until_it_fits("ModifySrq", client, Op::kModifySrq, resize);
    const std::uint32_t qps_before = control.devices[0]->num_qps;
    abi::CreateQpRequest target{};
    target.type = static_cast<std::uint8_t>(QpType::kXrcRecv);
    target.xrcd = xrcd;
    const auto qp = ask_until_it_fits("CreateQp of an XRC target", client, Op::kCreateQp, target)
                        .as<abi::CreateQpReply>();
    EXPECT_EQ(control.devices[0]->num_qps, qps_before + 1);
    abi::OpenQpRequest again{};
    again.xrcd = xrcd;
    again.qp_num = qp.qp_num;
    const auto opened = ask_until_it_fits("OpenQp", client, Op::kOpenQp, again).as<abi::CreateQpReply>();
    const MemoryFor nothing(0);
    EXPECT_EQ(client.on_handle(Op::kDestroyQp, qp.handle), 0);
    EXPECT_EQ(client.on_handle(Op::kDestroyQp, opened.handle), 0);
    EXPECT_EQ(client.on_handle(Op::kDestroySrq, made.handle), 0);
    EXPECT_EQ(client.on_handle(Op::kCloseXrcd, xrcd), 0);
    EXPECT_FALSE(ran_out) << "an allocation was tried";
}

TEST_F(WithoutMemory, EachRequestIsEnomemAndLeavesNothing) {
    TestClient bystander = client();
    const std::uint32_t his_pd = bystander.pd(bystander.open());
    {
        const TestClient client = connect();
        wait_for_connections(2);
        abi::HelloRequest hello{};
        hello.abi_version = abi::kAbiVersion;
        std::memcpy(hello.program, "a name that is longer than most", 31);
        (void)ask_until_it_fits("Hello", client, Op::kHello, hello);

        abi::OpenDeviceRequest open{};
        std::memcpy(open.name, "urnic0", 6);
        const Answer opened = ask_until_it_fits("OpenDevice", client, Op::kOpenDevice, open);
        const auto context = opened.as<abi::OpenDeviceReply>().context;
        abi::ContextRequest in_context{};
        in_context.context = context;
        const auto pd =
            ask_until_it_fits("AllocPd", client, Op::kAllocPd, in_context).as<abi::HandleReply>().handle;
        EXPECT_EQ(control.devices[0]->num_pds, 2U);
        const auto channel = ask_until_it_fits("CreateChannel", client, Op::kCreateChannel, in_context)
                                 .as<abi::HandleReply>()
                                 .handle;
        abi::CreateCqRequest cq{};
        cq.context = context;
        cq.entries = 16;
        cq.channel = channel;
        const auto cq_handle =
            ask_until_it_fits("CreateCq", client, Op::kCreateCq, cq).as<abi::CreateCqReply>().handle;
        abi::ResizeCqRequest resize{};
        resize.cq = cq_handle;
        resize.entries = 32;
        (void)ask_until_it_fits("ResizeCq", client, Op::kResizeCq, resize);
        const auto qp = ask_until_it_fits("CreateQp", client, Op::kCreateQp, qp_request(pd, cq_handle))
                            .as<abi::CreateQpReply>();
        EXPECT_EQ(qp.doorbell_slot, 0U) << "failed requests keep doorbell slots";
        EXPECT_EQ(control.worker_qps[qp.worker], 1U);

        abi::CreateQpRequest datagrams = qp_request(pd, cq_handle);
        datagrams.type = static_cast<std::uint8_t>(QpType::kUd);
        abi::McastRequest join{};
        join.qp = client.ask(Op::kCreateQp, datagrams).as<abi::CreateQpReply>().handle;
        join.gid[0] = 0xff;
        (void)ask_until_it_fits("AttachMcast", client, Op::kAttachMcast, join);
        EXPECT_EQ(control.devices[0]->groups.num_memberships(), 1U);

        make_srq_and_xrc(client, context, pd, cq_handle);
        const UniqueFd file = make_memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
        EXPECT_EQ(client.ask(Op::kAttachMemory, abi::AttachMemoryRequest{}, {file.get()}).error(), 0);
        abi::RegMrRequest mr{};
        mr.pd = pd;
        mr.addr = 1ULL << 40U;
        mr.length = 4096;
        mr.flags = abi::kRegMrConverted;
        const auto handle = ask_until_it_fits("RegMr", client, Op::kRegMr, mr).as<abi::RegMrReply>().handle;
        EXPECT_EQ(control.devices[0]->num_mrs, 1U);
        memory_objects(client, context, pd, opened.fds.at(1).get());
        (void)ask_until_it_fits("Status", client, Op::kStatus, abi::StatusRequest{});

        const MemoryFor nothing(0);
        EXPECT_EQ(client.ask(Op::kDetachMcast, join).error(), 0);
        EXPECT_EQ(client.on_handle(Op::kDeregMr, handle), 0) << "giving back needs no memory";
        EXPECT_EQ(bystander.on_handle(Op::kDeallocPd, his_pd), 0) << "nor does it for others";
        EXPECT_FALSE(ran_out) << "an allocation was tried";
    }
    wait_for_connections(1);
    bystander.close();
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(WithoutMemory, WhatADeadClientOwnedGoesWithoutMemory) {
    TestClient doomed = client();
    const std::uint32_t context = doomed.open();
    const std::uint32_t pd = doomed.pd(context);
    const std::uint32_t cq = doomed.cq(context);
    doomed.attach_memory();
    abi::CreateQpRequest datagrams = qp_request(pd, cq);
    datagrams.type = static_cast<std::uint8_t>(QpType::kUd);
    abi::McastRequest join{};
    join.gid[0] = 0xff;
    for (int i = 0; i < 4; ++i) {
        join.qp = doomed.ask(Op::kCreateQp, datagrams).as<abi::CreateQpReply>().handle;
        join.gid[1] = static_cast<std::uint8_t>(i / 2);
        EXPECT_EQ(doomed.ask(Op::kAttachMcast, join).error(), 0);
        abi::RegMrRequest mr{};
        mr.pd = pd;
        mr.addr = 1ULL << 40U;
        mr.length = 4096;
        mr.flags = abi::kRegMrConverted;
        EXPECT_EQ(doomed.ask(Op::kRegMr, mr).error(), 0);
    }
    {
        const MemoryFor nothing(0);
        doomed.close();
        wait_for_connections(0);
        EXPECT_FALSE(ran_out) << "an allocation was tried";
    }
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(WithoutMemory, ANewConnectionIsToldWhy) {
    const TestClient bystander = client();
    for (long allocations = 0;; ++allocations) {
        ASSERT_LT(allocations, 100);
        const MemoryFor some(allocations);
        const TestClient fresh = connect();
        pollfd refused{fresh.socket(), POLLIN, 0};
        while (connections() != 2 && ::poll(&refused, 1, 1) == 0) {
        }
        EXPECT_EQ(bystander.on_handle(Op::kDestroyQp, 1), ENOENT) << "who is there continues";
        if (connections() == 2) {
            EXPECT_GT(allocations, 0);
            break;
        }
        EXPECT_EQ(fresh.receive().error(), ENOMEM);
        EXPECT_TRUE(fresh.receive().closed);
    }
}

}  // namespace
}  // namespace urnic::daemon
