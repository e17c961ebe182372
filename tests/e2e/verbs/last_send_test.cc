// What a program posts right before it ends a QP is sent, as by a NIC, however busy the machine is.
#include <cerrno>
#include <memory>

#include "tests/e2e/verbs/busy_threads.h"
#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kRounds = 200;
constexpr std::size_t kLength = 1000;

class LastSend : public testing::TestWithParam<ibv_qp_type> {
  protected:
    void SetUp() override { make(); }
    void make() {
        EndpointOptions options;
        options.type = GetParam();
        a_ = std::make_unique<Endpoint>("urnic0", options);
        b_ = std::make_unique<Endpoint>("urnic1", options);
        if (HasFailure()) GTEST_FAIL() << "no endpoints";
    }
    /// SEND, and at once what `end` does.
    template <typename End>
    void round(int number, End&& end) {
        SCOPED_TRACE(number);
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not connected";
        const auto seed = static_cast<std::uint32_t>(number + 1);
        fill(a_->at(0), kLength, seed);
        b_->post_recv(seed, {b_->sge(0, kLength)});
        ibv_sge sge = a_->sge(0, kLength);
        ibv_send_wr wr = request(IBV_WR_SEND, seed, &sge, 1);
        a_->post(wr);
        ASSERT_EQ(end(), 0);
        b_->expect_success(seed, IBV_WC_RECV);
        EXPECT_EQ(first_difference(b_->at(0), kLength, seed), -1);
    }
    void reset() {
        EXPECT_EQ(to_state(*a_, IBV_QPS_RESET), 0);
        EXPECT_EQ(to_state(*b_, IBV_QPS_RESET), 0);
        ibv_wc completion;
        while (ibv_poll_cq(a_->cq, 1, &completion) > 0) {
        }
    }

    const BusyThreads busy_;
    std::unique_ptr<Endpoint> a_, b_;
};

TEST_P(LastSend, GoesOutBeforeErr) {
    for (int i = 0; i < kRounds && !HasFailure(); ++i) {
        round(i, [&] { return to_state(*a_, IBV_QPS_ERR); });
        // It was sent. Whether it was acknowledged in time is another matter.
        const ibv_wc completion = a_->poll_one();
        EXPECT_EQ(completion.wr_id, static_cast<std::uint64_t>(i + 1));
        EXPECT_TRUE(completion.status == IBV_WC_SUCCESS || completion.status == IBV_WC_WR_FLUSH_ERR);
        reset();
    }
}

TEST_P(LastSend, GoesOutBeforeReset) {
    for (int i = 0; i < kRounds / 4 && !HasFailure(); ++i) {
        round(i, [&] { return to_state(*a_, IBV_QPS_RESET); });
        reset();
    }
}

TEST_P(LastSend, GoesOutBeforeTheQpEnds) {
    for (int i = 0; i < kRounds / 8 && !HasFailure(); ++i) {
        if (i != 0) make();
        round(i, [&] {
            const int error = ibv_destroy_qp(a_->qp);
            a_->qp = nullptr;
            return error;
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Types, LastSend, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& of) { return of.param == IBV_QPT_RC ? "Rc" : "Uc"; });

}  // namespace
}  // namespace urnic::e2e
