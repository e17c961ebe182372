// Shared receive queues, XRC domains and target QPs on the control socket.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

abi::CreateSrqRequest srq_request(std::uint32_t pd, std::uint32_t max_wr = 10) {
    abi::CreateSrqRequest request{};
    request.pd = pd;
    request.max_wr = max_wr;
    request.max_sge = 2;
    return request;
}

class ControlSrq : public ControlTest {
  protected:
    ControlSrq()
        : client_(client()), context_(client_.open()), pd_(client_.pd(context_)), cq_(client_.cq(context_)) {}

    abi::SrqReply create(const abi::CreateSrqRequest& request) const {
        const Answer answer = client_.ask(Op::kCreateSrq, request);
        EXPECT_EQ(answer.error(), 0);
        EXPECT_EQ(answer.fds.size(), 1U);
        return answer.as<abi::SrqReply>();
    }
    [[nodiscard]] int error_of(const abi::CreateSrqRequest& request) const {
        return client_.ask(Op::kCreateSrq, request).error();
    }
    [[nodiscard]] Answer modify(std::uint32_t srq, std::uint32_t mask, std::uint32_t max_wr,
                                std::uint32_t limit) const {
        abi::ModifySrqRequest request{};
        request.srq = srq;
        request.mask = mask;
        request.max_wr = max_wr;
        request.limit = limit;
        return client_.ask(Op::kModifySrq, request);
    }
    static Answer open_xrcd(const TestClient& client, std::uint32_t context, std::uint32_t flags,
                            int fd = -1) {
        abi::OpenXrcdRequest request{};
        request.context = context;
        request.flags = flags;
        return fd < 0 ? client.ask(Op::kOpenXrcd, request) : client.ask(Op::kOpenXrcdOfFile, request, {fd});
    }
    static std::uint32_t xrcd(const TestClient& client, std::uint32_t context, int fd = -1) {
        const Answer answer = open_xrcd(client, context, abi::kXrcdCreate, fd);
        EXPECT_EQ(answer.error(), 0);
        return answer.as<abi::HandleReply>().handle;
    }
    static Answer target(const TestClient& client, std::uint32_t xrcd) {
        abi::CreateQpRequest request{};
        request.type = static_cast<std::uint8_t>(QpType::kXrcRecv);
        request.xrcd = xrcd;
        return client.ask(Op::kCreateQp, request);
    }
    static Answer open_qp(const TestClient& client, std::uint32_t xrcd, std::uint32_t qp_num) {
        abi::OpenQpRequest request{};
        request.xrcd = xrcd;
        request.qp_num = qp_num;
        return client.ask(Op::kOpenQp, request);
    }
    static UniqueFd file() { return UniqueFd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)); }
    [[nodiscard]] RnicState& device() { return *control.devices[0]; }

    TestClient client_;
    std::uint32_t context_;
    std::uint32_t pd_;
    std::uint32_t cq_;
};

TEST_F(ControlSrq, LivesAndIsQueriedAndEnds) {
    const abi::SrqReply srq = create(srq_request(pd_));
    EXPECT_EQ(srq.entries, 16U);
    EXPECT_EQ(srq.max_sge, 2U);
    EXPECT_GE(srq.memory_bytes, abi::srq_bytes(srq.entries, srq.stride));
    EXPECT_NE(srq.srq_number, 0U);
    EXPECT_EQ(device().num_srqs, 1U);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), EBUSY);
    EXPECT_EQ(modify(srq.handle, kSrqLimit, 0, 5).error(), 0);
    abi::HandleRequest query{};
    query.handle = srq.handle;
    EXPECT_EQ(client_.ask(Op::kQuerySrq, query).as<abi::SrqReply>().limit, 5U);
    EXPECT_EQ(client_.on_handle(Op::kDestroySrq, srq.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kQuerySrq, srq.handle), ENOENT);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), 0);
    EXPECT_EQ(device().num_srqs, 0U);
}

