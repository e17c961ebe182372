// The tables of `urnic top`.
#include "cli/top_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace {

using TopStatus = nlohmann::ordered_json;
using Key = TopPage::Key;

const TopStatus kNoStatus;

TopStatus top_status(int rnics, int qps) {
    TopStatus status = TopStatus::parse(
        R"({"daemon": {"version": "1.2.3", "pid": 42, "uptime_seconds": 100}, "devices": [],
            "clients": [{"pid": 4711, "program": "writer", "qps": []}]})");
    for (int i = 0; i < rnics; ++i) {
        status["devices"].push_back(TopStatus::parse(fmt::format(
            R"({{"name": "urnic{}", "port": {{"state": "ACTIVE", "rx_missed": 0}},
                 "counters": {{"sent_bytes": {}, "rcvd_bytes": 0, "sent_pkts": 1, "rcvd_pkts": 2, "retrans_pkts": 0,
                              "rnr_nak_retry_err": 0, "out_of_buffer": 0, "drop_qkey": 0, "drop_not_for_us": 0}}}})",
            i, 1000 * i)));
    }
    for (int i = 0; i < qps; ++i) {
        status["clients"][0]["qps"].push_back({{"device", "urnic0"},
                                               {"qpn", 100 + i},
                                               {"type", "RC"},
                                               {"state", "RTS"},
                                               {"peer_qpn", 7},
                                               {"sq_psn", 0xff'fff0},
                                               {"rq_psn", 5}});
    }
    return status;
}

std::vector<std::string> texts(TopPage& page, const TopStatus& now, const TopStatus& earlier = kNoStatus,
                               std::size_t width = 80, std::size_t height = 24) {
    std::vector<std::string> lines;
    for (const TopLine& line : page.lines({now, earlier, 2}, width, height)) lines.push_back(line.text);
    return lines;
}

TEST(TopPage, RatesOfTwoLooks) {
    const TopStatus earlier = top_status(2, 2);
    TopStatus now = earlier;
    TopStatus& counters = now["devices"][0]["counters"];
    counters["sent_bytes"] = 2'500'000'000;
    counters["rcvd_pkts"] = 3002;
    counters["retrans_pkts"] = 8;
    counters["rnr_nak_retry_err"] = 6;
    counters["out_of_buffer"] = 4;
    counters["drop_qkey"] = 14;
    counters["drop_not_for_us"] = 100;
    now["devices"][0]["port"]["rx_missed"] = 6;
    now["clients"][0]["qps"][0]["sq_psn"] = 0x10;  // over the end of 24 bits
    now["clients"][0]["qps"][1]["sq_psn"] = 0x10'0000 - 0x80'0000 + 0xff'fff0;
    TopPage page;
    const auto lines = texts(page, now, earlier);
    ASSERT_EQ(lines.size(), 24U);
    EXPECT_EQ(lines[0], "urnicd 1.2.3, process 42, up 100 s; 2 RNICs, 2 QPs");
    EXPECT_EQ(lines[1], "*RNIC       port         sent  received  pkt/s  drop/s  resent/s  RNR/s norecv/s");
    EXPECT_EQ(lines[2], "urnic0      ACTIVE  1.25 GB/s     0 B/s 1.50 k      10         4      3        2");
    EXPECT_EQ(lines[3], "urnic1      ACTIVE      0 B/s     0 B/s      0       0         0      0        0");
    EXPECT_EQ(lines[5], "*RNIC             QP type     state   peer QP  out/s   in/s  process program    ");
    EXPECT_EQ(lines[6], "urnic0           100 RC       RTS           7     16      0     4711 writer     ");
    EXPECT_EQ(lines[7], "urnic0           101 RC       RTS           7      -      0     4711 writer     ");
    EXPECT_EQ(texts(page, now)[2],
              "urnic0      ACTIVE          -         -      -       -         -      -        -");
}

TEST(TopPage, SortsByTheColumnThatIsChosen) {
    const TopStatus earlier = top_status(3, 0);
    TopStatus now = earlier;
    now["devices"][1]["counters"]["sent_bytes"] = 3000;
    now["devices"][2]["counters"]["sent_bytes"] = 2500;
    TopPage page;
    page.press(Key::kSort);
    page.press(Key::kSort);
    auto lines = texts(page, now, earlier);
    EXPECT_NE(lines[1].find("*sent"), std::string::npos) << lines[1];
    EXPECT_TRUE(lines[2].starts_with("urnic1")) << lines[2];
    EXPECT_TRUE(lines[3].starts_with("urnic2")) << lines[3];
    page.press(Key::kReverse);
    lines = texts(page, now, earlier);
    EXPECT_TRUE(lines[2].starts_with("urnic0")) << lines[2];
    EXPECT_TRUE(lines[4].starts_with("urnic1")) << lines[4];
    page.press(Key::kOtherTable);
    page.press(Key::kSort);
    EXPECT_NE(texts(page, now, earlier)[6].find("*QP"), std::string::npos);
}

