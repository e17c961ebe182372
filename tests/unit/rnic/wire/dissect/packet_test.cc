// Whole packets: every kind built, parsed and built again; CRCs against references; damage and cut captures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "conform/case/reference_icrc.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/dissect/dump.h"
#include "rnic/wire/dissect/ib/crc.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/hex.h"
#include "tests/support/packet_build.h"
#include "tests/support/packet_samples.h"

namespace urnic::wire {
namespace {

std::vector<std::byte> build(const Packet& packet) {
    std::vector<std::byte> bytes(kMaxPacketBytes);
    bytes.resize(build_packet(packet, bytes));
    return bytes;
}

std::string field_difference(const HeaderTable& table, const void* one, const void* other) {
    for (const Field& field : table.fields) {
        if (field_text(field, one) != field_text(field, other) && std::string(field.name) != "pad_count") {
            return std::string(table.name) + "." + field.name + ": " + field_text(field, one) + " and " +
                   field_text(field, other);
        }
    }
    return "";
}

/// Compares what the transport headers of this opcode hold.
std::string transport_difference(const PacketHeader& one, const PacketHeader& other) {
    std::string text = field_difference(kBthTable, &one, &other);
    for (const ExtendedHeader& extended : extended_headers()) {
        if ((opcode_info(one.opcode).headers & extended.mask) != 0) {
            text += field_difference(extended.table, &one, &other);
        }
    }
    return text;
}

TEST(Packets, EveryKindIsBuiltParsedAndBuiltAgain) {
    test::Random random;
    for (int round = 0; round < 3; ++round) {
        for (const test::Sample& sample : test::make_samples(random, 300)) {
            SCOPED_TRACE(sample.name);
            const std::vector<std::byte> wire = build(sample.packet);
            ASSERT_FALSE(wire.empty()) << random;
            Packet parsed;
            parse_packet(sample.packet.link, wire, wire.size(), parsed);
            ASSERT_EQ(parsed.outcome, Outcome::kComplete) << parsed.reason << random;
            ASSERT_EQ(build(parsed), wire) << random;
            ASSERT_EQ(parsed.payload_bytes, sample.payload.size()) << random;
            ASSERT_TRUE(std::equal(parsed.payload.begin(), parsed.payload.end(), sample.payload.begin()))
                << random;
            const bool transport = sample.packet.has_transport;
            ASSERT_EQ(parsed.has_transport, transport);
            if (transport) {
                ASSERT_EQ(transport_difference(sample.packet.transport, parsed.transport), "") << random;
            }
            ASSERT_EQ(parsed.icrc_verdict, transport ? CheckVerdict::kGood : CheckVerdict::kAbsent);
            const bool native = sample.packet.link == LinkLayer::kInfiniBand;
            ASSERT_EQ(parsed.vcrc_verdict, native ? CheckVerdict::kGood : CheckVerdict::kAbsent);
            const bool ipv4 = sample.packet.network == Network::kIpv4;
            ASSERT_EQ(parsed.ip_checksum, ipv4 ? CheckVerdict::kGood : CheckVerdict::kAbsent);
            const bool udp = sample.packet.has_udp && sample.packet.udp.checksum != 0;
            ASSERT_EQ(parsed.udp_checksum, udp ? CheckVerdict::kGood : CheckVerdict::kAbsent);
            ASSERT_EQ(parsed.vlan_count, sample.packet.vlan_count);
            ASSERT_EQ(parsed.pfc, sample.packet.has_pfc ? sample.packet.pfc : Pfc{});
        }
    }
}

TEST(Packets, TheFastCodecReadsAndChecksTheSame) {
    test::Random random;
    std::size_t compared = 0;
    for (const test::Sample& sample : test::make_samples(random, 300)) {
        const bool rocev2 = sample.packet.link == LinkLayer::kEthernet && sample.packet.has_udp;
        if (!rocev2 || sample.packet.vlan_count > 1) {
            continue;
        }
        SCOPED_TRACE(sample.name);
        const std::vector<std::byte> wire = build(sample.packet);
        PacketView view;
        ASSERT_EQ(parse_frame(wire, view), ParseError::kNone) << random;
        EXPECT_TRUE(icrc_ok(view)) << random;
        EXPECT_EQ(transport_difference(view.header, sample.packet.transport), "") << random;
        ++compared;
    }
    EXPECT_GT(compared, 300U);
}

TEST(Packets, WhatTheFastCodecBuildsIsRead) {
    test::Random random;
    for (int round = 0; round < 500; ++round) {
        PathSpec spec;
        const bool ipv4 = random.below(2) == 0;
        spec.src_gid =
            ipv4 ? Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1} : Gid{0xfe, 0x80, 0, 1};
        spec.dst_gid =
            ipv4 ? Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2} : Gid{0xfe, 0x80, 0, 2};
        spec.vlan_tci = static_cast<std::uint16_t>(random.below(2) * 0x6005);
        PacketHeader header;
        for (const ExtendedHeader& extended : extended_headers()) {
            test::randomize(extended.table, &header, random);
        }
        do {
            test::randomize(kBthTable, &header, random);
        } while ((opcode_info(header.opcode).flags & kValid) == 0);
        header.tver = 0;
        const bool has_payload = (opcode_info(header.opcode).flags & kHasPayload) != 0;
        std::vector<std::byte> payload = random.bytes(has_payload ? random.below(200) : 0);
        const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())};
        std::vector<std::byte> frame(kMaxFrameBytes);
        frame.resize(build_frame(make_path(spec), header, {&piece, 1}, frame));
        Packet parsed;
        parse_packet(LinkLayer::kEthernet, frame, frame.size(), parsed);
        ASSERT_EQ(parsed.outcome, Outcome::kComplete) << parsed.reason << random;
        ASSERT_EQ(parsed.icrc_verdict, CheckVerdict::kGood) << random;
        ASSERT_EQ(transport_difference(parsed.transport, header), "") << random;
        ASSERT_EQ(build(parsed), frame) << random;
    }
}

