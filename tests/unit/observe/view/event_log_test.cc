// Reading traces that are whole, cut, and wrong; and the page that is made of them.
#include "observe/view/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "observe/view/page.h"
#include "tests/unit/observe/view/trace_text.h"

namespace urnic::view {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

EventLog read(const std::string& text) {
    std::istringstream in(text);
    EventLog log;
    EXPECT_TRUE(log.read(in));
    return log;
}

std::string page_of(const EventLog& log) {
    std::ostringstream out;
    write_page(out, log, "a file");
    return out.str();
}

/// What the page's script reads.
nlohmann::json data_of(const std::string& page) {
    const std::string mark = R"(id="data">)";
    const std::size_t begin = page.find(mark) + mark.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(EventLog, PsnsTurn) {
    TraceText trace;
    trace.sent(0, 0xfffffe).sent(1, 0xffffff).sent(2, 0).sent(3, 1).ack(4, 0xffffff).sent(5, 2);
    const EventLog log = trace.log();
    std::vector<std::int64_t> distances;
    for (const Event& event : log.connections().at(0).events) distances.push_back(event.psn_distance);
    EXPECT_THAT(distances, ::testing::ElementsAre(0, 1, 2, 3, 1, 4));
}

TEST(EventLog, ACutFileIsReadUpToTheCut) {
    TraceText trace;
    for (int psn = 0; psn < 3; ++psn) trace.sent(psn, psn).received(psn, psn, "delivered");
    const std::string& text = trace.text();
    const std::size_t header = text.find('\n');
    for (std::size_t cut = header + 1; cut < text.size(); ++cut) {
        const EventLog log = read(text.substr(0, cut));
        const auto lines =
            static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(header) + 1,
                                                text.begin() + static_cast<std::ptrdiff_t>(cut), '\n'));
        // Where only the newline is missing, the line is whole.
        const bool is_whole = text[cut] == '\n';
        EXPECT_EQ(log.events(), lines + (is_whole ? 1 : 0)) << cut;
        const bool is_cut = !is_whole && text[cut - 1] != '\n';
        EXPECT_EQ(log.shortfall().empty(), !is_cut) << cut << log.shortfall();
        EXPECT_EQ(data_of(page_of(log))["connections"].size(), log.events() == 0 ? 0 : 1);
    }
}

TEST(EventLog, OtherFilesAreNone) {
    for (const char* text :
         {"", "x", "{}", "[]", "{\"qlog_format\":\"JSON\"}", "{\"qlog_format\":3}", "null\n"}) {
        std::istringstream in(text);
        EXPECT_FALSE(EventLog().read(in)) << text;
    }
}

TEST(EventLog, WrongLinesAreCounted) {
    TraceText trace;
    trace.sent(0, 1);
    const char* const kWrong[] = {
        "nonsense",
        "[]",
        "null",
        "7",
        "{}",
        R"({"time":"x","name":"rdma:ack_received","group_id":"a","data":{}})",
        R"({"time":1e999,"name":"rdma:cnp_sent","group_id":"a","data":{}})",
        R"({"time":1,"name":"tcp:ack_received","group_id":"a","data":{"psn":1}})",
        R"({"time":1,"name":"rdma:unheard_of","group_id":"a","data":{"psn":1}})",
        R"({"time":1,"name":"rdma:ack_received","group_id":7,"data":{"psn":1,"credits":1}})",
        R"({"time":1,"name":"rdma:ack_received","group_id":"a","data":{"psn":16777216,"credits":1}})",
        R"({"time":1,"name":"rdma:ack_received","group_id":"a","data":{"psn":-1,"credits":1}})",
        R"({"time":1,"name":"rdma:ack_received","group_id":"a","data":[]})",
        R"({"time":1,"name":"rdma:nak_received","group_id":"a","data":{"psn":1,"code":[]}})",
        R"({"time":1,"name":"rdma:window_updated","group_id":"a","data":{"packets_in_flight":"many"}})",
        R"({"time":1,"name":"rdma:packet_sent","group_id":"a","data":{"psn":1}})",
        R"({"time":1,"name":"rdma:completion_written","group_id":"a","data":{"queue":"send","wqe_index":1}})",
        R"({"time":1,"name":"rdma:completion_written","group_id":"a","data":{"queue":"send","status":"SUCCESS"}})",
        R"({"time":1,"name":"rdma:wqe_fetched","group_id":"a","data":{"queue":"send","wqe_index":1}})",
        R"({"time":1,"name":"rdma:wqe_fetched","group_id":"a","data":{"queue":"send","wqe_index":4294967296,"psn":1}})",
        R"({"time":1,"name":"rdma:wqe_fetched","group_id":"a","data":{"wqe_index":1,"psn":1}})",
    };
    std::string text = trace.text();
    for (const char* wrong : kWrong) text += std::string(wrong) + "\n";
    const EventLog log = read(text);
    EXPECT_EQ(log.events(), 1);
    EXPECT_THAT(log.shortfall(), HasSubstr(fmt::format("{} lines are no events", std::size(kWrong))));
}

TEST(EventLog, QpsAreBounded) {
    EventLog log;
    for (std::size_t i = 0; i < EventLog::kMostConnections + 10; ++i)
        log.add(0, fmt::format("urnic0/{:#x}", i), "state_changed", {{"new", "RTS"}});
    EXPECT_EQ(log.connections().size(), EventLog::kMostConnections);
    EXPECT_THAT(log.shortfall(), HasSubstr("10 more events are left out"));
}

TEST(Page, NamesAreData) {
    const std::string hostile = "</script><img src=x onerror=alert(1)>&<!--\xff\x1b[31m\u2028";
    EventLog log;
    log.add(0, hostile, "state_changed", {{"new", hostile}});
    log.add(0, hostile, "nak_received", {{"psn", 1}, {"msn", 1}, {"code", hostile}});
    std::ostringstream out;
    write_page(out, log, hostile);
    const std::string page = out.str();
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, Not(HasSubstr("\x1b")));
    const nlohmann::json data = data_of(page);
    EXPECT_THAT(data["connections"][0]["name"].get<std::string>(), HasSubstr("</script><img src=x"));
    EXPECT_EQ(data["source"], data["connections"][0]["name"]);
    std::ostringstream text;
    write_text(text, log);
    EXPECT_THAT(text.str(), Not(HasSubstr("\x1b")));
}

TEST(Page, HasTheEventsAndNothingFromElsewhere) {
    TraceText trace;
    trace.sent(0.25, 7).rnr_nak(1, 7).sent_again(2, 7, "rnr_nak").ack(3, 7);
    const std::string page = page_of(trace.log());
    const nlohmann::json data = data_of(page);
    const nlohmann::json& one = data["connections"][0];
    EXPECT_EQ(one["time"], nlohmann::json({0.25, 1.0, 2.0, 2.0, 3.0}));
    EXPECT_EQ(one["psn"], nlohmann::json({7, 7, 7, 7, 7}));
    for (const char* column : {"kind", "side", "distance", "value", "text"})
        EXPECT_EQ(one[column].size(), 5) << column;
    EXPECT_EQ(one["findings"][0]["id"], "rnr_waits");
    EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
    for (const char* outside : {"src=\"", "href=\"", "@import", "url("})
        EXPECT_THAT(page, Not(HasSubstr(outside)));
}

}  // namespace
}  // namespace urnic::view
