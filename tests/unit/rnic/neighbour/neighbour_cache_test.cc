#include "rnic/neighbour/neighbour_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/random_bytes.h"
#include "tests/unit/rnic/neighbour/neighbour_script.h"

namespace urnic::net::test {
namespace {

const char* const kOwn = R"(
    0.0 own 10.0.0.1 fe80::1
    0.0 > ask 10.0.0.1 to all
    0.0 > answer fe80::1 to all
    1.0 > ask 10.0.0.1 to all
    1.0 > answer fe80::1 to all
)";

class NeighbourCacheTest : public testing::Test, public NeighbourScript {
  protected:
    NeighbourCacheTest() { run(kOwn); }
};

TEST_F(NeighbourCacheTest, AskedUntilAnswered) {
    run(R"(
        2.0 want 10.0.0.2
        2.0 > ask 10.0.0.2 to all
        2.0 check 10.0.0.2 incomplete
        3.0 > ask 10.0.0.2 to all
        3.1 < answer 10.0.0.2 B to us
        3.1 ! 10.0.0.2 B
        3.1 check 10.0.0.2 reachable
        3.2 want 10.0.0.2
        9.0 want fe80::2
        9.0 > ask fe80::2 to all
        9.1 < answer fe80::2 C to us
        9.1 ! fe80::2 C
        9.2 end
    )");
}

TEST_F(NeighbourCacheTest, NobodyAnswers) {
    run(R"(
        2.0 want 10.0.0.2
        2.0 > ask 10.0.0.2 to all
        3.0 > ask 10.0.0.2 to all
        4.0 > ask 10.0.0.2 to all
        5.0 check 10.0.0.2 failed
        9.0 > ask 10.0.0.2 to all
        10.0 > ask 10.0.0.2 to all
        11.0 > ask 10.0.0.2 to all
        12.5 check 10.0.0.2 failed
        12.6 want 10.0.0.2
        12.6 > ask 10.0.0.2 to all
        12.7 want 10.0.0.2
        13.0 drop 10.0.0.2
        60.0 end
    )");
    EXPECT_EQ(cache().stats().failures, 2U);
}

TEST_F(NeighbourCacheTest, AgesAndIsAskedAgain) {
    run(R"(
        2.0 want 10.0.0.2
        2.0 > ask 10.0.0.2 to all
        2.1 < answer 10.0.0.2 B to us
        2.1 ! 10.0.0.2 B
        32.1 > ask 10.0.0.2 to B
        32.1 check 10.0.0.2 probe
        32.2 < answer 10.0.0.2 B to us
        32.2 check 10.0.0.2 reachable
        62.2 > ask 10.0.0.2 to B
        63.2 > ask 10.0.0.2 to B
        64.2 > ask 10.0.0.2 to B
        65.2 > ask 10.0.0.2 to all
        65.2 ! 10.0.0.2 gone
        65.3 < answer 10.0.0.2 C to us
        65.3 ! 10.0.0.2 C
    )");
}

TEST_F(NeighbourCacheTest, AnotherEthernetAddressIsToldToAll) {
    run(R"(
        2.0 want 10.0.0.2
        2.0 > ask 10.0.0.2 to all
        2.1 < answer 10.0.0.2 B to us
        2.1 ! 10.0.0.2 B
        5.0 < ask 10.0.0.2 by 10.0.0.2 C
        5.0 > ask 10.0.0.2 to all
        5.0 check 10.0.0.2 probe
        5.1 < answer 10.0.0.2 C to us
        5.1 ! 10.0.0.2 C
        10.2 check 10.0.0.2 reachable
        10.3 < answer 10.0.0.2 D to all keep
        10.3 check 10.0.0.2 stale
        15.3 > ask 10.0.0.2 to C
        15.4 < answer 10.0.0.2 C to us
    )");
}

TEST_F(NeighbourCacheTest, QuestionsForOurAddressesAreAnswered) {
    run(R"(
        2.0 < ask 10.0.0.1 by 10.0.0.9 B
        2.0 > answer 10.0.0.1 to B
        2.1 < ask 10.0.0.1 by nobody B
        2.1 > answer 10.0.0.1 to B
        2.2 < ask fe80::1 by nobody B
        2.2 > answer fe80::1 to all
        2.3 < ask 10.0.0.7 by 10.0.0.9 B
        2.4 < ask 10.0.0.1@5 by 10.0.0.9 B
        3.0 check 10.0.0.9 none
    )");
    EXPECT_EQ(cache().stats().answers, 3U);
    EXPECT_EQ(cache().size(), 0U);
}

TEST_F(NeighbourCacheTest, Lies) {
    run(R"(
        2.0 < answer 10.0.0.66 E to us
        2.0 check 10.0.0.66 none
        2.1 < answer 10.0.0.1 E to all
        2.1 conflict 10.0.0.1 E
        2.2 < ask 10.0.0.7 by 10.0.0.1 E
        2.2 conflict 10.0.0.1 E
        2.3 < answer 10.0.0.2 A to us
        3.0 want 10.0.0.2
        3.0 > ask 10.0.0.2 to all
        3.1 < answer 10.0.0.2 A to us
        3.1 check 10.0.0.2 incomplete
        3.2 < answer 10.0.0.2 B to us
        3.2 ! 10.0.0.2 B
        3.3 < answer 10.0.0.2 E to us
        3.4 < ask 10.0.0.2 by 10.0.0.2 E
        3.5 check 10.0.0.2 reachable
        5.0 < answer 10.0.0.2 E to all
        5.0 > ask 10.0.0.2 to all
        5.1 < answer 10.0.0.2 B to us
        5.1 < answer 10.0.0.2 E to all
        5.2 check 10.0.0.2 reachable
    )");
    EXPECT_EQ(cache().stats().conflicts, 2U);
    EXPECT_EQ(cache().stats().unasked, 1U);
    EXPECT_EQ(cache().stats().refused, 5U);
    EXPECT_EQ(cache().find({address_of("10.0.0.2"), 0}), mac_of('B'));
}

TEST_F(NeighbourCacheTest, WhoWasAskedHasTheLastWord) {
    run(R"(
        2.0 want 10.0.0.2
        2.0 > ask 10.0.0.2 to all
        2.1 < answer 10.0.0.2 E to all
        2.1 ! 10.0.0.2 E
        2.2 < answer 10.0.0.2 D to all
        2.3 < answer 10.0.0.2 B to us
        2.3 ! 10.0.0.2 B
        2.3 check 10.0.0.2 reachable
        2.4 < answer 10.0.0.2 E to all
        2.5 check 10.0.0.2 reachable
    )");
    EXPECT_EQ(cache().stats().refused, 2U);
    EXPECT_EQ(cache().find({address_of("10.0.0.2"), 0}), mac_of('B'));
}

TEST_F(NeighbourCacheTest, WhatNobodyConfirmsIsForgotten) {
    run(R"(
        2.0 want fe80::2
        2.0 > ask fe80::2 to all
        2.1 < ask fe80::1 by fe80::2 C
        2.1 > answer fe80::1 to C
        2.1 ! fe80::2 C
        2.1 check fe80::2 probe
        3.0 > ask fe80::2 to all
        4.0 > ask fe80::2 to all
        5.0 > ask fe80::2 to all
        5.0 ! fe80::2 gone
        5.1 check fe80::2 incomplete
    )");
}

TEST_F(NeighbourCacheTest, NewAddressesAreAnnounced) {
    run(R"(
        2.0 own 10.0.0.1 fe80::1 10.7.0.1@7
        2.0 > ask 10.7.0.1@7 to all
        3.0 > ask 10.0.0.1 to all
        3.0 > answer fe80::1 to all
        3.0 > ask 10.7.0.1@7 to all
        4.0 want 10.7.0.2@7
        4.0 > ask 10.7.0.2@7 to all
        4.1 < answer 10.7.0.2 B to us
        4.2 < answer 10.7.0.2@7 B to us
        4.2 ! 10.7.0.2@7 B
        5.0 own 10.0.0.1
        5.1 < ask 10.7.0.1@7 by 10.7.0.2@7 B
        6.0 own B 10.0.0.1
        6.0 > ask 10.0.0.1 to all
        7.0 > ask 10.0.0.1 to all
    )");
}

TEST_F(NeighbourCacheTest, AnswersAndEntriesAreBounded) {
    struct Counting final : NeighbourOutbox {
        void send(const NeighbourMessage& /*message*/) override { ++sent; }
        void changed(const Hop& /*hop*/, const std::optional<wire::Mac>& /*mac*/) override {}
        void conflict(const Hop& /*own*/, const wire::Mac& /*other*/) override {}
        std::uint64_t sent = 0;
    } out;
    NeighbourCache cache;
    const Hop own{address_of("10.0.0.1"), 0};
    cache.set_own(mac_of('A'), {&own, 1}, 0, out);
    out.sent = 0;
    NeighbourMessage question;
    question.target = own.address;
    question.eth_src = question.sender_mac = mac_of('B');
    for (std::uint32_t i = 0; i < 100'000; ++i) {  // in a second
        question.sender = address_of("10.9.0.0");
        question.sender[14] = static_cast<std::uint8_t>(i >> 8U);
        question.sender[15] = static_cast<std::uint8_t>(i);
        cache.receive(question, TimeNs{i} * 10'000, out);
    }
    EXPECT_LE(out.sent, NeighbourCache::kAnswersPerSecond + NeighbourCache::kAnswerBurst);
    EXPECT_GE(out.sent, NeighbourCache::kAnswersPerSecond);
    EXPECT_EQ(cache.stats().unanswered, 100'000 - out.sent);
    EXPECT_EQ(cache.size(), 0U);
    Hop hop = own;
    for (std::uint32_t i = 0; i < NeighbourCache::kMaxEntries; ++i) {
        hop.vlan = static_cast<std::uint16_t>(i + 1);
        ASSERT_TRUE(cache.want(hop, own.address, 2'000'000'000, out));
    }
    hop.vlan = 0;
    EXPECT_FALSE(cache.want(hop, own.address, 2'000'000'000, out));
    EXPECT_EQ(cache.size(), NeighbourCache::kMaxEntries);
}

/// Everything at random; what must hold at any time is checked after each step.
TEST(NeighbourCacheWalk, HoldsWhatMustHold) {
    urnic::test::Random random;
    SCOPED_TRACE(testing::Message() << random);
    struct Watching final : NeighbourOutbox {
        void send(const NeighbourMessage& message) override {
            EXPECT_NE(message.eth_dst, wire::Mac{});
            EXPECT_NE(message.sender, wire::Gid{});
            ++sent;
        }
        void changed(const Hop& hop, const std::optional<wire::Mac>& mac) override {
            EXPECT_TRUE(wanted.count(hop) != 0);
            EXPECT_TRUE(!mac || *mac != mac_of('A'));
            mac ? (void)(known[hop] = *mac) : (void)known.erase(hop);
        }
        void conflict(const Hop& own, const wire::Mac& other) override {
            EXPECT_TRUE(own.address == address_of("10.0.0.1") || own.address == address_of("fd00::1"));
            EXPECT_NE(other, mac_of('A'));
        }
        std::set<Hop> wanted;
        std::map<Hop, wire::Mac> known;
        std::uint64_t sent = 0;
    } out;
    NeighbourCache cache;
    const std::vector<Hop> own{{address_of("10.0.0.1"), 0}, {address_of("fd00::1"), 0}};
    cache.set_own(mac_of('A'), own, 0, out);
    const auto any_address = [&] {
        wire::Gid gid = address_of(random.below(2) == 0 ? "10.0.0.0" : "fd00::");
        gid[15] = static_cast<std::uint8_t>(random.below(6));
        return gid;
    };
    TimeNs now = 0;
    for (int step = 0; step < 200'000; ++step) {
        now += random.below(50) == 0 ? random.below(10'000'000'000) : random.below(50'000'000);
        const Hop hop{any_address(), static_cast<std::uint16_t>(random.below(2) * 7)};
        NeighbourMessage message;
        switch (random.below(5)) {
            case 0:
                ASSERT_TRUE(cache.want(hop, any_address(), now, (out.wanted.insert(hop), out)));
                break;
            case 1:
                if (random.below(4) == 0) {
                    cache.drop(hop);
                    out.wanted.erase(hop);
                    out.known.erase(hop);
                }
                break;
            case 2:
                cache.advance(now, out);
                ASSERT_GT(cache.next_event(), now) << "something that was due is still there";
                break;
            default:
                message.op = random.below(2) == 0 ? NeighbourOp::kAsk : NeighbourOp::kAnswer;
                message.sender = hop.address;
                message.vlan = hop.vlan;
                message.target = any_address();
                message.eth_src = mac_of(static_cast<char>('A' + random.below(4)));
                message.sender_mac = random.below(9) == 0 ? wire::Mac{} : message.eth_src;
                message.is_solicited = random.below(2) == 0;
                message.may_override = random.below(3) != 0;
                cache.receive(message, now, out);
        }
        ASSERT_EQ(cache.size(), out.wanted.size());
        for (const Hop& wanted : out.wanted) {
            const auto known = out.known.find(wanted);
            ASSERT_EQ(cache.find(wanted),
                      known == out.known.end() ? std::nullopt : std::optional(known->second));
        }
    }
    EXPECT_GT(out.sent, 1000U);
}

}  // namespace
}  // namespace urnic::net::test
