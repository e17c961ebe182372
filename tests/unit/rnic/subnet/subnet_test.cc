// A whole subnet: packets of QP0 and QP1 between two adapters and a switch, links, traps, loops, floods.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rnic/subnet/ping_agent.h"
#include "rnic/subnet/subnet.h"
#include "rnic/wire/mad/performance_attributes.h"
#include "tests/unit/rnic/subnet/fabric_fixture.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet {
namespace {

namespace mad = wire::mad;
using test::directed;
using test::Fabric;
using test::lid_routed;
using test::packet_of;
using test::take;

TEST_F(Fabric, DirectedRoutesReachEachNode) {
    const auto guid_at = [&](std::initializer_list<std::uint8_t> path) {
        const auto answers = ask(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, path)));
        return answers.size() == 1 ? take<mad::NodeInfo>(answers[0].mad, mad::kNodeInfoTable).node_guid : 0;
    };
    EXPECT_EQ(guid_at({}), 1U);
    EXPECT_EQ(guid_at({1}), 3U);
    EXPECT_EQ(guid_at({1, 2}), 2U);
    EXPECT_EQ(guid_at({1, 1}), 1U);  // back to where it came from
    EXPECT_EQ(guid_at({1, 3}), 0U);  // no cable
    EXPECT_EQ(guid_at({1, 5}), 0U);  // no port
    EXPECT_EQ(subnet_.counters().drop_link, 1U);
    EXPECT_EQ(subnet_.counters().drop_route, 1U);
}

TEST_F(Fabric, APortBecomesActiveInItsOrder) {
    EXPECT_EQ(state_of(a_, 1), mad::kInit);
    bring_up();
    EXPECT_EQ(state_of(a_, 1), mad::kActive);
    EXPECT_EQ(state_of(switch_, 2), mad::kActive);
    EXPECT_EQ(state_of(switch_, 3), mad::kDown);
    EXPECT_TRUE(std::any_of(changes_.begin(), changes_.end(), [&](const auto& entry) {
        return entry.first == switch_ && entry.second.kind == Change::Kind::kLinear;
    }));
}

TEST_F(Fabric, LidRoutesNeedTheTable) {
    bring_up();
    auto answers = ask(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 2));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(take<mad::NodeInfo>(answers[0].mad, mad::kNodeInfoTable).node_guid, 2U);
    EXPECT_EQ(answers[0].slid, 2);
    answers = ask(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 3));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].slid, 3);
    EXPECT_TRUE(ask(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 4)).empty());
}

/// QP1: the agents of performance and ping, over active links alone.
TEST_F(Fabric, QueuePair1) {
    MadPacket packet;
    packet.dlid = 2;
    packet.dest_qp = packet.src_qp = wire::kQp1;
    packet.qkey = wire::kGsiQkey;
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassPerformance;
    header.class_version = 1;
    header.method = wire::kMadGet;
    header.attribute_id = mad::kPortCounters;
    MadRef(packet.mad).write(wire::kMadTable, 0, header);
    packet.mad[65] = std::byte{1};
    EXPECT_TRUE(ask(packet).empty());
    bring_up();
    auto answers = ask(packet);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(MadRef(answers[0].mad).status(), 0);
    EXPECT_EQ(load_be16(&answers[0].mad[68]), b_ * 100 + 1);
    header.mgmt_class = kOpenIbPingClass;
    MadRef(packet.mad).write(wire::kMadTable, 0, header);
    packet.mad[38] = std::byte{0x14};
    packet.mad[39] = std::byte{0x05};
    answers = ask(packet);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_STREQ(reinterpret_cast<const char*>(&answers[0].mad[40]), "b");
}

