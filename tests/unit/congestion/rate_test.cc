#include <gtest/gtest.h>

#include <vector>

#include "congestion/pacer.h"
#include "congestion/profiles.h"
#include "congestion/rate_control.h"
#include "tests/support/find_dcqcn_profile.h"

namespace urnic::congestion {
namespace {

constexpr BitsPerSecond kTenGbit = 10'000'000'000;
constexpr TimeNs kMicrosecond = 1'000;

class TimelyTest : public ::testing::Test {
  protected:
    TimelyTest() { timely_.start(kTenGbit); }
    void rtts(const std::vector<TimeNs>& list) {
        for (const TimeNs rtt : list) {
            timely_.on_rtt(p_, rtt);
        }
    }

    TimelyParameters p_ = timely_of_paper();
    Timely timely_;
};

TEST_F(TimelyTest, TheFirstRoundTripSaysNothing) {
    rtts({900 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), kTenGbit);
}

// Above t_high the rate falls to 1 - beta (1 - t_high / rtt) of what it was, whatever the trend.
TEST_F(TimelyTest, AboveTHighTheRateFalls) {
    rtts({2'000 * kMicrosecond, 1'000 * kMicrosecond});
    EXPECT_NEAR(static_cast<double>(timely_.rate()), kTenGbit * (1 - 0.8 * 0.5), kTenGbit * 1e-6);
}

TEST_F(TimelyTest, BelowTLowItRisesWhateverTheTrend) {
    rtts({1'000 * kMicrosecond, 1'000 * kMicrosecond});
    const BitsPerSecond low = timely_.rate();
    rtts({20 * kMicrosecond, 30 * kMicrosecond, 40 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), low + 3 * p_.increase);
}

// Between the two a growing round trip time takes beta times the smoothed growth, as a part of the shortest.
TEST_F(TimelyTest, BetweenThemTheTrendDecides) {
    rtts({100 * kMicrosecond, 110 * kMicrosecond});
    const double gradient = 0.875 * 10 / 20;
    EXPECT_NEAR(static_cast<double>(timely_.rate()), kTenGbit * (1 - 0.8 * gradient), kTenGbit * 1e-5);
    const BitsPerSecond before = timely_.rate();
    rtts({80 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), before + p_.increase);
    timely_.start(kTenGbit);
    rtts({600 * kMicrosecond, 600 * kMicrosecond});
    const BitsPerSecond low = timely_.rate();
    timely_.start(low);  // a line of that rate: it may not be passed, and nothing may take from it
    rtts({100 * kMicrosecond, 100 * kMicrosecond, 100 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), low);
}

TEST_F(TimelyTest, AfterFiveRisesEachCountsFiveTimes) {
    rtts({1'000 * kMicrosecond, 1'000 * kMicrosecond});
    const BitsPerSecond low = timely_.rate();
    rtts({10 * kMicrosecond, 10 * kMicrosecond, 10 * kMicrosecond, 10 * kMicrosecond, 10 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), low + 5 * p_.increase);
    rtts({10 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), low + 10 * p_.increase);
    rtts({1'000 * kMicrosecond});
    const BitsPerSecond fallen = timely_.rate();
    rtts({10 * kMicrosecond});
    EXPECT_EQ(timely_.rate(), fallen + p_.increase);
}

TEST_F(TimelyTest, NeverBelowTheLeastRateNorAboveTheLine) {
    rtts(std::vector<TimeNs>(100, 10'000 * kMicrosecond));
    EXPECT_EQ(timely_.rate(), p_.min_rate);
    rtts(std::vector<TimeNs>(10'000, 1));
    EXPECT_EQ(timely_.rate(), kTenGbit);
    rtts({0, kNever, 0, kNever});  // nonsense harms nothing
    EXPECT_GE(timely_.rate(), p_.min_rate);
    EXPECT_LE(timely_.rate(), kTenGbit);
}

TEST(RateControl, EachAlgorithmListensToItsOwn) {
    RateParameters p;
    p.line_rate = kTenGbit;
    p.fixed_rate = kTenGbit / 8;
    p.dcqcn = find_dcqcn_profile("paper").parameters;
    p.timely = timely_of_paper();
    const auto rate_after = [&](Algorithm algorithm, bool cnp, bool rtt) {
        p.algorithm = algorithm;
        RateControl control;
        control.start(p);
        if (cnp) {
            control.on_cnp(p, 100);
        }
        if (rtt) {
            control.on_rtt(p, 1'000 * kMicrosecond);
            control.on_rtt(p, 1'000 * kMicrosecond);
        }
        EXPECT_EQ(control.deadline(p) != kNever, algorithm == Algorithm::kDcqcn && cnp);
        return control.rate(p);
    };
    EXPECT_EQ(rate_after(Algorithm::kNone, true, true), kTenGbit);
    EXPECT_EQ(rate_after(Algorithm::kFixed, true, true), kTenGbit / 8);
    EXPECT_EQ(rate_after(Algorithm::kDcqcn, false, true), kTenGbit);
    EXPECT_EQ(rate_after(Algorithm::kDcqcn, true, false), kTenGbit / 2);
    EXPECT_EQ(rate_after(Algorithm::kTimely, true, false), kTenGbit);
    EXPECT_LT(rate_after(Algorithm::kTimely, false, true), kTenGbit);
    p.fixed_rate = 2 * kTenGbit;
    EXPECT_EQ(rate_after(Algorithm::kFixed, false, false), kTenGbit);
}

TEST(Pacer, TheMeanIsTheRate) {
    for (const BitsPerSecond rate : {BitsPerSecond{10'000'000}, kTenGbit, BitsPerSecond{400'000'000'000}}) {
        for (const std::uint32_t bytes : {64U, 1086U, 4158U}) {
            Pacer pacer;
            pacer.start(5'000'000'000);
            TimeNs now = 5'000'000'000;
            constexpr int kPackets = 10'000;
            for (int i = 0; i < kPackets; ++i) {
                now = std::max(now, pacer.next_ns());
                pacer.sent(now, bytes, rate, bytes);
            }
            const double seconds = static_cast<double>(pacer.next_ns() - 5'000'000'000) / 1e9;
            EXPECT_NEAR(kPackets * bytes * 8.0 / seconds, static_cast<double>(rate),
                        static_cast<double>(rate) * 1e-3);
        }
    }
}

TEST(Pacer, ABurstAfterSilenceIsBounded) {
    Pacer pacer;
    pacer.start(0);
    const auto burst = [&](TimeNs now, std::uint32_t burst_bytes) {
        std::uint32_t sent = 0;
        for (; pacer.next_ns() <= now; ++sent) {
            pacer.sent(now, 1000, 1'000'000'000, burst_bytes);
        }
        return sent;
    };
    EXPECT_EQ(burst(1'000'000'000, 4'000), 5U);  // four that were saved up, and the one whose turn it is
    EXPECT_EQ(burst(1'000'000'000, 4'000), 0U);
    EXPECT_EQ(burst(1'000'008'000, 4'000), 1U);
    EXPECT_EQ(burst(9'000'000'000, 0), 1U);
}

TEST(Pacer, AbsurdRatesAndSizesDoNotOverflow) {
    Pacer pacer;
    pacer.start(1);
    pacer.sent(1, ~0U, 0, ~0U);
    EXPECT_EQ(pacer.next_ns(), 1 + (std::uint64_t{Pacer::kMaxBytes} * 8'000'000));  // at kMinRate
    pacer.start(1);
    pacer.sent(1, 1, ~BitsPerSecond{0}, 0);
    EXPECT_EQ(pacer.next_ns(), 2U);
}

}  // namespace
}  // namespace urnic::congestion
