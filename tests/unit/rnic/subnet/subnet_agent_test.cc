// The subnet management agent: each attribute read and set, and each kind of wrong request.
#include <gtest/gtest.h>

#include "rnic/subnet/subnet_agent.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet {
namespace {

namespace mad = wire::mad;
using test::lid_routed;
using test::put;
using test::take;

NodeOptions adapter() {
    NodeOptions options;
    options.guid = 0x0200'00ff'fe00'0001;
    options.description = "host 1";
    return options;
}
NodeOptions big_switch() {
    NodeOptions options;
    options.type = mad::kSwitch;
    options.num_ports = 36;
    options.guid = 0x0600'00ff'fe00'0001;
    options.description = "leaf";
    options.port.vl_cap = 4;
    options.port.vl_arbitration_cap = 8;
    return options;
}

class Agent {
  public:
    explicit Agent(const NodeOptions& options) : node(options), agent_(node) {}

    Handled handle(MadBytes& mad, std::uint8_t ingress = 1, TimeNs now = 0) {
        return agent_.handle(MadRef(mad), ingress, now, change);
    }
    /// The status of the response; the data stays in `mad`.
    std::uint16_t status_of(MadBytes& mad, std::uint8_t ingress = 1) {
        EXPECT_EQ(handle(mad, ingress), Handled::kReply);
        EXPECT_EQ(MadRef(mad).method(), wire::kMadGetResponse);
        EXPECT_EQ(MadRef(mad).transaction_id(), 0x1234U);
        return MadRef(mad).status();
    }
    std::uint16_t status_of(std::uint8_t method, std::uint16_t attribute, std::uint32_t modifier = 0) {
        MadBytes bytes = lid_routed(method, attribute, modifier);
        return status_of(bytes);
    }
    std::uint16_t set_port(std::uint8_t port, const mad::PortInfo& info) {
        MadBytes bytes = lid_routed(wire::kMadSet, mad::kPortInfo, port);
        put(bytes, mad::kPortInfoTable, info);
        return status_of(bytes);
    }
    /// What a subnet manager writes back with one thing changed.
    mad::PortInfo wanted(std::uint8_t port) {
        mad::PortInfo info = node.ports.at(port).info;
        info.port_state = 0;
        info.port_physical_state = 0;
        info.lid = info.lid == 0 ? 9 : info.lid;
        return info;
    }
    Node node;
    Change change;
    const AgentCounters& counters() const { return agent_.counters(); }

  private:
    SubnetAgent agent_;
};

TEST(SubnetAgent, NodeInfoAndDescription) {
    Agent host(adapter());
    MadBytes bytes = lid_routed(wire::kMadGet, mad::kNodeInfo);
    EXPECT_EQ(host.status_of(bytes), kStatusGood);
    auto info = take<mad::NodeInfo>(bytes, mad::kNodeInfoTable);
    EXPECT_EQ(info.node_type, mad::kChannelAdapter);
    EXPECT_EQ(info.num_ports, 1);
    EXPECT_EQ(info.port_guid, 0x0200'00ff'fe00'0001U);
    EXPECT_EQ(info.local_port_num, 1);
    EXPECT_EQ(info.partition_cap, 128);

    Agent leaf(big_switch());
    bytes = lid_routed(wire::kMadGet, mad::kNodeInfo);
    EXPECT_EQ(leaf.status_of(bytes, 17), kStatusGood);
    info = take<mad::NodeInfo>(bytes, mad::kNodeInfoTable);
    EXPECT_EQ(info.node_type, mad::kSwitch);
    EXPECT_EQ(info.local_port_num, 17);

    bytes = lid_routed(wire::kMadGet, mad::kNodeDescription);
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(&bytes[test::kSmpData])), "leaf");
}

