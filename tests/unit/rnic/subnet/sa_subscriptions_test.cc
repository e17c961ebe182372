// Subscriptions to notices by the built-in subnet administrator: what is subscribed to, refused, reported,
// repeated and ended.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random_bytes.h"
#include "tests/unit/rnic/subnet/subscription_fixture.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

TEST_F(SubscriptionTest, ARequestOctetByOctet) {
    MadBytes asked{};
    put(asked, 0, {1, 3, 2, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x00, 0x03});
    // All LIDs; generic, subscribe; all types; trap 66; QPN and RespTimeValue 19; all producers.
    put(asked, 56 + 16, {0xff, 0xff, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0, 66, 0, 0, 0, 19, 0, 0xff, 0xff, 0xff});
    MadBytes expected = asked;
    expected[3] = std::byte{0x81};
    MadPacket packet = request(wire::kMadSet, mad::kInformInfo, 0);
    packet.mad = asked;
    const MadPacket answer = ask(packet);
    EXPECT_EQ(answer.mad, expected);
    EXPECT_EQ(answer.dlid, kAsker);
    EXPECT_EQ(subscriptions().size(), 1U);
    // And away again, as it came but with the QPN (IBA 13.4.8.3).
    put(packet.mad, 56 + 23, {0});
    EXPECT_EQ(status_of(packet), kSaRequestInvalid);
    put(packet.mad, 56 + 28, {0, 0, 1});
    EXPECT_EQ(status_of(packet), 0);
    EXPECT_EQ(subscriptions().size(), 0U);
}

TEST_F(SubscriptionTest, AReportOctetByOctet) {
    MadPacket asked = inform_request(to_all());
    asked.sl = 3;
    asked.pkey = 0x7fff;
    EXPECT_EQ(status_of(asked), 0);
    EXPECT_EQ(on_down(3), (Told{{kAsker, kOutOfService}}));
    MadBytes expected{};
    put(expected, 0, {1, 3, 2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x00, 0x02});
    // Generic and subnet management, class manager, 65, the manager's LID; port 3's GID, the manager's.
    put(expected, 56, {0x83, 0, 0, 4, 0, 65, 0, 1});
    put(expected, 56 + 16, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3});
    put(expected, 56 + 64, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    EXPECT_EQ(last_report_.mad, expected);
    EXPECT_EQ(last_report_.sl, 3);
    EXPECT_EQ(last_report_.pkey, 0x7fff);
    EXPECT_EQ(last_report_.src_qp, 1U);
    EXPECT_EQ(last_report_.dest_qp, 1U);
    EXPECT_EQ(last_report_.qkey, wire::kGsiQkey);
}

TEST_F(SubscriptionTest, PortsAndGroupsThatComeAndGo) {
    EXPECT_EQ(set(to_all()), 0);
    EXPECT_EQ(on_down(3), (Told{{kAsker, kOutOfService}}));
    up(3);
    EXPECT_EQ(told(), (Told{{kAsker, kInService}}));
    const auto mgid_told = [&] {
        return MadRef(last_report_.mad)
            .read<mad::NoticeGid>(mad::kNoticeGidTable, mad::kSaDataOffset + 10)
            .gid;
    };
    change_group(wire::kMadSet, 1);
    EXPECT_EQ(told(), (Told{{kAsker, kCreated}}));
    EXPECT_EQ(mgid_told(), group_gid(1));
    // It is there: nobody is told of who joins.
    auto other = member_request(wire::kMadSet, kLinuxJoin, member(group_gid(1), 1), 1);
    EXPECT_EQ(status_of(other), 0);
    change_group(wire::kMadDelete, 1);
    EXPECT_EQ(told(), Told{});
    // The last member's port goes, and the group with it.
    EXPECT_EQ(set(to_all(), 3), 0);
    sent_.clear();
    down(2);
    EXPECT_EQ(told(), (Told{{3, kOutOfService}})) << "who has gone is subscribed no more";
    EXPECT_EQ(subscriptions().size(), 1U);
    EXPECT_EQ(status_of(member_request(wire::kMadDelete, mc::kMgid | mc::kPortGid | mc::kJoinState,
                                       member(group_gid(2), 1), 1)),
              kSaRequestInvalid);
    sent_.clear();
    EXPECT_TRUE(
        administrator_->handle(member_request(wire::kMadDelete, mc::kMgid | mc::kPortGid | mc::kJoinState,
                                              member(group_gid(1), 1), 1),
                               now_));
    EXPECT_EQ(told(), (Told{{3, kDeleted}}));
    EXPECT_EQ(mgid_told(), group_gid(1));
}

