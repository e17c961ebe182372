// Rules and verdicts: every selector, every action, chance that is the same in every run.
#include "rnic/fault/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "rnic/wire/frame.h"

namespace urnic::fault {
namespace {

constexpr std::uint32_t kQpn = 0x11;
constexpr std::size_t kPayloadBytes = 256;

wire::Gid gid(std::uint8_t last, bool ipv6) {
    return ipv6 ? wire::Gid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}
                : wire::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, last};
}

struct FrameSpec {
    std::uint32_t qpn = kQpn;
    std::uint32_t psn = 100;
    std::uint8_t opcode = wire::kSendOnly;
    std::size_t payload = kPayloadBytes;
    bool ipv6 = false;
    std::uint16_t vlan_tci = 0;
};

std::vector<std::byte> make_frame(const FrameSpec& spec = {}) {
    wire::PathSpec path;
    path.src_mac = {2, 0, 0, 0, 0, 1};
    path.dst_mac = {2, 0, 0, 0, 0, 2};
    path.src_gid = gid(1, spec.ipv6);
    path.dst_gid = gid(2, spec.ipv6);
    path.vlan_tci = spec.vlan_tci;
    wire::PacketHeader header;
    header.opcode = spec.opcode;
    header.dest_qp = spec.qpn;
    header.psn = Psn(spec.psn);
    static std::vector<std::byte> payload(kPayloadBytes, std::byte{0x5a});
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(spec.payload)};
    std::vector<std::byte> frame(wire::kMaxFrameBytes);
    frame.resize(
        wire::build_frame(wire::make_path(path), header, {&piece, spec.payload != 0 ? 1U : 0U}, frame));
    EXPECT_FALSE(frame.empty());
    return frame;
}

/// The value that a word stands for: a number or itself.
Value value_of(const std::string& text) {
    char* end = nullptr;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    if (*end == '\0') {
        return std::int64_t{whole};
    }
    const double real = std::strtod(text.c_str(), &end);
    return *end == '\0' ? Value(real) : Value(text);
}

/// "type=drop,psn=7".
Rule unchecked_rule(const std::string& text) {
    Rule rule;
    std::istringstream fields(text);
    for (std::string field; std::getline(fields, field, ',');) {
        const std::size_t equals = field.find('=');
        EXPECT_EQ(set_field(rule, field.substr(0, equals), value_of(field.substr(equals + 1))), std::nullopt)
            << field;
    }
    return rule;
}

/// A plan of these rules, and what they count.
struct Rules {
    template <typename... Text>
    explicit Rules(const Text&... text) {
        for (const Rule& rule : {unchecked_rule(text)...}) {
            EXPECT_EQ(check_rule(rule), std::nullopt);
            active.push_back(std::make_shared<ActiveRule>(rule, active.size() + 1, rule.seed.value_or(1)));
        }
    }
    [[nodiscard]] Verdict tx(const FrameSpec& spec = {}) const {
        return Plan(active).decide(Direction::kTx, make_frame(spec));
    }
    [[nodiscard]] Verdict rx(const FrameSpec& spec = {}) const {
        return Plan(active).decide(Direction::kRx, make_frame(spec));
    }
    std::vector<std::shared_ptr<ActiveRule>> active;
};

TEST(FaultSelection, ARuleWithoutSelectorsHitsWhatIsSent) {
    const Rules rules("type=drop");
    EXPECT_TRUE(rules.tx().drop);
    EXPECT_FALSE(rules.rx().drop);
    EXPECT_EQ(rules.active[0]->seen, 1U);
    EXPECT_EQ(rules.active[0]->hits, 1U);
}

TEST(FaultSelection, Direction) {
    const Rules rx("type=drop,direction=rx");
    EXPECT_FALSE(rx.tx().drop);
    EXPECT_TRUE(rx.rx().drop);
    const Rules both("type=drop,direction=both");
    EXPECT_TRUE(both.tx().drop && both.rx().drop);
}

TEST(FaultSelection, QpnPsnAndOpcodeMustAllAgree) {
    const Rules rules("type=drop,qpn=17,psn=7,opcode=rc write only");
    const std::uint8_t write_only = wire::kWriteOnly;
    EXPECT_TRUE(rules.tx({.psn = 7, .opcode = write_only}).drop);
    EXPECT_FALSE(rules.tx({.qpn = kQpn + 1, .psn = 7, .opcode = write_only}).drop);
    EXPECT_FALSE(rules.tx({.psn = 8, .opcode = write_only}).drop);
    EXPECT_FALSE(rules.tx({.psn = 7, .opcode = wire::kSendOnly}).drop);
    EXPECT_EQ(rules.active[0]->seen, 1U);
}

TEST(FaultSelection, IterCountsTheRulesOwnPackets) {
    const Rules rules("type=drop,psn=7,iter=2");
    std::vector<bool> dropped;
    for (const std::uint32_t psn : {7U, 8U, 7U, 7U}) {
        dropped.push_back(rules.tx({.psn = psn}).drop);
    }
    EXPECT_EQ(dropped, (std::vector<bool>{false, false, true, false}));
    EXPECT_EQ(rules.active[0]->hits, 1U);
    EXPECT_EQ(rules.active[0]->seen, 3U);
}