TEST_F(ControlSrq, WhatIsOutOfRangeOrNotTheirsIsRefused) {
    TestClient other = client();
    const std::uint32_t foreign_pd = other.pd(other.open());
    (void)other.pd(foreign_pd);
    abi::CreateSrqRequest request = srq_request(99);
    EXPECT_EQ(error_of(request), ENOENT);
    for (const std::uint32_t max_wr : {0U, abi::kMaxQueueEntries + 1, ~0U}) {
        EXPECT_EQ(error_of(srq_request(pd_, max_wr)), EINVAL) << max_wr;
    }
    request = srq_request(pd_);
    request.max_sge = abi::kMaxSge + 1;
    EXPECT_EQ(error_of(request), EINVAL);
    request = srq_request(pd_);
    request.cq = cq_;
    EXPECT_EQ(error_of(request), EINVAL) << "a CQ and no domain";
    request.cq = 0;
    request.xrcd = xrcd(client_, context_);
    EXPECT_EQ(error_of(request), EINVAL) << "a domain and no CQ";
    const std::uint32_t second = client_.open();
    request.cq = client_.cq(second);
    EXPECT_EQ(error_of(request), EINVAL) << "a CQ of another context";
    request.cq = cq_;
    request.xrcd = xrcd(client_, second);
    EXPECT_EQ(error_of(request), EINVAL) << "a domain of another context";
    const std::uint32_t srq = create(srq_request(pd_)).handle;
    EXPECT_EQ(modify(srq, 0, 0, 0).error(), EINVAL);
    EXPECT_EQ(modify(srq, 4, 0, 0).error(), EINVAL);
    EXPECT_EQ(modify(srq, kSrqLimit, 0, 17).error(), EINVAL);
    EXPECT_EQ(modify(srq, kSrqMaxWr, 0, 0).error(), EINVAL);
    EXPECT_EQ(modify(srq, kSrqMaxWr, ~0U, 0).error(), EINVAL);
    EXPECT_EQ(modify(srq + 1, kSrqLimit, 0, 1).error(), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kDestroySrq, srq), ENOENT);
}

TEST_F(ControlSrq, QpsOnItShareItsWorkerAndKeepIt) {
    const abi::SrqReply srq = create(srq_request(pd_));
    abi::CreateQpRequest request = qp_request(pd_, cq_);
    request.srq = srq.handle;
    std::vector<abi::CreateQpReply> qps;
    for (int i = 0; i < 5; ++i) {
        qps.push_back(client_.ask(Op::kCreateQp, request).as<abi::CreateQpReply>());
        EXPECT_EQ(qps.back().worker, qps.front().worker);
        EXPECT_EQ(qps.back().rq_entries, 0U);
    }
    EXPECT_EQ(client_.on_handle(Op::kDestroySrq, srq.handle), EBUSY);
    for (const abi::CreateQpReply& qp : qps) {
        EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp.handle), 0);
    }
    EXPECT_EQ(client_.on_handle(Op::kDestroySrq, srq.handle), 0);
    EXPECT_EQ(client_.ask(Op::kCreateQp, request).error(), ENOENT) << "it is gone";
}

TEST_F(ControlSrq, AResizedRingHoldsWhatWasPosted) {
    const Answer made = client_.ask(Op::kCreateSrq, srq_request(pd_, 4));
    const auto srq = made.as<abi::SrqReply>();
    const auto map = [](const Answer& answer, const abi::SrqReply& reply) {
        return static_cast<std::byte*>(::mmap(nullptr, reply.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                              answer.fds.at(0).get(),
                                              static_cast<off_t>(reply.memory_offset)));
    };
    const auto slot = [](std::byte* memory, const abi::SrqReply& reply,
                         std::uint32_t index) -> abi::RecvWqe& {
        return *reinterpret_cast<abi::RecvWqe*>(memory + abi::kSrqHeaderBytes +
                                                std::size_t{index % reply.entries} * reply.stride);
    };
    std::byte* memory = map(made, srq);
    for (std::uint32_t i = 0; i < 3; ++i) {
        slot(memory, srq, i).wr_id = 100 + i;
        slot(memory, srq, i).seq.store(i + 1);
    }
    EXPECT_EQ(modify(srq.handle, kSrqMaxWr, 2, 0).error(), EINVAL) << "three are posted";
    const Answer resized = modify(srq.handle, kSrqMaxWr | kSrqLimit, 20, 2);
    EXPECT_EQ(resized.error(), 0);
    const auto larger = resized.as<abi::SrqReply>();
    EXPECT_EQ(larger.entries, 32U);
    EXPECT_EQ(larger.limit, 2U);
    std::byte* larger_memory = map(resized, larger);
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(slot(larger_memory, larger, i).wr_id, 100 + i);
        EXPECT_EQ(slot(larger_memory, larger, i).seq.load(), i + 1);
    }
    EXPECT_EQ(slot(larger_memory, larger, 3).seq.load(), 0U);
    EXPECT_EQ(slot(memory, srq, 0).seq.load(), 0U) << "the old ring went back";
    // A limit that the ring could not keep comes down with it.
    EXPECT_EQ(modify(srq.handle, kSrqLimit, 0, 30).error(), 0);
    EXPECT_EQ(modify(srq.handle, kSrqMaxWr, 4, 0).as<abi::SrqReply>().limit, 4U);
    ::munmap(memory, srq.memory_bytes);
    ::munmap(larger_memory, larger.memory_bytes);
}

