// What a link asks the subnet administrator for: the built-in administrator answers.
#include "ulp/ipoib/engine/subnet_client.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/unit/rnic/subnet/administrator_fixture.h"
#include "tests/unit/ulp/ipoib/octets_of.h"
#include "ulp/ipoib/codec/multicast.h"

namespace urnic::ipoib::test {
namespace {

using subnet::MadPacket;

const Gid kBroadcast = broadcast_gid({});
const Gid kGroup = ipoib::test::gid_of("ff12:401b:ffff::fb");

wire::Gid wire_gid(const Gid& gid) {
    wire::Gid out{};
    std::memcpy(out.data(), gid.data(), out.size());
    return out;
}

class IpoibSubnetClient : public subnet::test::AdministratorTest, public SaPort {
  protected:
    [[nodiscard]] bool request(const SaMad& mad) override {
        if (!has_sm_) {
            return false;
        }
        requests_.push_back(mad);
        return true;
    }
    /// The administrator's answers to all that was asked.
    std::vector<MadPacket> answers() {
        std::vector<MadPacket> found;
        for (; !requests_.empty(); requests_.pop_front()) {
            MadPacket packet;
            packet.slid = subnet::test::kAsker;
            packet.dlid = 1;
            packet.src_qp = packet.dest_qp = 1;
            packet.qkey = wire::kGsiQkey;
            std::memcpy(packet.mad.data(), requests_.front().data(), packet.mad.size());
            found.push_back(ask(packet));
        }
        return found;
    }
    void answer() {
        for (const MadPacket& packet : answers()) {
            client_.on_answer(packet.mad);
        }
    }
    void time_out() {
        for (; !requests_.empty(); requests_.pop_front()) {
            client_.on_timeout(*sa_request_id(requests_.front()));
        }
    }
    void join_broadcast() {
        ASSERT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kPending);
        answer();
        ASSERT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kDone);
        EXPECT_EQ(client_.take_settled(), std::vector<Gid>{kBroadcast});
    }
    [[nodiscard]] const wire::mad::McMemberRecord* group_of(const Gid& gid) const {
        return administrator_->groups().find(wire_gid(gid));
    }
    /// JoinStates of the asker in a group; 0: no member.
    [[nodiscard]] unsigned states_in(const Gid& gid) const {
        for (const auto& record : administrator_->groups().records(true)) {
            if (record.mgid == wire_gid(gid) &&
                record.port_gid == subnet::test::gid_of(subnet::test::kAsker)) {
                return record.join_state;
            }
        }
        return 0;
    }

    bool has_sm_ = true;
    std::deque<SaMad> requests_;
    SubnetClient client_{{ipoib::test::gid_of("fe80::2"), 0xFFFF}, kBroadcast, *this};
    std::uint64_t when_ = 100'000;
};

TEST_F(IpoibSubnetClient, BroadcastGroupSaysWhatTheLinkIs) {
    EXPECT_EQ(client_.group(kBroadcast), nullptr);
    join_broadcast();
    const GroupRecord& record = *client_.group(kBroadcast);
    EXPECT_EQ(record.qkey, 0x0b1bU);
    EXPECT_EQ(record.mlid, 0xc000);
    EXPECT_EQ(record.mtu, 4);
    EXPECT_EQ(record.rate, 3);
    EXPECT_EQ(record.pkey, 0xFFFF);
    EXPECT_EQ(states_in(kBroadcast), subnet::kFullMember);
    EXPECT_EQ(client_.counters().requests, 1U);
}

TEST_F(IpoibSubnetClient, BroadcastGroupIsNotMade) {
    SubnetClient other({ipoib::test::gid_of("fe80::2"), 0xFFFF}, kGroup, *this);
    EXPECT_EQ(other.join(kGroup, JoinState::kFullMember), Progress::kPending);
    other.on_answer(answers().at(0).mad);
    EXPECT_EQ(other.join(kGroup, JoinState::kFullMember), Progress::kFailed);
    EXPECT_EQ(other.last_failure(), subnet::kSaInsufficientComponents);
    EXPECT_EQ(group_of(kGroup), nullptr);
}

TEST_F(IpoibSubnetClient, OthersAreMadeLikeTheBroadcastGroup) {
    join_broadcast();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    // It is asked once.
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    ASSERT_EQ(requests_.size(), 1U);
    answer();
    ASSERT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kDone);
    const auto* const made = group_of(kGroup);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->qkey, 0x0b1bU);
    EXPECT_EQ(made->mtu, 4);
    EXPECT_EQ(made->rate, 3);
    EXPECT_EQ(made->pkey, 0xFFFF);
    EXPECT_EQ(client_.group(kGroup)->mlid, made->mlid);
    client_.leave(kGroup);
    EXPECT_EQ(client_.group(kGroup), nullptr);
    EXPECT_TRUE(client_.has_requests());
    answer();
    EXPECT_FALSE(client_.has_requests());
    EXPECT_EQ(group_of(kGroup), nullptr) << "it ends with its last member";
}