/// A cut capture and a packet that is really that short, at each length.
TEST(Packets, CutAndShortenedAtEachLength) {
    test::Random random;
    for (const test::Sample& sample : test::make_samples(random, 24)) {
        SCOPED_TRACE(sample.name);
        const std::vector<std::byte> wire = build(sample.packet);
        for (std::size_t length = 0; length < wire.size(); ++length) {
            // A block of its own, so that a sanitizer sees a byte too many.
            const std::vector<std::byte> part(wire.begin(),
                                              wire.begin() + static_cast<std::ptrdiff_t>(length));
            Packet cut;
            parse_packet(sample.packet.link, part, wire.size(), cut);
            ASSERT_NE(cut.outcome, Outcome::kMalformed) << length << ": " << cut.reason << random;
            ASSERT_NE(cut.icrc_verdict, CheckVerdict::kBad) << random;
            ASSERT_NE(cut.vcrc_verdict, CheckVerdict::kBad) << random;
            ASSERT_LE(cut.payload.size(), cut.payload_bytes);
            const std::string text = dump(cut, "") + summary(cut);
            ASSERT_NE(text.find("captured"), std::string::npos) << text;
            Packet shortened;
            parse_packet(sample.packet.link, part, length, shortened);
            ASSERT_NE(shortened.outcome, Outcome::kCut) << random;
            (void)(dump(shortened, "") + summary(shortened));
        }
    }
}

TEST(Packets, AnyBytesAreTaken) {
    test::Random random;
    const std::vector<test::Sample> samples = test::make_samples(random, 40);
    for (int round = 0; round < 20'000; ++round) {
        const test::Sample& sample = samples[random.below(samples.size())];
        std::vector<std::byte> wire = build(sample.packet);
        for (std::size_t changes = 1 + random.below(4); changes != 0; --changes) {
            wire[random.below(wire.size())] = static_cast<std::byte>(random.next());
        }
        const std::vector<std::byte> part(
            wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(random.below(wire.size() + 1)));
        Packet packet;
        parse_packet(sample.packet.link, part, random.below(2) == 0 ? wire.size() : part.size(), packet);
        (void)(dump(packet, "") + summary(packet));
        (void)build(packet);
    }
}