TEST(FaultSelection, CountEndsARule) {
    const Rules rules("type=ecn,count=2");
    EXPECT_TRUE(rules.tx().ecn);
    EXPECT_TRUE(rules.tx().ecn);
    EXPECT_FALSE(rules.tx().ecn);
    EXPECT_EQ(rules.active[0]->hits, 2U);
    EXPECT_EQ(rules.active[0]->seen, 3U);
}

std::vector<bool> drops(int seed, int packets) {
    const Rules rules("type=drop,probability=0.1,seed=" + std::to_string(seed));
    std::vector<bool> result;
    for (int i = 0; i < packets; ++i) {
        result.push_back(rules.tx().drop);
    }
    return result;
}

TEST(FaultSelection, ChanceFollowsTheSeed) {
    constexpr int kPackets = 10'000;
    const std::vector<bool> first = drops(7, kPackets);
    EXPECT_EQ(first, drops(7, kPackets));
    EXPECT_NE(first, drops(8, kPackets));
    // The seeds are fixed, and so is the outcome: 1,000 expected, standard deviation 30.
    for (const int seed : {1, 2, 3, 1'000'000}) {
        const std::vector<bool> dropped = drops(seed, kPackets);
        const auto hits = std::count(dropped.begin(), dropped.end(), true);
        EXPECT_GT(hits, 880) << seed;
        EXPECT_LT(hits, 1120) << seed;
    }
}

TEST(FaultSelection, WhatIsNotRoceIsLeftAlone) {
    const Rules rules("type=drop");
    const Plan plan(rules.active);
    EXPECT_FALSE(plan.decide(Direction::kTx, std::vector<std::byte>(60)).drop);
    EXPECT_FALSE(plan.decide(Direction::kTx, {}).drop);
    EXPECT_FALSE(plan.decide(Direction::kTx, {}).is_roce);
    EXPECT_EQ(rules.active[0]->seen, 0U);
}

TEST(FaultOrder, ADroppedPacketIsNotShownToLaterRules) {
    const Rules rules("type=ecn", "type=drop,iter=1", "type=ecn");
    EXPECT_TRUE(rules.tx().drop);
    EXPECT_FALSE(rules.tx().drop);
    EXPECT_EQ(rules.active[0]->hits, 2U);
    EXPECT_EQ(rules.active[2]->hits, 1U);
}

