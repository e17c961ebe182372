// What a trace says of a rate: each change once, and why.
#include "rnic/qp/captured_work.h"

#include <gtest/gtest.h>

#include "congestion/profiles.h"

namespace urnic {
namespace {

constexpr BitsPerSecond kLine = 1'000'000'000;
constexpr TimeNs kStart = 1'000'000'000;

congestion::Settings with(congestion::Algorithm algorithm) {
    congestion::Settings settings;
    settings.rate.algorithm = algorithm;
    settings.rate.line_rate = kLine;
    settings.rate.dcqcn = congestion::parameters_for(congestion::dcqcn_profiles()[0], kLine);
    settings.rate.dcqcn.rate_reduce_monitor_period_ns = 0;
    settings.rate.dcqcn.increase_bytes = 100'000;
    return settings;
}

TEST(RateWatch, DcqcnChangesByCnpsTimerAndBytes) {
    const congestion::Settings settings = with(congestion::Algorithm::kDcqcn);
    FlowRate flow(&settings);
    RateWatch watch;
    watch.begin(flow);
    EXPECT_FALSE(watch.has_changed(flow));
    ASSERT_TRUE(flow.on_cnp(kStart, kStart));
    ASSERT_TRUE(watch.has_changed(flow));
    const auto cut = watch.look(flow);
    ASSERT_TRUE(cut.has_value());
    EXPECT_EQ(cut->cause, abi::RateCause::kCnp);
    EXPECT_EQ(cut->old_bits_per_s, kLine);
    EXPECT_EQ(cut->bits_per_s, flow.rate());
    EXPECT_EQ(cut->target_bits_per_s, kLine);
    EXPECT_EQ(cut->alpha_ppm, 1'000'000U);
    EXPECT_FALSE(watch.has_changed(flow));
    const BitsPerSecond low = flow.rate();
    flow.sent(kStart + 1, kStart + 1, 100'000);
    const auto by_bytes = watch.look(flow);
    ASSERT_TRUE(by_bytes.has_value());
    EXPECT_EQ(by_bytes->cause, abi::RateCause::kByteCounter);
    EXPECT_EQ(by_bytes->old_bits_per_s, low);
    EXPECT_GT(by_bytes->bits_per_s, low);
    const TimeNs due = flow.deadline();
    flow.on_timer(due, due);
    const auto by_timer = watch.look(flow);
    ASSERT_TRUE(by_timer.has_value());
    EXPECT_EQ(by_timer->cause, abi::RateCause::kTimer);
    // A cut and the step behind it between two looks: the rate has fallen.
    const TimeNs later = due + settings.min_time_between_cnps_ns;
    ASSERT_TRUE(flow.on_cnp(later, later));
    flow.sent(later + 1, later + 1, 100'000);
    const auto cut_again = watch.look(flow);
    ASSERT_TRUE(cut_again.has_value());
    EXPECT_EQ(cut_again->cause, abi::RateCause::kCnp);
}

TEST(RateWatch, SettingsBeginAnew) {
    const congestion::Settings dcqcn = with(congestion::Algorithm::kDcqcn);
    FlowRate flow(&dcqcn);
    RateWatch watch;
    watch.begin(flow);
    ASSERT_TRUE(flow.on_cnp(kStart, kStart));
    (void)watch.look(flow);
    flow.reset();
    const auto reset = watch.look(flow);
    ASSERT_TRUE(reset.has_value());
    EXPECT_EQ(reset->cause, abi::RateCause::kSettings);
    EXPECT_EQ(reset->bits_per_s, kLine);
    flow.reset();
    EXPECT_FALSE(watch.look(flow).has_value()) << "the rate is the same";
    EXPECT_FALSE(watch.has_changed(flow));
    congestion::Settings none = with(congestion::Algorithm::kNone);
    flow.settings_changed(kStart, &none);
    const auto off = watch.look(flow);
    ASSERT_TRUE(off.has_value());
    EXPECT_EQ(off->cause, abi::RateCause::kSettings);
    EXPECT_EQ(off->bits_per_s, 0U);
}

TEST(RateWatch, TimelyChangesByRoundTrips) {
    congestion::Settings settings = with(congestion::Algorithm::kTimely);
    settings.rate.timely = congestion::timely_of_paper();
    FlowRate flow(&settings);
    RateWatch watch;
    watch.begin(flow);
    flow.on_rtt(kStart, 50'000);
    flow.on_rtt(kStart, 1'000'000);
    const auto slower = watch.look(flow);
    ASSERT_TRUE(slower.has_value());
    EXPECT_EQ(slower->cause, abi::RateCause::kRtt);
    EXPECT_EQ(slower->target_bits_per_s, 0U);
}

}  // namespace
}  // namespace urnic