TEST_F(SubscriptionTest, AGroupThatGoesWithItsMembersPort) {
    EXPECT_EQ(set(to_all(), 3), 0);
    change_group(wire::kMadSet, 1);
    EXPECT_EQ(told(), (Told{{3, kCreated}}));
    EXPECT_EQ(on_down(2), (Told{{3, kOutOfService}, {3, kDeleted}}));
}

/// What a subscription names decides; 65 is told when port 3 goes.
TEST_F(SubscriptionTest, WhatCoversANotice) {
    const auto is_told = [&](auto change) {
        mad::InformInfo info = to_all();
        change(info);
        EXPECT_EQ(set(info), 0);
        const bool is = !on_down(3).empty();
        up(3);
        info.subscribe = 0;
        info.qpn = 1;
        EXPECT_EQ(set(info), 0);
        EXPECT_EQ(subscriptions().size(), 0U);
        return is;
    };
    using I = mad::InformInfo;
    EXPECT_TRUE(is_told([](I& /*info*/) {}));
    EXPECT_TRUE(is_told([](I& info) { info.trap_number = 65; }));
    EXPECT_FALSE(is_told([](I& info) { info.trap_number = 64; }));
    EXPECT_TRUE(is_told([](I& info) { info.type = 3; }));
    EXPECT_FALSE(is_told([](I& info) { info.type = 4; }));
    EXPECT_TRUE(is_told([](I& info) { info.producer_type = 4; }));
    EXPECT_FALSE(is_told([](I& info) { info.producer_type = 1; }));
    EXPECT_FALSE(is_told([](I& info) { info.is_generic = 0; }));
    // The source of these traps is the manager: LID 1.
    const auto range = [&](std::uint16_t begin, std::uint16_t end) {
        return is_told([&](I& info) {
            info.lid_range_begin = begin;
            info.lid_range_end = end;
        });
    };
    EXPECT_TRUE(range(1, 0));
    EXPECT_TRUE(range(1, 3));
    EXPECT_TRUE(range(1, 0xbfff));
    EXPECT_FALSE(range(2, 3));
    EXPECT_FALSE(range(3, 0));
    // A GID is more than the range.
    const auto source = [&](std::uint8_t port) {
        return is_told([&](I& info) {
            info.gid = gid_of(port);
            info.lid_range_begin = 9;
        });
    };
    EXPECT_TRUE(source(1));
    EXPECT_FALSE(source(2));
}

