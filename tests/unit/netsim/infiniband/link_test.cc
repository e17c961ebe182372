// Credits and virtual lanes: what one link of InfiniBand does.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "netsim/infiniband/credits.h"
#include "netsim/infiniband/ib_port.h"
#include "netsim/infiniband/vl_arbiter.h"

namespace urnic::netsim {
namespace {

TEST(IbCredits, NothingGoesBeforeTheFirstGrant) {
    CreditSender sender;
    EXPECT_FALSE(sender.may_send(1));
    sender.set_limit(3);
    EXPECT_TRUE(sender.may_send(3));
    EXPECT_FALSE(sender.may_send(4));
    sender.send(3);
    EXPECT_FALSE(sender.may_send(1));
}

TEST(IbCredits, CountsWrapWithoutAnEnd) {
    CreditSender sender;
    CreditReceiver receiver;
    receiver.set_capacity(100);
    sender.set_limit(receiver.grant());
    std::uint32_t sent = 0;
    for (int i = 0; i < 1'000; ++i) {
        for (; sender.may_send(7); ++sent) {
            sender.send(7);
            ASSERT_TRUE(receiver.receive(7));
        }
        ASSERT_EQ(receiver.used(), 98U);
        for (int packet = 0; packet < 14; ++packet) {
            receiver.release(7);
        }
        ASSERT_TRUE(receiver.grant_due(7));
        receiver.set_total(sender.total_sent());
        sender.set_limit(receiver.grant());
        ASSERT_FALSE(receiver.grant_due(7));
    }
    EXPECT_EQ(sent, 14'000U);
}

TEST(IbCredits, WhatWasLostOnTheWayComesBackByTheTotal) {
    CreditSender sender;
    CreditReceiver receiver;
    receiver.set_capacity(10);
    sender.set_limit(receiver.grant());
    sender.send(10);  // and it never arrives
    EXPECT_FALSE(sender.may_send(1));
    receiver.set_total(sender.total_sent());
    EXPECT_TRUE(receiver.grant_due(1));
    sender.set_limit(receiver.grant());
    EXPECT_EQ(sender.available(), 10U);
}

TEST(IbCredits, ASenderWithoutCreditIsFoundOut) {
    CreditReceiver receiver;
    receiver.set_capacity(10);
    EXPECT_TRUE(receiver.receive(10));
    EXPECT_FALSE(receiver.receive(1));
    EXPECT_EQ(receiver.used(), 10U);
    receiver.set_capacity(1'000'000);
    EXPECT_EQ(receiver.capacity(), kMostCreditBlocks);
}

TEST(IbCredits, AGrantIsNotHeldBackFromASenderThatNeedsIt) {
    CreditReceiver receiver;
    receiver.set_capacity(100);
    (void)receiver.grant();
    ASSERT_TRUE(receiver.receive(5));
    receiver.release(5);
    EXPECT_FALSE(receiver.grant_due(66)) << "95 blocks are left, 5 are new";
    ASSERT_TRUE(receiver.receive(60));
    EXPECT_TRUE(receiver.grant_due(66)) << "35 are left, which is less than a packet";
}

// What each VL gets of `rounds` choices when the given ones always have a packet of `bytes`.
std::map<std::uint8_t, std::uint32_t> shares(VlArbiter& arbiter, std::initializer_list<std::uint8_t> vls,
                                             std::uint32_t rounds, std::uint32_t bytes = 4096) {
    std::array<std::uint32_t, kVls> ready{};
    for (const std::uint8_t vl : vls) {
        ready[vl] = bytes;
    }
    std::map<std::uint8_t, std::uint32_t> counts;
    for (std::uint32_t i = 0; i < rounds; ++i) {
        ++counts[arbiter.choose(ready)];
    }
    return counts;
}

VlArbiter::Table table_of(std::initializer_list<VlArbitrationEntry> entries) {
    VlArbiter::Table table{};
    std::copy(entries.begin(), entries.end(), table.begin());
    return table;
}

using Shares = std::map<std::uint8_t, std::uint32_t>;

TEST(VlArbiter, LowPriorityIsSharedByWeight) {
    VlArbiter arbiter;
    arbiter.set_table(VlArbiter::Priority::kLow, table_of({{0, 64}, {1, 192}, {2, 128}}));
    EXPECT_EQ(shares(arbiter, {0, 1, 2}, 600), (Shares{{0, 100}, {1, 300}, {2, 200}}));
    EXPECT_EQ(shares(arbiter, {0, 2}, 300), (Shares{{0, 100}, {2, 200}}));
    EXPECT_EQ(shares(arbiter, {1}, 10), (Shares{{1, 10}}));
}

TEST(VlArbiter, APacketThatExceedsTheWeightGoesAsAWhole) {
    VlArbiter arbiter;
    arbiter.set_table(VlArbiter::Priority::kLow, table_of({{0, 1}, {1, 1}}));
    EXPECT_EQ(shares(arbiter, {0, 1}, 100), (Shares{{0, 50}, {1, 50}}));
}

TEST(VlArbiter, AVlMayStandInSeveralEntries) {
    VlArbiter arbiter;
    arbiter.set_table(VlArbiter::Priority::kLow, table_of({{0, 64}, {1, 64}, {0, 64}, {5, 0}}));
    EXPECT_EQ(shares(arbiter, {0, 1, 5}, 300), (Shares{{0, 200}, {1, 100}}));
}

TEST(VlArbiter, HighPriorityLeavesLowItsChanceByTheLimit) {
    VlArbiter arbiter;
    arbiter.set_table(VlArbiter::Priority::kLow, table_of({{0, 64}}));
    arbiter.set_table(VlArbiter::Priority::kHigh, table_of({{3, 64}}));
    arbiter.set_high_limit(0);  // one packet
    EXPECT_EQ(shares(arbiter, {0, 3}, 100), (Shares{{0, 50}, {3, 50}}));
    arbiter.set_high_limit(3);  // 12,288 bytes
    EXPECT_EQ(shares(arbiter, {0, 3}, 400), (Shares{{0, 100}, {3, 300}}));
    arbiter.set_high_limit(255);
    EXPECT_EQ(shares(arbiter, {0, 3}, 400), (Shares{{3, 400}}));
    EXPECT_EQ(shares(arbiter, {0}, 4), (Shares{{0, 4}}));
}

TEST(VlArbiter, ManagementGoesFirstAndWhatNoTableHasNever) {
    VlArbiter arbiter;
    arbiter.set_table(VlArbiter::Priority::kLow, table_of({{0, 64}}));
    EXPECT_EQ(shares(arbiter, {0, 7, 15}, 5), (Shares{{15, 5}}));
    EXPECT_EQ(shares(arbiter, {7}, 5), (Shares{{kVls, 5}}));
    EXPECT_TRUE(arbiter.is_served(0));
    EXPECT_FALSE(arbiter.is_served(7));
    EXPECT_TRUE(arbiter.is_served(15));
}

IbPort::Options port_options() {
    IbPort::Options options;
    options.rate = 1'000'000'000;
    return options;
}

TEST(IbPort, StatesAreTakenOneByOne) {
    IbPort port(port_options());
    EXPECT_EQ(port.state(), IbPortState::kDown);
    EXPECT_FALSE(port.set_state(IbPortState::kArmed));
    port.train(true);
    EXPECT_EQ(port.state(), IbPortState::kInit);
    EXPECT_FALSE(port.set_state(IbPortState::kActive));
    EXPECT_TRUE(port.set_state(IbPortState::kArmed));
    EXPECT_TRUE(port.set_state(IbPortState::kActive));
    EXPECT_FALSE(port.set_state(IbPortState::kInit));
    port.train(false);
    EXPECT_EQ(port.state(), IbPortState::kDown);
    EXPECT_EQ(port.counters().link_downed, 1U);
}

TEST(IbPort, InInitOnlyManagementPasses) {
    IbPort port(port_options());
    port.train(true);
    IbPacket data{.bytes = 100};
    IbPacket management{.bytes = 290, .vl = kManagementVl};
    EXPECT_FALSE(port.receive(data));
    EXPECT_TRUE(port.receive(management));
    EXPECT_FALSE(port.push(0, data));
    EXPECT_TRUE(port.push(0, management));
    EXPECT_EQ(port.counters().xmit_discards, 1U);
    EXPECT_EQ(port.pop(0), &management) << "without any credit";
    // An armed port becomes active by the first packet of data.
    ASSERT_TRUE(port.set_state(IbPortState::kArmed));
    EXPECT_TRUE(port.receive(management));
    EXPECT_EQ(port.state(), IbPortState::kArmed);
    EXPECT_TRUE(port.receive(data));
    EXPECT_EQ(port.state(), IbPortState::kActive);
}

TEST(IbPort, LongPacketsAndVlsThatThereAreNot) {
    IbPort::Options options = port_options();
    options.info.mtu_cap_bytes = options.info.neighbour_mtu_bytes = 2048;
    options.info.vl_cap = 4;
    options.info.operational_vls = 8;
    IbPort port(options);
    EXPECT_EQ(port.info().operational_vls, 4);
    port.train(true);
    ASSERT_TRUE(port.set_state(IbPortState::kArmed) && port.set_state(IbPortState::kActive));
    IbPacket longest{.bytes = 2048 + kMostIbHeaderBytes};
    IbPacket too_long{.bytes = 2048 + kMostIbHeaderBytes + 1};
    IbPacket vl4{.bytes = 100, .vl = 4};
    EXPECT_TRUE(port.receive(longest));
    EXPECT_FALSE(port.receive(too_long));
    EXPECT_FALSE(port.receive(vl4));
    EXPECT_EQ(port.counters().rcv_errors, 2U);
    EXPECT_EQ(port.counters().rcv_packets, 1U);
    EXPECT_EQ(port.counters().rcv_data, (longest.bytes - 2) / 4);
    EXPECT_TRUE(port.push(0, longest));
    EXPECT_FALSE(port.push(0, too_long));
    EXPECT_EQ(port.counters().xmit_discards, 1U);
    EXPECT_EQ(port.take_any(), &longest);
}

TEST(IbPort, ManagementHasNoCreditsButABuffer) {
    IbPort::Options options = port_options();
    options.management_buffer_bytes = 600;
    IbPort port(options);
    port.train(true);
    std::array<IbPacket, 3> packets{};
    for (IbPacket& packet : packets) {
        packet.bytes = 290;
        packet.vl = kManagementVl;
    }
    EXPECT_TRUE(port.push(0, packets[0]));
    EXPECT_TRUE(port.push(0, packets[1]));
    EXPECT_FALSE(port.push(0, packets[2]));
    EXPECT_EQ(port.counters().vl15_dropped, 1U);
    EXPECT_EQ(port.take_any(), packets.data());
    EXPECT_EQ(port.take_any(), packets.data() + 1);
    EXPECT_EQ(port.take_any(), nullptr);
}

TEST(IbPort, PkeysMatchIfOneIsAFullMembers) {
    IbPort port(port_options());
    port.pkeys() = {0x8001, 0x0002};
    EXPECT_TRUE(port.has_pkey(0x8001));
    EXPECT_TRUE(port.has_pkey(0x0001));
    EXPECT_TRUE(port.has_pkey(0x8002));
    EXPECT_FALSE(port.has_pkey(0x0002));
    EXPECT_FALSE(port.has_pkey(0xffff));
}

}  // namespace
}  // namespace urnic::netsim
