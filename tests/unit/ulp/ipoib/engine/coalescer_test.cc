#include "ulp/ipoib/engine/coalescer.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "tests/unit/ulp/ipoib/packet_of.h"
#include "ulp/ipoib/engine/segmenter.h"

namespace urnic::ipoib::test {
namespace {

struct Written {
    Offload offload;
    Bytes packet;
};

class IpoibCoalescer : public ::testing::Test, public FrameSink {
  protected:
    void write(const Offload& offload, std::span<const ConstOctets> pieces) override {
        EXPECT_LE(pieces.size(), Coalescer::kMostSegments + 1);
        Bytes frame;
        for (const ConstOctets piece : pieces) {
            frame.insert(frame.end(), piece.begin(), piece.end());
        }
        EXPECT_EQ(Bytes(frame.begin(), frame.begin() + 14), ethernet_);
        written_.push_back({offload, Bytes(frame.begin() + 14, frame.end())});
    }
    /// Packets stay where they are until the test's end.
    void take(const Bytes& packet) {
        packets_.push_back(packet);
        coalescer_.take(ethernet_, packets_.back());
    }
    /// Takes `first` and `second`; returns whether they became one frame.
    bool are_merged(const Bytes& first, const Bytes& second) {
        written_.clear();
        take(first);
        take(second);
        coalescer_.flush();
        if (written_.size() == 1) {
            return true;
        }
        EXPECT_EQ(written_.size(), 2U);
        EXPECT_EQ(written_[0].packet, first);
        EXPECT_EQ(written_[1].packet, second);
        return false;
    }
    /// What the kernel's segmentation makes of a frame.
    static std::vector<Bytes> cut(const Written& written) {
        if (written.offload.segmentation == Segmentation::kNone) {
            EXPECT_FALSE(written.offload.needs_checksum);
            return {written.packet};
        }
        Segmenter segmenter;
        EXPECT_EQ(segmenter.start({}, written.packet, written.offload, 65535), Segmenter::Start::kDone);
        std::vector<Bytes> packets;
        for (; !segmenter.is_done(); segmenter.advance()) {
            const Segment segment = segmenter.segment();
            Bytes packet(segment.header.begin(), segment.header.end());
            packet.insert(packet.end(), segment.data.begin(), segment.data.end());
            packets.push_back(packet);
        }
        return packets;
    }

