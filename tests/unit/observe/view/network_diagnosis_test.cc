// What a page says of the network, of traces in which it is so.
#include "observe/view/network_diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/view/page.h"
#include "tests/unit/observe/view/trace_text.h"

namespace urnic::view {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// h1 and h2 send by s1 and s2 to h3, h4 to h5.
class Dumbbell {
  public:
    explicit Dumbbell(int level_of_other = 3) {
        for (const char* host : {"h1", "h2", "h4"}) port(host, "s1", "host", 40);
        port("s1", "s2", "switch", 100);
        port("s2", "h3", "switch", 40);
        port("s2", "h5", "switch", 40);
        path("h1/0x11", "a", "h1>s1", "s2>h3", 3);
        path("h2/0x11", "b", "h2>s1", "s2>h3", 3);
        path("h4/0x11", "other", "h4>s1", "s2>h5", level_of_other);
        trace.line(0, "h3/0x11", "path_assigned",
                   R"("peer":"h1/0x11","flow":"a","payload":false,"priority":3,"ports":["s2>h3"])");
    }
    Dumbbell& at(double time_ms, const char* group, const char* name, const std::string& data = "") {
        trace.line(time_ms, group, name, data);
        return *this;
    }
    Dumbbell& queue(double time_ms, const char* group, int bytes, int most) {
        return at(time_ms, group, "queue_updated", fmt::format(R"("bytes":{},"most_bytes":{})", bytes, most));
    }
    Dumbbell& pause(double time_ms, const char* group, const char* name, int priority = 3,
                    const char* direction = "received") {
        return at(time_ms, group, name,
                  fmt::format(R"("priority":{},"direction":"{}")", priority, direction));
    }
    /// The trace lasts that long; nothing else happens then.
    Dumbbell& end(double time_ms) { return queue(time_ms, "s2>h5", 0, 0); }
    [[nodiscard]] NetworkDiagnosis diagnosis() const {
        const EventLog log = trace.log();
        EXPECT_EQ(log.shortfall(), "");
        return diagnose_network(log);
    }
    [[nodiscard]] std::vector<std::string> ids() const {
        std::vector<std::string> made;
        for (const PortFinding& one : diagnosis().findings) made.emplace_back(one.finding.id);
        return made;
    }

    TraceText trace;