TEST_F(SubscriptionTest, WrongRequests) {
    const auto status = [&](auto change) {
        mad::InformInfo info = to_all();
        change(info);
        return set(info);
    };
    using I = mad::InformInfo;
    EXPECT_EQ(status([](I& info) { info.subscribe = 2; }), kSaRequestInvalid);
    EXPECT_EQ(status([](I& info) { info.is_generic = 2; }), kSaRequestInvalid);
    EXPECT_EQ(status([](I& info) { info.gid = gid_of(9); }), kSaInvalidGid);
    const auto range = [&](std::uint16_t begin, std::uint16_t end) {
        return status([&](I& info) {
            info.lid_range_begin = begin;
            info.lid_range_end = end;
        });
    };
    EXPECT_EQ(range(0, 0), kSaRequestInvalid);
    EXPECT_EQ(range(0, 3), kSaRequestInvalid);
    EXPECT_EQ(range(3, 2), kSaRequestInvalid);
    EXPECT_EQ(range(1, 0xc000), kSaRequestInvalid);
    EXPECT_EQ(range(0xc000, 0), kSaRequestInvalid);
    EXPECT_EQ(set(to_all(), 9), kSaRequestInvalid) << "of nobody";
    EXPECT_EQ(unsubscribe(to_all()), kSaRequestInvalid) << "nothing to end";
    EXPECT_EQ(subscriptions().size(), 0U);
    // The answer says that there is none (o13-13).
    mad::InformInfo refused = to_all();
    refused.lid_range_begin = 0;
    const auto answer = record_of<mad::InformInfo>(ask(inform_request(refused)), mad::kInformInfoTable);
    EXPECT_EQ(answer.subscribe, 0);
    EXPECT_EQ(answer.trap_number, 0xffff);
    for (const std::uint8_t method : {wire::kMadGet, wire::kMadGetTable, wire::kMadDelete}) {
        EXPECT_EQ(status_of(request(method, mad::kInformInfo, 0)), kStatusBadAttribute);
    }
    for (const std::uint8_t method : {wire::kMadSet, wire::kMadDelete}) {
        EXPECT_EQ(status_of(request(method, mad::kInformInfoRecord, 0)), kStatusBadAttribute);
    }
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kNotice, 0)), kStatusBadAttribute);
}

TEST_F(SubscriptionTest, Partitions) {
    nodes_[1].ports[1].pkeys.entries = {0x7fff, 0x8005};
    nodes_[2].ports[1].pkeys.entries = {0x7fff, 0x8006};
    mad::InformInfo info = to_all();
    info.gid = gid_of(3);
    EXPECT_EQ(set(info), kSaRequestInvalid) << "two limited members of the default partition";
    info = to_all();
    info.lid_range_begin = 3;
    EXPECT_EQ(set(info), kSaRequestInvalid);
    info.lid_range_begin = 1;
    EXPECT_EQ(set(info), 0) << "port 1 is a full member";
    EXPECT_EQ(on_down(3), Told{});
    up(3);
    EXPECT_EQ(told(), Told{});
    // Of groups by their own partition.
    auto group = member(group_gid(1), 1);
    group.pkey = 0xffff;
    sent_.clear();
    EXPECT_TRUE(administrator_->handle(member_request(wire::kMadSet, kCreate, group, 1), now_));
    EXPECT_EQ(told(), (Told{{kAsker, kCreated}}));
    group = member(group_gid(2), 3);
    group.pkey = 0x8006;
    EXPECT_TRUE(administrator_->handle(member_request(wire::kMadSet, kCreate, group, 3), now_));
    EXPECT_EQ(told(), Told{});
    // Nor of who subscribes.
    EXPECT_TRUE(table<mad::SubscriberRecord>(request(wire::kMadGetTable, mad::kInformInfoRecord, 0, 3),
                                             mad::kSubscriberRecordTable)
                    .empty());
    EXPECT_EQ(table<mad::SubscriberRecord>(request(wire::kMadGetTable, mad::kInformInfoRecord, 0, 1),
                                           mad::kSubscriberRecordTable)
                  .size(),
              1U);
}