    Bytes ethernet_ = octets_of("020000000001 024900000001 0800");
    std::deque<Bytes> packets_;
    std::vector<Written> written_;
    Coalescer coalescer_{*this};
};

TEST_F(IpoibCoalescer, SegmentsBecomeTheFrameThatTheyWere) {
    for (const bool is_ipv6 : {false, true}) {
        Fields fields;
        fields.is_ipv6 = is_ipv6;
        fields.sequence = 0xFFFFFF00;
        fields.identification = 0xFFFE;
        fields.flags = 0x18;
        fields.options = octets_of("0101080a 11223344 55667788");
        const Bytes data = Random(1).octets(1000 * 7 + 300);
        for (const Bytes& packet : packets_of(fields, data, 1000)) {
            take(packet);
        }
        // PSH and the short last one end the frame without a flush.
        ASSERT_EQ(written_.size(), 1U);
        EXPECT_EQ(written_[0].packet, packet_of(fields, data, true));
        Bytes expected(kOffloadOctets);
        Bytes actual(kOffloadOctets);
        write_offload(expected, offload_of(fields, 1000));
        write_offload(actual, written_[0].offload);
        EXPECT_EQ(actual, expected);
        written_.clear();
    }
    EXPECT_EQ(coalescer_.merged(), 2U);
}

TEST_F(IpoibCoalescer, OnePacketStaysAsItIs) {
    const Bytes packet = packet_of({}, Bytes(100));
    take(packet);
    EXPECT_TRUE(written_.empty());
    coalescer_.flush();
    ASSERT_EQ(written_.size(), 1U);
    EXPECT_EQ(written_[0].packet, packet);
    EXPECT_EQ(written_[0].offload.segmentation, Segmentation::kNone);
    coalescer_.flush();
    EXPECT_EQ(written_.size(), 1U);
}

TEST_F(IpoibCoalescer, OthersDoNotWait) {
    Fields udp;
    udp.is_udp = true;
    for (const Bytes& packet : {packet_of(udp, Bytes(100)), octets_of("45"), Bytes(60), Bytes{}}) {
        written_.clear();
        take(packet);
        ASSERT_EQ(written_.size(), 1U);
        EXPECT_EQ(written_[0].packet, packet);
    }
}

TEST_F(IpoibCoalescer, WhatDiffersIsNotMerged) {
    for (const bool is_ipv6 : {false, true}) {
        Fields first;
        first.is_ipv6 = is_ipv6;
        first.options = octets_of("0101080a 11223344 55667788");
        Fields second = first;
        second.sequence += 100;
        second.identification += 1;
        const Bytes data(100);
        EXPECT_TRUE(are_merged(packet_of(first, data), packet_of(second, data)));
        const auto is_merged_with = [&](const auto& change) {
            Fields changed = second;
            change(changed);
            return are_merged(packet_of(first, data), packet_of(changed, data));
        };
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.sequence += 1; }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.sequence -= 100; })) << "a retransmission";
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.acknowledgement += 1; }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.window += 1; }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.options[11] = std::byte{0x89}; }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.options = octets_of("01010101"); }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.traffic_class = 3; })) << "a congestion mark";
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.hops -= 1; }));
        EXPECT_FALSE(is_merged_with([](Fields& f) { f.connection += 1; }));
        EXPECT_EQ(is_merged_with([](Fields& f) { f.identification += 1; }), is_ipv6);
        EXPECT_EQ(is_merged_with([](Fields& f) { f.fragment = 0; }), is_ipv6) << "may be fragmented";
        EXPECT_EQ(is_merged_with([](Fields& f) { f.fragment = 0x2000; }), is_ipv6) << "a fragment";
        // SYN, RST, URG, ECE, CWR; FIN and PSH come with the last segment.
        for (const unsigned flag : {0x02U, 0x04U, 0x20U, 0x40U, 0x80U}) {
            EXPECT_FALSE(is_merged_with([&](Fields& f) { f.flags |= static_cast<std::uint8_t>(flag); }))
                << flag;
        }
        for (const unsigned flag : {0x01U, 0x08U}) {
            EXPECT_TRUE(is_merged_with([&](Fields& f) { f.flags |= static_cast<std::uint8_t>(flag); }))
                << flag;
            EXPECT_EQ(u8_at(written_[0].packet, (is_ipv6 ? 40U : 20U) + 13), 0x10U | flag);
            Fields last = first;
            last.flags |= static_cast<std::uint8_t>(flag);
            EXPECT_FALSE(are_merged(packet_of(last, data), packet_of(second, data))) << flag;
        }
        EXPECT_FALSE(are_merged(packet_of(first, data), packet_of(second, Bytes(101)))) << "a longer one";
        EXPECT_FALSE(are_merged(packet_of(first, data), packet_of(second, {}))) << "an ACK";
        // Whose checksum is wrong is for the kernel to drop, alone.
        for (std::size_t at = 0; at < 2; ++at) {
            Bytes broken[2] = {packet_of(first, data), packet_of(second, data)};
            broken[at].back() ^= std::byte{1};
            EXPECT_FALSE(are_merged(broken[0], broken[1])) << at;
            if (!is_ipv6) {
                broken[at].back() ^= std::byte{1};
                broken[at][10] ^= std::byte{1};
                EXPECT_FALSE(are_merged(broken[0], broken[1])) << at;
            }
        }
    }
}

TEST_F(IpoibCoalescer, OfAnotherNeighbour) {
    Fields fields;
    take(packet_of(fields, Bytes(100)));
    fields.sequence += 100;
    fields.identification += 1;
    const Bytes first = std::exchange(ethernet_, octets_of("020000000001 024900000002 0800"));
    take(packet_of(fields, Bytes(100)));
    EXPECT_TRUE(written_.empty());
    const Bytes second = ethernet_;
    struct : FrameSink {
        void write(const Offload&, std::span<const ConstOctets> pieces) override {
            headers.emplace_back(pieces[0].begin(), pieces[0].end());
        }
        std::vector<Bytes> headers;
    } sink;
    Coalescer other(sink);
    other.take(first, packets_[0]);
    other.take(second, packets_[1]);
    other.flush();
    EXPECT_EQ(sink.headers, (std::vector<Bytes>{first, second}));
}

