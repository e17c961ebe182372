#include "rnic/qp/rc/rtt_estimator.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

constexpr TimeNs kNothingRetransmitted = 0;

TEST(RttEstimator, KnowsNothingBeforeTheFirstSample) {
    const RttEstimator rtt;
    EXPECT_EQ(rtt.latest_ns(), 0U);
    EXPECT_EQ(rtt.min_ns(), 0U);
    EXPECT_EQ(rtt.max_ns(), 0U);
    EXPECT_EQ(rtt.max_any_ns(), 0U);
    EXPECT_EQ(rtt.max_retransmit_ns(), RttEstimator::kInitialRttNs);
}

TEST(RttEstimator, AnAcknowledgementOfTheTimedPacketEndsTheSample) {
    RttEstimator rtt;
    rtt.start_sample(1000, Psn(0xff'ffff));
    EXPECT_FALSE(rtt.on_ack(2000, Psn(0xff'ffff), kNothingRetransmitted))
        << "it covers what is before the packet";
    EXPECT_TRUE(rtt.on_ack(3500, Psn(0), kNothingRetransmitted));
    EXPECT_EQ(rtt.latest_ns(), 2500U);
    EXPECT_FALSE(rtt.on_ack(9000, Psn(5), kNothingRetransmitted)) << "no sample is in progress";
    EXPECT_EQ(rtt.latest_ns(), 2500U);
}

TEST(RttEstimator, TimesOnePacketAtATime) {
    RttEstimator rtt;
    rtt.start_sample(1000, Psn(10));
    rtt.start_sample(1500, Psn(11));
    EXPECT_TRUE(rtt.on_ack(2000, Psn(12), kNothingRetransmitted));
    EXPECT_EQ(rtt.latest_ns(), 1000U);
}

TEST(RttEstimator, ACancelledSampleCountsForNothing) {
    RttEstimator rtt;
    rtt.start_sample(1000, Psn(10));
    rtt.cancel_sample();
    EXPECT_FALSE(rtt.on_ack(2000, Psn(12), kNothingRetransmitted));
    EXPECT_EQ(rtt.max_any_ns(), 0U);
}

// Karn's rule (RFC 6298, section 3).
TEST(RttEstimator, ASampleWithARetransmissionInItIsAmbiguous) {
    RttEstimator rtt;
    rtt.start_sample(1000, Psn(10));
    EXPECT_FALSE(rtt.on_ack(5000, Psn(11), 1001));
    EXPECT_EQ(rtt.max_any_ns(), 4000U);
    EXPECT_EQ(rtt.max_ns(), 0U);
    EXPECT_EQ(rtt.min_ns(), 0U);
    EXPECT_EQ(rtt.latest_ns(), 0U);
    rtt.start_sample(6000, Psn(12));
    EXPECT_TRUE(rtt.on_ack(6100, Psn(13), 6000)) << "retransmitted before the sample, or with it";
    EXPECT_EQ(rtt.latest_ns(), 100U);
}

TEST(RttEstimator, TheMinimumIsTheShortestEver) {
    RttEstimator rtt;
    rtt.add_sample(500, true);
    rtt.add_sample(300, true);
    rtt.add_sample(100, false);
    rtt.add_sample(900, true);
    EXPECT_EQ(rtt.min_ns(), 300U);
    EXPECT_EQ(rtt.latest_ns(), 900U);
}

TEST(RttEstimator, TheMaximumDecaysByAnEighthWithEachShorterSample) {
    RttEstimator rtt;
    rtt.add_sample(8000, true);
    rtt.add_sample(10, true);
    EXPECT_EQ(rtt.max_ns(), 7000U);
    rtt.add_sample(10, false);
    EXPECT_EQ(rtt.max_ns(), 7000U);
    EXPECT_EQ(rtt.max_any_ns(), 7000U - 7000U / 8);
    rtt.add_sample(7500, true);
    EXPECT_EQ(rtt.max_ns(), 7500U);
    for (int i = 0; i < 100; ++i) {
        rtt.add_sample(10, true);
    }
    EXPECT_EQ(rtt.max_ns(), 10U);
}

TEST(RttEstimator, RetransmissionsHaveAMaximumOfTheirOwn) {
    RttEstimator rtt;
    rtt.add_retransmit_sample(80'000);
    EXPECT_EQ(rtt.max_retransmit_ns(), 80'000U);
    rtt.add_retransmit_sample(8);
    EXPECT_EQ(rtt.max_retransmit_ns(), 70'000U);
    EXPECT_EQ(rtt.max_any_ns(), 0U);
    rtt.reset();
    EXPECT_EQ(rtt.max_retransmit_ns(), RttEstimator::kInitialRttNs);
}

}  // namespace
}  // namespace urnic
