#include "netsim/network/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "netsim/network/timer_heap.h"

namespace urnic::netsim {
namespace {

constexpr BitsPerSecond kGbit = 1'000'000'000;
constexpr std::uint32_t kBytes = 1000;  // 8 us at 1 Gbit/s
constexpr std::uint8_t kLossless = 3;

struct NumberedPacket : NetworkPacket {
    std::size_t number = 0;
};

struct Arrival {
    TimeNs at;
    NodeIndex host;
    const NumberedPacket* packet;
};

class InProcessSwitchTest : public ::testing::Test, public NetworkOutbox {
  protected:
    InProcessSwitchTest() { options_.switches.buffer_bytes = 1'000'000; }

    void build(Topology topology) {
        topology_ = std::move(topology);
        ASSERT_EQ(problem_of(topology_), "");
        fabric_ = std::make_unique<Network>(topology_, options_, *this);
    }
    void send(const char* from, const char* to, std::uint64_t flow = 0, std::uint8_t priority = kLossless) {
        NumberedPacket& made = packets_.emplace_back();
        made.number = packets_.size();
        made.bytes = kBytes;
        made.priority = priority;
        made.to = topology_.find(to);
        made.hash = flow * 0x9e37'79b9'7f4a'7c15ULL;
        fabric_->send(now_, topology_.find(from), made);
    }
    void pass_until(TimeNs end) {
        while (fabric_->deadline() <= end) {
            ASSERT_GE(fabric_->deadline(), now_);
            now_ = fabric_->deadline();
            fabric_->on_timer(now_);
        }
        now_ = end;
    }
    [[nodiscard]] const SwitchPortCounters& counters(const char* at, const char* towards) const {
        const NodeIndex node = topology_.find(at);
        const auto ports = fabric_->routes().ports(node);
        for (PortIndex port = 0; port < ports.size(); ++port) {
            if (topology_.nodes[ports[port].neighbour].name == towards) {
                return fabric_->switch_at(node)->counters(port);
            }
        }
        throw std::runtime_error("no such port");
    }

    void deliver(TimeNs now, NodeIndex host, NetworkPacket& packet) override {
        arrivals_.push_back({now, host, static_cast<const NumberedPacket*>(&packet)});
    }
    void drop(TimeNs /*now*/, NodeIndex at, NetworkPacket& packet) override {
        drops_.emplace_back(at, &packet);
    }
    void room(TimeNs /*now*/, NodeIndex /*host*/) override { ++rooms_; }
    void paused(TimeNs /*now*/, NodeIndex host, std::uint8_t priority, std::uint16_t quanta) override {
        EXPECT_EQ(priority, kLossless);
        heard_.emplace_back(host, quanta);
    }

