// What is read of a network's ports, and what is not believed.
#include "observe/view/network_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/observe/view/trace_text.h"

namespace urnic::view {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void add_port(TraceText& trace, const std::string& node, const std::string& neighbour, const char* type) {
    trace.line(0, node + ">" + neighbour, "port_added",
               fmt::format(R"("node":"{}","node_type":"{}","neighbour":"{}","link_layer":"ethernet",)"
                           R"("bits_per_s":40000000000,"delay":0.001)",
                           node, type, neighbour));
}

TraceText network() {
    TraceText trace;
    add_port(trace, "s1", "h1", "switch");
    add_port(trace, "h1", "s1", "host");
    trace.line(0, "h1/0x11", "path_assigned",
               R"("peer":"h2/0x11","flow":"a","payload":true,"priority":3,"ports":["h1>s1","s1>h1"])");
    return trace;
}

std::vector<PortKind> kinds_of(const Port& port) {
    std::vector<PortKind> kinds;
    for (const PortEvent& event : port.events) kinds.push_back(event.kind);
    return kinds;
}

TEST(NetworkLog, PortsPathsAndEvents) {
    TraceText trace = network();
    trace.line(1, "s1>h1", "queue_updated", R"("bytes":1000,"most_bytes":3000)")
        .line(2, "s1>h1", "packets_marked", R"("count":2)")
        .line(3, "s1>h1", "packets_dropped", R"("count":4,"trigger":"watchdog_dropped")")
        .line(4, "s1>h1", "pfc_paused", R"("priority":3,"direction":"received")")
        .line(5, "s1>h1", "pfc_paused", R"("priority":3,"direction":"sent")")
        .line(6, "s1>h1", "pfc_resumed", R"("priority":3,"direction":"received")")
        .line(7, "s1>h1", "pfc_resumed", R"("priority":3,"direction":"sent")")
        .line(8, "s1>h1", "credit_wait_began", "")
        .line(9, "s1>h1", "credit_wait_ended", R"("duration":1)");
    const EventLog log = trace.log();
    EXPECT_EQ(log.shortfall(), "");
    EXPECT_EQ(log.events(), 9);
    ASSERT_EQ(log.network().ports().size(), 2);
    const Port& port = log.network().ports()[0];
    EXPECT_EQ(port.name, "s1>h1");
    EXPECT_FALSE(port.is_host);
    EXPECT_EQ(port.bits_per_s, 40e9);
    EXPECT_THAT(kinds_of(port), ElementsAre(PortKind::kQueue, PortKind::kMarked, PortKind::kDropped,
                                            PortKind::kPaused, PortKind::kStops, PortKind::kResumed,
                                            PortKind::kLetsGo, PortKind::kWaitBegan, PortKind::kWaitEnded));
    EXPECT_EQ(port.events[0].value, 1000);
    EXPECT_EQ(port.events[0].most, 3000);
    EXPECT_EQ(port.events[2].most, 1) << "the second trigger";
    EXPECT_EQ(log.network().end_ms(), 9);
    ASSERT_EQ(log.network().paths().size(), 1);
    EXPECT_THAT(log.network().paths()[0].ports, ElementsAre(1, 0));
    EXPECT_TRUE(log.connections().empty()) << "ports are no QPs";
}

TEST(NetworkLog, AHostsPausesAreOfItsPortAndOfItsQps) {
    TraceText trace = network();
    trace.group = "h1/0x11";
    trace.sent(1, 1).line(2, "h1", "pfc_paused", R"("priority":3,"direction":"received")").sent(3, 2);
    const EventLog log = trace.log();
    EXPECT_EQ(log.shortfall(), "");
    EXPECT_THAT(kinds_of(log.network().ports()[1]), ElementsAre(PortKind::kPaused));
    ASSERT_EQ(log.connections().size(), 1);
    EXPECT_EQ(log.connections()[0].events.at(1).kind, Kind::kPaused);
    EXPECT_EQ(log.events(), 3);
}

TEST(NetworkLog, WrongLinesAreCounted) {
    const char* const kWrong[][2] = {
        {"queue_updated", R"("bytes":1)"},
        {"queue_updated", R"("bytes":-1,"most_bytes":1)"},
        {"queue_updated", R"("bytes":1,"most_bytes":"many")"},
        {"packets_marked", ""},
        {"packets_dropped", R"("count":1)"},
        {"packets_dropped", R"("count":1,"trigger":"bad luck")"},
        {"pfc_paused", R"("priority":8,"direction":"received")"},
        {"pfc_paused", R"("priority":1,"direction":"sideways")"},
        {"port_added", R"("node":"s1","node_type":"switch","bits_per_s":1)"},
        {"path_assigned", R"("flow":"a","payload":true,"sl":0,"ports":["s9>h9"])"},
        {"path_assigned", R"("flow":"a","payload":true,"sl":0,"ports":[7])"},
        {"path_assigned", R"("flow":"a","payload":true,"ports":["s1>h1"])"},
        {"path_assigned", R"("flow":"a","payload":1,"sl":0,"ports":[]")"},
    };
    TraceText trace = network();
    for (const auto& [name, data] : kWrong) trace.line(1, "s1>h1", name, data);
    trace.line(1, "s9>h9", "queue_updated", R"("bytes":1,"most_bytes":1)");
    trace.line(1, "s9>h9", "credit_wait_began", "");
    std::string long_path = R"("flow":"a","payload":true,"sl":0,"ports":["s1>h1")";
    for (std::size_t hop = 0; hop < NetworkLog::kMostHops; ++hop) long_path += R"(,"s1>h1")";
    trace.line(1, "h1/0x11", "path_assigned", long_path + "]");
    const EventLog log = trace.log();
    EXPECT_EQ(log.events(), 0);
    EXPECT_THAT(log.shortfall(), HasSubstr(fmt::format("{} lines are no events", std::size(kWrong) + 3)));
    EXPECT_EQ(log.network().ports().size(), 2);
    EXPECT_EQ(log.network().paths().size(), 1);
}

TEST(NetworkLog, PortsAndPathsAreBounded) {
    EventLog log;
    for (std::size_t i = 0; i < NetworkLog::kMostPorts + 10; ++i) {
        log.add(0, fmt::format("s{}>h", i), "port_added",
                {{"node", fmt::format("s{}", i)}, {"node_type", "switch"}, {"bits_per_s", 1}});
    }
    for (std::size_t i = 0; i < NetworkLog::kMostPaths + 5; ++i) {
        log.add(0, fmt::format("h/{}", i), "path_assigned",
                {{"flow", ""}, {"payload", true}, {"sl", 1}, {"ports", {"s0>h"}}});
    }
    EXPECT_EQ(log.network().ports().size(), NetworkLog::kMostPorts);
    EXPECT_EQ(log.network().paths().size(), NetworkLog::kMostPaths);
    EXPECT_THAT(log.shortfall(), HasSubstr("15 more events are left out"));
}

}  // namespace
}  // namespace urnic::view