TEST(TopPage, ScrollsToTheEndAndNoFarther) {
    const TopStatus now = top_status(1, 100);
    TopPage page;
    page.press(Key::kOtherTable);
    page.press(Key::kSort);
    page.press(Key::kReverse);
    (void)texts(page, now);
    page.press(Key::kDown);
    EXPECT_TRUE(texts(page, now)[5].starts_with("urnic0           101")) << texts(page, now)[5];
    page.press(Key::kPageDown);
    EXPECT_TRUE(texts(page, now)[5].starts_with("urnic0           119")) << texts(page, now)[5];
    for (int i = 0; i < 20; ++i) page.press(Key::kPageDown);
    EXPECT_TRUE(texts(page, now)[22].starts_with("urnic0           199")) << texts(page, now)[22];
    page.press(Key::kPageUp);
    EXPECT_TRUE(texts(page, now)[5].starts_with("urnic0           164")) << texts(page, now)[5];
    for (int i = 0; i < 200; ++i) page.press(Key::kUp);
    EXPECT_TRUE(texts(page, now)[5].starts_with("urnic0           100")) << texts(page, now)[5];
}

TEST(TopPage, OneRnicAlone) {
    TopStatus now = top_status(3, 2);
    now["clients"][0]["qps"][1]["device"] = "urnic1";
    TopPage page("urnic1");
    page.check_device(now);
    const auto lines = texts(page, now);
    EXPECT_EQ(lines[0], "urnicd 1.2.3, process 42, up 100 s; urnic1, 1 QP");
    EXPECT_TRUE(lines[2].starts_with("urnic1 ")) << lines[2];
    EXPECT_EQ(lines[3], "");
    EXPECT_TRUE(lines[5].starts_with("urnic1           101 RC")) << lines[5];
    EXPECT_EQ(lines[6], "");
    try {
        TopPage("urnic9").check_device(now);
        ADD_FAILURE() << "there is none";
    } catch (const LaunchError& error) {
        EXPECT_STREQ(error.what(), "there is no RNIC urnic9: the daemon has urnic0, urnic1, urnic2");
    }
}

TEST(TopPage, FitsAnySize) {
    const TopStatus now = top_status(40, 40);
    TopPage page;
    for (int round = 0; round < 4; ++round) {
        for (std::size_t height = 0; height < 60; ++height) {
            for (const std::size_t width : {0U, 1U, 20U, 79U, 200U}) {
                const auto lines = texts(page, now, now, width, height);
                EXPECT_EQ(lines.size(), height);
                for (const std::string& line : lines) EXPECT_LE(line.size(), width);
            }
        }
        page.press(round % 2 == 0 ? Key::kHelp : Key::kOtherTable);
    }
}

TEST(TopPage, ASmallWindowHasTheChosenTable) {
    const TopStatus now = top_status(2, 1);
    TopPage page;
    EXPECT_TRUE(texts(page, now, now, 20, 5)[2].starts_with("urnic0      ACTIVE"));
    page.press(Key::kOtherTable);
    EXPECT_TRUE(texts(page, now, now, 20, 5)[2].starts_with("urnic0           100"));
}

TEST(TopPage, NamesAreTextWhateverTheyHave) {
    TopStatus now = top_status(1, 1);
    now["clients"][0]["program"] = "a\x1b[31m\x7f\n\u00fc\u2603z";
    TopPage page;
    const auto lines = texts(page, now);
    EXPECT_TRUE(lines[5].ends_with(" a?[31m????z")) << lines[5];
    for (const std::string& line : lines) {
        EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }))
            << line;
    }
}

TEST(TopPage, ASecondRunHasNoRatesOfTheFirst) {
    const TopStatus now = top_status(1, 0);
    TopStatus earlier = now;
    earlier["devices"][0]["counters"]["sent_bytes"] = 1;
    TopPage page;
    EXPECT_EQ(texts(page, now, earlier)[2].substr(12, 17), "ACTIVE          -");
}

TEST(TopPage, AnAnswerOfAnotherReleaseIsRefused) {
    TopPage page;
    const TopStatus other = TopStatus::parse(R"({"daemon": {}})");
    EXPECT_THROW((void)page.lines({other, kNoStatus, 1}, 80, 24), LaunchError);
}

}  // namespace
}  // namespace urnic::cli
