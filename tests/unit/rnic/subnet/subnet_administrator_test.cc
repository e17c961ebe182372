// The built-in subnet administrator: requests as octets, records of nodes, ports and paths, tables in
// segments, and each thing that is wrong with a request.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "rnic/wire/mad/performance_attributes.h"
#include "tests/unit/rnic/subnet/administrator_fixture.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

/// As Linux's librdmacm asks, octet by octet.
TEST_F(AdministratorTest, APathOctetByOctet) {
    MadBytes asked{};
    put(asked, 0, {1, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x00, 0x35});
    // ServiceID, DGID, SGID, Reversible, NumbPath, P_Key.
    put(asked, 48, {0, 0, 0, 0, 0, 0, 0x38, 0x0f});
    put(asked, 56, {0, 0, 0, 0, 0x01, 0x06, 0x1b, 0x58});
    put(asked, 64, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3});
    put(asked, 80, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
    put(asked, 105, {0x81, 0xff, 0xff});
    MadBytes expected = asked;
    expected[3] = std::byte{0x81};
    put(expected, 96, {0, 3, 0, 2, 0, 0, 0, 0});                        // DLID, SLID, flow label, hop limit
    put(expected, 104, {0, 0x80, 0xff, 0xff, 0, 0, 0x84, 0x90, 0x92});  // MTU 2048, 100 Gb/s, 2^18
    MadPacket packet = request(wire::kMadGet, mad::kPathRecord, 0);
    packet.mad = asked;
    const MadPacket answer = ask(packet);
    EXPECT_EQ(answer.mad, expected);
    EXPECT_EQ(answer.dlid, kAsker);
    EXPECT_EQ(answer.slid, 1);
    EXPECT_EQ(administrator_->counters().requests, 1U);
    EXPECT_EQ(administrator_->counters().errors, 0U);
}

TEST_F(AdministratorTest, ClassPortInfo) {
    const auto info = record_of<mad::ClassPortInfo>(ask(request(wire::kMadGet, mad::kClassPortInfo, 0)),
                                                    mad::kClassPortInfoTable);
    EXPECT_EQ(info.base_version, 1);
    EXPECT_EQ(info.class_version, 2);
    EXPECT_EQ(info.capability_mask, 0x2200);
    EXPECT_EQ(info.capability_mask2, 1U << 12U) << "SendOnlyFullMember";
    EXPECT_EQ(info.resp_time_value, 16);
}

TEST_F(AdministratorTest, NodesAndPorts) {
    const auto nodes =
        table<mad::LidRecord>(request(wire::kMadGetTable, mad::kNodeRecord, 0), mad::kLidRecordTable);
    ASSERT_EQ(nodes.size(), 3U);  // that with no LID is none's
    EXPECT_EQ(nodes[2].lid, 3);
    // By LID, by GUID, by description.
    MadPacket by_lid =
        request(wire::kMadGet, mad::kNodeRecord, component(0), mad::kLidRecordTable, mad::LidRecord{3});
    const MadPacket answer = ask(by_lid);
    MadBytes bytes = answer.mad;
    const auto info = MadRef(bytes).read<mad::NodeInfo>(mad::kNodeInfoTable, mad::kSaDataOffset + 4);
    EXPECT_EQ(info.node_guid, 3U);
    EXPECT_EQ(info.local_port_num, 1);
    MadPacket by_guid = request(wire::kMadGet, mad::kNodeRecord, component(7));
    put(by_guid.mad, 56 + 4 + 12, {0, 0, 0, 0, 0, 0, 0, 2});
    EXPECT_EQ(record_of<mad::LidRecord>(ask(by_guid), mad::kLidRecordTable).lid, 2);
    MadPacket by_name = request(wire::kMadGet, mad::kNodeRecord, component(14));
    put(by_name.mad, 56 + 44, {'u', 'r', 'n', 'i', 'c', '3'});
    EXPECT_EQ(record_of<mad::LidRecord>(ask(by_name), mad::kLidRecordTable).lid, 3);
    by_lid = request(wire::kMadGet, mad::kNodeRecord, component(0), mad::kLidRecordTable, mad::LidRecord{77});
    EXPECT_EQ(status_of(by_lid), kSaNoRecords);
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kNodeRecord, 0)), kSaTooManyRecords);

    const auto ports =
        table<mad::PortRecord>(request(wire::kMadGetTable, mad::kPortInfoRecord, 0), mad::kPortRecordTable);
    ASSERT_EQ(ports.size(), 3U);
    EXPECT_EQ(ports[1], (mad::PortRecord{2, 1, 0}));
}

