#include "rnic/neighbour/neighbour_message.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "rnic/wire/multicast.h"
#include "tests/support/random_bytes.h"
#include "tests/unit/rnic/neighbour/neighbour_script.h"

namespace urnic::net::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& hex) {
    Bytes bytes;
    for (std::size_t i = 0; i < hex.size();) {
        if (hex[i] == ' ' || hex[i] == '\n') {
            ++i;
            continue;
        }
        bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
        i += 2;
    }
    return bytes;
}

/// As Linux sent them over a veth (the addresses are ours).
const char* const kArpRequest = R"(
    ffffffffffff 020000000042 0806
    0001 0800 06 04 0001 020000000042 0a000002 000000000000 0a000001)";
const char* const kSolicitationFrame = R"(
    3333ff000001 020000000042 86dd
    60000000 0020 3a ff fd000000000000000000000000000002 ff0200000000000000000001ff000001
    87 00 0000 00000000 fd000000000000000000000000000001 0101 020000000042)";
constexpr std::size_t kIcmpAt = 14 + 40;

/// Puts the right checksum into an untagged ND frame.
void repair(Bytes& frame) {
    std::uint32_t sum = 58 + static_cast<std::uint32_t>(frame.size() - kIcmpAt);
    frame[kIcmpAt + 2] = frame[kIcmpAt + 3] = std::byte{0};
    for (std::size_t i = 14 + 8; i + 1 < frame.size(); i += 2) {
        sum += std::to_integer<std::uint32_t>(frame[i]) << 8U | std::to_integer<std::uint32_t>(frame[i + 1]);
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = ~((sum & 0xffffU) + (sum >> 16U));
    frame[kIcmpAt + 2] = static_cast<std::byte>(sum >> 8U);
    frame[kIcmpAt + 3] = static_cast<std::byte>(sum);
}

Bytes solicitation() {
    Bytes frame = bytes_of(kSolicitationFrame);
    repair(frame);
    return frame;
}

Bytes build(const NeighbourMessage& message) {
    Bytes frame(kMaxNeighbourBytes);
    frame.resize(build_neighbour(message, frame));
    return frame;
}

NeighbourMessage ask(const std::string& target, const std::string& sender) {
    NeighbourMessage message;
    message.target = address_of(target);
    message.sender = address_of(sender);
    message.sender_mac = message.eth_src = mac_of('B');
    message.eth_dst = wire::is_ipv4_mapped(message.target)
                          ? kBroadcastMac
                          : wire::multicast_mac(solicited_node(message.target));
    return message;
}

TEST(NeighbourMessage, ArpOfOthers) {
    NeighbourMessage message;
    ASSERT_EQ(parse_neighbour(bytes_of(kArpRequest), message), NeighbourParse::kGood);
    EXPECT_EQ(message.op, NeighbourOp::kAsk);
    EXPECT_EQ(message.sender, address_of("10.0.0.2"));
    EXPECT_EQ(message.target, address_of("10.0.0.1"));
    EXPECT_EQ(message.sender_mac, mac_of('B'));
    EXPECT_EQ(build(message), bytes_of(kArpRequest));
}

TEST(NeighbourMessage, SolicitationOfOthers) {
    NeighbourMessage message;
    ASSERT_EQ(parse_neighbour(solicitation(), message), NeighbourParse::kGood);
    EXPECT_EQ(message.op, NeighbourOp::kAsk);
    EXPECT_EQ(message.sender, address_of("fd00::2"));
    EXPECT_EQ(message.target, address_of("fd00::1"));
    EXPECT_EQ(message.sender_mac, mac_of('B'));
    EXPECT_EQ(build(message), solicitation());
}

TEST(NeighbourMessage, ComesBackAsItWent) {
    std::vector<NeighbourMessage> messages{ask("10.0.0.1", "10.0.0.2"), ask("fe80::1", "fe80::2")};
    for (int i = 0; i < 2; ++i) {
        NeighbourMessage answer = messages[static_cast<std::size_t>(i)];
        answer.op = NeighbourOp::kAnswer;
        answer.eth_dst = mac_of('C');
        answer.is_solicited = true;
        messages.push_back(answer);
        answer.vlan = 4094;
        messages.push_back(answer);
    }
    NeighbourMessage to_all = messages[4];
    to_all.target = kAllNodes;
    to_all.eth_dst = wire::multicast_mac(kAllNodes);
    to_all.is_solicited = false;
    messages.push_back(to_all);
    for (const NeighbourMessage& message : messages) {
        NeighbourMessage again;
        ASSERT_TRUE(is_neighbour_frame(build(message)));
        ASSERT_EQ(parse_neighbour(build(message), again), NeighbourParse::kGood);
        EXPECT_EQ(again.op, message.op);
        EXPECT_EQ(again.eth_src, message.eth_src);
        EXPECT_EQ(again.eth_dst, message.eth_dst);
        EXPECT_EQ(again.vlan, message.vlan);
        EXPECT_EQ(again.sender, message.sender);
        EXPECT_EQ(again.sender_mac, message.sender_mac);
        EXPECT_EQ(again.target, message.target);
        EXPECT_EQ(again.is_solicited, message.is_solicited);
    }
}

struct Damage {
    const char* what;
    std::size_t at;
    std::uint8_t value;
};

TEST(NeighbourMessage, ArpThatIsNotValid) {
    for (const Damage& damage : {Damage{"hardware", 15, 6},
                                 {"protocol", 16, 9},
                                 {"address length", 18, 5},
                                 {"protocol length", 19, 16},
                                 {"operation", 21, 3},
                                 {"group as sender", 22, 3},
                                 {"no host", 28, 0xe0},
                                 {"loopback", 28, 127},
                                 {"source of frame", 6, 1}}) {
        Bytes frame = bytes_of(kArpRequest);
        frame[damage.at] = std::byte{damage.value};
        NeighbourMessage message;
        EXPECT_EQ(parse_neighbour(frame, message), NeighbourParse::kMalformed) << damage.what;
    }
    Bytes zero = bytes_of(kArpRequest);
    std::memset(&zero[22], 0, 6);
    NeighbourMessage message;
    EXPECT_EQ(parse_neighbour(zero, message), NeighbourParse::kMalformed);
}

TEST(NeighbourMessage, SolicitationThatIsNotValid) {
    for (const Damage& damage : {Damage{"hop limit", 21, 254},
                                 {"code", kIcmpAt + 1, 1},
                                 {"target is a group", kIcmpAt + 8, 0xff},
                                 {"length of option 0", kIcmpAt + 25, 0},
                                 {"option too long", kIcmpAt + 25, 2},
                                 {"group as address", kIcmpAt + 26, 3},
                                 {"from a group", 22, 0xff},
                                 {"payload too long", 19, 40},
                                 {"payload too short", 19, 23}}) {
        Bytes frame = bytes_of(kSolicitationFrame);
        frame[damage.at] = std::byte{damage.value};
        repair(frame);
        NeighbourMessage message;
        EXPECT_EQ(parse_neighbour(frame, message), NeighbourParse::kMalformed) << damage.what;
    }
    Bytes frame = solicitation();
    frame[kIcmpAt + 3] ^= std::byte{1};
    NeighbourMessage message;
    EXPECT_EQ(parse_neighbour(frame, message), NeighbourParse::kMalformed) << "checksum";
    // Duplicate address detection tells no Ethernet address (RFC 4861 7.1.1).
    frame = solicitation();
    std::memset(&frame[22], 0, 16);
    repair(frame);
    EXPECT_EQ(parse_neighbour(frame, message), NeighbourParse::kMalformed);
    frame.resize(frame.size() - 8);
    frame[19] = std::byte{24};
    repair(frame);
    EXPECT_EQ(parse_neighbour(frame, message), NeighbourParse::kGood);
    EXPECT_EQ(message.sender, wire::Gid{});
}

TEST(NeighbourMessage, OthersAreLeftAlone) {
    NeighbourMessage message;
    Bytes echo = solicitation();
    echo[kIcmpAt] = std::byte{128};
    EXPECT_EQ(parse_neighbour(echo, message), NeighbourParse::kOther);
    EXPECT_FALSE(is_neighbour_frame(echo));
    Bytes ipv4 = bytes_of(kArpRequest);
    ipv4[13] = std::byte{0};
    EXPECT_EQ(parse_neighbour(ipv4, message), NeighbourParse::kOther);
}

TEST(NeighbourMessage, EveryLengthAndGarbage) {
    urnic::test::Random random;
    SCOPED_TRACE(testing::Message() << random);
    NeighbourMessage message;
    for (const Bytes& whole : {bytes_of(kArpRequest), solicitation()}) {
        for (std::size_t length = 0; length < whole.size(); ++length) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
            EXPECT_NE(parse_neighbour(cut, message), NeighbourParse::kGood) << length;
            (void)is_neighbour_frame(cut);
        }
        for (int i = 0; i < 20'000; ++i) {
            Bytes mutated = whole;
            for (std::size_t n = random.below(4); n != 0; --n) {
                mutated[random.below(mutated.size())] = random.bytes(1)[0];
            }
            mutated.resize(random.below(mutated.size() + 20));
            if (parse_neighbour(mutated, message) == NeighbourParse::kGood) {
                EXPECT_EQ(message.sender_mac[0] & 1U, 0U);
                EXPECT_FALSE(build(message).empty());
            }
        }
    }
    for (std::size_t length = 0; length < 200; ++length) {
        Bytes garbage = random.bytes(length);
        (void)parse_neighbour(garbage, message);
        if (length > 14) {
            garbage[12] = std::byte{0x86};
            garbage[13] = std::byte{0xdd};
        }
        (void)parse_neighbour(garbage, message);
    }
}

}  // namespace
}  // namespace urnic::net::test