TEST_F(ControlSrq, AFileIsOneDomainForEverybody) {
    const UniqueFd shared = file();
    const UniqueFd own = file();
    TestClient other = client();
    const std::uint32_t his_context = other.open();
    EXPECT_EQ(open_xrcd(client_, context_, 0, shared.get()).error(), EAGAIN);
    const std::uint32_t mine = xrcd(client_, context_, shared.get());
    EXPECT_EQ(open_xrcd(other, his_context, abi::kXrcdCreate | abi::kXrcdExclusive, shared.get()).error(),
              EINVAL);
    const Answer opened = open_xrcd(other, his_context, 0, shared.get());
    EXPECT_EQ(opened.error(), 0);
    const auto his = opened.as<abi::HandleReply>().handle;
    const std::uint32_t his_own = xrcd(other, his_context, own.get());
    const std::uint32_t without_file = xrcd(other, his_context);
    EXPECT_EQ(device().xrc_domains.size(), 3U);
    EXPECT_EQ(open_xrcd(client_, context_, 4).error(), EINVAL);
    EXPECT_EQ(open_xrcd(client_, 99, abi::kXrcdCreate).error(), ENOENT);
    // The device counts too: the file stands for another domain there.
    TestClient on_other_device = client();
    EXPECT_EQ(open_xrcd(on_other_device, on_other_device.open("urnic1"), 0, shared.get()).error(), EAGAIN);

    const Answer made = target(client_, mine);
    EXPECT_TRUE(made.fds.empty());
    const auto qp = made.as<abi::CreateQpReply>();
    EXPECT_EQ(open_qp(other, his_own, qp.qp_num).error(), EINVAL);
    EXPECT_EQ(open_qp(other, without_file, qp.qp_num).error(), EINVAL);
    EXPECT_EQ(open_qp(other, his, qp.qp_num ^ 0x80'0000U).error(), EINVAL);
    EXPECT_EQ(open_qp(other, mine + 100, qp.qp_num).error(), ENOENT);
    const auto same = open_qp(other, his, qp.qp_num).as<abi::CreateQpReply>();
    EXPECT_EQ(same.qp_num, qp.qp_num);
    EXPECT_EQ(device().num_qps, 1U);
    EXPECT_EQ(client_.on_handle(Op::kCloseXrcd, mine), EBUSY);
    client_.close();
    wait_for_connections(2);
    EXPECT_EQ(device().num_qps, 1U) << "who opened it keeps it";
    abi::ModifyQpRequest change{};
    change.qp = same.handle;
    change.attr.mask = kQpAttrState;
    change.attr.state = QpState::kInit;
    EXPECT_EQ(other.ask(Op::kModifyQp, change).error(), 0);
    EXPECT_EQ(other.on_handle(Op::kQueryQp, same.handle), 0);
    EXPECT_EQ(other.on_handle(Op::kDestroyQp, same.handle), 0);
    EXPECT_EQ(device().num_qps, 0U);
    for (const std::uint32_t domain : {his, his_own, without_file}) {
        EXPECT_EQ(other.on_handle(Op::kCloseXrcd, domain), 0);
    }
    EXPECT_EQ(other.on_handle(Op::kCloseXrcd, his), ENOENT);
    EXPECT_TRUE(device().xrc_domains.empty());
}

TEST_F(ControlSrq, WhatADomainHoldsEndsWithItsOwnersAlone) {
    const UniqueFd shared = file();
    TestClient doomed = client();
    const std::uint32_t his_context = doomed.open();
    const std::uint32_t his = xrcd(doomed, his_context, shared.get());
    const std::uint32_t mine = xrcd(client_, context_, shared.get());
    abi::CreateSrqRequest request = srq_request(pd_);
    request.xrcd = mine;
    request.cq = cq_;
    const abi::SrqReply my_srq = create(request);
    EXPECT_EQ(client_.on_handle(Op::kDestroyCq, cq_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kCloseXrcd, mine), EBUSY);
    request.pd = doomed.pd(his_context);
    request.xrcd = his;
    request.cq = doomed.cq(his_context);
    const auto his_srq = doomed.ask(Op::kCreateSrq, request).as<abi::SrqReply>();
    const auto qp = target(doomed, his).as<abi::CreateQpReply>();
    EXPECT_EQ(open_qp(client_, mine, qp.qp_num).error(), 0);
    // An ordinary QP cannot take receives of an XRC SRQ.
    abi::CreateQpRequest ordinary = qp_request(pd_, cq_);
    ordinary.srq = my_srq.handle;
    EXPECT_EQ(client_.ask(Op::kCreateQp, ordinary).error(), EINVAL);
    ASSERT_EQ(device().xrc_domains.size(), 1U);
    // Looked at as the workers do: the server changes the table in their calls.
    const XrcDomain& domain = *device().xrc_domains[0];
    const auto is_there = [&](const abi::SrqReply& srq) {
        bool found = false;
        control.workers[0]->call([&] { found = domain.srqs.find(srq.srq_number) != nullptr; });
        return found;
    };
    EXPECT_TRUE(is_there(his_srq));
    doomed.close();
    wait_for_connections(1);
    EXPECT_FALSE(is_there(his_srq));
    EXPECT_EQ(dataplane::worker_record().last_forgotten_srq, his_srq.srq_number)
        << "the QP may be in the middle of it";
    EXPECT_TRUE(is_there(my_srq));
    EXPECT_EQ(device().num_qps, 1U);
    let_server_change();
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(ControlSrq, AClosedDeviceTakesThemAll) {
    const std::uint32_t domain = xrcd(client_, context_);
    abi::CreateSrqRequest request = srq_request(pd_);
    request.xrcd = domain;
    request.cq = cq_;
    (void)create(request);
    (void)create(srq_request(pd_));
    EXPECT_EQ(target(client_, domain).error(), 0);
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_EQ(device().num_srqs, 0U);
    EXPECT_EQ(device().num_qps, 0U);
    EXPECT_TRUE(device().xrc_domains.empty());
}

class FewSrqs : public ControlTest {
  protected:
    FewSrqs() : ControlTest({}, {.max_qps = 2, .max_srqs = 2, .max_xrcds = 2}) {}
};

TEST_F(FewSrqs, OneMoreIsEnomem) {
    TestClient greedy = client();
    const std::uint32_t context = greedy.open();
    const std::uint32_t pd = greedy.pd(context);
    abi::OpenXrcdRequest xrcd{};
    xrcd.context = context;
    std::uint32_t domain = 0;
    for (const int expected : {0, 0, ENOMEM}) {
        const Answer answer = greedy.ask(Op::kOpenXrcd, xrcd);
        EXPECT_EQ(answer.error(), expected);
        domain = expected == 0 ? answer.as<abi::HandleReply>().handle : domain;
    }
    for (const int expected : {0, 0, ENOMEM}) {
        EXPECT_EQ(greedy.ask(Op::kCreateSrq, srq_request(pd)).error(), expected);
    }
    abi::CreateQpRequest target{};
    target.type = static_cast<std::uint8_t>(QpType::kXrcRecv);
    target.xrcd = domain;
    const auto qp = greedy.ask(Op::kCreateQp, target).as<abi::CreateQpReply>();
    abi::OpenQpRequest open{};
    open.xrcd = domain;
    open.qp_num = qp.qp_num;
    EXPECT_EQ(greedy.ask(Op::kOpenQp, open).error(), 0);
    EXPECT_EQ(greedy.ask(Op::kOpenQp, open).error(), ENOMEM);
    EXPECT_EQ(greedy.ask(Op::kCreateQp, target).error(), ENOMEM);
    EXPECT_EQ(greedy.ask(Op::kCreateQp, qp_request(pd, greedy.cq(context))).error(), ENOMEM);
}

}  // namespace
}  // namespace urnic::daemon
