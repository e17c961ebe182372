// XRC through the stock libibverbs: domains, SRQs by number, target QPs, several processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/e2e/verbs/shared_side.h"

namespace urnic::e2e {
namespace {

ibv_xrcd* open_domain(ibv_context* context, int fd, int oflags) {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = fd;
    init.oflags = oflags;
    return ibv_open_xrcd(context, &init);
}

ibv_srq* make_xrc_srq(const SharedSide& side, ibv_xrcd* xrcd) {
    ibv_srq_init_attr_ex init{};
    init.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    init.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = side.pd;
    init.xrcd = xrcd;
    init.cq = side.cq;
    ibv_srq* srq = ibv_create_srq_ex(side.context.get(), &init);
    EXPECT_NE(srq, nullptr) << std::strerror(errno);
    return srq;
}

std::uint32_t number_of(ibv_srq* srq) {
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
    return number;
}

ibv_qp* make_target(const SharedSide& side, ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    ibv_qp* qp = ibv_create_qp_ex(side.context.get(), &init);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    return qp;
}

/// A file that stands for a domain, gone from its directory.
int open_file() { return ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); }

TEST(XrcDomain, OpensAsTheKernelDoes) {
    const Context context = open_device("urnic0");
    const int file = open_file();
    const int other = open_file();
    const auto refused = [&](int fd, int oflags, int expected) {
        errno = 0;
        EXPECT_EQ(open_domain(context.get(), fd, oflags), nullptr);
        EXPECT_EQ(errno, expected);
    };
    refused(file, 0, EAGAIN);
    refused(12345, O_CREAT, EBADF);
    ibv_xrcd* first = open_domain(context.get(), file, O_CREAT | O_EXCL);
    ASSERT_NE(first, nullptr) << std::strerror(errno);
    refused(file, O_CREAT | O_EXCL, EINVAL);
    refused(other, 0, EAGAIN);
    ibv_xrcd* again = open_domain(context.get(), file, 0);
    ASSERT_NE(again, nullptr);
    ibv_xrcd* own = open_domain(context.get(), -1, O_CREAT);
    ASSERT_NE(own, nullptr);
    for (ibv_xrcd* xrcd : {first, again, own}) {
        EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
    }
    refused(file, 0, EAGAIN);
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD;
    init.fd = -1;
    EXPECT_EQ(ibv_open_xrcd(context.get(), &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    ::close(file);
    ::close(other);
}

TEST(XrcDomain, AFileWhoseDescriptorIs0) {
    const Context context = open_device("urnic0");
    const int file = open_file();
    const int standard_input = ::dup(STDIN_FILENO);
    ASSERT_EQ(::dup2(file, STDIN_FILENO), STDIN_FILENO);
    ibv_xrcd* made = open_domain(context.get(), STDIN_FILENO, O_CREAT);
    EXPECT_NE(made, nullptr) << std::strerror(errno);
    ibv_xrcd* again = open_domain(context.get(), file, 0);
    EXPECT_NE(again, nullptr) << "it is not that file's: " << std::strerror(errno);
    for (ibv_xrcd* xrcd : {made, again}) {
        if (xrcd != nullptr) {
            EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
        }
    }
    if (standard_input >= 0) {
        EXPECT_EQ(::dup2(standard_input, STDIN_FILENO), STDIN_FILENO);
        ::close(standard_input);
    }
    ::close(file);
}

/// A domain with one target on urnic1 and an initiator on urnic0.
class Xrc : public testing::Test {
  protected:
    void SetUp() override {
        xrcd_ = open_domain(b_.context.get(), -1, O_CREAT);
        ASSERT_NE(xrcd_, nullptr) << std::strerror(errno);
        target_ = make_target(b_, xrcd_);
        initiator_ = a_.make_qp(IBV_QPT_XRC_SEND);
        ASSERT_TRUE(target_ != nullptr && initiator_ != nullptr);
        e2e::to_rts(initiator_, b_.context.get(), target_->qp_num);
        e2e::to_rts(target_, a_.context.get(), initiator_->qp_num);
    }
    void TearDown() override {
        EXPECT_EQ(ibv_destroy_qp(initiator_), 0);
        if (target_ != nullptr) {
            EXPECT_EQ(ibv_destroy_qp(target_), 0);
        }
        EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    }

    SharedSide a_{"urnic0"};
    SharedSide b_{"urnic1"};
    ibv_xrcd* xrcd_ = nullptr;
    ibv_qp* target_ = nullptr;
    ibv_qp* initiator_ = nullptr;
};

TEST_F(Xrc, MessagesGoToTheSrqTheyName) {
    ibv_srq* first = make_xrc_srq(b_, xrcd_);
    ibv_srq* second = make_xrc_srq(b_, xrcd_);
    ASSERT_NE(number_of(first), number_of(second));
    EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(b_.cq), EBUSY);
    fill(a_.buffer.data(), 9000, 5);
    for (std::uint64_t i = 0; i < 40; ++i) {
        ibv_srq* srq = i % 3 == 0 ? first : second;
        ASSERT_EQ(b_.post(srq, 100 + i, 0, 9000), 0);
        a_.send(initiator_, i, 0, 9000, number_of(srq));
        EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
        const ibv_wc wc = SharedSide::poll(b_.cq);
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wr_id, 100 + i);
        EXPECT_EQ(wc.qp_num, target_->qp_num);
        EXPECT_EQ(first_difference(b_.buffer.data(), 9000, 5), -1);
    }
    // What is left unpolled goes with its SRQ.
    ASSERT_EQ(b_.post(first, 1, 0, 64), 0);
    ASSERT_EQ(b_.post(second, 2, 0, 64), 0);
    a_.send(initiator_, 50, 0, 64, number_of(first));
    a_.send(initiator_, 51, 0, 64, number_of(second));
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_srq(first), 0);
    EXPECT_EQ(SharedSide::poll(b_.cq).wr_id, 2U);
    EXPECT_EQ(ibv_destroy_srq(second), 0);
}