    Topology topology_;
    NetworkOptions options_;
    std::unique_ptr<Network> fabric_;
    std::deque<NumberedPacket> packets_;
    std::vector<Arrival> arrivals_;
    std::vector<std::pair<NodeIndex, const NetworkPacket*>> drops_;
    std::vector<std::pair<NodeIndex, std::uint16_t>> heard_;
    std::uint32_t rooms_ = 0;
    TimeNs now_ = 0;
};

TEST_F(InProcessSwitchTest, APacketTakesTheTimesOfItsLinksAndOfItsBits) {
    build(dumbbell(1, {kGbit, 1'000}, {kGbit / 2, 5'000}));
    send("h1", "h2");
    send("h1", "h2");
    pass_until(1'000'000);
    ASSERT_EQ(arrivals_.size(), 2U);
    EXPECT_EQ(arrivals_[0].at, 8'000 + 1'000 + 16'000 + 5'000 + 8'000 + 1'000U);
    EXPECT_EQ(arrivals_[1].at - arrivals_[0].at, 16'000U) << "at the rate of the slowest link";
    EXPECT_EQ(arrivals_[0].host, topology_.find("h2"));
    EXPECT_EQ(rooms_, 2U);
    EXPECT_EQ(fabric_->deadline(), kNever);
    EXPECT_EQ(counters("s1", "s2").tx_packets, 2U);
}

TEST_F(InProcessSwitchTest, WithoutFlowControlABottleneckDrops) {
    options_.switches.buffer_bytes = 20 * kBytes;
    build(star(3, {kGbit, 1'000}));
    for (int i = 0; i < 100; ++i) {
        send("h1", "h3");
        send("h2", "h3");
    }
    pass_until(10'000'000);
    EXPECT_EQ(arrivals_.size() + drops_.size(), 200U);
    EXPECT_NEAR(static_cast<double>(drops_.size()), 100 - 20, 3);
    EXPECT_EQ(drops_[0].first, topology_.find("s1"));
}

// The pause must reach the hosts before the headroom is full: what comes meanwhile is a delay there, one
// back, and the packets that are being sent.
TEST_F(InProcessSwitchTest, FlowControlStopsHostsAndOtherSwitchesAndNothingIsLost) {
    options_.switches.buffer_bytes = 40 * kBytes;
    options_.switches.pfc = {.lossless = 1U << kLossless,
                             .xoff_bytes = 10 * kBytes,
                             .xon_bytes = 5 * kBytes,
                             .headroom_bytes = 4 * kBytes};
    build(dumbbell(2, {kGbit, 1'000}, {kGbit, 1'000}));
    for (int i = 0; i < 500; ++i) {
        send("h1", "h3");
        send("h2", "h3");
        send("h4", "h3");
    }
    pass_until(100'000'000);
    EXPECT_TRUE(drops_.empty());
    EXPECT_EQ(arrivals_.size(), 1'500U);
    EXPECT_NEAR(static_cast<double>(arrivals_.back().at), 1'500 * 8'000, 100'000)
        << "the bottleneck never idled";
    EXPECT_GT(fabric_->pauses_received(topology_.find("h1")), 0U);
    EXPECT_GT(fabric_->pauses_received(topology_.find("h4")), 0U);
    EXPECT_GT(counters("s1", "s2").pauses_received, 0U);
    EXPECT_EQ(fabric_->pauses_received(topology_.find("h3")), 0U);
    EXPECT_EQ(fabric_->deadline(), kNever);
}

TEST_F(InProcessSwitchTest, APausedPriorityWaitsInTheHostAndOthersGoOn) {
    build(star(2, {kGbit, 1'000}));
    send("h1", "h2");
    pass_until(2'000);
    // h2 pauses; the switch passes nothing on, and its port's time runs out after 65535 quanta.
    fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0xffff);
    pass_until(20'000'000);
    EXPECT_TRUE(arrivals_.empty());
    send("h1", "h2", 0, 6);
    pass_until(30'000'000);
    ASSERT_EQ(arrivals_.size(), 1U);
    EXPECT_EQ(arrivals_[0].packet->priority, 6);
    pass_until(40'000'000);
    ASSERT_EQ(arrivals_.size(), 2U);
    EXPECT_NEAR(static_cast<double>(arrivals_[1].at), 65'535 * 512 + 12'000, 10'000);
    EXPECT_EQ(counters("s1", "h2").pauses_received, 1U);
}

TEST_F(InProcessSwitchTest, AHostHearsOfThePausesThatItsPortObeys) {
    options_.switches.pfc = {.lossless = 1U << kLossless,
                             .xoff_bytes = 10 * kBytes,
                             .xon_bytes = 5 * kBytes,
                             .headroom_bytes = 10 * kBytes};
    build(star(3, {kGbit, 1'000}));
    for (int i = 0; i < 100; ++i) {
        send("h1", "h3");
        send("h2", "h3");
    }
    pass_until(100'000'000);
    ASSERT_GE(heard_.size(), 4U);
    std::map<NodeIndex, std::uint16_t> last;
    for (const auto& [host, quanta] : heard_) {
        EXPECT_NE(last[host], quanta) << "pauses and their ends take turns";
        last[host] = quanta;
    }
    EXPECT_EQ(last,
              (std::map<NodeIndex, std::uint16_t>{{topology_.find("h1"), 0}, {topology_.find("h2"), 0}}));
    EXPECT_EQ(
        static_cast<std::uint64_t>(
            std::count_if(heard_.begin(), heard_.end(), [](const auto& each) { return each.second != 0; })),
        fabric_->pauses_received(topology_.find("h1")) + fabric_->pauses_received(topology_.find("h2")));
}

// Who may not allocate has so many of them and no more: a storm then loses some, and all come back.
TEST_F(InProcessSwitchTest, PauseFramesCanBeBounded) {
    options_.pause_frames = 10;
    build(star(2, {kGbit, 1'000}));
    EXPECT_EQ(fabric_->spare_pauses(), 10U);
    for (int i = 0; i < 25; ++i) {
        fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0xffff);
    }
    EXPECT_EQ(fabric_->spare_pauses(), 0U);
    pass_until(1'000'000);
    EXPECT_EQ(counters("s1", "h2").pauses_received, 10U);
    EXPECT_EQ(fabric_->spare_pauses(), 10U);
}

TEST_F(InProcessSwitchTest, PrioritiesShareLinksByWeightInWhatStrictOnesLeave) {
    options_.weights = {0, 3, 0, 1, 0, 0, 0, 0};
    build(star(3, {kGbit, 1'000}));
    for (int i = 0; i < 400; ++i) {
        for (const std::uint8_t priority : {std::uint8_t{1}, std::uint8_t{3}}) {
            send("h1", "h3", 0, priority);
            send("h2", "h3", 0, priority);
        }
    }
    send("h1", "h3", 0, 6);
    pass_until(200 * 8'000);
    std::map<int, int> count;
    for (const Arrival& arrival : arrivals_) {
        ++count[arrival.packet->priority];
    }
    EXPECT_EQ(count[6], 1) << "strict, and the last that was given";
    EXPECT_NEAR(count[1], 150, 4);
    EXPECT_NEAR(count[3], 50, 4);
}

TEST_F(InProcessSwitchTest, APauseThatIsEndedEndsAtOnce) {
    build(star(2, {kGbit, 1'000}));
    fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0xffff);
    pass_until(100'000);
    send("h1", "h2");
    pass_until(200'000);
    ASSERT_TRUE(arrivals_.empty());
    fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0);
    pass_until(300'000);
    ASSERT_EQ(arrivals_.size(), 1U);
    EXPECT_NEAR(static_cast<double>(arrivals_[0].at), 200'000 + 1'672 + 9'000, 10);
}

TEST_F(InProcessSwitchTest, APauseThatLastsIsRenewedBeforeItRunsOut) {
    options_.switches.pfc = {.lossless = 1U << kLossless,
                             .xoff_bytes = 10 * kBytes,
                             .xon_bytes = 5 * kBytes,
                             .headroom_bytes = 4 * kBytes};
    build(star(2, {kGbit, 1'000}));
    for (int i = 0; i < 200; ++i) {
        send("h1", "h2");
    }
    // 65535 quanta are 33.6 ms at this rate.
    for (int i = 0; i < 20; ++i) {
        fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0xffff);
        pass_until(now_ + 10'000'000);
        EXPECT_LE(fabric_->switch_at(topology_.find("s1"))->used_bytes(), 14 * kBytes) << i;
    }
    EXPECT_NEAR(static_cast<double>(fabric_->pauses_received(topology_.find("h1"))), 200 / 16.8, 2);
    EXPECT_LT(arrivals_.size(), 3U);
}

TEST_F(InProcessSwitchTest, AStormOfPausesEndsAtTheWatchdog) {
    options_.switches.pfc = {.lossless = 1U << kLossless,
                             .xoff_bytes = 100 * kBytes,
                             .xon_bytes = 50 * kBytes,
                             .headroom_bytes = 4 * kBytes,
                             .watchdog_ns = 1'000'000};
    build(star(2, {kGbit, 1'000}));
    for (int i = 0; i < 10; ++i) {
        send("h1", "h2");
    }
    for (int i = 0; i < 50; ++i) {
        fabric_->send_pause(now_, topology_.find("h2"), kLossless, 0xffff);
        pass_until(now_ + 100'000);
    }
    EXPECT_EQ(counters("s1", "h2").watchdog_trips, 1U);
    EXPECT_GT(drops_.size(), 0U);
    EXPECT_EQ(arrivals_.size() + drops_.size(), 10U);
}

TEST_F(InProcessSwitchTest, EqualWaysAreTakenByFlow) {
    build(leaf_spine(2, 4, 1, {kGbit, 1'000}, {kGbit, 1'000}));
    constexpr int kFlows = 200;
    for (int flow = 0; flow < kFlows; ++flow) {
        for (int i = 0; i < 3; ++i) {
            send("h1", "h2", static_cast<std::uint64_t>(flow));
        }
    }
    pass_until(1'000'000'000);
    EXPECT_EQ(arrivals_.size(), 3U * kFlows);
    std::map<std::uint64_t, std::size_t> last;
    for (const Arrival& arrival : arrivals_) {
        std::size_t& before = last[arrival.packet->hash];
        EXPECT_LT(before, arrival.packet->number) << "a flow was reordered";
        before = arrival.packet->number;
    }
    std::uint64_t sum = 0;
    for (const char* spine : {"s3", "s4", "s5", "s6"}) {
        const std::uint64_t packets = counters("s1", spine).tx_packets;
        EXPECT_EQ(packets % 3, 0U) << "a flow took two ways";
        EXPECT_NEAR(static_cast<double>(packets) / 3, kFlows / 4.0, 37) << spine;  // six standard deviations
        sum += packets;
    }
    EXPECT_EQ(sum, 3U * kFlows);
}

TEST_F(InProcessSwitchTest, WhoIsNotThereGetsNothing) {
    build(star(2, {kGbit, 1'000}));
    for (const NodeIndex to : {topology_.find("s1"), NodeIndex{3}, kNoNode}) {
        NetworkPacket& made = packets_.emplace_back();
        made.bytes = kBytes;
        made.to = to;
        fabric_->send(now_, topology_.find("h1"), made);
    }
    pass_until(1'000'000);
    EXPECT_EQ(drops_.size(), 3U);
}

TEST_F(InProcessSwitchTest, EveryPacketIsDeliveredOrDroppedOnce) {
    options_.switches.buffer_bytes = 30 * kBytes;
    options_.switches.queue_bytes = 3 * kBytes;
    options_.switches.pfc = {.lossless = 1U << kLossless,
                             .xoff_bytes = 6 * kBytes,
                             .xon_bytes = 3 * kBytes,
                             .headroom_bytes = 3 * kBytes};
    build(leaf_spine(3, 2, 2, {kGbit, 700}, {kGbit, 900}));
    constexpr std::array<const char*, 6> kHosts = {"h1", "h2", "h3", "h4", "h5", "h6"};
    std::mt19937 random(5);
    for (int i = 0; i < 20'000; ++i) {
        const char* const from = kHosts[random() % kHosts.size()];
        const char* const to = kHosts[random() % kHosts.size()];
        if (from != to) {
            send(from, to, random() % 50, random() % 2 == 0 ? kLossless : 0);
        }
        pass_until(now_ + random() % 3'000);
    }
    pass_until(now_ + 1'000'000'000);
    std::set<const NetworkPacket*> seen;
    for (const Arrival& arrival : arrivals_) {
        EXPECT_TRUE(seen.insert(arrival.packet).second);
        EXPECT_EQ(arrival.host, arrival.packet->to);
    }
    for (const auto& [at, packet] : drops_) {
        EXPECT_TRUE(seen.insert(packet).second);
        EXPECT_EQ(packet->priority, 0) << "a lossless packet was lost";
    }
    EXPECT_GT(drops_.size(), 0U);
    EXPECT_EQ(seen.size(), packets_.size());
    EXPECT_EQ(fabric_->deadline(), kNever);
}

TEST(TimerHeap, IsAListSortedByTimeAndThenByWhenItWasSet) {
    constexpr std::uint32_t kTimers = 40;
    TimerHeap heap(kTimers);
    std::mt19937 random(1);
    std::map<std::uint32_t, std::pair<TimeNs, int>> model;
    for (int i = 0; i < 20'000; ++i) {
        const auto timer = static_cast<std::uint32_t>(random() % kTimers);
        const TimeNs time = random() % 4 == 0 ? kNever : random() % 50;
        heap.set(timer, time);
        const auto found = model.find(timer);
        if (time == kNever) {
            model.erase(timer);
        } else if (found == model.end() || found->second.first != time) {
            model[timer] = {time, i};
        }
        std::pair<TimeNs, int> first{kNever, 0};
        std::uint32_t which = 0;
        for (const auto& [each, due] : model) {
            if (due < first) {
                first = due;
                which = each;
            }
        }
        ASSERT_EQ(heap.first_time(), first.first);
        if (first.first != kNever) {
            ASSERT_EQ(heap.first(), which);
        }
    }
}

}  // namespace
}  // namespace urnic::netsim