TEST_F(AdministratorTest, PortsByCapabilityAndTheirKeys) {
    nodes_[1].ports[1].info.capability_mask |= kIsSm;
    nodes_[1].ports[1].info.m_key = 0x1122;
    // Those that have the bit, among others (AttributeModifier 2^31); without it the masks would be the same.
    MadPacket managers = request(wire::kMadGet, mad::kPortInfoRecord, kCapabilityMaskComponent);
    put(managers.mad, 20, {0x80});
    put(managers.mad, 56 + 4 + 20, {0, 0, 0, 2});
    EXPECT_EQ(record_of<mad::PortRecord>(ask(managers), mad::kPortRecordTable).lid, 2);
    put(managers.mad, 20, {0});
    EXPECT_EQ(status_of(managers), kSaNoRecords);
    // The M_Key is for who is trusted.
    MadPacket packet = request(wire::kMadGet, mad::kPortInfoRecord, component(0), mad::kPortRecordTable,
                               mad::PortRecord{2, 0, 0});
    const auto key = [&] {
        MadPacket answer = ask(packet);
        return MadRef(answer.mad).read<mad::PortInfo>(mad::kPortInfoTable, mad::kSaDataOffset + 4).m_key;
    };
    EXPECT_EQ(key(), 0U);
    put(packet.mad, 36 + 7, {1});
    EXPECT_EQ(key(), 0x1122U);
}

TEST_F(AdministratorTest, PathsOfAllAndOfSome) {
    EXPECT_EQ(table<mad::PathRecord>(path_request(wire::kMadGetTable, 0, {}), mad::kPathRecordTable).size(),
              9U);
    mad::PathRecord wanted;
    wanted.slid = 2;
    const auto from =
        table<mad::PathRecord>(path_request(wire::kMadGetTable, pc::kSlid, wanted), mad::kPathRecordTable);
    ASSERT_EQ(from.size(), 3U);
    for (const mad::PathRecord& path : from) {
        EXPECT_EQ(path.slid, 2);
        EXPECT_EQ(path.mtu, path.dlid == 3 ? 4 : 5);
        EXPECT_TRUE(path.reversible);
    }
    // Of nobody: nothing, which is no error of a table's.
    wanted.slid = 9;
    EXPECT_TRUE(
        table<mad::PathRecord>(path_request(wire::kMadGetTable, pc::kSlid, wanted), mad::kPathRecordTable)
            .empty());
    EXPECT_EQ(status_of(path_request(wire::kMadGet, pc::kSlid, wanted)), kSaNoRecords);
    EXPECT_EQ(status_of(path_request(wire::kMadGet, 0, wanted)), kSaTooManyRecords);
    // A port that is down has no path.
    (void)set_connected(nodes_[2], 1, false);
    EXPECT_EQ(table<mad::PathRecord>(path_request(wire::kMadGetTable, 0, {}), mad::kPathRecordTable).size(),
              4U);
}

