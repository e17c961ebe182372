// Marks and the congestion notification packets (CNPs) that answer them: who sends one, how often, and what
// it does to the QP that gets it.
#include <tuple>

#include "congestion/cnp_gaps.h"
#include "congestion/profiles.h"
#include "tests/sim/rc_fixture.h"
#include "tests/support/find_dcqcn_profile.h"

namespace urnic::sim {
namespace {

using congestion::CnpScope;

constexpr BitsPerSecond kLine = 40'000'000'000;
constexpr TimeNs kUs = 1'000;

congestion::Settings dcqcn_settings() {
    congestion::Settings settings;
    settings.rate.algorithm = congestion::Algorithm::kDcqcn;
    settings.rate.line_rate = kLine;
    settings.rate.dcqcn = congestion::find_dcqcn_profile("paper").parameters;
    return settings;
}

bool is_cnp(const SentPacket& packet) { return packet.header.opcode == wire::kCnp; }

class Cnp : public RcPair {
  protected:
    [[nodiscard]] SimHost::Options host() const { return {.congestion = &settings_}; }
    std::vector<SentPacket> cnps() {
        std::vector<SentPacket> all = net_.take_packets();
        std::erase_if(all, [](const SentPacket& packet) { return !is_cnp(packet); });
        return all;
    }
    void mark_from(const std::string& name) {
        net_.mark = [name](const SentPacket& packet) {
            return packet.from == name && packet.payload_bytes != 0;
        };
    }
    void inject_cnp(const std::function<void(wire::PacketHeader&)>& change = {}) {
        wire::PacketHeader header;
        header.opcode = wire::kCnp;
        header.dest_qp = 1;
        header.becn = true;
        if (change) {
            change(header);
        }
        net_.inject(*b_, header);
        net_.run_for(2 * kUs);
    }
    congestion::Settings settings_ = dcqcn_settings();
};

// Opcode 0x81 to the QP that sent the data, BECN and nothing else set, DSCP 48, not ECN-capable.
TEST_F(Cnp, AnswersMarkedDataOfAnRcQp) {
    connect_pair({}, host());
    mark_from("A");
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    const auto sent = cnps();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].from, "B");
    EXPECT_EQ(sent[0].time, SimNetwork::kDelayNs);
    EXPECT_EQ(sent[0].header.dest_qp, 1U);
    EXPECT_TRUE(sent[0].header.becn);
    EXPECT_FALSE(sent[0].header.fecn);
    EXPECT_FALSE(sent[0].header.ack_req);
    EXPECT_FALSE(sent[0].header.mig_req);  // as NICs send it: 81 00 ff ff 40
    EXPECT_EQ(sent[0].header.psn.value(), 0U);
    EXPECT_EQ(sent[0].view().traffic_class, 48U << 2U);
    EXPECT_EQ(sent[0].frame.size(), 14U + 20 + 8 + 12 + 16 + 4);
    EXPECT_EQ(b_->counters.np_ecn_marked_roce_packets.value(), 1U);
    EXPECT_EQ(b_->counters.np_cnp_sent.value(), 1U);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 1U);
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), 0U);
    EXPECT_EQ(a_->qp().flow().cnps(), 1U);
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
}

// As each of the two IP versions carries DSCP and ECN in other bits, with other checks.
TEST_F(Cnp, GoesOverIpv6AsWell) {
    SimHost::Options options = host();
    options.ipv6 = true;
    settings_.cnp_dscp = 5;
    connect_pair({}, options);
    mark_from("A");
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    const auto sent = cnps();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].view().traffic_class, 5U << 2U);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 1U);
}

TEST_F(Cnp, AnswersMarkedReadResponses) {
    connect_pair({}, host());
    mark_from("B");
    a_->post_send(read(1, 1000));
    ASSERT_TRUE(net_.run());
    const auto sent = cnps();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].from, "A");
    EXPECT_EQ(sent[0].header.dest_qp, 2U);
    EXPECT_EQ(b_->counters.rp_cnp_handled.value(), 1U);
}

TEST_F(Cnp, AnswersMarkedDataOfAUcQp) {
    SimHost::Options options = host();
    options.type = QpType::kUc;
    connect_pair({}, options);
    mark_from("A");
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(cnps().size(), 1U);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 1U);
    EXPECT_EQ(a_->qp().flow().rate(), kLine);  // and has come back by now
}

TEST_F(Cnp, IsNeverAnsweredItself) {
    connect_pair({}, host());
    net_.mark = [](const SentPacket&) { return true; };
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    const auto sent = cnps();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].from, "B");
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 1U);
    // The acknowledgement's mark counts and is no reason for a CNP: it carries no data.
    EXPECT_EQ(a_->counters.np_ecn_marked_roce_packets.value(), 1U);
    EXPECT_EQ(a_->counters.np_cnp_sent.value(), 0U);
}