TEST_F(Fabric, CablesAndTraps) {
    bring_up();
    now_ = 10'000'000'000;
    subnet_.set_enabled(b_, 1, false, now_);
    run();
    EXPECT_EQ(state_of(b_, 1), mad::kDown);
    EXPECT_EQ(state_of(switch_, 2), mad::kDown);
    EXPECT_TRUE(subnet_.node(switch_).switch_info.port_state_change);
    ASSERT_EQ(given_.size(), 1U);
    EXPECT_EQ(MadRef(given_[0].mad).method(), wire::kMadTrap);
    EXPECT_EQ(take<mad::Notice>(given_[0].mad, mad::kNoticeTable).trap_number, 128);
    EXPECT_EQ(take<mad::Notice>(given_[0].mad, mad::kNoticeTable).issuer_lid, 3);
    // Once in its time, however often the link flaps.
    for (int i = 0; i < 10; ++i) {
        subnet_.set_enabled(b_, 1, i % 2 == 0, now_);
        run();
    }
    EXPECT_EQ(given_.size(), 1U);
    // And once more when that is over: who has looked in between must look again.
    const TimeNs later = now_ + (TimeNs{4096} << 18U);
    EXPECT_EQ(subnet_.next_event(), later);
    now_ = later - 1;
    run();
    EXPECT_EQ(given_.size(), 1U);
    now_ = later;
    run();
    ASSERT_EQ(given_.size(), 2U);
    EXPECT_EQ(take<mad::Notice>(given_[1].mad, mad::kNoticeTable).trap_number, 128);
    EXPECT_EQ(subnet_.next_event(), kNever);
    given_.pop_back();
    subnet_.set_enabled(b_, 1, true, now_);
    EXPECT_EQ(state_of(b_, 1), mad::kInit);
    EXPECT_EQ(state_of(switch_, 2), mad::kInit);
    // A capability is told of, too.
    subnet_.set_is_sm(a_, true, now_);
    run();
    ASSERT_EQ(given_.size(), 2U);
    EXPECT_EQ(take<mad::Notice>(given_[1].mad, mad::kNoticeTable).trap_number, 144);
}

/// The other end of a link that is taken down sees it, and both begin anew.
TEST_F(Fabric, ALinkIsResetFromOneEnd) {
    bring_up();
    states_.clear();
    ASSERT_EQ(set_port({1}, 2, [](mad::PortInfo& info) { info.port_state = mad::kDown; }), 0);
    EXPECT_EQ(state_of(switch_, 2), mad::kInit);
    EXPECT_EQ(state_of(b_, 1), mad::kInit);
    ASSERT_EQ(set_port({1}, 2, [](mad::PortInfo& info) { info.port_physical_state = mad::kDisabled; }), 0);
    EXPECT_EQ(state_of(b_, 1), mad::kDown);
    EXPECT_TRUE(ask(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1, 2}))).empty());
    ASSERT_EQ(set_port({1}, 2, [](mad::PortInfo& info) { info.port_physical_state = mad::kPolling; }), 0);
    EXPECT_EQ(state_of(b_, 1), mad::kInit);
}

/// What it sees, in a word each: ">a" leaves a, "(b" arrives at b, "b)" has been handled there.
class RecordingTap final : public PacketTap {
  public:
    explicit RecordingTap(std::vector<char> names) : names_(std::move(names)) {}
    void on_sent(NodeId node, const PacketBytes& packet) override {
        add(std::string(">") + names_[node], packet);
    }
    void on_arrival(NodeId node) override { add(std::string("(") + names_[node], {}); }
    void on_handled(NodeId node, const PacketBytes& packet) override {
        add(std::string(1, names_[node]) + ")", packet);
    }
    [[nodiscard]] std::string text() const {
        std::string text;
        for (const auto& [what, packet] : seen_) {
            text += (text.empty() ? "" : " ") + what;
        }
        return text;
    }
    /// The bytes of the first of those.
    [[nodiscard]] PacketBytes bytes(const std::string& what) const {
        const auto found =
            std::find_if(seen_.begin(), seen_.end(), [&](const auto& one) { return one.first == what; });
        EXPECT_NE(found, seen_.end()) << what;
        return found == seen_.end() ? PacketBytes{} : found->second;
    }
    void clear() { seen_.clear(); }

  private:
    void add(const std::string& what, const PacketBytes& packet) { seen_.emplace_back(what, packet); }

    std::vector<char> names_;
    std::vector<std::pair<std::string, PacketBytes>> seen_;
};

class TappedFabric : public Fabric {
  protected:
    TappedFabric() {
        bring_up();
        subnet_.set_tap(&tap_);
    }
    std::string seen_of(const MadPacket& packet) {
        tap_.clear();
        (void)ask(packet);
        return tap_.text();
    }

    RecordingTap tap_{{'a', 'b', 's'}};
};

/// What leaves a port is what the tap sees, octet by octet, and what comes in at the other end of the link.
TEST_F(TappedFabric, PacketsAreSeenAsTheyAreOnLinks) {
    EXPECT_EQ(seen_of(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 2)),
              ">a (s >s s) (b b) >b (s >s s) (a a)");
    // Nothing of a LID route changes on its way.
    EXPECT_EQ(tap_.bytes(">a"), tap_.bytes("b)"));
    EXPECT_EQ(tap_.bytes(">b"), tap_.bytes("a)"));
    const auto request = decode(tap_.bytes(">a"));
    const auto answer = decode(tap_.bytes(">b"));
    ASSERT_TRUE(request && answer);
    EXPECT_EQ(request->slid, 1);
    EXPECT_EQ(request->dlid, 2);
    EXPECT_EQ(request->mad[3], std::byte{wire::kMadGet});
    EXPECT_EQ(answer->slid, 2);
    EXPECT_EQ(given_.at(0).mad, answer->mad);
}