TEST_F(AdministratorTest, PathsThatAreNot) {
    mad::PathRecord wanted;
    wanted.sgid = gid_of(2);
    wanted.dgid = gid_of(3);
    const std::uint64_t both = pc::kSgid | pc::kDgid;
    const auto status = [&](std::uint64_t more, auto change) {
        mad::PathRecord changed = wanted;
        change(changed);
        return status_of(path_request(wire::kMadGet, both | more, changed));
    };
    EXPECT_EQ(status(0, [](auto&) {}), 0);
    EXPECT_EQ(status(0, [](auto& path) { path.sgid = gid_of(9); }), kSaInvalidGid);
    EXPECT_EQ(status(0, [](auto& path) { path.dgid = gid_of(4); }), kSaInvalidGid);  // without LID
    EXPECT_EQ(status(0, [](auto& path) { path.dgid[0] = 0x20; }), kSaInvalidGid);    // of another subnet
    EXPECT_EQ(status(0, [](auto& path) { path.dgid = group_gid(9); }), kSaInvalidGid);
    EXPECT_EQ(status(pc::kSlid, [](auto& path) { path.slid = 3; }), kSaNoRecords);  // contradicts the SGID
    EXPECT_EQ(status(pc::kDlid, [](auto& path) { path.dlid = 0xc000; }), kSaNoRecords);
    EXPECT_EQ(status(pc::kRawTraffic, [](auto& path) { path.raw_traffic = true; }), kSaNoRecords);
    EXPECT_EQ(status(pc::kNumbPath, [](auto& path) { path.numb_path = 0; }), kSaRequestInvalid);
    EXPECT_EQ(status(pc::kPkey, [](auto& path) { path.pkey = 0x8123; }), kSaNoRecords);
    EXPECT_EQ(status(component(7), [](auto&) {}), kSaRequestInvalid);   // reserved
    EXPECT_EQ(status(component(40), [](auto&) {}), kSaRequestInvalid);  // there is none
}

TEST_F(AdministratorTest, WhatARequestChooses) {
    mad::PathRecord wanted;
    wanted.sgid = gid_of(1);
    wanted.dgid = gid_of(2);
    /// MTU of a path that could have 4096; 0: there is none.
    const auto mtu = [&](std::uint8_t selector, std::uint8_t value) -> unsigned {
        wanted.mtu_selector = selector;
        wanted.mtu = value;
        MadPacket answer =
            ask(path_request(wire::kMadGet, pc::kSgid | pc::kDgid | pc::kMtu | pc::kMtuSelector, wanted));
        return MadRef(answer.mad).status() == 0 ? path_of(answer).mtu : 0U;
    };
    EXPECT_EQ(mtu(0, 4), 5U);
    EXPECT_EQ(mtu(0, 5), 0U);
    EXPECT_EQ(mtu(1, 4), 3U);
    EXPECT_EQ(mtu(1, 1), 0U);
    EXPECT_EQ(mtu(2, 2), 2U);
    EXPECT_EQ(mtu(2, 6), 0U);
    EXPECT_EQ(mtu(2, 0), 0U);
    EXPECT_EQ(mtu(3, 0), 5U);
    const auto rate = [&](std::uint8_t selector, std::uint8_t value) -> unsigned {
        wanted.rate_selector = selector;
        wanted.rate = value;
        MadPacket answer =
            ask(path_request(wire::kMadGet, pc::kSgid | pc::kDgid | pc::kRate | pc::kRateSelector, wanted));
        return MadRef(answer.mad).status() == 0 ? path_of(answer).rate : 0U;
    };
    EXPECT_EQ(rate(0, 9), 16U);  // 80 Gb/s, which is less than 100
    EXPECT_EQ(rate(0, 10), 0U);  // 120 Gb/s, though its number is less
    EXPECT_EQ(rate(1, 16), 9U);
    EXPECT_EQ(rate(2, 3), 3U);
    EXPECT_EQ(rate(2, 1), 0U);  // of nothing
    const auto life = [&](std::uint8_t selector, std::uint8_t value) -> unsigned {
        wanted.packet_life_time_selector = selector;
        wanted.packet_life_time = value;
        MadPacket answer =
            ask(path_request(wire::kMadGet, pc::kSgid | pc::kDgid | pc::kLife | pc::kLifeSelector, wanted));
        return MadRef(answer.mad).status() == 0 ? path_of(answer).packet_life_time : 0U;
    };
    EXPECT_EQ(life(0, 20), 21U);
    EXPECT_EQ(life(0, 63), 0U);
    EXPECT_EQ(life(1, 18), 0U);
    EXPECT_EQ(life(1, 19), 18U);
    EXPECT_EQ(life(2, 17), 0U);
    // No policy: any SL and class.
    wanted.sl = 5;
    wanted.tclass = 0x20;
    const auto path =
        path_of(ask(path_request(wire::kMadGet, pc::kSgid | pc::kDgid | pc::kSl | pc::kTclass, wanted)));
    EXPECT_EQ(path.sl, 5);
    EXPECT_EQ(path.tclass, 0x20);
}