TEST(FaultOrder, OtherActionsAddUp) {
    const Rules rules("type=ecn", "type=corrupt", "type=delay,delay-us=3", "type=delay,delay-us=4",
                      "type=duplicate,delay-us=9");
    const Verdict verdict = rules.tx();
    EXPECT_TRUE(verdict.ecn);
    EXPECT_EQ(verdict.flips, 1U);
    EXPECT_EQ(verdict.delay_ns, 7'000U);
    EXPECT_EQ(verdict.holder, rules.active[3].get());
    EXPECT_EQ(verdict.copier, rules.active[4].get());
    EXPECT_EQ(verdict.copy_delay_ns, 9'000U);
    EXPECT_EQ(verdict.behind, 0U);
}

TEST(FaultOrder, ReorderWaitsForOnePacketAndAMillisecondUnlessToldOtherwise) {
    const Verdict plain = Rules("type=reorder").tx();
    EXPECT_EQ(plain.behind, 1U);
    EXPECT_EQ(plain.delay_ns, Rule::kDefaultReorderNs);
    const Verdict told = Rules("type=reorder,packets=5,delay-us=20").tx();
    EXPECT_EQ(told.behind, 5U);
    EXPECT_EQ(told.delay_ns, 20'000U);
    EXPECT_EQ(told.dest_qp, kQpn);
}

/// The bits in which two frames differ.
std::vector<std::size_t> flipped(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    std::vector<std::size_t> bits;
    for (std::size_t i = 0; i < a.size() * 8; ++i) {
        if (((a[i / 8] ^ b[i / 8]) & (std::byte{0x80} >> (i % 8))) != std::byte{0}) {
            bits.push_back(i);
        }
    }
    return bits;
}

std::vector<std::size_t> corrupted_bits(const std::string& fields, const FrameSpec& spec = {},
                                        int packets = 200) {
    const Rules rules(fields);
    std::vector<std::size_t> all;
    for (int i = 0; i < packets; ++i) {
        const auto before = make_frame(spec);
        auto after = before;
        edit_frame(Plan(rules.active).decide(Direction::kTx, before), after);
        const auto bits = flipped(before, after);
        EXPECT_LE(bits.size(), 1U);
        all.insert(all.end(), bits.begin(), bits.end());
    }
    return all;
}

TEST(FaultEdit, CorruptionFlipsOneBitWhereItIsToldTo) {
    const std::size_t length = make_frame().size();
    const auto anywhere = corrupted_bits("type=corrupt,seed=3");
    EXPECT_EQ(anywhere.size(), 200U);
    EXPECT_LT(*std::min_element(anywhere.begin(), anywhere.end()), 14U * 8)
        << "the Ethernet header is never hit";
    EXPECT_GT(*std::max_element(anywhere.begin(), anywhere.end()), (length - 16) * 8)
        << "the end is never hit";
    for (const std::size_t bit : corrupted_bits("type=corrupt,offset=20")) {
        EXPECT_EQ(bit / 8, 20U);
    }
    const std::size_t payload_end = length - 4;
    for (const std::size_t bit : corrupted_bits("type=corrupt,offset=payload")) {
        EXPECT_GE(bit / 8, payload_end - kPayloadBytes);
        EXPECT_LT(bit / 8, payload_end);
    }
}

TEST(FaultEdit, APlaceThatThePacketDoesNotHaveIsNoHit) {
    const FrameSpec empty{.payload = 0};
    EXPECT_TRUE(corrupted_bits("type=corrupt,offset=payload", empty, 3).empty());
    EXPECT_TRUE(corrupted_bits("type=corrupt,offset=4000", empty, 3).empty());
    const Rules rules("type=corrupt,offset=payload,iter=1");
    EXPECT_EQ(rules.tx(empty).flips, 0U);
    EXPECT_EQ(rules.tx().flips, 1U) << "the first packet with a payload is the first";
}

TEST(FaultEdit, TheSameSeedFlipsTheSameBits) {
    const std::string fields = "type=corrupt,seed=5";
    EXPECT_EQ(corrupted_bits(fields), corrupted_bits(fields));
    EXPECT_NE(corrupted_bits(fields), corrupted_bits("type=corrupt,seed=6"));
}

TEST(FaultEdit, EcnSetsCeAndLeavesAValidPacket) {
    const Rules rules("type=ecn");
    for (const FrameSpec& spec : {FrameSpec{}, FrameSpec{.ipv6 = true}, FrameSpec{.vlan_tci = 5}}) {
        auto frame = make_frame(spec);
        edit_frame(Plan(rules.active).decide(Direction::kTx, frame), frame);
        wire::PacketView view;
        // The parser checks the IPv4 header checksum.
        ASSERT_EQ(wire::parse_frame(frame, view), wire::ParseError::kNone);
        EXPECT_EQ(view.traffic_class, 3U);
        EXPECT_TRUE(wire::icrc_ok(view));
    }
}

TEST(FaultEdit, ACorruptedPacketDoesNotPassForGood) {
    const Rules rules("type=corrupt,offset=payload");
    auto frame = make_frame();
    edit_frame(Plan(rules.active).decide(Direction::kTx, frame), frame);
    wire::PacketView view;
    ASSERT_EQ(wire::parse_frame(frame, view), wire::ParseError::kNone);
    EXPECT_FALSE(wire::icrc_ok(view));
}

std::string problem_of(const char* key, const Value& value) {
    Rule rule;
    return set_field(rule, key, value).value_or("");
}

TEST(FaultFields, WhatIsWrongIsNamedWithWhatIsAllowed) {
    EXPECT_EQ(problem_of("psn", std::int64_t{1U << 24U}), "'psn' must be a whole number from 0 to 16777215");
    EXPECT_EQ(problem_of("qpn", std::int64_t{-1}), "'qpn' must be a whole number from 0 to 16777215");
    EXPECT_EQ(problem_of("iter", std::int64_t{0}),
              "'iter' must be a whole number from 1 to 9223372036854775807");
    EXPECT_EQ(problem_of("psn", 1.5), "'psn' must be a whole number from 0 to 16777215");
    EXPECT_NE(problem_of("psm", std::int64_t{1})
                  .find("unknown key 'psm'; allowed: type, device, direction, qpn, psn,"),
              std::string::npos);
    for (const Value& value : {Value(0.0), Value(1.01), Value(-0.5), Value("often"), Value(true)}) {
        EXPECT_EQ(problem_of("probability", value),
                  "'probability' must be a number greater than 0 and at most 1, for example 0.01");
    }
    EXPECT_EQ(problem_of("probability", std::int64_t{1}), "");
    for (const char* key : {"type", "direction", "opcode", "offset", "device"}) {
        std::string expected = "'";
        expected.append(key).append("' must be ");
        EXPECT_EQ(problem_of(key, "").find(expected), 0U) << key;
    }
    EXPECT_NE(problem_of("delay-us", std::int64_t{10'000'001}), "");
    EXPECT_NE(problem_of("packets", std::int64_t{0}), "");
}

TEST(FaultFields, FieldsOfOtherActionsAreRefused) {
    const auto problem = [](const char* fields) { return check_rule(unchecked_rule(fields)).value_or(""); };
    EXPECT_EQ(problem("type=delay"), "type \"delay\" needs 'delay-us', the time in microseconds");
    EXPECT_NE(problem("type=drop,delay-us=1"), "");
    EXPECT_NE(problem("type=delay,delay-us=1,packets=1"), "");
    EXPECT_NE(problem("type=drop,offset=payload"), "");
    EXPECT_EQ(problem("type=bit-error,offset=3"), "");
}

}  // namespace
}  // namespace urnic::fault
