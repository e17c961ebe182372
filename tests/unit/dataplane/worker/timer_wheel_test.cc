// The worker's timer wheel in virtual time.
#include "dataplane/worker/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace urnic::dataplane {
namespace {

std::vector<TimerNode*> fired_at(TimerWheel& wheel, TimeNs now) {
    std::vector<TimerNode*> fired;
    wheel.advance(now, [&](TimerNode& node) { fired.push_back(&node); });
    return fired;
}

std::uint64_t seed() {
    const char* given = std::getenv("URNIC_TEST_SEED");
    const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("URNIC_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
}

TEST(TimerWheel, FiresOnceAndNeverEarly) {
    TimerWheel wheel(1000);
    TimerNode node;
    wheel.arm(node, 50'000);
    EXPECT_FALSE(wheel.due(40'000));
    EXPECT_TRUE(fired_at(wheel, 49'999).empty());
    EXPECT_TRUE(node.armed());
    EXPECT_EQ(fired_at(wheel, 50'000 + TimerWheel::kTickNs).size(), 1U);
    EXPECT_FALSE(node.armed());
    EXPECT_EQ(node.expires, kNever);
    EXPECT_TRUE(fired_at(wheel, 10'000'000).empty());
    EXPECT_EQ(wheel.next_event(), kNever);
}

TEST(TimerWheel, PastTimesFireAtTheNextAdvance) {
    TimerWheel wheel(5'000'000);
    EXPECT_TRUE(fired_at(wheel, 6'000'000).empty());
    TimerNode node;
    wheel.arm(node, 17);
    EXPECT_TRUE(wheel.due(6'000'000));
    EXPECT_EQ(fired_at(wheel, 6'000'000).size(), 1U);
}

TEST(TimerWheel, ArmingAgainMovesAndCancelDisarms) {
    TimerWheel wheel(0);
    TimerNode moved;
    TimerNode cancelled;
    wheel.arm(moved, 100'000);
    wheel.arm(moved, 900'000'000);
    wheel.arm(cancelled, 100'000);
    wheel.cancel(cancelled);
    wheel.cancel(cancelled);
    EXPECT_TRUE(fired_at(wheel, 899'999'999).empty());
    EXPECT_EQ(fired_at(wheel, 900'100'000), std::vector<TimerNode*>{&moved});
}

TEST(TimerWheel, ArmingForNeverDisarms) {
    TimerWheel wheel(0);
    TimerNode node;
    wheel.arm(node, 100'000);
    wheel.arm(node, kNever);
    EXPECT_FALSE(node.armed());
    EXPECT_TRUE(fired_at(wheel, 10'000'000'000).empty());
}

TEST(TimerWheel, NextEventIsALowerBoundThatLeadsThere) {
    // Sleeping until next_event() again and again must reach a far timer in a handful of steps.
    TimerWheel wheel(123);
    TimerNode node;
    const TimeNs expires = 8'800'000'000'000;  // 8,800 s: the longest local ACK timeout
    wheel.arm(node, expires);
    TimeNs now = 123;
    int steps = 0;
    while (node.armed()) {
        ASSERT_GT(wheel.next_event(), now);
        ASSERT_LE(wheel.next_event(), expires + TimerWheel::kTickNs);
        now = wheel.next_event();
        fired_at(wheel, now);
        ASSERT_LT(++steps, 12);
    }
    EXPECT_GE(now, expires);
}

TEST(TimerWheel, TheLastMomentOfTimeHasAPlace) {
    TimerWheel wheel(0);
    TimerNode node;
    wheel.arm(node, kNever - 1);
    EXPECT_TRUE(fired_at(wheel, TimeNs{1} << 62U).empty());
    EXPECT_EQ(fired_at(wheel, kNever - 1).size(), 1U);
}

TEST(TimerWheel, HandlersMayArmAndCancelOthers) {
    TimerWheel wheel(0);
    std::vector<TimerNode> nodes(3);
    for (TimerNode& node : nodes) {
        wheel.arm(node, 10'000);
    }
    int fired = 0;
    wheel.advance(20'000, [&](TimerNode& node) {
        if (fired++ == 0) {
            TimerNode& other = &node == &nodes[0] ? nodes[1] : nodes[0];
            wheel.cancel(other);
            wheel.arm(node, 30'000);
        }
    });
    EXPECT_EQ(fired, 2);
    EXPECT_EQ(fired_at(wheel, 40'000).size(), 1U);
}

TEST(TimerWheel, AgreesWithASortedListOnRandomTimes) {
    std::mt19937_64 random(seed());
    TimeNs now = random() % 1'000'000'000'000;
    TimerWheel wheel(now);
    std::vector<TimerNode> nodes(200);
    std::map<TimerNode*, TimeNs> expected;
    for (int round = 0; round < 20'000; ++round) {
        TimerNode& node = nodes[random() % nodes.size()];
        const TimeNs span = TimeNs{1} << (random() % 40);
        if (random() % 4 == 0) {
            wheel.cancel(node);
            expected.erase(&node);
        } else {
            const TimeNs expires = now + random() % span;
            wheel.arm(node, expires);
            expected[&node] = expires;
        }
        now += random() % (TimeNs{1} << (random() % 33));
        for (TimerNode* fired : fired_at(wheel, now)) {
            ASSERT_TRUE(expected.contains(fired));
            ASSERT_LE(expected[fired], now);
            expected.erase(fired);
        }
        for (const auto& [late, expires] : expected) {
            ASSERT_GT(expires + TimerWheel::kTickNs, now) << "did not fire in time";
            ASSERT_LE(wheel.next_event(), std::max(expires, now) + TimerWheel::kTickNs);
        }
    }
}

}  // namespace
}  // namespace urnic::dataplane