TEST_F(AdministratorTest, Partitions) {
    nodes_[1].ports[1].pkeys.entries = {0x7fff, 0x8005};
    nodes_[2].ports[1].pkeys.entries = {0x7fff, 0x0005};
    mad::PathRecord wanted;
    wanted.slid = 2;
    wanted.dlid = 3;
    const std::uint64_t both = pc::kSlid | pc::kDlid;
    // Two limited members of the default partition do not talk.
    EXPECT_EQ(path_of(ask(path_request(wire::kMadGet, both, wanted))).pkey, 0x8005);
    wanted.pkey = 0xffff;
    EXPECT_EQ(status_of(path_request(wire::kMadGet, both | pc::kPkey, wanted)), kSaNoRecords);
    std::swap(wanted.slid, wanted.dlid);
    wanted.pkey = 0x8005;
    EXPECT_EQ(path_of(ask(path_request(wire::kMadGet, both | pc::kPkey, wanted))).pkey, 0x0005);
    // A member of a group is one of its partition.
    auto record = member(group_gid(1), 2);
    record.pkey = 0x8005;
    EXPECT_EQ(join(kCreate, record), 0);
    record.port_gid = gid_of(1);
    EXPECT_EQ(join(kLinuxJoin, record, 1), kSaRequestInvalid);
    record.pkey = 0x8006;
    record.mgid = group_gid(2);
    record.port_gid = gid_of(2);
    EXPECT_EQ(join(kCreate, record), kSaRequestInvalid);
}

TEST_F(AdministratorTest, WrongMads) {
    const auto status = [&](std::size_t at, unsigned octet) {
        MadPacket packet = request(wire::kMadGet, mad::kClassPortInfo, 0);
        put(packet.mad, at, {octet});
        return status_of(packet);
    };
    EXPECT_EQ(status(0, 2), kStatusBadVersion);
    EXPECT_EQ(status(2, 1), kStatusBadVersion);
    EXPECT_EQ(status(3, 0x14), kStatusBadMethod);  // GetMulti
    EXPECT_EQ(status(3, 0x00), kStatusBadMethod);
    EXPECT_EQ(status(17, 0x20), kStatusBadAttribute);  // LinkRecord
    EXPECT_EQ(status(3, wire::kMadGetTable), kStatusBadAttribute);
    EXPECT_EQ(status_of(request(wire::kMadSet, mad::kPathRecord, 0)), kStatusBadAttribute);
    EXPECT_EQ(status_of(request(wire::kMadDelete, mad::kNodeRecord, 0)), kStatusBadAttribute);
    EXPECT_EQ(administrator_->counters().errors, 8U);
    // An error gives the request's data back.
    MadPacket wrong = request(wire::kMadGet, mad::kPathRecord, component(7));
    put(wrong.mad, 100, {0xab});
    EXPECT_EQ(ask(wrong).mad[100], std::byte{0xab});

    // No answer: a key that is not ours, a partition that is not the port's, responses, other classes, QP0.
    sent_.clear();
    MadPacket packet = request(wire::kMadGet, mad::kClassPortInfo, 0);
    put(packet.mad, 36 + 7, {2});
    EXPECT_TRUE(administrator_->handle(packet, now_));
    EXPECT_EQ(administrator_->counters().drop_key, 1U);
    packet = request(wire::kMadGet, mad::kClassPortInfo, 0);
    packet.pkey = 0x8001;
    EXPECT_TRUE(administrator_->handle(packet, now_));
    EXPECT_EQ(administrator_->counters().drop_pkey, 1U);
    EXPECT_FALSE(administrator_->handle(request(wire::kMadGetResponse, mad::kPathRecord, 0), now_));
    packet = request(wire::kMadGet, mad::kClassPortInfo, 0);
    put(packet.mad, 1, {wire::kMadClassPerformance});
    EXPECT_FALSE(administrator_->handle(packet, now_));
    packet = request(wire::kMadGet, mad::kClassPortInfo, 0);
    packet.dest_qp = 0;
    EXPECT_FALSE(administrator_->handle(packet, now_));
    EXPECT_TRUE(sent_.empty());
}