TEST_F(IpoibCoalescer, Bounds) {
    // Segments of one frame.
    Fields fields;
    for (const Bytes& packet : packets_of(fields, Bytes(Coalescer::kMostSegments + 1), 1)) {
        take(packet);
    }
    coalescer_.flush();
    ASSERT_EQ(written_.size(), 2U);
    EXPECT_EQ(cut(written_[0]).size(), Coalescer::kMostSegments);
    // Octets of one packet.
    written_.clear();
    for (const Bytes& packet : packets_of(fields, Bytes(66000), 1500)) {
        take(packet);
    }
    coalescer_.flush();
    ASSERT_EQ(written_.size(), 2U);
    EXPECT_EQ(written_[0].packet.size(), 40U + 43 * 1500);
    // Connections: the oldest goes.
    written_.clear();
    for (std::uint8_t connection = 0; connection <= Coalescer::kMostConnections; ++connection) {
        fields.connection = connection;
        take(packet_of(fields, Bytes(10)));
    }
    ASSERT_EQ(written_.size(), 1U);
    EXPECT_EQ(written_[0].packet, packets_[packets_.size() - Coalescer::kMostConnections - 1]);
    coalescer_.flush();
    EXPECT_EQ(written_.size(), Coalescer::kMostConnections + 1);
}

/// What tells the connection of a packet from others: protocol, addresses, ports; empty for what is too
/// short.
Bytes connection_of(const Bytes& packet) {
    const bool is_ipv6 = !packet.empty() && u8_at(packet, 0) >> 4U == 6;
    const std::size_t ports = is_ipv6 ? 40 : 20;
    if (packet.size() < ports + 4) {
        return {};
    }
    const auto end = packet.begin() + static_cast<std::ptrdiff_t>(ports + 4);
    Bytes connection(packet.begin() + (is_ipv6 ? 8 : 12), end);
    connection.push_back(packet[is_ipv6 ? 6 : 9]);
    connection.push_back(is_ipv6 ? std::byte{0x60} : packet[0]);
    return connection;
}

// Whatever comes, the kernel's segmentation makes of it the same packets in each connection's order.
TEST_F(IpoibCoalescer, RandomConnections) {
    const std::uint32_t seed = seed_of_test();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
        std::vector<std::vector<Bytes>> streams(1 + random.up_to(10));
        for (std::size_t i = 0; i < streams.size(); ++i) {
            Fields fields;
            fields.connection = static_cast<std::uint8_t>(i);
            fields.is_ipv6 = random.is_one_in(2);
            fields.is_udp = random.is_one_in(10);
            fields.identification = static_cast<std::uint16_t>(random.up_to(0xFFFF));
            fields.sequence = static_cast<std::uint32_t>(random.up_to(0xFFFFFFFF));
            fields.flags = static_cast<std::uint8_t>(random.is_one_in(4) ? random.up_to(255) : 0x18);
            fields.options = random.octets(fields.is_udp ? 0 : random.up_to(3) * 4);
            const std::size_t segment = 1 + random.up_to(200);
            streams[i] = packets_of(fields, random.octets(1 + random.up_to(3000)), segment);
        }
        std::map<Bytes, std::vector<Bytes>> came;
        for (std::size_t left = random.up_to(200); left != 0; --left) {
            std::vector<Bytes>& stream = streams[random.up_to(streams.size() - 1)];
            if (stream.empty()) {
                continue;
            }
            // Now and then out of order, damaged, cut; bursts of one connection else.
            for (std::size_t burst = random.up_to(8); burst != 0 && !stream.empty(); --burst) {
                const std::size_t at = random.is_one_in(20) ? random.up_to(stream.size() - 1) : 0;
                Bytes packet = stream[at];
                stream.erase(stream.begin() + static_cast<std::ptrdiff_t>(at));
                if (random.is_one_in(20)) {
                    packet[random.up_to(packet.size() - 1)] = random.octets(1)[0];
                }
                if (random.is_one_in(40)) {
                    packet.resize(random.up_to(packet.size()));
                }
                came[connection_of(packet)].push_back(packet);
                take(packet);
            }
            if (random.is_one_in(10)) {
                coalescer_.flush();
            }
        }
        coalescer_.flush();
        std::map<Bytes, std::vector<Bytes>> went;
        for (const Written& written : written_) {
            for (const Bytes& packet : cut(written)) {
                went[connection_of(packet)].push_back(packet);
            }
        }
        EXPECT_TRUE(went == came) << "round " << round;
        written_.clear();
        packets_.clear();
    }
    EXPECT_GT(coalescer_.merged(), 100U) << "a test of merging merges";
}

}  // namespace
}  // namespace urnic::ipoib::test