TEST_F(IpoibSubnetClient, WhoOnlySendsMakesNoGroup) {
    join_broadcast();
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kPending);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kFailed);
    EXPECT_EQ(client_.counters().refused, 1U);
    // Somebody else does.
    auto record = member(wire_gid(kGroup), 1);
    record.qkey = 0x0b1b;
    record.mtu_selector = record.rate_selector = 2;
    record.mtu = 4;
    record.rate = 3;
    namespace mc = subnet::member_component;
    ASSERT_EQ(
        join(subnet::test::kCreate | mc::kMtuSelector | mc::kMtu | mc::kRateSelector | mc::kRate, record, 1),
        0);
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kFailed) << "not asked so soon";
    client_.advance(1000);
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kPending);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kDone);
    EXPECT_EQ(states_in(kGroup), subnet::kSendOnlyNonMember);
    // Now it receives, too: for that it is joined again.
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kDone) << "sending goes on";
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kDone);
    EXPECT_EQ(states_in(kGroup), unsigned{subnet::kFullMember} | subnet::kSendOnlyNonMember);
    client_.leave(kGroup);
    answer();
    EXPECT_EQ(states_in(kGroup), 0U);
    EXPECT_NE(group_of(kGroup), nullptr);
}

TEST_F(IpoibSubnetClient, PathsAreAskedForOnce) {
    join_broadcast();
    const Gid peer = ipoib::test::gid_of("fe80::3");
    EXPECT_EQ(client_.find_path(peer), Progress::kPending);
    EXPECT_EQ(client_.find_path(peer), Progress::kPending);
    ASSERT_EQ(requests_.size(), 1U);
    EXPECT_EQ(client_.path(peer), nullptr);
    answer();
    EXPECT_EQ(client_.take_settled(), std::vector<Gid>{peer});
    ASSERT_EQ(client_.find_path(peer), Progress::kDone);
    EXPECT_EQ(client_.path(peer)->dlid, 3);
    EXPECT_EQ(client_.path(peer)->slid, 2);
    EXPECT_TRUE(requests_.empty());
    // Nobody has this one.
    EXPECT_EQ(client_.find_path(ipoib::test::gid_of("fe80::77")), Progress::kPending);
    answer();
    EXPECT_EQ(client_.find_path(ipoib::test::gid_of("fe80::77")), Progress::kFailed);
    EXPECT_EQ(client_.take_settled(), std::vector<Gid>{ipoib::test::gid_of("fe80::77")})
        << "what waits for it is told";
}

TEST_F(IpoibSubnetClient, SilenceIsAskedAgainLaterAndLater) {
    std::uint64_t now = 0;
    for (const std::uint64_t pause : {1000U, 2000U, 4000U, 8000U, 16000U, 16000U}) {
        ASSERT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kPending);
        time_out();
        EXPECT_EQ(client_.last_failure(), 0xFFFF);
        client_.advance(now + pause - 1);
        EXPECT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kFailed);
        now += pause;
        client_.advance(now);
    }
    EXPECT_EQ(client_.counters().timeouts, 6U);
    // A port without a subnet manager sends nothing.
    has_sm_ = false;
    EXPECT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kFailed);
    has_sm_ = true;
    client_.advance(now + 16000);
    EXPECT_EQ(client_.take_settled().size(), 6U);
    join_broadcast();
}

TEST_F(IpoibSubnetClient, LeftBeforeTheAnswer) {
    join_broadcast();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    client_.leave(kGroup);
    answer();
    ASSERT_EQ(requests_.size(), 1U) << "a membership that nobody wants is ended";
    EXPECT_EQ(states_in(kGroup), subnet::kFullMember);
    answer();
    EXPECT_EQ(states_in(kGroup), 0U);
    EXPECT_EQ(client_.group(kGroup), nullptr);
    // Left and wanted again meanwhile: the second answer counts.
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    client_.leave(kGroup);
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kDone);
    EXPECT_EQ(states_in(kGroup), subnet::kFullMember);
}

