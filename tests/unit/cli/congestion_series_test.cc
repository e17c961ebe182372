// What `urnic cc trace` makes of the daemon's answers.
#include "cli/congestion_series.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace urnic::cli {
namespace {

using Json = nlohmann::ordered_json;

Json qp_of(std::uint32_t qpn, double rate) {
    return {{"qpn", qpn}, {"rate_mbps", rate}, {"target_mbps", 2 * rate}, {"alpha", 0.25}, {"cnps", 3}};
}

Json congestion_of(const std::string& device, const std::vector<Json>& qps) {
    return {{"devices", Json::array({{{"name", device}, {"qps", qps}}})}};
}

Json status_of(const std::string& device, std::uint64_t sent, std::uint64_t cnps, std::uint64_t queue,
               std::uint64_t marked) {
    return {
        {"devices",
         Json::array({{{"name", device}, {"counters", {{"sent_bytes", sent}, {"rp_cnp_handled", cnps}}}}})},
        {"networks",
         Json::array(
             {{{"fabric", "lab"},
               {"ports",
                Json::array(
                    {{{"device", device}, {"queue_bytes", queue}, {"marked", marked}, {"dropped", 0}}})}}})}};
}

Json series_of(const CongestionSeries& series) {
    const Json document = Json::parse(series.json("name"));
    EXPECT_EQ(document["name"], "name");
    EXPECT_TRUE(document["runs"][0]["fluid"].is_null());
    return document["runs"][0]["series"];
}

TEST(CongestionSeries, QpsThatComeAndGoHaveZerosBeforeAndAfter) {
    CongestionSeries series({});
    series.add(0, congestion_of("a", {qp_of(17, 100)}), status_of("a", 1000, 5, 0, 10));
    EXPECT_EQ(series.last_flows(), "\"\",0,\"a/0x11\",0.100000,0.200000,0.250000,3\n");
    series.add(1000, congestion_of("a", {qp_of(17, 50), qp_of(18, 10)}),
               status_of("a", 126'000, 7, 40'000, 11));
    series.add(2000, congestion_of("a", {qp_of(18, 20)}), status_of("a", 126'000, 7, 0, 14));
    EXPECT_EQ(series.last_ports(), "\"\",2000,\"lab>a\",0,14,0,0,0\n");
    const Json values = series_of(series);
    EXPECT_EQ(values["time_us"], Json({0.0, 1000.0, 2000.0}));
    EXPECT_EQ(values["rate_gbit"], Json({{"a/0x11", {0.1, 0.05, 0.0}}, {"a/0x12", {0.0, 0.01, 0.02}}}));
    EXPECT_EQ(values["target_gbit"]["a/0x12"], Json({0.0, 0.02, 0.04}));
    EXPECT_EQ(values["alpha"]["a/0x11"], Json({0.25, 0.25, 0.0}));
    // 125 kB in a millisecond.
    EXPECT_EQ(values["goodput_gbit"], Json({{"a", {0.0, 1.0, 0.0}}}));
    EXPECT_EQ(values["queue_kb"], Json({{"lab>a", {0.0, 40.0, 0.0}}}));
    EXPECT_EQ(values["cnps"], Json({0.0, 2.0, 2.0}));
    EXPECT_EQ(values["marks"], Json({0.0, 1.0, 4.0}));
    EXPECT_EQ(values["drops"], Json({0.0, 0.0, 0.0}));
    EXPECT_EQ(series.readings(), 3U);
    EXPECT_EQ(series.flows(), 2U);
}

// A pause between two switches is counted where it is sent, one between a switch and an RNIC at the switch.
TEST(CongestionSeries, PausesOfRnicsAndSwitchesAndTheirQueues) {
    const auto status = [](std::uint64_t sent, std::uint64_t received, std::uint64_t queue) {
        Json whole = status_of("a", 0, 0, 0, 0);
        Json& wire = whole["networks"][0];
        wire["ports"][0]["pauses_sent"] = sent;
        wire["ports"][0]["pauses_received"] = received;
        wire["trunks"] = Json::array();
        for (const char* port : {"s1>s2", "s2>s1"}) {
            wire["trunks"].push_back({{"port", port},
                                      {"queue_bytes", queue},
                                      {"marked", 0},
                                      {"dropped", 0},
                                      {"pauses_sent", 2 * sent},
                                      {"pauses_received", 2 * sent}});
        }
        return whole;
    };
    CongestionSeries series({});
    series.add(0, congestion_of("a", {}), status(1, 1, 0));
    series.add(1000, congestion_of("a", {}), status(4, 2, 7'000));
    const Json values = series_of(series);
    EXPECT_EQ(values["pauses"], Json({0.0, 3.0 + 1.0 + 2 * 6.0}));
    EXPECT_EQ(values["queue_kb"]["lab:s1>s2"], Json({0.0, 7.0}));
    EXPECT_EQ(series.last_ports(),
              "\"\",1000,\"lab:s1>s2\",7000,0,0,8,8\n\"\",1000,\"lab:s2>s1\",7000,0,0,8,8\n"
              "\"\",1000,\"lab>a\",0,0,0,4,2\n");
}

TEST(CongestionSeries, OnlyWhatIsNamed) {
    CongestionSeries series({{"a", 18}, {"b", 0}});
    series.add(0, congestion_of("a", {qp_of(17, 100), qp_of(18, 100)}), status_of("a", 0, 0, 0, 0));
    EXPECT_EQ(series.unknown_device(), "b");
    EXPECT_EQ(series.flows(), 1U);
    series.add(1, congestion_of("b", {qp_of(17, 100)}), status_of("b", 0, 0, 0, 0));
    EXPECT_FALSE(series.unknown_device().has_value());
    series.add(2, congestion_of("c", {qp_of(17, 100)}), status_of("c", 0, 0, 0, 0));
    const Json values = series_of(series);
    EXPECT_EQ(values["rate_gbit"].size(), 2U);
    EXPECT_TRUE(values["rate_gbit"].contains("b/0x11"));
    EXPECT_EQ(values["goodput_gbit"].size(), 2U);
}

TEST(CongestionSeries, NoMoreThanThereIsRoomFor) {
    std::vector<Json> qps;
    for (std::uint32_t qpn = 1; qpn <= CongestionSeries::kMaxLines + 3; ++qpn) {
        qps.push_back(qp_of(qpn, 1));
    }
    CongestionSeries series({});
    series.add(0, congestion_of("a", qps), status_of("a", 0, 0, 0, 0));
    series.add(1, congestion_of("a", qps), status_of("a", 0, 0, 0, 0));
    EXPECT_EQ(series.flows(), CongestionSeries::kMaxLines);
    EXPECT_EQ(series.left_out(), 3U);
}

TEST(CongestionSeries, AnotherReleasesAnswersAreNotGuessedAt) {
    CongestionSeries series({});
    EXPECT_THROW(series.add(0, {{"devices", {{{"name", "a"}}}}}, status_of("a", 0, 0, 0, 0)),
                 nlohmann::json::exception);
}

}  // namespace
}  // namespace urnic::cli
