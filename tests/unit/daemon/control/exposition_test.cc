#include "daemon/control/exposition.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace urnic::daemon {
namespace {

TEST(Exposition, FamiliesAreNamedAsEachFormatNamesThem) {
    Exposition page;
    page.family("urnic_sent_bytes_total", MetricType::kCounter, "Bytes.");
    page.series("urnic_sent_bytes_total", "device=\"a\"", 7);
    page.family("urnic_uptime_seconds", MetricType::kGauge, "Time.");
    page.series("urnic_uptime_seconds", "", 1.5);
    page.family("urnic_build_info", MetricType::kInfo, "Release.");
    page.series("urnic_build_info", "version=\"1\"", 1);
    // Not the unit seconds.
    page.family("urnic_milliseconds", MetricType::kGauge, "Made up.");
    const MetricsText text = page.take();
    EXPECT_EQ(text.prometheus,
              "# HELP urnic_sent_bytes_total Bytes.\n"
              "# TYPE urnic_sent_bytes_total counter\n"
              "urnic_sent_bytes_total{device=\"a\"} 7\n"
              "# HELP urnic_uptime_seconds Time.\n"
              "# TYPE urnic_uptime_seconds gauge\n"
              "urnic_uptime_seconds 1.5\n"
              "# HELP urnic_build_info Release.\n"
              "# TYPE urnic_build_info gauge\n"
              "urnic_build_info{version=\"1\"} 1\n"
              "# HELP urnic_milliseconds Made up.\n"
              "# TYPE urnic_milliseconds gauge\n");
    EXPECT_EQ(text.openmetrics,
              "# TYPE urnic_sent_bytes counter\n"
              "# UNIT urnic_sent_bytes bytes\n"
              "# HELP urnic_sent_bytes Bytes.\n"
              "urnic_sent_bytes_total{device=\"a\"} 7\n"
              "# TYPE urnic_uptime_seconds gauge\n"
              "# UNIT urnic_uptime_seconds seconds\n"
              "# HELP urnic_uptime_seconds Time.\n"
              "urnic_uptime_seconds 1.5\n"
              "# TYPE urnic_build info\n"
              "# HELP urnic_build Release.\n"
              "urnic_build_info{version=\"1\"} 1\n"
              "# TYPE urnic_milliseconds gauge\n"
              "# HELP urnic_milliseconds Made up.\n"
              "# EOF\n");
}

TEST(Exposition, BucketsOfAHistogramAreCumulative) {
    Exposition page;
    page.family("urnic_latency_seconds", MetricType::kHistogram, "Time.");
    constexpr std::array<HistogramBucket, 3> kBuckets{{{1.024e-06, 2}, {1, 0}, {16'777'216, 3}}};
    page.histogram("urnic_latency_seconds", "device=\"a\"", kBuckets, 4, 0.25);
    const MetricsText text = page.take();
    const std::string samples =
        "urnic_latency_seconds_bucket{device=\"a\",le=\"1.024e-06\"} 2\n"
        "urnic_latency_seconds_bucket{device=\"a\",le=\"1.0\"} 2\n"
        "urnic_latency_seconds_bucket{device=\"a\",le=\"16777216.0\"} 5\n"
        "urnic_latency_seconds_bucket{device=\"a\",le=\"+Inf\"} 9\n"
        "urnic_latency_seconds_sum{device=\"a\"} 0.25\n"
        "urnic_latency_seconds_count{device=\"a\"} 9\n";
    EXPECT_EQ(text.prometheus,
              "# HELP urnic_latency_seconds Time.\n# TYPE urnic_latency_seconds histogram\n" + samples);
    EXPECT_EQ(text.openmetrics,
              "# TYPE urnic_latency_seconds histogram\n# UNIT urnic_latency_seconds seconds\n"
              "# HELP urnic_latency_seconds Time.\n" +
                  samples + "# EOF\n");
}

TEST(Exposition, LabelsOfOthersCannotEndTheirLine) {
    EXPECT_EQ(escaped_label("a\"b\\c\nd\x7f\xc3\xa4"), "a\\\"b\\\\c?d???");
}

}  // namespace
}  // namespace urnic::daemon