TEST_F(Xrc, WhatAChildDestroysIsItsOwn) {
    ibv_srq* srq = make_xrc_srq(b_, xrcd_);
    ASSERT_EQ(b_.post(srq, 7, 0, 64), 0);
    a_.send(initiator_, 1, 0, 64, number_of(srq));
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(b_.post(srq, 8, 0, 64), 0);
    a_.send(initiator_, 2, 0, 64, number_of(srq));
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    const pid_t child = fork_child();
    if (child == 0) _exit(ibv_destroy_srq(srq) == 0 ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(SharedSide::poll(b_.cq).wr_id, 7U) << "the child took the parent's completions away";
    EXPECT_EQ(SharedSide::poll(b_.cq).wr_id, 8U);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Xrc, RdmaAndAtomicsInTheDomainOfTheSrqNamed) {
    ibv_srq* srq = make_xrc_srq(b_, xrcd_);
    fill(a_.buffer.data(), 5000, 6);
    const auto run = [&](ibv_wr_opcode opcode, std::size_t length, std::size_t remote) {
        ibv_sge sge = a_.sge(0, length);
        ibv_send_wr wr = request(opcode, 1, &sge, 1);
        wr.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(b_.buffer.data() + remote);
        wr.wr.atomic.compare_add = 3;
        wr.wr.atomic.rkey = b_.mr->rkey;
        if (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr.wr.rdma.rkey = b_.mr->rkey;
        }
        wr.qp_type.xrc.remote_srqn = number_of(srq);
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(initiator_, &wr, &bad), 0);
        EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    };
    run(IBV_WR_RDMA_WRITE, 5000, 0);
    EXPECT_EQ(first_difference(b_.buffer.data(), 5000, 6), -1);
    std::memset(a_.buffer.data(), 0, 5000);
    run(IBV_WR_RDMA_READ, 5000, 0);
    EXPECT_EQ(first_difference(a_.buffer.data(), 5000, 6), -1);
    std::memset(b_.buffer.data() + 8192, 0, 8);
    run(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8192);
    EXPECT_EQ(b_.buffer.data()[8192], 3);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Xrc, AttributesComeBack) {
    constexpr unsigned kAccess =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    for (ibv_qp* qp : {initiator_, target_}) {
        const bool asks = qp == initiator_;
        SCOPED_TRACE(asks ? "initiator" : "target");
        ibv_qp_attr attr{};
        ibv_qp_init_attr given{};
        ASSERT_EQ(ibv_query_qp(qp, &attr, ~0, &given), 0);
        EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
        EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
        EXPECT_EQ(attr.port_num, 1);
        EXPECT_EQ(attr.pkey_index, 0);
        EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
        EXPECT_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
        EXPECT_EQ(attr.dest_qp_num, (asks ? target_ : initiator_)->qp_num);
        EXPECT_EQ(attr.qp_access_flags, kAccess);
        EXPECT_EQ(attr.timeout, 14);
        EXPECT_EQ(attr.ah_attr.is_global, 1);
        EXPECT_EQ(attr.ah_attr.port_num, 1);
        const ibv_ah_attr peer = address_of((asks ? b_ : a_).context.get());
        EXPECT_EQ(attr.ah_attr.dlid, peer.dlid);
        EXPECT_EQ(attr.ah_attr.grh.sgid_index, peer.grh.sgid_index);
        EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, peer.grh.dgid.raw, sizeof peer.grh.dgid), 0);
        if (asks) {
            EXPECT_EQ(attr.retry_cnt, 7);
            EXPECT_EQ(attr.rnr_retry, 7);
            EXPECT_EQ(attr.max_rd_atomic, 4);
            EXPECT_EQ(given.send_cq, a_.cq);
        } else {
            EXPECT_EQ(attr.min_rnr_timer, 1);
            EXPECT_EQ(attr.max_dest_rd_atomic, 4);
        }
        EXPECT_EQ(given.qp_type, qp->qp_type);
    }
}