// IBA 13.4.7 and table 125.
TEST(SubnetAgent, EveryWrongKind) {
    Agent host(adapter());
    const auto with = [&](std::size_t octet, std::uint8_t value) {
        MadBytes bytes = lid_routed(wire::kMadGet, mad::kNodeInfo);
        bytes.at(octet) = std::byte{value};
        return host.status_of(bytes);
    };
    EXPECT_EQ(with(0, 2), kStatusBadVersion);
    EXPECT_EQ(with(2, 2), kStatusBadVersion);
    EXPECT_EQ(with(3, 0x03), kStatusBadMethod);
    EXPECT_EQ(with(3, 0x12), kStatusBadMethod);
    EXPECT_EQ(host.status_of(wire::kMadGet, 0x00ff), kStatusBadAttribute);
    EXPECT_EQ(host.status_of(wire::kMadSet, mad::kNodeInfo), kStatusBadAttribute);
    EXPECT_EQ(host.status_of(wire::kMadSet, mad::kNodeDescription), kStatusBadAttribute);
    // An adapter is no switch; no switch here has a random forwarding table.
    EXPECT_EQ(host.status_of(wire::kMadGet, mad::kSwitchInfo), kStatusBadAttribute);
    EXPECT_EQ(host.status_of(wire::kMadGet, mad::kLinearForwarding), kStatusBadAttribute);
    Agent leaf(big_switch());
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kRandomForwarding), kStatusBadAttribute);
    // Modifiers.
    EXPECT_EQ(host.status_of(wire::kMadGet, mad::kPortInfo, 2), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kPortInfo, 37), kStatusBadValue);
    EXPECT_EQ(host.status_of(wire::kMadGet, mad::kGuidInfo, 1), kStatusBadValue);
    EXPECT_EQ(host.status_of(wire::kMadGet, mad::kPkeyTable, 4), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kPkeyTable, 37U << 16U), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kSlToVlMapping, 37U << 8U | 1U), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kVlArbitration, 1), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kVlArbitration, 5U << 16U | 1U), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kLinearForwarding, 0xc000 / 64), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kLinearForwarding, 0xffff'ffff), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kMulticastForwarding, 32), kStatusBadValue);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kMulticastForwarding, 3U << 28U), kStatusBadValue);
    EXPECT_EQ(host.counters().bad, 12U);
}

TEST(SubnetAgent, WhatIsNotItsOwn) {
    Agent host(adapter());
    MadBytes response = lid_routed(wire::kMadGetResponse, mad::kNodeInfo);
    EXPECT_EQ(host.handle(response), Handled::kForSm);
    MadBytes trap = lid_routed(wire::kMadTrap, 0x0002);
    EXPECT_EQ(host.handle(trap), Handled::kForSm);
    MadBytes sm_info = lid_routed(wire::kMadGet, mad::kSmInfo);
    EXPECT_EQ(host.handle(sm_info), Handled::kForSm);
    MadBytes repress = lid_routed(wire::kMadTrapRepress, 0x0002);
    EXPECT_EQ(host.handle(repress), Handled::kDiscard);
}

TEST(SubnetAgent, PortInfoIsSet) {
    Agent host(adapter());
    (void)set_connected(host.node, 1, true);
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kInit);
    mad::PortInfo info = host.wanted(1);
    info.lid = 0x0010;
    info.lmc = 2;
    info.master_sm_lid = 3;
    info.master_sm_sl = 1;
    info.client_reregister = true;
    info.port_state = mad::kArmed;
    EXPECT_EQ(host.set_port(0, info), kStatusGood);  // 0: the port that it came through
    EXPECT_EQ(host.change.kind, Change::Kind::kPort);
    EXPECT_EQ(host.change.port, 1);
    EXPECT_TRUE(host.change.is_reregister);
    EXPECT_EQ(host.node.lid(), 0x0010);
    EXPECT_TRUE(host.node.has_lid(0x0013));
    EXPECT_FALSE(host.node.has_lid(0x0014));
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kArmed);
    info = host.wanted(1);
    info.port_state = mad::kActive;
    EXPECT_EQ(host.set_port(1, info), kStatusGood);
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kActive);
    // Down trains again at once; Disabled stays.
    info.port_state = mad::kDown;
    EXPECT_EQ(host.set_port(1, info), kStatusGood);
    EXPECT_TRUE(host.change.is_reset);
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kInit);
    info.port_physical_state = mad::kDisabled;
    EXPECT_EQ(host.set_port(1, info), kStatusGood);
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kDown);
    EXPECT_EQ(host.node.ports[1].info.port_physical_state, mad::kDisabled);
    info.port_physical_state = mad::kPolling;
    EXPECT_EQ(host.set_port(1, info), kStatusGood);
    EXPECT_EQ(host.node.ports[1].info.port_state, mad::kInit);
}