/// The ICRC of the reference, which is written for IP, over a packet whose prefix is as the reference has it.
TEST(Icrc, OfIpPacketsIsTheReferences) {
    test::Random random;
    for (const test::Sample& sample : test::make_samples(random, 100)) {
        if (!sample.packet.has_udp) {
            continue;
        }
        const std::vector<std::byte> wire = build(sample.packet);
        const std::size_t l3 = kEthernetBytes + kVlanTagBytes * sample.packet.vlan_count;
        const std::uint32_t expected =
            conform::reference_icrc({wire.data() + l3, wire.size() - l3 - kIcrcBytes});
        Packet parsed;
        parse_packet(LinkLayer::kEthernet, wire, wire.size(), parsed);
        ASSERT_EQ(parsed.icrc, expected) << sample.name << random;
    }
}

/// IBA 7.8.1 field by field, for packets with LRH and GRH: written anew here, bit by bit.
TEST(Icrc, OfRoceV1AndNativePacketsIsTheSpecifications) {
    test::Random random;
    for (const test::Sample& sample : test::make_samples(random, 100)) {
        const bool native = sample.packet.link == LinkLayer::kInfiniBand;
        const bool global = sample.packet.network == Network::kGrh;
        if (!sample.packet.has_transport || (!native && !global)) {
            continue;
        }
        const std::vector<std::byte> wire = build(sample.packet);
        const std::size_t begin = native ? 0 : kEthernetBytes + kVlanTagBytes * sample.packet.vlan_count;
        const std::size_t end = wire.size() - kIcrcBytes - (native ? 2 : 0);
        std::vector<std::byte> covered;
        if (!native) {
            covered.assign(8, std::byte{0xff});
        }
        covered.insert(covered.end(), wire.begin() + static_cast<std::ptrdiff_t>(begin),
                       wire.begin() + static_cast<std::ptrdiff_t>(end));
        covered[0] |= std::byte{0xf0};  // VL
        if (global) {
            std::fill_n(covered.begin(), 8, std::byte{0xff});  // routers replace the LRH
            covered[8] |= std::byte{0x0f};
            covered[9] = covered[10] = covered[11] = covered[15] = std::byte{0xff};
        }
        covered[8 + (global ? 40 : 0) + 4] = std::byte{0xff};  // BTH resv8a
        Packet parsed;
        parse_packet(sample.packet.link, wire, wire.size(), parsed);
        ASSERT_EQ(parsed.icrc, static_cast<std::uint32_t>(~conform::reference_crc32(0xffffffffU, covered)))
            << sample.name << random;
    }
}

/// Packets of an RC WRITE that were published with their CRCs, from the LRH to the payload's pad.
const std::string kPublishedTransport =
    "0a2024870087b1b3000dec2a01710a1c015d400238f27a050000000ebb884d85fd5cfba4728bc0690ed40000";
const std::string kPublishedLocal = "7012375c000e17d2" + kPublishedTransport;
const std::string kPublishedGlobal =
    "7013375c001817d2"
    "6000000000320010000000000000012500000000000000260000000000000117"
    "0000000000000096" +
    kPublishedTransport;

TEST(Icrc, OfPublishedNativePacketsIsThePublishedOne) {
    const std::vector<std::byte> local = test::from_hex(kPublishedLocal);
    ASSERT_EQ(local.size(), 52U);
    EXPECT_EQ(invariant_crc(IcrcScope::kLrh, local), 0x5ab72596U);
    const std::vector<std::byte> global = test::from_hex(kPublishedGlobal);
    ASSERT_EQ(global.size(), 92U);
    EXPECT_EQ(invariant_crc(IcrcScope::kLrhAndGrh, global), 0x46ec9314U);
}

