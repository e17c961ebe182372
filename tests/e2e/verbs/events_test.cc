// Asynchronous events of QPs, CQs and ports, each raised by its cause. IBV_EVENT_DEVICE_FATAL is
// failure_modes_test's.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

class Events : public testing::TestWithParam<ibv_qp_type> {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0", EndpointOptions{.type = GetParam()});
        b_ = std::make_unique<Endpoint>("urnic1", EndpointOptions{.type = GetParam()});
    }
    std::unique_ptr<Endpoint> a_, b_;
};

TEST_P(Events, CommEst) {
    constexpr std::uint32_t kPsn = 77;
    ASSERT_EQ(to_init(*a_), 0);
    ASSERT_EQ(to_init(*b_), 0);
    ASSERT_EQ(to_rtr(*a_, *b_, kPsn), 0);
    ASSERT_EQ(to_rtr(*b_, *a_, kPsn), 0);
    ASSERT_EQ(to_rts(*a_, kPsn), 0);
    b_->post_recv(1, {b_->sge(0, 64)});
    ibv_sge sge = a_->sge(0, 8);
    ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, 1);
    a_->post(wr);
    EXPECT_EQ(next_event(b_->context.get(), IBV_EVENT_COMM_EST).element.qp, b_->qp);
    b_->expect_success(1, IBV_WC_RECV);
    EXPECT_FALSE(has_event(b_->context.get()));
}

TEST_P(Events, SqDrained) {
    connect(*a_, *b_);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(a_->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    EXPECT_EQ(next_event(a_->context.get(), IBV_EVENT_SQ_DRAINED).element.qp, a_->qp);
}

TEST_P(Events, CqErrAndQpFatal) {
    a_ = std::make_unique<Endpoint>("urnic0", EndpointOptions{.type = GetParam(), .cq_entries = 4});
    connect(*a_, *b_);
    ibv_sge sge = a_->sge(0, 8);
    for (std::uint64_t n = 0; n < 8; ++n) {
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, n, &sge, 1, *b_, 0);
        ibv_send_wr* bad = nullptr;
        (void)ibv_post_send(a_->qp, &wr, &bad);
    }
    EXPECT_EQ(next_event(a_->context.get(), IBV_EVENT_CQ_ERR).element.cq, a_->cq);
    EXPECT_EQ(next_event(a_->context.get(), IBV_EVENT_QP_FATAL).element.qp, a_->qp);
    EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

INSTANTIATE_TEST_SUITE_P(Types, Events, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& param) { return param.param == IBV_QPT_RC ? "RC" : "UC"; });

class RcEvents : public testing::Test {
  protected:
    void SetUp() override { connect(a_, b_); }
    Endpoint a_{"urnic0"};
    Endpoint b_{"urnic1"};
};

TEST_F(RcEvents, QpReqErr) {
    ibv_sge sge = a_.sge(0, 8);
    ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, b_, 4, 1);
    a_.post(wr);
    EXPECT_EQ(next_event(b_.context.get(), IBV_EVENT_QP_REQ_ERR).element.qp, b_.qp);
    EXPECT_EQ(a_.poll_one().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(RcEvents, QpAccessErr) {
    ibv_sge sge = a_.sge(0, 8);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, b_, 0);
    wr.wr.rdma.rkey ^= 0xff00;
    a_.post(wr);
    EXPECT_EQ(next_event(b_.context.get(), IBV_EVENT_QP_ACCESS_ERR).element.qp, b_.qp);
    EXPECT_EQ(a_.poll_one().status, IBV_WC_REM_ACCESS_ERR);
}

// --- Ports ------------------------------------------------------------------------------------------------

class PortEvents : public testing::Test {
  protected:
    static void set_port(const char* device, const char* state) {
        const char* build = std::getenv("URNIC_BUILD");
        ASSERT_NE(build, nullptr) << "URNIC_BUILD names the folder with urnic in it";
        const std::string command = std::string(build) + "/urnic port " + device + " " + state;
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
    static ibv_port_attr port_of(ibv_context* context) {
        ibv_port_attr attr{};
        EXPECT_EQ(ibv_query_port(context, 1, &attr), 0);
        return attr;
    }
    static std::string sysfs(const char* file) {
        std::ifstream in(std::string(std::getenv("URNIC_RUN_DIR")) +
                         "/sysroot/sys/class/infiniband/urnic0/ports/1/" + file);
        std::string line;
        std::getline(in, line);
        return line;
    }
    void TearDown() override { set_port("urnic0", "up"); }
};

TEST_F(PortEvents, ErrAndActiveInEveryContextOfTheDevice) {
    const Context one = open_device("urnic0");
    const Context two = open_device("urnic0");
    const Context other = open_device("urnic1");
    set_port("urnic0", "down");
    for (ibv_context* context : {one.get(), two.get()}) {
        EXPECT_EQ(next_event(context, IBV_EVENT_PORT_ERR).element.port_num, 1);
        EXPECT_EQ(port_of(context).state, IBV_PORT_DOWN);
        EXPECT_EQ(port_of(context).phys_state, 3);
    }
    EXPECT_EQ(sysfs("state"), "1: DOWN");
    EXPECT_EQ(sysfs("phys_state"), "3: Disabled");
    EXPECT_EQ(port_of(other.get()).state, IBV_PORT_ACTIVE);
    set_port("urnic0", "down");  // is down: nothing happens
    set_port("urnic0", "up");
    for (ibv_context* context : {one.get(), two.get()}) {
        EXPECT_EQ(next_event(context, IBV_EVENT_PORT_ACTIVE).element.port_num, 1);
        EXPECT_EQ(port_of(context).state, IBV_PORT_ACTIVE);
        EXPECT_EQ(port_of(context).phys_state, 5);
        EXPECT_FALSE(has_event(context));
    }
    EXPECT_EQ(sysfs("state"), "4: ACTIVE");
    EXPECT_EQ(sysfs("phys_state"), "5: LinkUp");
    EXPECT_FALSE(has_event(other.get()));
}

TEST_F(PortEvents, NothingGoesThroughAPortThatIsDown) {
    for (const char* cut : {"urnic0", "urnic1"}) {
        const Endpoint a("urnic0");
        const Endpoint b("urnic1");
        connect(a, b, {.timeout = 8, .retry_cnt = 1});
        std::memset(b.at(0), 0, 64);
        fill(a.at(0), 64, 1);
        set_port(cut, "down");
        ibv_sge sge = a.sge(0, 64);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, b, 0);
        a.post(wr);
        EXPECT_EQ(a.poll_one().status, IBV_WC_RETRY_EXC_ERR);
        EXPECT_EQ(first_other(b.at(0), 64, 0), -1);
        set_port(cut, "up");
    }
}