/// With permissive LIDs, whatever the sender says; switches move the hop pointer and note the way back.
TEST_F(TappedFabric, DirectedRoutesHavePermissiveLids) {
    MadPacket packet = packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1, 2}), 7);
    packet.slid = 9;
    EXPECT_EQ(seen_of(packet), ">a (s >s s) (b b) >b (s >s s) (a a)");
    for (const char* what : {">a", "b)", ">b", "a)"}) {
        const auto seen = decode(tap_.bytes(what));
        ASSERT_TRUE(seen) << what;
        EXPECT_EQ(seen->slid, kPermissiveLid) << what;
        EXPECT_EQ(seen->dlid, kPermissiveLid) << what;
    }
    MadBytes sent = decode(tap_.bytes(">a"))->mad;
    EXPECT_EQ(MadRef(sent).hop_pointer(), 1);
    MadRef(sent).set_hop_pointer(2);
    MadRef(sent).set_return_path(1, 1);
    EXPECT_EQ(sent, decode(tap_.bytes("b)"))->mad);
}

TEST_F(TappedFabric, WhatANodeSendsToItselfGoesOutAndComesIn) {
    for (const MadPacket& packet : {packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 1),
                                    packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {}))}) {
        EXPECT_EQ(seen_of(packet), ">a (a a) >a (a a)");
        EXPECT_EQ(tap_.bytes(">a"), tap_.bytes("a)"));
    }
}

TEST_F(TappedFabric, WhatDoesNotLeaveIsNotSeen) {
    EXPECT_EQ(seen_of(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {2}))), "");
    EXPECT_EQ(seen_of(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1, 3}))), ">a (s s)");
    subnet_.set_enabled(a_, 1, false, now_);
    EXPECT_EQ(seen_of(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 2)), "");
    subnet_.set_enabled(a_, 1, true, now_);
    subnet_.set_tap(nullptr);
    EXPECT_EQ(seen_of(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1}))), "");
    EXPECT_EQ(given_.size(), 1U);
}

TEST_F(TappedFabric, AWrongMKeyIsCounted) {
    ASSERT_EQ(set_port({1, 2}, 1, [](mad::PortInfo& info) { info.m_key = 7, info.m_key_protect_bits = 2; }),
              0);
    EXPECT_EQ(seen_of(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo, 0, 7), 2)),
              ">a (s >s s) (b b) >b (s >s s) (a a)");
    EXPECT_EQ(subnet_.counters().drop_m_key, 0U);
    (void)ask(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo, 0, 8), 2));
    EXPECT_EQ(subnet_.counters().drop_m_key, 1U);
}

/// What its trap says of it: who, by which way, what, with which key.
TEST_F(Fabric, AWrongMKeyIsToldOf) {
    bring_up();
    const auto lock = [](mad::PortInfo& info) {
        info.m_key = 7;
        info.m_key_protect_bits = 2;
        info.master_sm_lid = 1;
    };
    ASSERT_EQ(set_port({1, 2}, 1, lock), 0);
    const auto details = [&](const MadPacket& packet) {
        now_ += 10'000'000'000;
        const std::vector<MadPacket> told = ask(packet);
        EXPECT_EQ(told.size(), 1U);
        const auto notice = told.empty() ? mad::Notice{} : take<mad::Notice>(told[0].mad, mad::kNoticeTable);
        EXPECT_EQ(notice.trap_number, 256);
        EXPECT_EQ(notice.type, 2);
        EXPECT_EQ(notice.issuer_lid, 2);
        return notice.data_details;
    };
    std::array<std::uint8_t, 54> expected{0, 0, 0, 1, 0, 0, 1, 0, 0, 0x11, 0,
                                          0, 0, 5, 0, 0, 0, 0, 0, 0, 0,    8};
    EXPECT_EQ(details(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo, 5, 8), 2)), expected);
    // By a directed route: from the permissive LID, and the way back, through port 1 of the switch and of b.
    MadBytes bytes = directed(wire::kMadSet, mad::kPortInfo, 1, {1, 2});
    bytes[31] = std::byte{9};
    expected = {0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0x15, 0,    0, 0,
                1, 0, 0,    0,    0,    0,    0, 0, 9, 0,    0x82, 1, 1};
    EXPECT_EQ(details(packet_of(bytes)), expected);
    // A longer way than a notice has room for: to another switch and back, sixteen times.
    NodeOptions options;
    options.type = mad::kSwitch;
    options.num_ports = 1;
    subnet_.connect(subnet_.add(options), 1, switch_, 3);
    bytes[7] = std::byte{34};
    for (std::uint8_t hop = 2; hop < 34; ++hop) {
        bytes[128 + hop] = std::byte(hop % 2 == 0 ? 3 : 1);
    }
    bytes[128 + 34] = std::byte{2};
    expected[23] = 0x80 | 0x40 | 30;
    for (std::size_t hop = 2; hop <= 30; ++hop) {
        expected.at(23 + hop) = hop % 2 == 0 ? 1 : 3;
    }
    EXPECT_EQ(details(packet_of(bytes)), expected);
}

