// Limits of connections, turns and objects: who reaches one is told, and the others have their own.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <semaphore>
#include <vector>

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

class FewConnections : public ControlTest {
  protected:
    FewConnections()
        : ControlTest({.max_connections = 6, .max_connections_per_uid = 4, .requests_per_turn = 2}) {}
};

TEST_F(FewConnections, OneMoreIsToldWhy) {
    std::vector<TestClient> clients;
    clients.reserve(4);
    for (int i = 0; i < 4; ++i) {
        clients.push_back(client());
    }
    const TestClient refused = connect();
    const Answer answer = refused.receive();
    EXPECT_EQ(answer.error(), EUSERS);
    EXPECT_TRUE(refused.receive().closed);
    clients.pop_back();
    wait_for_connections(3);
    EXPECT_EQ(connect().hello().error(), 0);
}

TEST_F(FewConnections, AQueueOfRequestsIsServedInTurns) {
    constexpr int kQueued = 60;
    TestClient holder = client();
    TestClient greedy = client();
    TestClient modest = client();
    const auto request_of = [](TestClient& client) {
        const std::uint32_t context = client.open();
        abi::CreateQpRequest request = qp_request(client.pd(context), client.cq(context));
        request.header = {abi::kControlMagic, Op::kCreateQp, 1, sizeof request};
        return request;
    };
    const auto holders = request_of(holder);
    const auto greedys = request_of(greedy);
    const auto modests = request_of(modest);
    // Two requests a turn. The server is held up in a request until both others have queued theirs.
    std::binary_semaphore held{0};
    std::binary_semaphore go_on{0};
    std::vector<std::uint32_t> served;  // PDs, which tell the clients
    const std::function<void(const QpConfig&)> note = [&](const QpConfig& qp) {
        if (served.empty()) {
            held.release();
            go_on.acquire();
        }
        served.push_back(qp.pd);
    };
    make_qp_hook = &note;
    ASSERT_TRUE(holder.send(&holders, sizeof holders));
    held.acquire();
    for (int i = 0; i < kQueued; ++i) {
        ASSERT_TRUE(greedy.send(&greedys, sizeof greedys));
    }
    ASSERT_TRUE(modest.send(&modests, sizeof modests));
    go_on.release();
    EXPECT_EQ(modest.receive().error(), 0);
    for (int i = 0; i < kQueued; ++i) {
        ASSERT_EQ(greedy.receive().error(), 0);
    }
    make_qp_hook = nullptr;
    ASSERT_EQ(served.size(), kQueued + 2U);
    constexpr std::uint32_t kModestsPd = 3;  // they are numbered in the order in which they were made
    const auto place = std::find(served.begin(), served.end(), kModestsPd);
    EXPECT_LE(place - served.begin(), 3) << "the request of one client waited for all those of another";
}

class FewNumbers : public ControlTest {
  protected:
    FewNumbers() : ControlTest({.last_id = 4}) {}
};

// A connection that were given the number of another would end without an answer, and the server use what is
// left of it.
TEST_F(FewNumbers, OfConnectionsThatStayAreLeftOut) {
    TestClient first = client();
    const std::uint32_t context = first.open();
    for (int i = 0; i < 10; ++i) {
        TestClient next = client();
        (void)next.open();
        next.close();
        wait_for_connections(1);
    }
    (void)first.cq(context);
}

class SmallLimits : public ControlTest {
  protected:
    SmallLimits()
        : ControlTest({}, {.max_qps = 2,
                           .max_cqs = 2,
                           .max_mrs = 2,
                           .max_pds = 2,
                           .max_ahs = 2,
                           .max_mws = 2,
                           .max_dms = 2,
                           .max_contexts = 2,
                           .max_channels = 2,
                           .max_registered_bytes = 10000,
                           .max_ring_bytes = 1 << 20,
                           .max_device_memory_bytes = 12288}) {}
};