  private:
    void port(const char* node, const char* neighbour, const char* type, int gbit) {
        trace.line(0, fmt::format("{}>{}", node, neighbour), "port_added",
                   fmt::format(R"("node":"{}","node_type":"{}","neighbour":"{}","link_layer":"ethernet",)"
                               R"("bits_per_s":{}000000000,"delay":0.001)",
                               node, type, neighbour, gbit));
    }
    void path(const char* qp, const char* flow, const char* first, const char* last, int level) {
        trace.line(
            0, qp, "path_assigned",
            fmt::format(
                R"("peer":"x/0x1","flow":"{}","payload":true,"priority":{},"ports":["{}","s1>s2","{}"])",
                flow, level, first, last));
    }
};

TEST(NetworkDiagnosis, OfAHealthyNetwork) {
    Dumbbell network;
    network.queue(1, "s2>h3", 4'000, 4'000).queue(2, "s2>h3", 0, 4'000).end(10);
    EXPECT_THAT(network.ids(), IsEmpty());
    std::ostringstream text;
    write_text(text, network.trace.log());
    EXPECT_THAT(text.str(), HasSubstr("network: 6 ports, 3 flows\n  nothing unusual\n"));
}

TEST(NetworkDiagnosis, OfAQueue) {
    // 100 KB for 4 of 10 ms: 40 KB in the mean, 8 us at 40 Gbit/s.
    Dumbbell network;
    network.queue(2, "s2>h3", 100'000, 120'000).queue(6, "s2>h3", 0, 100'000).end(10);
    const NetworkDiagnosis made = network.diagnosis();
    EXPECT_EQ(made.span_ms, 10);
    ASSERT_EQ(made.findings.size(), 1);
    EXPECT_EQ(made.findings[0].finding.id, std::string("queue_builds_up"));
    EXPECT_EQ(
        made.findings[0].finding.sentence,
        "A queue builds up at s2>h3: 40 KB in the mean, 120 KB at most. The mean takes 8 us to leave at 40 "
        "Gbit/s; 2 flows go by that port.");
    EXPECT_THAT(made.findings[0].finding.evidence, ElementsAre(0));
    // A shorter time of the same queue is none.
    network.end(30);
    EXPECT_THAT(network.ids(), IsEmpty());
}

TEST(NetworkDiagnosis, OfPausesWithAndWithoutEnd) {
    Dumbbell network;
    network.pause(1, "s1>s2", "pfc_paused")
        .pause(2, "s1>s2", "pfc_paused")
        .pause(3, "s1>s2", "pfc_resumed")
        .pause(3.5, "s1>s2", "pfc_paused", 3, "sent")
        .pause(4, "s1>s2", "pfc_paused", 5)
        .pause(8.3, "s1>s2", "pfc_paused")
        .pause(0.5, "s2>h3", "pfc_resumed")
        .end(10);
    const NetworkDiagnosis made = network.diagnosis();
    ASSERT_EQ(made.findings.size(), 1);
    EXPECT_EQ(made.findings[0].finding.sentence,
              "The port s1>s2 was paused 60.0 % of the time (PFC, priority 5: 6.000 ms in 4 pauses).");
    EXPECT_NEAR(made.facts[3].paused_ms, 6, 1e-9);
    EXPECT_EQ(made.facts[3].flows, 3);
    EXPECT_EQ(made.facts[4].flows, 2) << "answers are no flows";
}

TEST(NetworkDiagnosis, AShortPauseIsANote) {
    Dumbbell network;
    network.pause(1, "h1", "pfc_paused").pause(1.02, "h1", "pfc_resumed").end(10);
    const NetworkDiagnosis made = network.diagnosis();
    ASSERT_EQ(made.findings.size(), 1);
    EXPECT_EQ(made.findings[0].finding.severity, Severity::kNote);
    EXPECT_THAT(made.findings[0].finding.sentence, HasSubstr("The port h1>s1 was paused 0.2 % of the time"));
}

Dumbbell& stopped_for_a_queue(Dumbbell& network, int others_bytes = 1'000) {
    return network.queue(1, "s2>h3", 50'000, 50'000)
        .queue(1, "s2>h5", others_bytes, others_bytes)
        .pause(2, "s1>s2", "pfc_paused")
        .pause(6, "s1>s2", "pfc_resumed")
        .queue(10, "s2>h3", 0, 50'000);
}

TEST(NetworkDiagnosis, OfAVictim) {
    Dumbbell network;
    stopped_for_a_queue(network);
    EXPECT_THAT(network.ids(), ElementsAre("queue_builds_up", "victim_of_pause", "port_paused"));
    EXPECT_EQ(network.diagnosis().findings[1].finding.sentence,
              "A victim: other (h4/0x11) had to wait at s1>s2, which was paused 40.0 % of the time, for the "
              "queue of "
              "s2>h3 (45 KB in the mean); s2>h5, the next port of that path, held 1 KB.");
}

TEST(NetworkDiagnosis, WhoHasAnotherPriorityIsNoVictim) {
    Dumbbell network(4);
    stopped_for_a_queue(network);
    EXPECT_THAT(network.ids(), ElementsAre("queue_builds_up", "port_paused"));
}

TEST(NetworkDiagnosis, WhoHasAQueueOfItsOwnIsNoVictim) {
    Dumbbell network;
    stopped_for_a_queue(network, 6'000);
    EXPECT_THAT(network.ids(), ElementsAre("queue_builds_up", "port_paused"))
        << "its mean is more than a tenth of the other";
}

TEST(NetworkDiagnosis, OfWaitsForCreditDropsAndMarks) {
    Dumbbell network;
    network.at(1, "h1>s1", "credit_wait_began")
        .at(2, "h1>s1", "credit_wait_ended", R"("duration":1)")
        .at(3, "s2>h3", "packets_marked", R"("count":3)")
        .at(4, "s2>h3", "packets_dropped", R"("count":2,"trigger":"dropped")")
        .at(5, "s2>h3", "packets_dropped", R"("count":1,"trigger":"watchdog_dropped")")
        .at(9, "h1>s1", "credit_wait_began")
        .end(10);
    const NetworkDiagnosis made = network.diagnosis();
    ASSERT_THAT(network.ids(), ElementsAre("port_drops", "credit_waits", "port_marks"));
    EXPECT_EQ(made.findings[0].finding.sentence,
              "The port s2>h3 dropped 3 packets (dropped 2, watchdog_dropped 1).");
    EXPECT_EQ(
        made.findings[1].finding.sentence,
        "The port h1>s1 had no credit for what it had to send 20.0 % of the time (2.000 ms in 2 waits).");
    EXPECT_EQ(made.findings[2].finding.sentence,
              "The port s2>h3 set the mark of congestion (ECN CE) in 3 packets.");
}

TEST(NetworkPage, NamesAreData) {
    const std::string hostile = "</script><img src=x onerror=alert(1)>&<!--\xff\x1b[31m\u2028";
    EventLog log;
    log.add(0, hostile, "port_added", {{"node", hostile}, {"node_type", "switch"}, {"bits_per_s", 1}});
    log.add(0, hostile, "path_assigned",
            {{"flow", hostile}, {"payload", true}, {"sl", 0}, {"ports", {hostile}}});
    log.add(0, hostile, "packets_dropped", {{"count", 1}, {"trigger", "dropped"}});
    std::ostringstream page;
    write_page(page, log, "a file");
    EXPECT_THAT(page.str(), Not(HasSubstr("<img")));
    EXPECT_THAT(page.str(), Not(HasSubstr("\x1b")));
    std::ostringstream text;
    write_text(text, log);
    EXPECT_THAT(text.str(), HasSubstr("dropped 1 packet"));
    EXPECT_THAT(text.str(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace urnic::view
