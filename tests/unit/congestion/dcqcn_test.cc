#include "congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "congestion/profiles.h"
#include "tests/support/find_dcqcn_profile.h"
#include "tests/unit/congestion/dcqcn_model.h"

namespace urnic::congestion {
namespace {

constexpr BitsPerSecond kLine = 40'000'000'000;
constexpr TimeNs kUs = 1'000;

const DcqcnParameters& paper() { return find_dcqcn_profile("paper").parameters; }

class DcqcnTest : public ::testing::Test {
  protected:
    DcqcnTest() { rp_.start(p_, kLine); }
    void cnp(TimeNs now) { rp_.on_cnp(p_, now); }
    // As an owner does: at each deadline up to `end`.
    void pass_until(TimeNs end) {
        for (TimeNs due = rp_.deadline(p_); due <= end; due = rp_.deadline(p_)) {
            rp_.on_timer(p_, due);
        }
        rp_.on_timer(p_, end);
    }

    DcqcnParameters p_ = paper();
    Dcqcn rp_;
};

TEST_F(DcqcnTest, BeginsAtTheLineRateAndWantsNothing) {
    EXPECT_EQ(rp_.rate(), kLine);
    EXPECT_EQ(rp_.deadline(p_), kNever);
    rp_.on_bytes_sent(p_, 10, 1'000'000'000);
    rp_.on_timer(p_, 1'000'000'000);
    EXPECT_EQ(rp_.rate(), kLine);
    EXPECT_EQ(rp_.deadline(p_), kNever);
}

TEST_F(DcqcnTest, TheFirstCnpHalvesTheRate) {
    cnp(1000);
    EXPECT_EQ(rp_.rate(), 20'000'000'000U);
    EXPECT_EQ(rp_.target(), kLine);
    EXPECT_EQ(rp_.alpha(), Fraction::one());
    EXPECT_EQ(rp_.deadline(p_), 1000 + 55 * kUs);
}

// RC = 40 - 20 / 2^k Gbit/s after k steps of fast recovery, to the bit.
TEST_F(DcqcnTest, FastRecoveryHalvesTheDistance) {
    p_.increase_bytes = 0;
    p_.recovery_stages = 12;
    cnp(0);
    for (std::uint64_t k = 1; k < 12; ++k) {
        pass_until(k * 55 * kUs);
        EXPECT_EQ(rp_.rate(), kLine - (kLine / 2 >> k)) << k;
        EXPECT_EQ(rp_.target(), kLine);
    }
}

// The paper's F = 5 with both counters: 39.375 Gbit/s after five steps, of which one was counted by bytes.
TEST_F(DcqcnTest, BytesCountAsTheTimerDoes) {
    cnp(0);
    pass_until(4 * 55 * kUs);
    rp_.on_bytes_sent(p_, 4 * 55 * kUs, 9'999'999);
    EXPECT_EQ(rp_.rate(), 38'750'000'000U);
    rp_.on_bytes_sent(p_, 4 * 55 * kUs, 1);
    EXPECT_EQ(rp_.rate(), 39'375'000'000U);
}

// (1-g)^n after n periods without a CNP: 255^n / 2^24 as long as that is a multiple of 2^-24.
TEST_F(DcqcnTest, AlphaFallsByThePeriod) {
    cnp(0);
    std::uint32_t exact = Fraction::kOne;
    for (std::uint64_t n = 1; n <= 3; ++n) {
        exact = exact / 256 * 255;
        pass_until(n * 55 * kUs);
        EXPECT_EQ(rp_.alpha().raw(), exact) << n;
    }
    EXPECT_EQ(rp_.alpha().raw(), 255U * 255U * 255U);
    pass_until(1000 * 55 * kUs);
    const double real = std::pow(255.0 / 256, 1000) * Fraction::kOne;
    EXPECT_LE(rp_.alpha().raw(), real);
    EXPECT_GE(rp_.alpha().raw(), real - 256);  // rounded down: at most g^-1 units are lost in the long run
}

TEST_F(DcqcnTest, AlphaReachesZeroAndACnpThenCutsALittle) {
    cnp(0);
    pass_until(10'000'000'000);
    EXPECT_EQ(rp_.rate(), kLine);
    EXPECT_EQ(rp_.alpha().raw(), 0U);
    cnp(10'000'000'000);
    EXPECT_EQ(rp_.rate(), kLine);  // alpha was 0 when it came
    EXPECT_EQ(rp_.alpha(), p_.g);
    cnp(10'000'050'000);
    EXPECT_EQ(rp_.rate(), kLine - kLine / 512);
}

TEST_F(DcqcnTest, AdditiveThenHyperIncrease) {
    cnp(0);
    cnp(10);  // the target is 20 Gbit/s now
    EXPECT_EQ(rp_.target(), 20'000'000'000U);
    pass_until(10 + 4 * 55 * kUs);
    EXPECT_EQ(rp_.target(), 20'000'000'000U);  // fast recovery moves no target
    pass_until(10 + 5 * 55 * kUs);
    EXPECT_EQ(rp_.target(), 20'040'000'000U);
    pass_until(10 + 7 * 55 * kUs);
    EXPECT_EQ(rp_.target(), 20'120'000'000U);  // the byte counter has not passed F: additive still
    rp_.on_bytes_sent(p_, 10 + 7 * 55 * kUs, 5 * p_.increase_bytes);
    EXPECT_EQ(rp_.target(), 20'320'000'000U);
    rp_.on_bytes_sent(p_, 10 + 7 * 55 * kUs, p_.increase_bytes);
    EXPECT_EQ(rp_.target(), 20'520'000'000U);  // both have
}

TEST_F(DcqcnTest, NeverBelowTheLeastRateNorAboveTheLine) {
    for (TimeNs now = 0; now < 100 * kUs; now += 100) {
        cnp(now);
        ASSERT_GE(rp_.rate(), p_.min_rate);
    }
    EXPECT_EQ(rp_.rate(), p_.min_rate);
    pass_until(60'000'000'000);
    EXPECT_EQ(rp_.rate(), kLine);
    EXPECT_EQ(rp_.deadline(p_), kNever);
}

TEST_F(DcqcnTest, OneCutInAWindowAtItsEnd) {
    p_ = find_dcqcn_profile("ns3-hpcc").parameters;
    rp_.start(p_, kLine);
    cnp(100);
    EXPECT_EQ(rp_.rate(), kLine);
    EXPECT_EQ(rp_.deadline(p_), 4'100U);
    cnp(200);
    cnp(4'099);
    pass_until(4'100);
    const BitsPerSecond once = rp_.rate();
    EXPECT_LT(once, kLine * 51 / 100);
    EXPECT_GT(once, kLine * 49 / 100);
    pass_until(20'099);
    EXPECT_EQ(rp_.rate(), once);
    cnp(20'099);  // the window from 16.1 us to 20.1 us
    EXPECT_EQ(rp_.deadline(p_), 20'100U);
}

TEST_F(DcqcnTest, ATargetThatDidNotRiseSinceTheLastCutIsKept) {
    p_.clamp_tgt_rate = false;
    cnp(0);
    EXPECT_EQ(rp_.target(), kLine);
    cnp(10);
    EXPECT_EQ(rp_.target(), kLine);
    EXPECT_EQ(rp_.rate(), kLine / 4);
    pass_until(10 + 55 * kUs);
    const BitsPerSecond before = rp_.rate();
    cnp(20 + 55 * kUs);
    EXPECT_EQ(rp_.target(), before);
    rp_.on_bytes_sent(p_, 30 + 55 * kUs, p_.increase_bytes);
    const BitsPerSecond risen = rp_.rate();
    cnp(40 + 55 * kUs);
    EXPECT_EQ(rp_.target(), risen);
}

TEST_F(DcqcnTest, WhatIsLateCountsAtTheTimeWhenItWasDue) {
    Dcqcn late = rp_;
    cnp(0);
    late.on_cnp(p_, 0);
    pass_until(1'234'567);
    late.on_timer(p_, 1'234'567);
    EXPECT_EQ(late.rate(), rp_.rate());
    EXPECT_EQ(late.alpha(), rp_.alpha());
    EXPECT_EQ(late.deadline(p_), rp_.deadline(p_));
}

// Every profile against the model that knows only the paper's words, over random CNPs and bytes.
class DcqcnTrace : public ::testing::TestWithParam<std::string_view> {};

TEST_P(DcqcnTrace, AgreesWithTheModelStepByStep) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const BitsPerSecond line : {kLine, BitsPerSecond{400'000'000'000}}) {
        DcqcnParameters p = parameters_for(find_dcqcn_profile(GetParam()), line);
        p.increase_bytes /= 1000;  // so that it counts in a short time
        p.rate_to_set_on_first_cnp = random() % 2 == 0 ? 0 : line / 3;
        Dcqcn rp;
        rp.start(p, line);
        DcqcnModel model(p, static_cast<double>(line));
        TimeNs now = 0;
        for (int event = 0; event < 400; ++event) {
            const TimeNs until = now + random() % (event % 50 == 49 ? 200'000 : 8'000) + 1;
            for (; now < until; ++now) {
                model.nanosecond();
            }
            if (random() % 3 == 0) {
                rp.on_cnp(p, now);
                model.cnp();
            } else {
                // An owner that looks at the clock when it has something to say, and only then.
                const std::uint64_t bytes = random() % 8'000;
                rp.on_timer(p, now);
                rp.on_bytes_sent(p, now, bytes);
                if (model.rate < static_cast<double>(line) - 0.5) {
                    model.bytes(static_cast<double>(bytes));
                }
            }
            const auto rate = static_cast<double>(rp.rate());
            const auto target = static_cast<double>(rp.target());
            const double alpha = rp.alpha().raw() / static_cast<double>(Fraction::kOne);
            ASSERT_NEAR(rate, model.rate, model.rate * 2e-5 + 20) << "event " << event << " at " << now;
            ASSERT_NEAR(target, model.target, model.target * 2e-5 + 20) << "event " << event << " at " << now;
            ASSERT_NEAR(alpha, model.alpha, 2e-5) << "event " << event << " at " << now;
            // What was rounded does not add up from step to step.
            model.rate = rate;
            model.target = target;
            model.alpha = alpha;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Profiles, DcqcnTrace,
                         ::testing::Values("paper", "connectx", "ns3-hpcc", "ns3-bobzhuyb"),
                         [](const auto& info) {
                             std::string name(info.param);
                             std::erase(name, '-');
                             return name;
                         });

TEST(DcqcnProfiles, AreAllRight) {
    EXPECT_EQ(dcqcn_profiles().front().name, "paper");
    for (const DcqcnProfile& profile : dcqcn_profiles()) {
        EXPECT_EQ(problem_of(profile.parameters), "") << profile.name;
        EXPECT_EQ(problem_of(parameters_for(profile, kMaxRate)), "") << profile.name;
    }
}

TEST(DcqcnProfiles, SomeGrowWithTheLine) {
    const DcqcnProfile& hpcc = find_dcqcn_profile("ns3-hpcc");
    EXPECT_EQ(parameters_for(hpcc, 100'000'000'000).additive_increase, 20'000'000U);
    EXPECT_EQ(parameters_for(hpcc, 100'000'000'000).hyper_increase, 200'000'000U);
    const DcqcnProfile& nic = find_dcqcn_profile("connectx");
    EXPECT_EQ(parameters_for(nic, 100'000'000'000), nic.parameters);
}

TEST(DcqcnProfiles, EachParameterOutOfRangeIsNamed) {
    const auto problem = [](auto change) {
        DcqcnParameters p = paper();
        change(p);
        return std::string(problem_of(p));
    };
    using P = DcqcnParameters;
    EXPECT_NE(problem([](P& p) { p.g = Fraction::of(1, 1025); }).find("g is"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.alpha_period_ns = 0; }).find("alpha period"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.alpha_period_ns = 499; }).find("alpha period"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.rate_reduce_monitor_period_ns = 1; }).find("cut window"),
              std::string::npos);
    EXPECT_NE(problem([](P& p) { p.increase_period_ns = 1'000'000'001; }).find("increase period"),
              std::string::npos);
    EXPECT_NE(problem([](P& p) { p.increase_bytes = 1023; }).find("byte counter"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.increase_bytes = p.increase_period_ns = 0; }).find("ever rise"),
              std::string::npos);
    EXPECT_NE(problem([](P& p) { p.additive_increase = 0; }).find("increases"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.hyper_increase = kMaxRate + 1; }).find("increases"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.min_rate = kMinRate - 1; }).find("least rate"), std::string::npos);
    EXPECT_NE(problem([](P& p) { p.rate_to_set_on_first_cnp = kMaxRate + 1; }).find("first CNP"),
              std::string::npos);
}

}  // namespace
}  // namespace urnic::congestion