TEST(Vcrc, OfPublishedNativePacketsIsThePublishedOne) {
    EXPECT_EQ(variant_crc(test::from_hex(kPublishedLocal + "9625b75a")), 0xfa45U);
    EXPECT_EQ(variant_crc(test::from_hex(kPublishedGlobal + "1493ec46")), 0x447cU);
}

TEST(Packets, APublishedNativePacketIsRead) {
    const std::vector<std::byte> wire = test::from_hex(kPublishedLocal + "9625b75a45fa");
    Packet packet;
    parse_packet(LinkLayer::kInfiniBand, wire, wire.size(), packet);
    EXPECT_EQ(packet.outcome, Outcome::kComplete) << packet.reason;
    EXPECT_EQ(packet.icrc_verdict, CheckVerdict::kGood);
    EXPECT_EQ(packet.vcrc_verdict, CheckVerdict::kGood);
    EXPECT_EQ(packet.transport.reth.dma_length, 14U);
    EXPECT_EQ(packet.payload_bytes, 14U);
    EXPECT_EQ(build(packet), wire);
}

/// A router gives a packet another LRH: its ICRC stays.
TEST(Icrc, OfAGlobalPacketDoesNotDependOnItsLrh) {
    std::vector<std::byte> global = test::from_hex(kPublishedGlobal);
    const std::uint32_t icrc = invariant_crc(IcrcScope::kLrhAndGrh, global);
    for (std::size_t bit = 0; bit < 64; ++bit) {
        global[bit / 8] ^= std::byte{1} << bit % 8;
        EXPECT_EQ(invariant_crc(IcrcScope::kLrhAndGrh, global), icrc) << bit;
    }
}

/// A shift register as IBA 7.8.2 draws it: polynomial x^16 + x^12 + x^3 + x + 1, bits in the order of the
/// wire (each byte's least significant first), preset to ones, the remainder complemented; its highest
/// coefficient goes on the wire first, which is the least significant bit of the first byte.
std::uint16_t shift_register_vcrc(std::span<const std::byte> bytes) {
    std::uint32_t remainder = 0xffff;
    for (const std::byte byte : bytes) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            const std::uint32_t in = std::to_integer<std::uint32_t>(byte) >> bit & 1U;
            const std::uint32_t out = remainder >> 15U & 1U;
            remainder = (remainder << 1U & 0xffffU) ^ (in != out ? 0x100bU : 0U);
        }
    }
    remainder = ~remainder & 0xffffU;
    std::uint32_t sent = 0;
    for (unsigned i = 0; i < 16; ++i) {
        sent |= (remainder >> (15U - i) & 1U) << i;
    }
    return static_cast<std::uint16_t>(sent);
}

TEST(Vcrc, IsTheShiftRegistersAndLeavesOneRemainder) {
    test::Random random;
    std::uint16_t remainder = 0;
    for (int round = 0; round < 300; ++round) {
        std::vector<std::byte> bytes = random.bytes(random.below(200));
        const std::uint16_t vcrc = variant_crc(bytes);
        ASSERT_EQ(vcrc, shift_register_vcrc(bytes)) << random;
        // Over the data and its VCRC the result is the same for all data: what a receiver checks.
        bytes.push_back(static_cast<std::byte>(vcrc));
        bytes.push_back(static_cast<std::byte>(vcrc >> 8U));
        const std::uint16_t over_all = variant_crc(bytes);
        ASSERT_TRUE(round == 0 || over_all == remainder) << random;
        remainder = over_all;
    }
}