TEST_F(SmallLimits, TheDeviceReportsNoMoreThanAClientGets) {
    const TestClient greedy = client();
    abi::OpenDeviceRequest request{};
    std::strncpy(request.name, "urnic0", sizeof request.name - 1);
    const auto opened = greedy.ask(Op::kOpenDevice, request).as<abi::OpenDeviceReply>();
    const abi::DeviceCaps& caps = opened.caps;
    for (const std::uint32_t most : {caps.max_qp, caps.max_cq, caps.max_mr, caps.max_pd, caps.max_ah}) {
        EXPECT_EQ(most, 2U);
    }
    EXPECT_EQ(caps.max_mr_size, 10000U);
    EXPECT_EQ(caps.max_res_rd_atom, 2 * caps.max_qp_rd_atom);
    // The largest queues that are reported fit into the ring memory, and are made.
    const std::uint32_t pd = greedy.pd(opened.context);
    abi::CreateCqRequest cq{};
    cq.context = opened.context;
    cq.entries = caps.max_cqe;
    const Answer largest = greedy.ask(Op::kCreateCq, cq);
    ASSERT_EQ(largest.error(), 0) << caps.max_cqe;
    EXPECT_EQ(greedy.on_handle(Op::kDestroyCq, largest.as<abi::CreateCqReply>().handle), 0);
    cq.entries = 2 * caps.max_cqe + 2;
    EXPECT_EQ(greedy.ask(Op::kCreateCq, cq).error(), ENOMEM) << "and none of twice the size is";
    abi::CreateQpRequest qp = qp_request(pd, greedy.cq(opened.context, 1));
    qp.max_send_wr = qp.max_recv_wr = caps.max_qp_wr;
    qp.max_send_sge = qp.max_recv_sge = caps.max_sge;
    qp.max_inline = caps.max_inline;
    EXPECT_EQ(greedy.ask(Op::kCreateQp, qp).error(), 0) << caps.max_qp_wr;
}

TEST_F(SmallLimits, EachIsEnomemAndOthersHaveTheirOwn) {
    TestClient greedy = client();
    const std::uint32_t context = greedy.open();
    abi::OpenDeviceRequest open{};
    std::strncpy(open.name, "urnic1", sizeof open.name - 1);
    for (const int expected : {0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kOpenDevice, open).error(), expected);
    }
    const std::uint32_t pd = greedy.pd(context);
    (void)greedy.pd(context);
    abi::ContextRequest in_context{};
    in_context.context = context;
    EXPECT_EQ(greedy.ask(Op::kAllocPd, in_context).error(), ENOMEM);
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kCreateChannel, in_context).error(), expected);
    }
    const std::uint32_t cq = greedy.cq(context);
    abi::CreateCqRequest cq_request{};
    cq_request.context = context;
    cq_request.entries = 1 << 19;
    EXPECT_EQ(greedy.ask(Op::kCreateCq, cq_request).error(), ENOMEM) << "ring memory";
    (void)greedy.cq(context);
    cq_request.entries = 1;
    EXPECT_EQ(greedy.ask(Op::kCreateCq, cq_request).error(), ENOMEM);
    abi::CreateQpRequest large = qp_request(pd, cq);
    large.max_send_wr = 32768;
    EXPECT_EQ(greedy.ask(Op::kCreateQp, large).error(), ENOMEM) << "ring memory";
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kCreateQp, qp_request(pd, cq)).error(), expected);
    }
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kCreateAh, ah_request(pd)).error(), expected);
    }
    abi::RegMrRequest mr{};
    mr.pd = pd;
    mr.addr = 4096;
    mr.length = 10001;
    EXPECT_EQ(greedy.ask(Op::kRegMr, mr).error(), ENOMEM) << "registered bytes";
    mr.length = 100;
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kRegMr, mr).error(), expected);
    }
    abi::AllocMwRequest mw{};
    mw.pd = pd;
    mw.type = 2;
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kAllocMw, mw).error(), expected);
    }
    abi::AllocDmRequest dm{};
    dm.context = context;
    dm.length = 12289;
    EXPECT_EQ(greedy.ask(Op::kAllocDm, dm).error(), ENOMEM) << "bytes";
    dm.length = 1;
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kAllocDm, dm).error(), expected);
    }
    TestClient other = client();
    const std::uint32_t other_context = other.open();
    (void)other.qp(other.pd(other_context), other.cq(other_context));
}

}  // namespace
}  // namespace urnic::daemon