TEST_F(Xrc, ANumberNobodyHasIsAnInvalidRequest) {
    ibv_xrcd* other = open_domain(b_.context.get(), -1, O_CREAT);
    ibv_srq* elsewhere = make_xrc_srq(b_, other);
    a_.send(initiator_, 1, 0, 8, number_of(elsewhere));
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(ibv_destroy_srq(elsewhere), 0);
    EXPECT_EQ(ibv_close_xrcd(other), 0);
}

TEST_F(Xrc, ATargetThatIsOpenedTwiceHasTwoOwners) {
    ibv_qp_open_attr open{};
    open.comp_mask =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
    open.qp_num = target_->qp_num ^ 0x800000U;
    open.xrcd = xrcd_;
    open.qp_type = IBV_QPT_XRC_RECV;
    open.qp_context = this;
    EXPECT_EQ(ibv_open_qp(b_.context.get(), &open), nullptr);
    EXPECT_EQ(errno, EINVAL);
    open.qp_num = target_->qp_num;
    ibv_qp* second = ibv_open_qp(b_.context.get(), &open);
    ASSERT_NE(second, nullptr) << std::strerror(errno);
    EXPECT_EQ(second->qp_num, target_->qp_num);
    EXPECT_EQ(second->qp_context, this);
    // Both are told.
    a_.send(initiator_, 1, 0, 8, 0);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_REM_INV_REQ_ERR);
    int told_first = 0;
    int told_second = 0;
    for (int i = 0; i < 4; ++i) {
        const auto event = next_event(b_.context.get());
        ASSERT_TRUE(event.has_value()) << "no event came but " << i;
        told_first += event->element.qp == target_ ? 1 : 0;
        told_second += event->element.qp == second ? 1 : 0;
    }
    EXPECT_EQ(told_first, 2) << "request error and last receive";
    EXPECT_EQ(told_second, 2);
    EXPECT_EQ(ibv_destroy_qp(target_), 0);
    target_ = nullptr;
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(ibv_destroy_qp(second), 0);
    EXPECT_EQ(ibv_open_qp(b_.context.get(), &open), nullptr) << "the last handle took it along";
}