TEST_F(IpoibSubnetClient, AnotherSubnetManagerKnowsNothing) {
    join_broadcast();
    const Gid peer = ipoib::test::gid_of("fe80::3");
    EXPECT_EQ(client_.find_path(peer), Progress::kPending);
    const std::vector<MadPacket> late = answers();
    client_.forget();
    client_.on_answer(late.at(0).mad);
    EXPECT_EQ(client_.path(peer), nullptr);
    EXPECT_EQ(client_.group(kBroadcast), nullptr);
    EXPECT_FALSE(client_.has_requests());
    client_.leave(kBroadcast);
    EXPECT_TRUE(requests_.empty()) << "it does not know that membership";
    join_broadcast();
}

TEST_F(IpoibSubnetClient, Bounds) {
    join_broadcast();
    Gid peer = ipoib::test::gid_of("fe80::1:0");
    for (std::uint16_t i = 0; i < SubnetClient::kMostRequests; ++i) {
        put_u16(peer, 14, i);
        ASSERT_EQ(client_.find_path(peer), Progress::kPending);
    }
    EXPECT_EQ(client_.find_path(ipoib::test::gid_of("fe80::3")), Progress::kFailed);
    time_out();
    // Paths: the one that was not used for the longest time goes.
    client_.advance(100'000);
    ASSERT_EQ(client_.find_path(ipoib::test::gid_of("fe80::3")), Progress::kPending);
    answer();
    for (std::uint16_t i = 0; i < SubnetClient::kMostPaths + 10; ++i) {
        put_u16(peer, 14, i);
        static_cast<void>(client_.find_path(peer));
        if (i % 2 == 0) {
            ASSERT_EQ(client_.find_path(ipoib::test::gid_of("fe80::3")), Progress::kDone);
        }
    }
    time_out();
    // Groups that cannot be joined make room for others.
    Gid group = kGroup;
    for (std::uint16_t i = 0; i < SubnetClient::kMostGroups + 10; ++i) {
        put_u16(group, 12, i);
        ASSERT_EQ(client_.join(group, JoinState::kSendOnlyNonMember), Progress::kPending);
        answer();
    }
    ASSERT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kDone);
    EXPECT_NE(client_.group(kBroadcast), nullptr);
}

TEST_F(IpoibSubnetClient, MoreGroupsThanRequestsAtOnce) {
    join_broadcast();
    Gid group = kGroup;
    const std::uint16_t count = 2 * SubnetClient::kMostRequests;
    const auto joined = [&] {
        std::size_t done = 0;
        for (std::uint16_t i = 0; i < count; ++i) {
            put_u16(group, 12, i);
            done += client_.join(group, JoinState::kFullMember) == Progress::kDone ? 1 : 0;
        }
        return done;
    };
    EXPECT_EQ(joined(), 0U);
    answer();
    // Those without room were not refused: they are asked for at once.
    EXPECT_EQ(joined(), SubnetClient::kMostRequests);
    answer();
    EXPECT_EQ(joined(), count);
    EXPECT_EQ(administrator_->groups().size(), count + 1U);
    client_.leave_all();
    while (client_.has_requests()) {
        ASSERT_LE(requests_.size(), SubnetClient::kMostRequests);
        answer();
    }
    EXPECT_EQ(administrator_->groups().size(), 1U) << "all are left, and the broadcast group stays";
    EXPECT_EQ(states_in(kBroadcast), 0U);
}

TEST_F(IpoibSubnetClient, SendersAskAgainAfterAWhile) {
    join_broadcast();
    // As FullMember it makes the group, and then does not know it any more.
    ASSERT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    answer();
    client_.forget();
    join_broadcast();
    ASSERT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kPending);
    answer();
    ASSERT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kDone);
    client_.advance(SubnetClient::kSenderMs - 1);
    EXPECT_TRUE(client_.expire_senders().empty());
    client_.advance(SubnetClient::kSenderMs);
    EXPECT_EQ(client_.expire_senders(), std::vector<Gid>{kGroup});
    EXPECT_NE(client_.group(kBroadcast), nullptr) << "members stay";
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kPending)
        << "behind the request to leave";
    ASSERT_EQ(requests_.size(), 1U);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kPending);
    answer();
    EXPECT_EQ(client_.join(kGroup, JoinState::kSendOnlyNonMember), Progress::kDone);
}