/// What its trap says of it: from whom to whom, with which key; one in its time.
TEST_F(Fabric, AWrongKeyIsToldOf) {
    KeyViolation violation{mad::kBadQkeyTrap,
                           {.lid_addr1 = 1,
                            .lid_addr2 = 0xc001,
                            .key = 0x80010203,
                            .sl = 5,
                            .qp1 = 0x40302,
                            .qp2 = 0xffffff,
                            .gid_addr1 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
                            .gid_addr2 = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}};
    const TimeNs timeout = TimeNs{4096} << 18U;
    now_ = 10'000'000'000;
    EXPECT_EQ(subnet_.report(b_, violation, now_), now_ + timeout);
    run();
    EXPECT_TRUE(given_.empty()) << "there is no subnet manager";
    bring_up();
    EXPECT_EQ(subnet_.report(b_, violation, now_), now_ + timeout);
    run();
    ASSERT_EQ(given_.size(), 1U);
    EXPECT_EQ(MadRef(given_[0].mad).method(), wire::kMadTrap);
    auto notice = take<mad::Notice>(given_[0].mad, mad::kNoticeTable);
    EXPECT_TRUE(notice.is_generic);
    EXPECT_EQ(notice.type, 2) << "security";
    EXPECT_EQ(notice.producer_type, 1) << "channel adapter";
    EXPECT_EQ(notice.trap_number, 258);
    EXPECT_EQ(notice.issuer_lid, 2);
    const std::array<std::uint8_t, 54> expected{
        0,    0,    0, 1, 0xc0, 1, 0x80, 1, 2, 3, 0x50, 4, 3, 2, 0, 0xff, 0xff, 0xff,  //
        0xfe, 0x80, 0, 0, 0,    0, 0,    0, 0, 0, 0,    0, 0, 0, 0, 1,                 //
        0xff, 0x12, 0, 0, 0,    0, 0,    0, 0, 0, 0,    0, 0, 0, 0, 2};
    EXPECT_EQ(notice.data_details, expected);
    violation.trap_number = mad::kBadPkeyTrap;
    const TimeNs next = now_ + timeout;
    now_ = next - 1;
    EXPECT_EQ(subnet_.report(b_, violation, now_), next);
    run();
    EXPECT_EQ(given_.size(), 1U);
    now_ = next;
    EXPECT_EQ(subnet_.report(b_, violation, now_), next + timeout);
    run();
    ASSERT_EQ(given_.size(), 2U);
    EXPECT_EQ(take<mad::Notice>(given_[1].mad, mad::kNoticeTable).trap_number, 257);
}

/// A switch also says where it was, and which fields the packet has.
TEST_F(Fabric, AWrongPkeyAtASwitchIsToldOf) {
    KeyViolation violation{mad::kSwitchBadPkeyTrap,
                           {.lid_addr1 = 1, .lid_addr2 = 2, .key = 0x8012, .sl = 3, .qp2 = 0x123456},
                           2};
    bring_up();
    ASSERT_EQ(set_port({1}, 0, [](mad::PortInfo& info) { info.master_sm_lid = 1; }), 0);
    given_.clear();
    now_ = 10'000'000'000;
    (void)subnet_.report(switch_, violation, now_);
    run();
    ASSERT_EQ(given_.size(), 1U);
    auto notice = take<mad::Notice>(given_[0].mad, mad::kNoticeTable);
    EXPECT_EQ(notice.type, 2) << "security";
    EXPECT_EQ(notice.producer_type, 2) << "switch";
    EXPECT_EQ(notice.trap_number, 259);
    EXPECT_EQ(notice.issuer_lid, 3);
    std::array<std::uint8_t, 54> expected{0xf4, 0, 0, 1, 0, 2,    0x80, 0x12,
                                          0x30, 0, 0, 0, 0, 0x12, 0x34, 0x56};
    expected[49] = 3;
    expected[50] = 2;
    EXPECT_EQ(notice.data_details, expected);
    // With a DETH and a GRH.
    violation.details.qp1 = 0x40302;
    violation.details.gid_addr1 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    violation.details.gid_addr2 = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    now_ += 2'000'000'000;
    (void)subnet_.report(switch_, violation, now_);
    run();
    ASSERT_EQ(given_.size(), 2U);
    notice = take<mad::Notice>(given_[1].mad, mad::kNoticeTable);
    expected[0] = 0xff;
    std::copy_n(std::array<std::uint8_t, 3>{4, 3, 2}.begin(), 3, &expected[9]);
    std::copy_n(violation.details.gid_addr1.begin(), 16, &expected[16]);
    std::copy_n(violation.details.gid_addr2.begin(), 16, &expected[32]);
    EXPECT_EQ(notice.data_details, expected);
}