TEST_F(Xrc, ExtendedPostingNamesTheSrq) {
    ibv_srq* srq = make_xrc_srq(b_, xrcd_);
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.send_cq = a_.cq;
    init.pd = a_.pd;
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 0, .max_inline_data = 0};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
    ibv_qp* qp = ibv_create_qp_ex(a_.context.get(), &init);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    ibv_qp* target = make_target(b_, xrcd_);
    e2e::to_rts(qp, b_.context.get(), target->qp_num);
    e2e::to_rts(target, a_.context.get(), qp->qp_num);
    ASSERT_EQ(b_.post(srq, 7, 0, 64), 0);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(ex, nullptr);
    ibv_wr_start(ex);
    ex->wr_id = 4;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_xrc_srqn(ex, number_of(srq));
    const ibv_sge sge = a_.sge(0, 64);
    ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(SharedSide::poll(b_.cq).wr_id, 7U);
    for (ibv_qp* each : {qp, target}) {
        EXPECT_EQ(ibv_destroy_qp(each), 0);
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// The other process: has an SRQ in the file's domain, tells its number, and waits to be killed.
[[noreturn]] void hold_an_srq(int file, int tell) {
    const SharedSide side("urnic1");
    ibv_xrcd* xrcd = open_domain(side.context.get(), file, O_CREAT);
    ibv_srq* srq = xrcd != nullptr ? make_xrc_srq(side, xrcd) : nullptr;
    if (srq == nullptr || side.post(srq, 1, 0, 8) != 0) {
        _exit(1);
    }
    const std::uint32_t number = number_of(srq);
    (void)!::write(tell, &number, sizeof number);
    const ibv_wc wc = SharedSide::poll(side.cq);
    const std::uint32_t received = wc.status == IBV_WC_SUCCESS ? side.buffer.data()[0] : 0;
    (void)!::write(tell, &received, sizeof received);
    for (;;) {
        ::pause();
    }
}

TEST(XrcProcesses, ADomainIsSharedAndADeadOwnerHarmsNobodyElse) {
    const int file = open_file();
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t child = fork_child();
    if (child == 0) {
        hold_an_srq(file, told[1]);
    }
    ::close(told[1]);
    const SharedSide a("urnic0");
    const SharedSide b("urnic1");
    std::uint32_t his = 0;
    ASSERT_EQ(::read(told[0], &his, sizeof his), static_cast<ssize_t>(sizeof his)) << "no SRQ in the child";
    ibv_xrcd* xrcd = open_domain(b.context.get(), file, 0);
    ASSERT_NE(xrcd, nullptr) << std::strerror(errno);
    ibv_srq* mine = make_xrc_srq(b, xrcd);
    std::vector<ibv_qp*> qps;
    const auto connect_pair = [&] {
        qps.push_back(a.make_qp(IBV_QPT_XRC_SEND));
        qps.push_back(make_target(b, xrcd));
        e2e::to_rts(qps.end()[-2], b.context.get(), qps.back()->qp_num);
        e2e::to_rts(qps.back(), a.context.get(), qps.end()[-2]->qp_num);
        return qps.end()[-2];
    };
    ibv_qp* first = connect_pair();
    ibv_qp* second = connect_pair();
    // This process's target QP fills a receive of the other process, in that one's memory.
    a.buffer.data()[0] = 77;
    a.send(first, 1, 0, 8, his);
    EXPECT_EQ(SharedSide::poll(a.cq).status, IBV_WC_SUCCESS);
    std::uint32_t received = 0;
    ASSERT_EQ(::read(told[0], &received, sizeof received), static_cast<ssize_t>(sizeof received));
    EXPECT_EQ(received, 77U);

    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    // The daemon learns of the death by the closed connection; until then the SRQ is empty, and the sender
    // waits.
    a.send(first, 2, 0, 8, his);
    EXPECT_EQ(SharedSide::poll(a.cq).status, IBV_WC_REM_INV_REQ_ERR);
    ASSERT_EQ(b.post(mine, 5, 0, 8), 0);
    a.send(second, 3, 0, 8, number_of(mine));
    EXPECT_EQ(SharedSide::poll(a.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(SharedSide::poll(b.cq).wr_id, 5U);
    for (ibv_qp* qp : qps) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(ibv_destroy_srq(mine), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
    ::close(told[0]);
    ::close(file);
}

}  // namespace
}  // namespace urnic::e2e