TEST_F(PortEvents, AConnectionThatWaitsLongEnoughGoesOn) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    connect(a, b, {.timeout = 18, .retry_cnt = 7});
    fill(a.at(0), 64, 1);
    set_port("urnic0", "down");
    ibv_sge sge = a.sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, b, 0);
    a.post(wr);
    set_port("urnic0", "up");
    a.expect_success(1, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(first_difference(b.at(0), 64, 1), -1);
}

// --- ATOMIC WRITE -----------------------------------------------------------------------------------------

TEST(AtomicWrite, ByBothApis) {
    const Endpoint a("urnic0", {.extended = true});
    const Endpoint b("urnic1", {.extended = true});
    connect(a, b);
    fill(a.at(0), 16, 1);
    std::memset(b.at(0), 0, 64);
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr wr = rdma(IBV_WR_ATOMIC_WRITE, 1, &sge, 1, b, 8);
    a.post(wr);
    a.expect_success(1, IBV_WC_ATOMIC_WRITE);
    EXPECT_EQ(first_difference(b.at(8), 8, 1), -1);
    EXPECT_EQ(first_other(b.at(16), 48, 0), -1);

    ASSERT_NE(a.qp_ex, nullptr);
    std::uint64_t value = 0x1122334455667788;
    ibv_wr_start(a.qp_ex);
    a.qp_ex->wr_id = 2;
    a.qp_ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(a.qp_ex, b.mr->rkey, b.address(24), &value);
    value = 0;  // was taken already
    ASSERT_EQ(ibv_wr_complete(a.qp_ex), 0);
    a.expect_success(2, IBV_WC_ATOMIC_WRITE);
    std::memcpy(&value, b.at(24), sizeof value);
    EXPECT_EQ(value, 0x1122334455667788U);
}

TEST(AtomicWrite, MisalignedIsAnInvalidRequest) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    connect(a, b);
    std::memset(b.at(0), 0, 64);
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr wr = rdma(IBV_WR_ATOMIC_WRITE, 1, &sge, 1, b, 4);
    a.post(wr);
    EXPECT_EQ(a.poll_one().status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(first_other(b.at(0), 64, 0), -1);
}

// Each alone is no good: an address of the application's own may be aligned where its memory is not.
TEST(AtomicWrite, AddressAndMemoryHaveToBeAligned) {
    constexpr std::uint64_t kAligned = 0x10000;
    const struct {
        std::size_t offset;
        std::uint64_t iova;
    } rows[] = {{4, kAligned}, {0, kAligned + 4}};
    for (const auto& row : rows) {
        const Endpoint a("urnic0");
        const Endpoint b("urnic1");
        connect(a, b);
        fill(a.at(0), 8, 1);
        std::memset(b.at(0), 0, 64);
        ibv_mr* mr = ibv_reg_mr_iova(b.pd, b.at(row.offset), 32, row.iova,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        ASSERT_NE(mr, nullptr) << std::strerror(errno);
        ibv_sge sge = a.sge(0, 8);
        ibv_send_wr wr = request(IBV_WR_ATOMIC_WRITE, 1, &sge, 1);
        wr.wr.rdma.remote_addr = row.iova;
        wr.wr.rdma.rkey = mr->rkey;
        a.post(wr);
        EXPECT_EQ(a.poll_one().status, IBV_WC_REM_INV_REQ_ERR) << row.offset;
        EXPECT_EQ(first_other(b.at(0), 64, 0), -1);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
}

TEST(AtomicWrite, IsReported) {
    const Context context = open_device("urnic0");
    ibv_device_attr_ex attr{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attr), 0);
    EXPECT_NE(attr.device_cap_flags_ex & (std::uint64_t{1} << 40U), 0U);
}

}  // namespace
}  // namespace urnic::e2e