TEST_F(Cnp, KeepsItsGap) {
    settings_.rate.algorithm = congestion::Algorithm::kFixed;  // a steady stream, CNPs or not
    settings_.rate.fixed_rate = 1'000'000'000;
    settings_.burst_bytes = 1;
    connect_pair({}, host());
    mark_from("A");
    a_->post_send(write(1, 500'000));  // 4 ms
    ASSERT_TRUE(net_.run());
    const auto sent = cnps();
    ASSERT_GT(sent.size(), 60U);
    EXPECT_LT(sent.size(), 86U);
    for (std::size_t i = 1; i < sent.size(); ++i) {
        EXPECT_GE(sent[i].time - sent[i - 1].time, 50 * kUs);
        EXPECT_LT(sent[i].time - sent[i - 1].time, 60 * kUs);  // a packet takes 8.7 us
    }
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), sent.size());
}

// Two QPs of one RNIC, whose peers have addresses of their own or not, get marked data at the same time.
TEST_F(Cnp, HasAGapForEachScope) {
    const auto sent_with = [&](CnpScope scope, std::uint8_t second_peer) {
        settings_.cnp_scope = scope;
        congestion::CnpGaps gaps;
        SimNetwork net;
        const auto make = [&](const char* name, std::uint32_t qp_num, std::uint8_t address) {
            return std::make_unique<SimHost>(
                net, name, qp_num,
                SimHost::Options{.congestion = &settings_, .cnp_gaps = &gaps, .address = address});
        };
        auto a1 = make("A", 1, 11);
        auto b1 = make("B", 2, 12);
        auto a2 = make("A", 3, second_peer);
        auto b2 = make("B", 4, 12);
        connect(*a1, *b1);
        connect(*a2, *b2);
        net.mark = [](const SentPacket& packet) { return packet.payload_bytes != 0; };
        for (SimHost* sender : {a1.get(), a2.get()}) {
            SimRegion& from = sender->add_region(1024);
            SimHost& receiver = sender == a1.get() ? *b1 : *b2;
            SimRegion& to = receiver.add_region(1024);
            sender->post_send({.opcode = WrOpcode::kWrite,
                               .sge = {from.sge(0, 100)},
                               .remote_addr = to.addr(0),
                               .rkey = to.key()});
        }
        EXPECT_TRUE(net.run());
        return b1->counters.np_cnp_sent.value() + b2->counters.np_cnp_sent.value();
    };
    EXPECT_EQ(sent_with(CnpScope::kFlow, 11), 2U);
    EXPECT_EQ(sent_with(CnpScope::kIpPair, 11), 1U);
    EXPECT_EQ(sent_with(CnpScope::kIpPair, 13), 2U);
    EXPECT_EQ(sent_with(CnpScope::kDestinationIp, 11), 1U);
    EXPECT_EQ(sent_with(CnpScope::kDestinationIp, 13), 2U);
    EXPECT_EQ(sent_with(CnpScope::kPort, 13), 1U);
}

// As NICs do that take a loss for congestion: one CNP beside the NAK, whether packets are marked or not.
class CnpOfAGap : public Cnp, public testing::WithParamInterface<std::tuple<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(AskedAndHoldsEarlyPackets, CnpOfAGap,
                         testing::Combine(testing::Bool(), testing::Bool()));

TEST_P(CnpOfAGap, GoesWithTheNakWhereAsked) {
    SimHost::Options options = host();
    std::tie(settings_.nak_triggers_cnp, options.holds_early_packets) = GetParam();
    const std::uint32_t expected = settings_.nak_triggers_cnp ? 1 : 0;
    connect_pair({}, options);
    lose("A", {2});
    a_->post_send(write(1, 5000));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
    EXPECT_EQ(a_->counters.packet_seq_err.value(), 1U);
    EXPECT_EQ(b_->counters.np_cnp_sent.value(), expected);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), expected);
    EXPECT_EQ(b_->counters.np_ecn_marked_roce_packets.value(), 0U);
}

TEST_F(Cnp, IsNotSentWhereItIsTurnedOff) {
    settings_.cnp_enabled = false;
    connect_pair({}, host());
    mark_from("A");
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_TRUE(cnps().empty());
    EXPECT_EQ(b_->counters.np_ecn_marked_roce_packets.value(), 1U);
}

TEST_F(Cnp, WithoutCongestionControlMarksAndCnpsOnlyCount) {
    connect_pair();
    mark_from("A");
    a_->post_send(write(1, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_TRUE(cnps().empty());
    EXPECT_EQ(b_->counters.np_ecn_marked_roce_packets.value(), 1U);
    inject_cnp();
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), 1U);
    EXPECT_FALSE(a_->qp().flow().is_limited());
}