TEST_F(IpoibSubnetClient, RequestsThatNobodySpeaksOf) {
    ASSERT_EQ(client_.join(kBroadcast, JoinState::kFullMember), Progress::kPending);
    client_.advance(SubnetClient::kRequestMs - 1);
    EXPECT_TRUE(client_.has_requests());
    client_.advance(SubnetClient::kRequestMs);
    EXPECT_FALSE(client_.has_requests());
    EXPECT_EQ(client_.take_settled(), std::vector<Gid>{kBroadcast});
    EXPECT_EQ(client_.counters().timeouts, 1U);
    // The administrator has done it, and its answer was lost.
    answers();
    EXPECT_EQ(states_in(kBroadcast), subnet::kFullMember);
    client_.leave(kBroadcast);
    answer();
    EXPECT_EQ(states_in(kBroadcast), 0U);
}

TEST_F(IpoibSubnetClient, WhatWaitsIsToldWhenNobodyAsksAnyMore) {
    join_broadcast();
    EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
    client_.leave(kGroup);
    EXPECT_EQ(client_.take_settled(), std::vector<Gid>{kGroup});
}

TEST_F(IpoibSubnetClient, AnswersThatLie) {
    join_broadcast();
    const Gid peer = ipoib::test::gid_of("fe80::3");
    const auto damaged = [&](const std::function<void(subnet::MadBytes&)>& damage) {
        client_.advance(std::exchange(when_, when_ + 100'000));
        EXPECT_EQ(client_.find_path(peer), Progress::kPending);
        MadPacket packet = answers().at(0);
        damage(packet.mad);
        client_.on_answer(packet.mad);
        client_.on_timeout(*sa_request_id(packet.mad));  // of those that were no answer
        EXPECT_EQ(client_.path(peer), nullptr);
        EXPECT_FALSE(client_.has_requests());
    };
    for (const auto& [at, value] : std::initializer_list<std::pair<std::size_t, unsigned>>{{0, 2},
                                                                                           {1, 4},
                                                                                           {2, 1},
                                                                                           {3, 1},
                                                                                           {3, 0x92},
                                                                                           {3, 0x95},
                                                                                           {17, 0x38},
                                                                                           {17, 0x36},
                                                                                           {56 + 40, 0xC0},
                                                                                           {56 + 23, 9}}) {
        SCOPED_TRACE(at);
        damaged([at = at, value = value](subnet::MadBytes& mad) { mad[at] = static_cast<std::byte>(value); });
    }
    // LID 0.
    damaged([](subnet::MadBytes& mad) { mad[56 + 40] = mad[56 + 41] = std::byte{0}; });
    EXPECT_EQ(client_.counters().malformed, 11U);
    // A group with a unicast LID, and one with another Q_Key than the link's.
    for (const std::size_t at : {56U + 36U, 56U + 35U}) {
        client_.advance(std::exchange(when_, when_ + 100'000));
        EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kPending);
        MadPacket packet = answers().at(0);
        packet.mad[at] = std::byte{0x12};
        client_.on_answer(packet.mad);
        ASSERT_EQ(requests_.size(), 1U) << "a membership that is of no use is ended";
        answer();
        EXPECT_EQ(states_in(kGroup), 0U);
        EXPECT_EQ(client_.join(kGroup, JoinState::kFullMember), Progress::kFailed);
    }
    EXPECT_EQ(client_.counters().malformed, 13U);
}

TEST_F(IpoibSubnetClient, ShortAndRandomAnswers) {
    join_broadcast();
    const std::uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    EXPECT_EQ(client_.find_path(ipoib::test::gid_of("fe80::3")), Progress::kPending);
    const MadPacket right = answers().at(0);
    for (std::size_t octets = 0; octets < right.mad.size(); ++octets) {
        client_.on_answer(ConstOctets(right.mad).first(octets));
        EXPECT_EQ(sa_request_id(ConstOctets(right.mad).first(octets)).has_value(), octets >= 24);
    }
    EXPECT_TRUE(client_.has_requests());
    std::uint32_t open = *sa_request_id(right.mad);
    for (int i = 0; i < 2000; ++i) {
        subnet::MadBytes mad = right.mad;
        for (int octet = 0; octet < 4; ++octet) {
            mad[random() % mad.size()] = static_cast<std::byte>(random());
        }
        // To what is under way, so that what follows is read.
        put_u32(mad, 12, open);
        client_.on_answer(mad);
        client_.advance(std::exchange(when_, when_ + 100'000));
        static_cast<void>(client_.find_path(ipoib::test::gid_of("fe80::3")));
        open = requests_.empty() ? open : *sa_request_id(requests_.back());
        requests_.clear();
        if (const PathRecord* const path = client_.path(ipoib::test::gid_of("fe80::3")); path != nullptr) {
            EXPECT_TRUE(path->dlid >= 1 && path->dlid <= 0xBFFF);
            client_.forget();
        }
    }
}

}  // namespace
}  // namespace urnic::ipoib::test