TEST(SubnetAgent, AManagerThatKnowsExtendedSpeeds) {
    Agent leaf(big_switch());
    MadBytes bytes = lid_routed(wire::kMadGet, mad::kPortInfo, 0x8000'0000U | 36U);
    EXPECT_EQ(leaf.status_of(bytes, 2), kStatusGood);
    EXPECT_EQ(take<mad::PortInfo>(bytes, mad::kPortInfoTable).local_port_num, 2);
}

TEST(SubnetAgent, WrongPortInfoChangesNothing) {
    Agent host(adapter());
    (void)set_connected(host.node, 1, true);
    const mad::PortInfo before = host.node.ports[1].info;
    const auto refused = [&](auto change) {
        mad::PortInfo info = host.wanted(1);
        change(info);
        const bool is_refused = host.set_port(1, info) == kStatusBadValue;
        return is_refused && host.node.ports[1].info == before && host.change.kind == Change::Kind::kNone;
    };
    EXPECT_TRUE(refused([](auto& info) { info.lid = 0; }));
    EXPECT_TRUE(refused([](auto& info) { info.lid = 0xc000; }));
    EXPECT_TRUE(refused([](auto& info) { info.lid = 0xffff; }));
    EXPECT_TRUE(refused([](auto& info) { info.lid = 5, info.lmc = 1; }));
    EXPECT_TRUE(refused([](auto& info) { info.lid = 0xbfc0, info.lmc = 7; }));
    EXPECT_TRUE(refused([](auto& info) { info.master_sm_lid = 0xc000; }));
    EXPECT_TRUE(refused([](auto& info) { info.port_state = mad::kActive; }));  // from Init
    EXPECT_TRUE(refused([](auto& info) { info.port_state = mad::kInit; }));
    EXPECT_TRUE(refused([](auto& info) { info.port_state = 5; }));
    EXPECT_TRUE(refused([](auto& info) { info.port_physical_state = mad::kTraining; }));
    EXPECT_TRUE(refused([](auto& info) {
        info.port_state = mad::kArmed;
        info.port_physical_state = mad::kPolling;
    }));
    EXPECT_TRUE(refused([](auto& info) { info.link_down_default_state = 3; }));
    EXPECT_TRUE(refused([](auto& info) { info.link_width_enabled = 8; }));
    EXPECT_TRUE(refused([](auto& info) { info.link_speed_enabled = 8; }));
    EXPECT_TRUE(refused([](auto& info) { info.neighbor_mtu = 0; }));
    EXPECT_TRUE(refused([](auto& info) { info.neighbor_mtu = 6; }));
    EXPECT_TRUE(refused([](auto& info) { info.operational_vls = 2; }));
    EXPECT_FALSE(refused([](auto& info) { info.link_width_enabled = 0xff; }));
}

// IBA 14.2.4, tables 127 and 128.
TEST(SubnetAgent, MKey) {
    Agent host(adapter());
    mad::PortInfo info = host.wanted(1);
    info.m_key = 0xabc;
    info.m_key_protect_bits = 1;
    info.m_key_lease_period = 5;
    ASSERT_EQ(host.set_port(1, info), kStatusGood);
    const auto get = [&](std::uint64_t key, TimeNs now, MadBytes& bytes) {
        bytes = lid_routed(wire::kMadGet, mad::kPortInfo, 1, key);
        return host.handle(bytes, 1, now);
    };
    const auto set = [&](std::uint64_t key, TimeNs now) {
        MadBytes bytes = lid_routed(wire::kMadSet, mad::kPortInfo, 1, key);
        put(bytes, mad::kPortInfoTable, host.wanted(1));
        return host.handle(bytes, 1, now);
    };
    MadBytes bytes;
    EXPECT_EQ(get(0, 0, bytes), Handled::kReply);
    EXPECT_EQ(take<mad::PortInfo>(bytes, mad::kPortInfoTable).m_key, 0U);
    EXPECT_EQ(get(0xabc, 0, bytes), Handled::kReply);
    EXPECT_EQ(take<mad::PortInfo>(bytes, mad::kPortInfoTable).m_key, 0xabcU);
    EXPECT_EQ(set(0, 0), Handled::kDiscard);
    EXPECT_TRUE(host.change.is_m_key_violation);
    EXPECT_EQ(host.node.ports[1].info.m_key_violations, 1);
    EXPECT_EQ(set(0xabc, 0), Handled::kReply);
    // Protection 2: nothing is read without the key, until the lease is over.
    info = host.wanted(1);
    info.m_key_protect_bits = 2;
    MadBytes protect = lid_routed(wire::kMadSet, mad::kPortInfo, 1, 0xabc);
    put(protect, mad::kPortInfoTable, info);
    ASSERT_EQ(host.handle(protect), Handled::kReply);
    constexpr TimeNs kSecond = 1'000'000'000;
    EXPECT_EQ(get(1, 10 * kSecond, bytes), Handled::kDiscard);
    EXPECT_EQ(get(1, 15 * kSecond - 1, bytes), Handled::kDiscard);
    EXPECT_EQ(get(1, 15 * kSecond, bytes), Handled::kReply);
    EXPECT_EQ(host.node.ports[1].info.m_key_protect_bits, 0);
    EXPECT_EQ(set(1, 15 * kSecond), Handled::kDiscard);
    // Who has the key stops the lease.
    EXPECT_EQ(set(0xabc, 16 * kSecond), Handled::kReply);
    EXPECT_EQ(host.counters().m_key_violations, 4U);
}

TEST(SubnetAgent, ALockedNodeIsReadAndNotSet) {
    Agent host(adapter());
    mad::PortInfo& info = host.node.ports[1].info;
    info.m_key = 0xabc;
    info.m_key_protect_bits = 1;
    host.node.is_locked = true;
    MadBytes bytes = lid_routed(wire::kMadGet, mad::kPortInfo, 1, 0xabc);
    EXPECT_EQ(host.handle(bytes, 1, 0), Handled::kReply);
    EXPECT_EQ(take<mad::PortInfo>(bytes, mad::kPortInfoTable).m_key, 0U);
    mad::PortInfo wanted = host.wanted(1);
    wanted.lid = 77;
    bytes = lid_routed(wire::kMadSet, mad::kPortInfo, 1, 0xabc);
    put(bytes, mad::kPortInfoTable, wanted);
    EXPECT_EQ(host.handle(bytes, 1, 0), Handled::kDiscard);
    EXPECT_NE(info.lid, 77);
}

TEST(SubnetAgent, TablesOfASwitch) {
    Agent leaf(big_switch());
    MadBytes bytes = lid_routed(wire::kMadSet, mad::kLinearForwarding, 2);
    bytes[test::kSmpData + 5] = std::byte{7};
    bytes[test::kSmpData + 6] = std::byte{37};
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_EQ(leaf.change.kind, Change::Kind::kLinear);
    EXPECT_EQ(leaf.change.block, 2);
    EXPECT_EQ(leaf.node.forward(2 * 64 + 5), 7);
    EXPECT_EQ(leaf.node.forward(2 * 64 + 6), kNoPort);  // a port that is not there
    EXPECT_EQ(leaf.node.forward(1), kNoPort);
    EXPECT_EQ(leaf.node.forward(0xffff), kNoPort);

    bytes = lid_routed(wire::kMadSet, mad::kMulticastForwarding, 2U << 28U | 31U);
    bytes[test::kSmpData + 63] = std::byte{0x11};
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_EQ(leaf.change.position, 2);
    EXPECT_EQ(leaf.node.multicast[2][1023], 0x0011);

    bytes = lid_routed(wire::kMadSet, mad::kSlToVlMapping, 3U << 8U | 36U);
    put(bytes, mad::kSlToVlMappingTable, mad::SlToVlMapping{.sl1 = 2});
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_EQ(leaf.node.ports[36].sl_to_vl[3].sl1, 2);
    EXPECT_EQ(leaf.change.port, 36);

    bytes = lid_routed(wire::kMadSet, mad::kVlArbitration, 3U << 16U | 4U);
    bytes[test::kSmpData + 1] = std::byte{9};
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_EQ(leaf.node.ports[4].vl_arbitration[2].vl_and_weight[1], 9);
    EXPECT_EQ(leaf.status_of(wire::kMadGet, mad::kVlArbitration, 4U << 16U | 4U), kStatusBadValue);

    // A one clears the change; tops are bounded.
    leaf.node.switch_info.port_state_change = true;
    bytes = lid_routed(wire::kMadSet, mad::kSwitchInfo);
    mad::SwitchInfo info = leaf.node.switch_info;
    info.linear_fdb_top = 2 * 64 + 4;
    put(bytes, mad::kSwitchInfoTable, info);
    EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
    EXPECT_FALSE(leaf.node.switch_info.port_state_change);
    EXPECT_EQ(leaf.node.forward(2 * 64 + 5), kNoPort);
    info.linear_fdb_top = kLinearFdbCap;
    bytes = lid_routed(wire::kMadSet, mad::kSwitchInfo);
    put(bytes, mad::kSwitchInfoTable, info);
    EXPECT_EQ(leaf.status_of(bytes), kStatusBadValue);
}

TEST(SubnetAgent, Pkeys) {
    Agent host(adapter());
    MadBytes bytes = lid_routed(wire::kMadGet, mad::kPkeyTable);
    EXPECT_EQ(host.status_of(bytes), kStatusGood);
    EXPECT_EQ(load_be16(&bytes[test::kSmpData]), 0xffff);
    bytes = lid_routed(wire::kMadSet, mad::kPkeyTable, 3);
    store_be16(&bytes[test::kSmpData + 62], 0x8001);
    EXPECT_EQ(host.status_of(bytes), kStatusGood);
    EXPECT_EQ(host.change.kind, Change::Kind::kPkeys);
    EXPECT_EQ(host.change.block, 3);
    EXPECT_EQ(host.node.ports[1].pkeys.entries[127], 0x8001);
}

// IBA 14.2.5.4: what a switch says of partitions, and which of its ports may send trap 259.
TEST(SubnetAgent, WhichSwitchesEnforcePartitions) {
    const auto capabilities = [](Agent& leaf, std::uint8_t port) {
        MadBytes bytes = lid_routed(wire::kMadGet, mad::kPortInfo, port);
        EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
        return take<mad::PortInfo>(bytes, mad::kPortInfoTable).capability_mask;
    };
    for (const bool enforces : {false, true}) {
        NodeOptions options = big_switch();
        options.enforces_pkeys = enforces;
        Agent leaf(options);
        MadBytes bytes = lid_routed(wire::kMadGet, mad::kSwitchInfo);
        EXPECT_EQ(leaf.status_of(bytes), kStatusGood);
        const auto info = take<mad::SwitchInfo>(bytes, mad::kSwitchInfoTable);
        EXPECT_EQ(info.partition_enforcement_cap, enforces ? 128 : 0);
        EXPECT_EQ(info.inbound_enforcement, enforces);
        EXPECT_EQ(info.outbound_enforcement, enforces);
        EXPECT_EQ((capabilities(leaf, 0) & 1U << 12U) != 0, enforces);
        EXPECT_EQ(capabilities(leaf, 1) & 1U << 12U, 0U);
    }
}

}  // namespace
}  // namespace urnic::subnet