// Zhu et al. 2015: the first CNP halves the rate (alpha is 1), the target stays.
TEST_F(Cnp, HalvesTheRateWhichComesBack) {
    connect_pair({}, host());
    const FlowRate& flow = a_->qp().flow();
    EXPECT_FALSE(flow.is_limited());
    EXPECT_EQ(a_->qp().deadline(), kNever);
    inject_cnp();
    EXPECT_EQ(flow.rate(), kLine / 2);
    EXPECT_EQ(flow.control().target(), kLine);
    EXPECT_TRUE(flow.is_limited());
    net_.run_for(54 * kUs);
    EXPECT_EQ(flow.rate(), kLine / 4 * 3);
    net_.run_for(5'000 * kUs);
    EXPECT_FALSE(flow.is_limited());
    EXPECT_EQ(a_->qp().deadline(), kNever);  // a QP at full rate wants nothing
}

TEST_F(Cnp, ForgedOnesCountAndDoNothing) {
    connect_pair({}, host());
    inject_cnp([](wire::PacketHeader& header) { header.becn = false; });
    inject_cnp([](wire::PacketHeader& header) { header.fecn = true; });
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), 2U);
    inject_cnp([](wire::PacketHeader& header) { header.pkey = 0x1234; });
    EXPECT_EQ(a_->counters.drop_pkey.value(), 1U);
    SimHost stranger(net_, "S", 9, {});
    wire::PacketHeader header;
    header.opcode = wire::kCnp;
    header.dest_qp = 1;
    header.becn = true;
    net_.inject(stranger, header);
    net_.run_for(2 * kUs);
    EXPECT_EQ(a_->counters.drop_not_for_us.value(), 1U);
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), 4U);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 0U);
    EXPECT_EQ(a_->qp().flow().rate(), kLine);
    inject_cnp();
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 1U);
}

TEST_F(Cnp, InOtherStatesAndToOtherKindsOfQpTheyCount) {
    connect_pair({}, host());
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    inject_cnp();
    EXPECT_EQ(a_->counters.rp_cnp_ignored.value(), 1U);
    EXPECT_EQ(a_->counters.drop_qp_state.value(), 1U);
    SimHost::Options options = host();
    options.type = QpType::kUd;
    SimHost ud(net_, "U", 7, options);
    ud.to_init(0, 1);
    ud.to_rtr(*b_, {}, 0);
    ud.to_rts({}, 0);
    inject_cnp([](wire::PacketHeader& header) { header.dest_qp = 7; });
    EXPECT_EQ(ud.counters.rp_cnp_ignored.value(), 1U);
    EXPECT_EQ(ud.counters.drop_opcode.value(), 1U);
    EXPECT_FALSE(ud.qp().flow().is_limited());
}

// CNPs that come faster than a notification point sends them are nobody's, however many they are.
TEST_F(Cnp, OfAFloodOneIsHeededInEachGap) {
    connect_pair({}, host());
    for (int i = 0; i < 1'000; ++i) {
        inject_cnp();  // every 2 us
    }
    EXPECT_LE(a_->counters.rp_cnp_handled.value(), 2'000U / 50 + 2);
    EXPECT_GE(a_->counters.rp_cnp_handled.value(), 2'000U / 50);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value() + a_->counters.rp_cnp_ignored.value(), 1'000U);
}

// Two that were sent 50 us apart may arrive closer together.
TEST_F(Cnp, OneThatWasHeldUpOnItsWayIsHeeded) {
    connect_pair({}, host());
    for (const TimeNs gap_us : {50, 90, 12, 50, 49, 48}) {
        net_.run_for((gap_us - 2) * kUs);
        inject_cnp();
    }
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 6U);
}

// A peer that sends nothing but CNPs slows its own connection down, to the least rate and no further; all
// that was asked for still arrives.
TEST_F(Cnp, AFloodEndsAtTheLeastRate) {
    settings_.rate.dcqcn.min_rate = 100'000'000;
    settings_.min_time_between_cnps_ns = 0;
    connect_pair({}, host());
    for (int i = 0; i < 10'000; ++i) {
        wire::PacketHeader header;
        header.opcode = wire::kCnp;
        header.dest_qp = 1;
        header.becn = true;
        net_.inject(*b_, header);
    }
    net_.run_for(2 * kUs);
    EXPECT_EQ(a_->counters.rp_cnp_handled.value(), 10'000U);
    EXPECT_EQ(a_->qp().flow().rate(), 100'000'000U);
    a_->post_send(write(1, 100'000));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
}

TEST_F(Cnp, AResetQpIsAtFullRateAgain) {
    connect_pair({}, host());
    inject_cnp();
    ASSERT_TRUE(a_->qp().flow().is_limited());
    ASSERT_EQ(a_->to_state(QpState::kReset), 0);
    EXPECT_FALSE(a_->qp().flow().is_limited());
    EXPECT_EQ(a_->qp().deadline(), kNever);
}

TEST(CnpGaps, KeysDoNotHinderEachOther) {
    congestion::CnpGaps gaps;
    EXPECT_TRUE(gaps.take(5, 1000, 100));
    EXPECT_FALSE(gaps.take(5, 1099, 100));
    EXPECT_TRUE(gaps.take(6, 1099, 100));
    EXPECT_TRUE(gaps.take(5, 1100, 100));
    // Another key at the same place pushes it out.
    EXPECT_TRUE(gaps.take(5 | std::uint64_t{8} << 48U, 1101, 100));
    EXPECT_TRUE(gaps.take(5, 1102, 100));
    EXPECT_TRUE(gaps.take(0, 0, 100));  // the first one of all, at time 0
    EXPECT_FALSE(gaps.take(0, 1, 100));
}

}  // namespace
}  // namespace urnic::sim