TEST_F(SubscriptionTest, ReportsAreRepeatedUntilTheyAreAnswered) {
    EXPECT_EQ(set(to_all()), 0);
    EXPECT_EQ(administrator_->next_event(), kNever);
    EXPECT_EQ(on_down(3).size(), 1U);
    const MadPacket first = last_report_;
    EXPECT_EQ(administrator_->next_event(), now_ + kReportNs);
    administrator_->advance(now_ + kReportNs - 1);
    EXPECT_TRUE(sent_.empty());
    now_ += kReportNs;
    administrator_->advance(now_);
    EXPECT_EQ(told(), (Told{{kAsker, kOutOfService}}));
    EXPECT_EQ(last_report_.mad, first.mad) << "with its transaction ID";
    // Not by another port, and not another report.
    EXPECT_FALSE(answer_report(3));
    last_report_.mad[15] = std::byte{2};
    EXPECT_FALSE(answer_report());
    last_report_ = first;
    EXPECT_TRUE(answer_report());
    EXPECT_FALSE(answer_report());
    EXPECT_EQ(administrator_->next_event(), kNever);
    EXPECT_EQ(subscriptions().size(), 1U);
    EXPECT_EQ(subscriptions().counters().reports, 1U);
    EXPECT_EQ(subscriptions().counters().ended_mute, 0U);
}

TEST_F(SubscriptionTest, WhoDoesNotAnswerIsSubscribedNoMore) {
    EXPECT_EQ(set(to_all()), 0);
    EXPECT_EQ(set(to_all(kCreated)), 0);
    EXPECT_EQ(on_down(3).size(), 1U);
    up(3);
    std::size_t sent = told().size();
    for (std::uint32_t i = 0; i < SaRequests::kTries; ++i) {
        EXPECT_EQ(subscriptions().size(), 2U);
        now_ += kReportNs;
        administrator_->advance(now_);
        sent += told().size();
    }
    // The second one, and both as often as they may be.
    EXPECT_EQ(sent, 1U + 2U * (SaRequests::kTries - 1));
    EXPECT_EQ(subscriptions().size(), 1U) << "the other one has told of nothing";
    EXPECT_EQ(subscriptions().counters().ended_mute, 1U);
    EXPECT_EQ(administrator_->next_event(), kNever);
    EXPECT_EQ(on_down(3), Told{});
}

