// Errors as kernel devices report them: the number that a call returns stands in errno, too, and the device
// knows no handle that it has not given.
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <source_location>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

/// The call returns the error and leaves it in errno.
template <typename Call>
void fails_with(int error, Call&& call, std::source_location where = std::source_location::current()) {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "called from here");
    errno = 0;
    EXPECT_EQ(call(), error);
    EXPECT_EQ(errno, error);
}

TEST(Errno, StandsBesideTheErrorThatACallReturns) {
    const Endpoint a("urnic0", {.extended = true});
    ASSERT_TRUE(a.ok());
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    fails_with(EINVAL, [&] { return ibv_modify_qp(a.qp, &attr, IBV_QP_STATE); });
    ibv_port_attr port{};
    fails_with(EINVAL, [&] { return ibv_query_port(a.context.get(), 2, &port); });
    fails_with(EBUSY, [&] { return ibv_dealloc_pd(a.pd); });
    fails_with(EBUSY, [&] { return ibv_destroy_cq(a.cq); });
    fails_with(EINVAL, [&] { return ibv_resize_cq(a.cq, -1); });
    ibv_modify_cq_attr moderation{};
    fails_with(EINVAL, [&] { return ibv_modify_cq(a.cq, &moderation); });
    const ibv_gid nowhere{};
    fails_with(EINVAL, [&] { return ibv_attach_mcast(a.qp, &nowhere, 0); });
    fails_with(EINVAL, [&] { return ibv_detach_mcast(a.qp, &nowhere, 0); });
    ibv_sge sge = a.sge(0, 64);
    ibv_send_wr send = request(IBV_WR_SEND, 1, &sge, 1);
    ibv_send_wr* bad_send = nullptr;
    fails_with(EINVAL, [&] { return ibv_post_send(a.qp, &send, &bad_send); });
    EXPECT_EQ(bad_send, &send);
    ibv_recv_wr receive{};
    receive.num_sge = 1000;
    ibv_recv_wr* bad_receive = nullptr;
    fails_with(EINVAL, [&] { return ibv_post_recv(a.qp, &receive, &bad_receive); });
    EXPECT_EQ(bad_receive, &receive);
    fails_with(EINVAL, [&] {
        ibv_wr_start(a.qp_ex);
        ibv_wr_send(a.qp_ex);
        return ibv_wr_complete(a.qp_ex);
    });
    ibv_srq_init_attr srq_attr{};
    srq_attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    ibv_srq* srq = ibv_create_srq(a.pd, &srq_attr);
    ASSERT_NE(srq, nullptr);
    fails_with(EINVAL, [&] { return ibv_post_srq_recv(srq, &receive, &bad_receive); });
    srq_attr.attr.srq_limit = 1000;
    fails_with(EINVAL, [&] { return ibv_modify_srq(srq, &srq_attr.attr, IBV_SRQ_LIMIT); });
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// The program may write the public fields of its objects. The device is asked by them, as the kernel is.
TEST(Handles, ThatNobodyGaveAreNotThere) {
    constexpr std::uint32_t kUnknown = 0x7ead'beef;
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_pd* pd = ibv_alloc_pd(context.get());
    ibv_cq* cq = ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
    ASSERT_TRUE(pd != nullptr && cq != nullptr);
    const std::uint32_t cqs = cq->handle;
    cq->handle = kUnknown;
    fails_with(ENOENT, [&] { return ibv_resize_cq(cq, 64); });
    ibv_modify_cq_attr moderation{};
    moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
    moderation.moderate.cq_count = 2;
    moderation.moderate.cq_period = 10;
    fails_with(ENOENT, [&] { return ibv_modify_cq(cq, &moderation); });
    fails_with(ENOENT, [&] { return ibv_destroy_cq(cq); });
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
    init.qp_type = IBV_QPT_RC;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
    EXPECT_EQ(errno, ENOENT);
    cq->handle = cqs;
    EXPECT_EQ(ibv_resize_cq(cq, 64), 0) << "it is what it was";

    ibv_qp* qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    const std::uint32_t qps = qp->handle;
    qp->handle = kUnknown;
    ibv_qp_attr attr{};
    fails_with(ENOENT, [&] { return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); });
    attr.qp_state = IBV_QPS_RESET;
    fails_with(ENOENT, [&] { return ibv_modify_qp(qp, &attr, IBV_QP_STATE); });
    fails_with(ENOENT, [&] { return ibv_destroy_qp(qp); });
    qp->handle = qps;
    EXPECT_EQ(ibv_destroy_qp(qp), 0);

    const std::uint32_t pds = pd->handle;
    pd->handle = kUnknown;
    fails_with(ENOENT, [&] { return ibv_dealloc_pd(pd); });
    errno = 0;
    EXPECT_EQ(ibv_alloc_mw(pd, IBV_MW_TYPE_2), nullptr);
    EXPECT_EQ(errno, ENOENT);
    pd->handle = pds;
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

/// A process's own limit, as far up as it goes.
class ManyDescriptors {
  public:
    ManyDescriptors() {
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
        rlimit more = before_;
        more.rlim_cur = more.rlim_max;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &more), 0);
    }
    ~ManyDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    ManyDescriptors(const ManyDescriptors&) = delete;
    ManyDescriptors& operator=(const ManyDescriptors&) = delete;
    [[nodiscard]] rlim_t most() const { return before_.rlim_max; }

  private:
    rlimit before_{};
};

TEST(Devices, AreOpenedAsOftenAsDescriptorsAllow) {
    constexpr std::size_t kTimes = 600;
    const ManyDescriptors limit;
    if (limit.most() < kTimes * 8) GTEST_SKIP() << "ulimit -Hn is " << limit.most();
    std::vector<Context> contexts;
    for (std::size_t i = 0; i < kTimes && !HasFailure(); ++i) {
        contexts.push_back(open_device("urnic0"));
    }
    ASSERT_FALSE(HasFailure()) << "at " << contexts.size();
    for (const Context& context : contexts) {
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    }
    ibv_pd* pd = ibv_alloc_pd(contexts.back().get());
    EXPECT_NE(pd, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace urnic::e2e
