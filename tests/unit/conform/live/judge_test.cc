// The verdict about a case that fails: by a tester that kept time, and by one that was held up.
#include "conform/live/judge.h"

#include <gtest/gtest.h>

#include <deque>

namespace urnic::conform {
namespace {

class NeverRight final : public Script {
    void body() override { require(false, "it is never right"); }
};

/// Nothing of it is asked for by a case that fails at once.
class HeldUpBench final : public JudgedBench {
  public:
    /// By how much in each attempt; the last one for ever.
    std::deque<TimeNs> delays = {0};
    void begin_case(TimeNs /*limit_ns*/) override {
        if (plays_++ != 0 && delays.size() > 1) {
            delays.pop_front();
        }
    }
    void end_case() override {}
    [[nodiscard]] TimeNs held_up_ns() const override { return delays.front(); }
    [[nodiscard]] const std::vector<TracedFrame>& trace() const override { return trace_; }

    void create(const ConnectOptions& /*connect*/, const QpOptions& /*qp*/,
                std::span<const std::byte> /*data*/) override {}
    void rtr() override {}
    void rts() override {}
    void init() override {}
    [[nodiscard]] int modify(const abi::QpAttr& /*attr*/) override { return 0; }
    [[nodiscard]] QpState state(QpState hoped) override { return hoped; }
    [[nodiscard]] bool is_draining() override { return false; }
    [[nodiscard]] Region& memory() override { throw CannotPlay("no memory"); }
    [[nodiscard]] Region& add_region(std::size_t /*bytes*/, std::uint32_t /*access*/) override {
        return memory();
    }
    void post(const std::vector<SendRequest>& /*requests*/) override {}
    void post_receive(std::uint64_t /*wr_id*/, const std::vector<abi::Sge>& /*sge*/) override {}
    [[nodiscard]] std::vector<SeenCompletion> completions(bool /*recv*/, std::size_t /*hoped*/) override {
        return {};
    }
    [[nodiscard]] std::vector<AsyncEventType> events(std::size_t /*hoped*/) override { return {}; }
    [[nodiscard]] std::uint32_t qp_num() const override { return 1; }
    [[nodiscard]] std::uint32_t peer_qp_num() const override { return 2; }
    [[nodiscard]] wire::PathSpec path() const override { return {}; }
    void transmit(const std::vector<FrameBytes>& /*burst*/) override {}
    [[nodiscard]] const SeenFrame* next(TimeNs /*until*/) override { return nullptr; }
    SeenFrame take() override { return {}; }
    [[nodiscard]] TimeNs now() const override { return 0; }
    void wait_until(TimeNs /*time*/) override {}
    [[nodiscard]] const Tolerance& tolerance() const override { return tolerance_; }
    [[nodiscard]] bool is_selective() const override { return false; }

  private:
    std::vector<TracedFrame> trace_;
    Tolerance tolerance_;
    std::uint32_t plays_ = 0;
};

class GoodPath final : public PathProof {
    std::string prove() override { return {}; }
};

CaseResult judged(std::deque<TimeNs> delays) {
    static const Case entry{"Suite", "Name", "9", "it is right",
                            []() -> std::unique_ptr<Script> { return std::make_unique<NeverRight>(); }};
    HeldUpBench bench;
    bench.delays = std::move(delays);
    GoodPath path;
    return judge(entry, bench, path, {.attempts = 3});
}

TEST(ConformJudge, ATesterThatKeepsTimeFailsACaseAfterItsAttempts) {
    const CaseResult result = judged({kMostHeldUpNs});
    EXPECT_EQ(result.verdict, VerdictKind::kFailed);
    EXPECT_EQ(result.attempts, 3U);
    EXPECT_NE(result.reason.find("it is never right"), std::string::npos);
}

TEST(ConformJudge, ATesterThatIsHeldUpFailsNothing) {
    const CaseResult result = judged({kMostHeldUpNs + 1});
    EXPECT_EQ(result.verdict, VerdictKind::kInconclusive);
    EXPECT_EQ(result.attempts, 3 * kPlaysForAnAttempt);
    EXPECT_TRUE(result.reason.starts_with("the tester was held up by 10 ms; ")) << result.reason;
}

TEST(ConformJudge, WhatAHeldUpTesterSawIsPlayedAgain) {
    const TimeNs much = 3 * kMostHeldUpNs;
    const CaseResult result = judged({much, 0, much, 0, 0});
    EXPECT_EQ(result.verdict, VerdictKind::kFailed);
    EXPECT_EQ(result.attempts, 5U);
}

}  // namespace
}  // namespace urnic::conform