/// However long a subscriber says that he takes.
TEST_F(SubscriptionTest, ItsTimeIsBounded) {
    mad::InformInfo info = to_all();
    info.resp_time_value = 31;
    EXPECT_EQ(set(info), 0);
    EXPECT_EQ(on_down(3).size(), 1U);
    EXPECT_LE(administrator_->next_event() - now_, TimeNs{10'000'000'000});
}

TEST_F(SubscriptionTest, Unsubscribing) {
    EXPECT_EQ(set(to_all()), 0);
    EXPECT_EQ(set(to_all(kOutOfService)), 0);
    // Once more: it is the same, though its time may be another.
    mad::InformInfo slower = to_all();
    slower.resp_time_value = 17;
    EXPECT_EQ(set(slower), 0);
    EXPECT_EQ(subscriptions().size(), 2U);
    EXPECT_EQ(on_down(3).size(), 2U) << "a report for each";
    EXPECT_EQ(unsubscribe(to_all(kInService)), kSaRequestInvalid);
    EXPECT_EQ(unsubscribe(to_all(), 0), kSaRequestInvalid);
    EXPECT_EQ(set(to_all(), 3), kSaRequestInvalid) << "port 3 is down";
    EXPECT_EQ(unsubscribe(to_all()), 0);
    EXPECT_EQ(unsubscribe(to_all()), kSaRequestInvalid);
    // Its report is not repeated.
    sent_.clear();
    now_ += 2 * kReportNs;
    administrator_->advance(now_);
    EXPECT_EQ(told(), (Told{{kAsker, kOutOfService}}));
    EXPECT_EQ(unsubscribe(to_all(kOutOfService)), 0);
    EXPECT_EQ(administrator_->next_event(), kNever);
}

/// While the administrator's own port is down it reaches nobody, which is nobody's fault.
TEST_F(SubscriptionTest, TheAdministratorsOwnPort) {
    EXPECT_EQ(set(to_all()), 0);
    EXPECT_EQ(on_down(3).size(), 1U);
    EXPECT_EQ(on_down(1), Told{});
    EXPECT_EQ(administrator_->next_event(), kNever);
    up(3);
    EXPECT_EQ(told(), Told{});
    up(1);
    EXPECT_EQ(told(), (Told{{kAsker, kInService}}));
    EXPECT_EQ(subscriptions().size(), 1U);
    // A program has become the manager, and has subscribers of its own.
    nodes_[0].ports[1].info.master_sm_lid = 2;
    EXPECT_EQ(on_down(3), Told{});
}

TEST_F(SubscriptionTest, Records) {
    mad::InformInfo first = to_all(kCreated);
    first.type = 3;
    EXPECT_EQ(set(first), 0);
    EXPECT_EQ(set(to_all(kDeleted)), 0);
    EXPECT_EQ(set(to_all(), 3), 0);
    const auto ask_for = [&](std::uint64_t mask, const mad::SubscriberRecord& wanted,
                             const mad::InformInfo& info = {}) {
        MadPacket packet =
            request(wire::kMadGetTable, mad::kInformInfoRecord, mask, mad::kSubscriberRecordTable, wanted);
        MadRef(packet.mad).write(mad::kInformInfoTable, mad::kSaDataOffset + 24, info);
        return packet;
    };
    const auto of = [&](const MadPacket& packet) {
        return table<mad::SubscriberRecord>(packet, mad::kSubscriberRecordTable);
    };
    EXPECT_EQ(of(ask_for(0, {})),
              (std::vector<mad::SubscriberRecord>{{gid_of(2), 0}, {gid_of(2), 1}, {gid_of(3), 0}}));
    EXPECT_EQ(of(ask_for(component(0), {gid_of(3), 0})).size(), 1U);
    EXPECT_EQ(of(ask_for(component(0) | component(1), {gid_of(2), 1})).size(), 1U);
    EXPECT_EQ(of(ask_for(component(0), {gid_of(1), 0})).size(), 0U);
    mad::InformInfo wanted;
    wanted.lid_range_begin = 0xffff;
    wanted.type = 3;
    EXPECT_EQ(of(ask_for(component(9), {}, wanted)).size(), 1U);
    wanted.trap_number = kDeleted;
    EXPECT_EQ(of(ask_for(component(10), {}, wanted)).size(), 1U);
    wanted.qpn = 1;
    EXPECT_EQ(of(ask_for(component(11), {}, wanted)).size(), 3U) << "what it was subscribed from";
    wanted.producer_type = 0xffffff;
    EXPECT_EQ(of(ask_for(component(15) | component(4), {}, wanted)).size(), 3U);
    // One record, with all of it, octet by octet.
    MadPacket one = ask_for(component(0) | component(1), {gid_of(2), 0});
    put(one.mad, 3, {wire::kMadGet});
    const MadPacket answer = ask(one);
    MadBytes expected = one.mad;
    put(expected, 3, {wire::kMadGetResponse});
    put(expected, 56 + 24 + 16,
        {0xff, 0xff, 0, 0, 0, 0, 1, 1, 0, 3, 0, 66, 0, 0, 1, 16, 0, 0xff, 0xff, 0xff});
    EXPECT_EQ(answer.mad, expected);
    // Gaps are no components.
    for (const unsigned gap : {2U, 6U, 12U, 14U, 16U}) {
        EXPECT_EQ(status_of(ask_for(component(gap), {})), kSaRequestInvalid) << gap;
    }
    // A number is free again once its subscription has ended.
    mad::InformInfo end = first;
    end.subscribe = 0;
    end.qpn = 1;
    EXPECT_EQ(set(end), 0);
    EXPECT_EQ(set(to_all(kInService)), 0);
    EXPECT_EQ(of(ask_for(component(0) | component(1), {gid_of(2), 0})).size(), 1U);
}

TEST_F(SubscriptionTest, Bounds) {
    for (std::uint16_t i = 0; i < SaSubscriptions::kMaxOfPort; ++i) {
        EXPECT_EQ(set(to_all(i)), 0);
    }
    EXPECT_EQ(set(to_all()), kSaNoResources);
    EXPECT_EQ(set(to_all(0)), 0) << "it is there";
    EXPECT_EQ(set(to_all(), 3), 0) << "another port has its own";
    // Of all ports together.
    std::deque<Node> nodes;
    SaSubscriptions many;
    std::size_t added = 0;
    for (std::uint16_t number = 1; number <= 40; ++number) {
        NodeOptions options;
        options.guid = number;
        options.port.lid = number;
        nodes.emplace_back(options);
        const Endpoint port(nodes.back());
        for (std::uint16_t trap = 0; trap < SaSubscriptions::kMaxOfPort; ++trap) {
            added += many.set(to_all(trap), port, {}, {number, 0, 0xffff}, 1) == kStatusGood ? 1U : 0U;
        }
    }
    EXPECT_EQ(added, SaSubscriptions::kMaxSubscriptions);
    EXPECT_EQ(many.size(), added);
    // And reports that nobody answers.
    for (std::size_t i = 0; i < 2 * SaSubscriptions::kMaxReportsOfOne; ++i) {
        mad::Notice notice;
        notice.is_generic = true;
        std::size_t sent = 0;
        many.report(
            notice, {}, [](std::uint64_t /*guid*/) { return true; }, now_,
            [&](const MadPacket& /*packet*/) { ++sent; });
        EXPECT_LE(sent, 32U) << "trap 0 of each port";
    }
    EXPECT_EQ(many.counters().reports, SaSubscriptions::kMaxReports);
}

/// Groups that come and go, and a subscriber that does not answer.
TEST_F(SubscriptionTest, AFloodOfEvents) {
    EXPECT_EQ(set(to_all(), 3), 0);
    std::size_t reports = 0;
    for (std::uint16_t i = 0; i < 1000; ++i) {
        change_group(wire::kMadSet, i);
        change_group(wire::kMadDelete, i);
        reports += told().size();
    }
    EXPECT_EQ(reports, SaSubscriptions::kMaxReportsOfOne);
    EXPECT_EQ(subscriptions().counters().drop_full, 2000 - reports);
    EXPECT_EQ(administrator_->groups().size(), 1U);
    // He answers one: there is room for one.
    EXPECT_TRUE(answer_report(3));
    change_group(wire::kMadSet, 1);
    change_group(wire::kMadDelete, 1);
    EXPECT_EQ(told(), (Told{{3, kCreated}}));
}

/// Whatever comes: bounds hold, and each request is answered once.
TEST_F(SubscriptionTest, SubscriptionNoise) {
    urnic::test::Random random;
    const auto below = [&](unsigned end) { return static_cast<unsigned>(random.below(end)); };
    for (int i = 0; i < 5000; ++i) {
        mad::InformInfo info = to_all(static_cast<std::uint16_t>(64 + below(4)));
        info.subscribe = static_cast<std::uint8_t>(below(3));
        info.qpn = below(2);
        MadPacket packet = inform_request(info, static_cast<std::uint16_t>(1 + below(4)));
        for (unsigned change = below(4); change != 0; --change) {
            packet.mad.at(mad::kSaDataOffset + below(36)) = random.bytes(1)[0];
        }
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(packet, now_)) << random;
        ASSERT_EQ(sent_.size(), 1U) << random;
        if (below(8) == 0) {
            const std::size_t port = 1 + below(3);
            const bool is_up = nodes_[port - 1].ports[1].info.port_state == mad::kActive;
            is_up ? down(port) : up(port);
        }
        if (below(4) == 0 && !told().empty()) {
            (void)answer_report(last_report_.dlid);
        }
        now_ += kReportNs / 8;
        administrator_->advance(now_);
        ASSERT_LE(subscriptions().size(), 3 * SaSubscriptions::kMaxOfPort) << random;
    }
}

}  // namespace
}  // namespace urnic::subnet