TEST_F(AdministratorTest, TablesWaitForTheirReader) {
    const MadPacket asked = path_request(wire::kMadGetTable, 0, {});
    ask(asked);  // one segment, until it is acknowledged
    MadBytes first = sent_.front().mad;
    EXPECT_EQ(first[3], std::byte{wire::kMadGetTableResponse});
    EXPECT_TRUE(is_rmpp_active(first));
    // 9 paths of 64 octets in segments of 200, each with 20 of its own.
    EXPECT_EQ(load_be32(&first[mad::kRmppOffset + 8]), 9U * 64 + 3 * 20);
    EXPECT_EQ(load_be16(&first[44]), 8);
    // Once more, as after a time-out: it goes on.
    EXPECT_TRUE(administrator_->handle(asked, now_));
    EXPECT_EQ(sent_.size(), 1U);
    EXPECT_EQ(administrator_->counters().drop_repeated, 1U);
    // ABORT ends it; who acknowledges what is not there is told to nobody.
    RmppReceiver receiver(4096);
    std::optional<MadBytes> ack;
    (void)receiver.on_data(first, ack);
    MadPacket control = asked;
    control.mad = *ack;
    MadPacket stranger = control;
    stranger.slid = 3;
    EXPECT_FALSE(administrator_->handle(stranger, now_));
    control.mad[mad::kRmppOffset + 1] = std::byte{mad::kRmppAbort};
    EXPECT_TRUE(administrator_->handle(control, now_));
    EXPECT_FALSE(administrator_->handle(control, now_));
    EXPECT_EQ(administrator_->next_event(), kNever);
    // As many as there is room for, and for no longer than they may take.
    for (std::size_t i = 0; i < SubnetAdministrator::kMaxTables; ++i) {
        ask(path_request(wire::kMadGetTable, 0, {}));
    }
    EXPECT_EQ(status_of(path_request(wire::kMadGetTable, 0, {})), kSaNoResources);
    for (std::uint32_t i = 0; i < RmppTransfer::kAckRetries; ++i) {
        EXPECT_EQ(administrator_->next_event(), now_ + RmppTransfer::kAckNs);
        now_ += RmppTransfer::kAckNs;
        sent_.clear();
        administrator_->advance(now_);
        EXPECT_EQ(sent_.size(), SubnetAdministrator::kMaxTables);
    }
    now_ += RmppTransfer::kAckNs;
    administrator_->advance(now_);
    EXPECT_EQ(administrator_->next_event(), kNever);
    EXPECT_EQ(table<mad::PathRecord>(path_request(wire::kMadGetTable, 0, {}), mad::kPathRecordTable).size(),
              9U);
}

/// Whatever comes: one answer at most for a request, and state within its bounds.
TEST_F(AdministratorTest, Noise) {
    std::mt19937 random(20);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
    const std::uint8_t methods[] = {wire::kMadGet, wire::kMadSet, wire::kMadGetTable, wire::kMadDelete};
    const std::uint16_t attributes[] = {mad::kNodeRecord, mad::kPortInfoRecord, mad::kPathRecord,
                                        mad::kMcMemberRecord};
    for (int i = 0; i < 20'000; ++i) {
        const std::uint8_t method = methods[random() % 4];
        const std::uint16_t attribute = attributes[random() % 4];
        MadPacket packet = member_request(wire::kMadSet, kCreate, member(group_gid(random() % 3)));
        put(packet.mad, 3, {method});
        put(packet.mad, 17, {attribute});
        for (unsigned change = random() % 8; change != 0; --change) {
            packet.mad.at(random() % packet.mad.size()) = static_cast<std::byte>(random());
        }
        sent_.clear();
        (void)administrator_->handle(packet, now_);
        ASSERT_LE(sent_.size(), 1U);
        now_ += RmppTransfer::kAckNs / 10;
        administrator_->advance(now_);
    }
    EXPECT_LE(administrator_->groups().size(), SaGroups::kMaxGroups);
    EXPECT_EQ(status_of(request(wire::kMadGet, mad::kClassPortInfo, 0)), 0);
}

}  // namespace
}  // namespace urnic::subnet