/// PortInfo has what the outside counts, when it is looked at and before it is set.
TEST_F(Fabric, PortInfoIsRefreshed) {
    bring_up();
    refreshed_.clear();
    (void)ask(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 2));
    EXPECT_TRUE(refreshed_.empty());
    bad_keys_ = 7;
    const auto answers = ask(packet_of(lid_routed(wire::kMadGet, mad::kPortInfo, 1), 2));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(refreshed_, std::vector<NodeId>{b_});
    EXPECT_EQ(take<mad::PortInfo>(answers[0].mad, mad::kPortInfoTable).q_key_violations, 7);
    bad_keys_ = 9;
    ASSERT_EQ(set_port({1, 2}, 1, [](mad::PortInfo& info) { info.q_key_violations = 0; }), 0);
    EXPECT_EQ(subnet_.node(b_).ports[1].info.q_key_violations, 0) << "it is cleared";
}

/// Two switches whose tables send a LID to each other: the packet ends.
TEST(SubnetLoop, EndsByLifetime) {
    struct Host final : SubnetHost {
        void on_change(NodeId, const Change&) override {}
        void on_port_state(NodeId, std::uint8_t) override {}
        bool deliver(NodeId, const MadPacket&) override { return false; }
        void read_counters(NodeId, std::uint8_t, PortCounterValues&) override {}
    } host;
    Subnet subnet(host);
    NodeOptions options;
    options.type = mad::kSwitch;
    options.num_ports = 1;
    const NodeId one = subnet.add(options);
    const NodeId two = subnet.add(options);
    subnet.connect(one, 1, two, 1);
    subnet.node(one).linear[7] = subnet.node(two).linear[7] = 1;
    subnet.send(one, packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 7));
    while (subnet.advance(0, 10)) {
    }
    EXPECT_EQ(subnet.counters().drop_lifetime, 1U);
    EXPECT_EQ(subnet.counters().packets, Subnet::kMaxHops + 1U);
}

TEST_F(Fabric, AFloodIsBounded) {
    const MadPacket packet = packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1}));
    for (std::size_t i = 0; i < Subnet::kMaxUnderWay + 5; ++i) {
        subnet_.send(a_, packet);
    }
    EXPECT_EQ(subnet_.counters().drop_full, 5U);
    run();
    EXPECT_EQ(given_.size(), Subnet::kMaxUnderWay);
}

/// Octets that changed on the way, one by one: never an answer to something else, never a crash.
TEST(MadPacketCodec, DamageIsFound) {
    PacketBytes good{};
    encode(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1})), good);
    ASSERT_TRUE(decode(good));
    EXPECT_EQ(std::to_integer<unsigned>(good[0]) >> 4U, kVl15);
    for (std::size_t i = 0; i < good.size(); ++i) {
        PacketBytes bad = good;
        bad[i] ^= std::byte{0x10};
        EXPECT_FALSE(decode(bad)) << i;
        EXPECT_FALSE(decode(std::span(good).first(i))) << i;
    }
    MadPacket wrong_key = packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo));
    wrong_key.qkey = 1;
    encode(wrong_key, good);
    EXPECT_FALSE(decode(good));
    wrong_key.dest_qp = 1;
    encode(wrong_key, good);
    EXPECT_FALSE(decode(good));
    wrong_key.qkey = wire::kGsiQkey;
    encode(wrong_key, good);
    EXPECT_TRUE(decode(good));
    wrong_key.dest_qp = 2;
    encode(wrong_key, good);
    EXPECT_FALSE(decode(good));
}

}  // namespace
}  // namespace urnic::subnet
