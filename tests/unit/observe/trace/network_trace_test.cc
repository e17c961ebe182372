// Events of a network's ports: when they are told, and how often.
#include "observe/trace/network_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace urnic::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Collected final : public TraceOutput {
  public:
    void add(const Event& event) override {
        lines.push_back(
            fmt::format("{} {} {} {}", event.time_ns, event.group, event.name, json_of(event.data).dump()));
    }
    void add_message(const AcknowledgedMessage& /*message*/) override {}
    void finish() override {}
    /// What came since the last call.
    std::vector<std::string> take() { return std::exchange(lines, {}); }

  private:
    std::vector<std::string> lines;
};

class NetworkTraceTest : public ::testing::Test {
  protected:
    NetworkTraceTest() {
        network_.add_port(0, {"s1>h1", "s1", false, "h1", false, 40'000'000'000, 1'000});
        network_.add_port(0, {"h1>s1", "h1", true, "s1", true, 40'000'000'000, 500});
    }
    void queue(TimeNs now, std::uint64_t bytes) {
        network_.pass(now);
        view_.queue_bytes = bytes;
        network_.look(now, 0, view_);
    }
    void wait(TimeNs now, TimeNs since) {
        network_.pass(now);
        PortView view;
        view.queue_bytes = 1'000;  // of a host: not told
        view.waits_since = since;
        network_.look(now, 1, view);
    }

    Collected out_;
    PacketTrace packets_{out_, {}};
    EngineTrace qps_{packets_};
    NetworkTrace network_{out_, qps_};
    PortView view_;
};

TEST_F(NetworkTraceTest, TellsOfTheNetworkOnce) {
    network_.add_path(0, {"h1/0x11", "h2/0x12", "a", true, {1, 0}, false, 3});
    EXPECT_THAT(
        out_.take(),
        ElementsAre(
            R"(0 s1>h1 port_added {"node":"s1","node_type":"switch","neighbour":"h1","link_layer":"ethernet","bits_per_s":40000000000,"delay":0.001})",
            R"(0 h1>s1 port_added {"node":"h1","node_type":"host","neighbour":"s1","link_layer":"infiniband","bits_per_s":40000000000,"delay":0.0005})",
            R"(0 h1/0x11 path_assigned {"peer":"h2/0x12","flow":"a","payload":true,"priority":3,"ports":["h1>s1","s1>h1"]})"));
    network_.look(10, 0, view_);
    network_.finish(100'000);
    EXPECT_THAT(out_.take(), IsEmpty()) << "nothing has happened";
}

TEST_F(NetworkTraceTest, AQueueIsToldOfNowAndThenWithItsPeak) {
    out_.take();
    queue(100, 0);
    EXPECT_THAT(out_.take(), IsEmpty());
    queue(200, 1'000);
    EXPECT_THAT(out_.take(), ElementsAre(R"(200 s1>h1 queue_updated {"bytes":1000,"most_bytes":1000})"));
    queue(300, 5'000);
    queue(400, 2'000);
    queue(2'199, 3'000);
    EXPECT_THAT(out_.take(), IsEmpty()) << "two microseconds have not passed";
    network_.pass(2'200);
    EXPECT_THAT(out_.take(), IsEmpty()) << "what happens at that time is still to come";
    queue(9'000, 4'000);
    EXPECT_THAT(out_.take(), ElementsAre(R"(2200 s1>h1 queue_updated {"bytes":3000,"most_bytes":5000})",
                                         R"(9000 s1>h1 queue_updated {"bytes":4000,"most_bytes":4000})"));
    network_.finish(20'000);
    EXPECT_THAT(out_.take(), IsEmpty()) << "it has not changed";
}

TEST_F(NetworkTraceTest, APeakBetweenTwoEqualLengthsIsSeen) {
    out_.take();
    queue(0, 1'000);
    out_.take();
    queue(1'000, 7'000);
    queue(1'500, 1'000);
    network_.finish(1'600);
    EXPECT_THAT(out_.take(), ElementsAre(R"(1600 s1>h1 queue_updated {"bytes":1000,"most_bytes":7000})"));
}

TEST_F(NetworkTraceTest, MarksAndDropsAreCountedSinceTheLastLook) {
    out_.take();
    view_.marks = 1;
    network_.look(5, 0, view_);
    view_.marks = 4;
    view_.dropped = 2;
    view_.watchdog_dropped = 7;
    view_.discards = 1;
    network_.look(6, 0, view_);
    network_.look(7, 0, view_);
    EXPECT_THAT(out_.take(),
                ElementsAre(R"(5 s1>h1 packets_marked {"count":1})", R"(6 s1>h1 packets_marked {"count":3})",
                            R"(6 s1>h1 packets_dropped {"count":2,"trigger":"dropped"})",
                            R"(6 s1>h1 packets_dropped {"count":7,"trigger":"watchdog_dropped"})",
                            R"(6 s1>h1 packets_dropped {"count":1,"trigger":"xmit_discards"})"));
}

TEST_F(NetworkTraceTest, PausesAreOfThePortOrOfTheHost) {
    out_.take();
    view_.stopped = 0b1001;
    network_.look(1, 0, view_);
    view_.stopped = 0b1000;
    view_.stops = 0b1000;
    network_.look(2, 0, view_);
    PortView host;
    host.stopped = 0b1000;
    network_.look(3, 1, host);
    network_.look(4, 1, {});
    EXPECT_THAT(out_.take(), ElementsAre(R"(1 s1>h1 pfc_paused {"priority":0,"direction":"received"})",
                                         R"(1 s1>h1 pfc_paused {"priority":3,"direction":"received"})",
                                         R"(2 s1>h1 pfc_resumed {"priority":0,"direction":"received"})",
                                         R"(2 s1>h1 pfc_paused {"priority":3,"direction":"sent"})",
                                         R"(3 h1 pfc_paused {"priority":3,"direction":"received"})",
                                         R"(4 h1 pfc_resumed {"priority":3,"direction":"received"})"));
}

TEST_F(NetworkTraceTest, WaitsForCreditBeginWhenTheLinkIsFree) {
    out_.take();
    wait(100, 300);
    network_.pass(300);
    EXPECT_THAT(out_.take(), IsEmpty()) << "the link is busy until then";
    wait(1'300, kNever);
    wait(1'400, 1'600);
    wait(1'500, kNever);
    wait(2'000, 2'000);
    wait(2'100, 2'000);
    // Another packet goes, and behind it the next one waits.
    wait(3'000, 3'200);
    network_.finish(10'000);
    EXPECT_THAT(
        out_.take(),
        ElementsAre("300 h1>s1 credit_wait_began {}", R"(1300 h1>s1 credit_wait_ended {"duration":0.001})",
                    "2000 h1>s1 credit_wait_began {}", R"(3000 h1>s1 credit_wait_ended {"duration":0.001})",
                    "3200 h1>s1 credit_wait_began {}"));
}

TEST_F(NetworkTraceTest, TimesAscend) {
    out_.take();
    queue(0, 10);
    wait(100, 1'900);
    queue(200, 20);
    network_.pass(50'000);
    EXPECT_THAT(out_.take(), ElementsAre(R"(0 s1>h1 queue_updated {"bytes":10,"most_bytes":10})",
                                         "1900 h1>s1 credit_wait_began {}",
                                         R"(2000 s1>h1 queue_updated {"bytes":20,"most_bytes":20})"));
}

}  // namespace
}  // namespace urnic::trace