TEST(Crcs, SeeEveryFlippedBit) {
    test::Random random;
    Packet packet;
    const std::vector<test::Sample> samples = test::make_samples(random, 40);
    for (const test::Sample& sample : samples) {
        if (sample.packet.link != LinkLayer::kInfiniBand || random.below(8) != 0) {
            continue;
        }
        std::vector<std::byte> wire = build(sample.packet);
        const std::size_t vcrc_at = wire.size() - 2;
        const std::uint16_t vcrc = variant_crc({wire.data(), vcrc_at});
        for (std::size_t bit = 0; bit < vcrc_at * 8; ++bit) {
            wire[bit / 8] ^= std::byte{1} << bit % 8;
            ASSERT_NE(variant_crc({wire.data(), vcrc_at}), vcrc) << sample.name << random;
            wire[bit / 8] ^= std::byte{1} << bit % 8;
        }
    }
    for (const test::Sample& sample : samples) {
        const std::vector<std::byte> good = build(sample.packet);
        if (!sample.packet.has_transport) {
            continue;
        }
        // In the last payload or header word, which no variant field lies in.
        std::vector<std::byte> wire = good;
        const std::size_t tail = sample.packet.link == LinkLayer::kInfiniBand ? 6 : 4;
        wire[wire.size() - tail - 1 - random.below(3)] ^= std::byte{1} << random.below(8);
        parse_packet(sample.packet.link, wire, wire.size(), packet);
        ASSERT_EQ(packet.icrc_verdict, CheckVerdict::kBad) << sample.name << random;
        ASSERT_NE(summary(packet).find("icrc=BAD"), std::string::npos);
    }
}

TEST(Packets, MalformedOnesSayWhy) {
    test::Random random;
    Packet sample;
    sample.network = Network::kIpv4;
    sample.has_transport = true;
    sample.transport.opcode = 0x04;
    sample.udp.dst_port = kRocev2UdpPort;
    const std::vector<std::byte> payload = random.bytes(8);
    sample.payload = payload;
    const std::vector<std::byte> good = build(sample);
    constexpr std::size_t kIp = 14;
    constexpr std::size_t kBth = kIp + 20 + 8;
    const struct {
        std::size_t offset;
        unsigned value;
        Outcome outcome;
        const char* reason;
    } cases[] = {
        {kIp, 0x55, Outcome::kMalformed, "IPv4 version or header length"},
        {kIp, 0x46, Outcome::kForeign, "IPv4 options, which RoCEv2 has not"},
        {kIp + 2, 0xff, Outcome::kMalformed, "IPv4 total length"},
        {kIp + 6, 0x20, Outcome::kForeign, "fragment"},
        {kIp + 9, 6, Outcome::kForeign, "IPv4, not UDP"},
        {kIp + 23, 0, Outcome::kForeign, "UDP, not port 4791"},
        {kIp + 25, 8, Outcome::kMalformed, "UDP length"},
        {kBth, 0x1f, Outcome::kMalformed, "reserved opcode"},
        {kBth, 0x0a, Outcome::kMalformed, "RETH"},
        {kBth, 0x11, Outcome::kMalformed, "payload where the opcode has none"},
        {kBth + 1, 0x01, Outcome::kMalformed, "TVer is not 0"},
        {12, 0x99, Outcome::kForeign, "EtherType is not of RoCE"},
    };
    for (const auto& one : cases) {
        std::vector<std::byte> wire = good;
        wire[one.offset] = static_cast<std::byte>(one.value);
        Packet packet;
        parse_packet(LinkLayer::kEthernet, wire, wire.size(), packet);
        EXPECT_EQ(packet.outcome, one.outcome) << one.reason << " but " << packet.reason;
        EXPECT_STREQ(packet.reason, one.reason);
        EXPECT_NE(summary(packet).find(one.reason), std::string::npos);
    }
}

TEST(Packets, TooSmallABufferTakesNothing) {
    test::Random random;
    for (const test::Sample& sample : test::make_samples(random, 24)) {
        const std::size_t length = build(sample.packet).size();
        for (std::size_t room = 0; room < length; ++room) {
            std::vector<std::byte> out(room);
            ASSERT_EQ(build_packet(sample.packet, out), 0U) << sample.name << random;
        }
    }
}

}  // namespace
}  // namespace urnic::wire
