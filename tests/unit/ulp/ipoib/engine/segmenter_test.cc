#include "ulp/ipoib/engine/segmenter.h"

#include <gtest/gtest.h>

#include "tests/unit/ulp/ipoib/packet_of.h"

namespace urnic::ipoib::test {
namespace {

constexpr std::size_t kMtu = 2044;

std::vector<Bytes> segments_of(Segmenter& segmenter, const Bytes& prefix) {
    std::vector<Bytes> packets;
    for (; !segmenter.is_done(); segmenter.advance()) {
        const Segment segment = segmenter.segment();
        EXPECT_EQ(Bytes(segment.header.begin(),
                        segment.header.begin() + static_cast<std::ptrdiff_t>(prefix.size())),
                  prefix);
        Bytes packet(segment.header.begin() + static_cast<std::ptrdiff_t>(prefix.size()),
                     segment.header.end());
        packet.insert(packet.end(), segment.data.begin(), segment.data.end());
        packets.push_back(packet);
    }
    return packets;
}

// Worked out apart from this code: the sequence number and the identification wrap; CWR, PSH and FIN.
TEST(IpoibSegmenter, Vector) {
    const Bytes whole = octets_of(
        "4500002dffff40004006 26b7 0a0900010a090002 1388c350 fffffffe 01020304 5099 2000 1434 0000 "
        "6162636465");
    Offload offload = offload_of({}, 2);
    Segmenter segmenter;
    ASSERT_EQ(segmenter.start({}, whole, offload, kMtu), Segmenter::Start::kDone);
    const std::vector<Bytes> expected = {
        octets_of("4500002affff4000400626ba0a0900010a090002 1388c350fffffffe010203045090 20003efe0000 6162"),
        octets_of("4500002a00004000400626ba0a0900010a090002 1388c3500000000001020304501020003d7b0000 6364"),
        octets_of("45000029000140004006 26ba0a0900010a090002 1388c35000000002010203045019 2000 3bd5 0000 "
                  "65")};
    std::vector<Bytes> made = segments_of(segmenter, {});
    ASSERT_EQ(made.size(), 3U);
    EXPECT_EQ(made[0], expected[0]);
    EXPECT_EQ(made[1], expected[1]);
    EXPECT_EQ(made[2], expected[2]);
}

TEST(IpoibSegmenter, RandomPacketsOctetByOctet) {
    const std::uint32_t seed = seed_of_test();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    Segmenter segmenter;
    for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
        Fields fields;
        fields.is_ipv6 = random.is_one_in(2);
        fields.is_udp = random.is_one_in(3);
        fields.identification = static_cast<std::uint16_t>(random.up_to(0xFFFF));
        fields.sequence = static_cast<std::uint32_t>(random.up_to(0xFFFFFFFF));
        fields.flags = static_cast<std::uint8_t>(random.up_to(255));
        fields.traffic_class = static_cast<std::uint8_t>(random.up_to(255));
        fields.options = random.octets(fields.is_udp ? 0 : random.up_to(10) * 4);
        const std::size_t segment = 1 + random.up_to(1900);
        const Bytes data = random.octets(1 + random.up_to(std::min<std::size_t>(65000, segment * 40)));
        const Bytes whole = packet_of(fields, data, true);
        const Bytes prefix = random.octets(random.up_to(8));
        ASSERT_EQ(segmenter.start(prefix, whole, offload_of(fields, segment), kMtu), Segmenter::Start::kDone);
        EXPECT_EQ(segments_of(segmenter, prefix), packets_of(fields, data, segment));
    }
}

TEST(IpoibSegmenter, ExtensionHeadersAreRepeated) {
    Fields fields;
    fields.is_ipv6 = true;
    const Bytes data(5);
    Bytes whole = packet_of(fields, data, true);
    // Destination options of 8 octets between IPv6 and TCP.
    const Bytes options = octets_of("0600010400000000");
    whole.insert(whole.begin() + 40, options.begin(), options.end());
    put_u8(whole, 6, 60);
    put_u16(whole, 4, static_cast<std::uint16_t>(whole.size() - 40));
    Offload offload = offload_of(fields, 3);
    offload.checksum_start += 8;
    Segmenter segmenter;
    ASSERT_EQ(segmenter.start({}, whole, offload, kMtu), Segmenter::Start::kDone);
    std::vector<Bytes> made = segments_of(segmenter, {});
    ASSERT_EQ(made.size(), 2U);
    const std::vector<Bytes> plain = packets_of(fields, data, 3);
    for (std::size_t i = 0; i < made.size(); ++i) {
        EXPECT_EQ(Bytes(made[i].begin() + 40, made[i].begin() + 48), options);
        EXPECT_EQ(u16_at(made[i], 4), made[i].size() - 40);
        EXPECT_EQ(Bytes(made[i].begin() + 48, made[i].end()), Bytes(plain[i].begin() + 40, plain[i].end()));
    }
    // A chain that leads out of the packet.
    put_u8(whole, 41, 255);
    EXPECT_EQ(segmenter.start({}, whole, offload, kMtu), Segmenter::Start::kMalformed);
}

class IpoibSegmenterLies : public ::testing::Test {
  protected:
    Segmenter::Start start() {
        const Segmenter::Start result = segmenter_.start({}, whole_, offload_, kMtu);
        EXPECT_TRUE(result == Segmenter::Start::kDone || segmenter_.is_done());
        return result;
    }
    Bytes whole_ = packet_of({}, Bytes(3000), true);
    Offload offload_ = offload_of({}, 1000);
    Segmenter segmenter_;
};

TEST_F(IpoibSegmenterLies, HeaderLengthIsAHint) {
    for (const unsigned octets : {0U, 1U, 14U, 0xFFFFU}) {
        offload_.header_octets = static_cast<std::uint16_t>(octets);
        ASSERT_EQ(start(), Segmenter::Start::kDone);
        EXPECT_EQ(segments_of(segmenter_, {}), packets_of({}, Bytes(3000), 1000));
    }
}

TEST_F(IpoibSegmenterLies, Offloads) {
    const Offload good = offload_;
    ASSERT_EQ(start(), Segmenter::Start::kDone);
    offload_.segment_octets = 0;
    EXPECT_EQ(start(), Segmenter::Start::kMalformed);
    offload_ = good;
    offload_.needs_checksum = false;
    EXPECT_EQ(start(), Segmenter::Start::kMalformed);
    for (const unsigned at : {0U, 14U, 33U, 35U, 3054U, 0xFFFFU}) {
        offload_ = good;
        offload_.checksum_start = static_cast<std::uint16_t>(at);
        EXPECT_EQ(start(), Segmenter::Start::kMalformed) << at;
    }
    for (const unsigned at : {0U, 6U, 17U, 0xFFFFU}) {
        offload_ = good;
        offload_.checksum_offset = static_cast<std::uint16_t>(at);
        EXPECT_EQ(start(), Segmenter::Start::kMalformed) << at;
    }
    for (unsigned kind = 0; kind < 256; ++kind) {
        offload_ = good;
        offload_.segmentation = static_cast<Segmentation>(kind);
        EXPECT_EQ(start(), kind == 1 ? Segmenter::Start::kDone : Segmenter::Start::kMalformed) << kind;
    }
}

TEST_F(IpoibSegmenterLies, MtuHoldsForTheLongestSegment) {
    offload_.segment_octets = kMtu - 40;
    EXPECT_EQ(start(), Segmenter::Start::kDone);
    offload_.segment_octets = kMtu - 39;
    EXPECT_EQ(start(), Segmenter::Start::kTooLong);
    // What is in one piece anyway.
    whole_ = packet_of({}, Bytes(kMtu - 40), true);
    EXPECT_EQ(start(), Segmenter::Start::kDone);
    EXPECT_EQ(segments_of(segmenter_, {}), packets_of({}, Bytes(kMtu - 40), kMtu));
}

TEST_F(IpoibSegmenterLies, EveryShorterPacketAndEveryLength) {
    const Bytes good = whole_;
    for (std::size_t octets = 0; octets < 120; ++octets) {
        whole_.assign(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(octets));
        EXPECT_EQ(start(), Segmenter::Start::kMalformed);
        // Even if IP's length is the right one.
        if (octets >= 20) {
            put_u16(whole_, 2, static_cast<std::uint16_t>(octets));
            EXPECT_EQ(start(), octets > 40 ? Segmenter::Start::kDone : Segmenter::Start::kMalformed)
                << octets;
        }
    }
    for (unsigned length = 0; length < 16; ++length) {
        whole_ = good;
        put_u8(whole_, 0, 0x40U | length);
        EXPECT_EQ(start(), length == 5 ? Segmenter::Start::kDone : Segmenter::Start::kMalformed) << length;
        whole_ = packet_of({}, {}, true);
        put_u8(whole_, 32, static_cast<std::uint8_t>(length << 4U));
        EXPECT_EQ(start(), Segmenter::Start::kMalformed) << length;
    }
    for (const unsigned fragment : {0x2000U, 0x0001U, 0x1FFFU}) {
        whole_ = good;
        put_u16(whole_, 6, static_cast<std::uint16_t>(fragment));
        EXPECT_EQ(start(), Segmenter::Start::kMalformed) << fragment;
    }
}

TEST_F(IpoibSegmenterLies, RandomOctets) {
    const std::uint32_t seed = seed_of_test();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    const Bytes good = whole_;
    for (int round = 0; round < 20000; ++round) {
        whole_ = good;
        Bytes words(kOffloadOctets);
        write_offload(words, offload_of({}, 1000));
        for (std::size_t changes = 1 + random.up_to(3); changes != 0; --changes) {
            Bytes& changed = random.is_one_in(2) ? whole_ : words;
            changed[random.up_to(std::min<std::size_t>(changed.size(), 60) - 1)] = random.octets(1)[0];
        }
        offload_ = read_offload(words);
        if (start() == Segmenter::Start::kDone) {
            std::size_t segments = 0;
            for (; !segmenter_.is_done(); segmenter_.advance()) {
                const Segment segment = segmenter_.segment();
                ASSERT_LE(segment.header.size() + segment.data.size(), kMtu);
                ASSERT_FALSE(segment.data.empty());
                ASSERT_LE(++segments, good.size());
            }
        }
    }
}

TEST(IpoibOffload, ChecksumIsCompleted) {
    for (const bool is_ipv6 : {false, true}) {
        for (const bool is_udp : {false, true}) {
            Fields fields;
            fields.is_ipv6 = is_ipv6;
            fields.is_udp = is_udp;
            for (std::size_t octets = 0; octets < 70; ++octets) {
                const Bytes data(octets, std::byte{0xA5});
                Bytes frame = packet_of(fields, data, true);
                frame.insert(frame.begin(), 14, std::byte{0});
                ASSERT_TRUE(complete_checksum(frame, offload_of(fields, 1)));
                EXPECT_EQ(Bytes(frame.begin() + 14, frame.end()), packet_of(fields, data));
            }
        }
    }
    Bytes frame = octets_of("11112222 0000");
    Offload offload{.needs_checksum = true, .checksum_start = 0, .checksum_offset = 4};
    EXPECT_TRUE(complete_checksum(frame, offload));
    for (const auto& [start, offset] : {std::pair(0, 5), {5, 0}, {6, 0}, {0xFFFF, 0xFFFF}, {0, 0xFFFF}}) {
        offload.checksum_start = static_cast<std::uint16_t>(start);
        offload.checksum_offset = static_cast<std::uint16_t>(offset);
        const Bytes before = frame;
        EXPECT_FALSE(complete_checksum(frame, offload));
        EXPECT_EQ(frame, before);
    }
}

TEST(IpoibOffload, HeaderOfVirtio) {
    const Bytes words = octets_of("01 84 3600 a005 2200 1000");
    const Offload offload = read_offload(words);
    EXPECT_TRUE(offload.needs_checksum);
    EXPECT_EQ(offload.segmentation, Segmentation::kTcpIpv6) << "without the bit of ECN";
    EXPECT_EQ(offload.header_octets, 0x36);
    EXPECT_EQ(offload.segment_octets, 0x5A0);
    EXPECT_EQ(offload.checksum_start, 0x22);
    EXPECT_EQ(offload.checksum_offset, 0x10);
    Bytes written(kOffloadOctets);
    write_offload(written, offload);
    EXPECT_EQ(written, octets_of("01 04 3600 a005 2200 1000"));
}

}  // namespace
}  // namespace urnic::ipoib::test
