// FrameParser remembers the front of the last good frame; it has to say of every frame what parse_frame()
// says.
#include "rnic/wire/frame_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

/// Frames of one sender: IPv4 but for one in eight, tagged or not, of several peers, ports and traffic
/// classes.
class FrameSource {
  public:
    explicit FrameSource(test::Random& random) : random_(random) {}

    std::vector<std::byte> next() {
        PathSpec spec;
        spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, some_byte(8)};
        spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 9};
        spec.src_mac = {2, 0, 0, 0, 0, some_byte(8)};
        spec.dst_mac = {2, 0, 0, 0, 0, 9};
        spec.traffic_class = some_byte(8) == 0 ? 3 : 2;
        spec.hop_limit = some_byte(8) == 0 ? 63 : 64;
        spec.udp_src_port = static_cast<std::uint16_t>(0xc000U + random_.below(4));
        spec.vlan_tci = some_byte(8) == 0 ? 5 : 0;
        if (random_.below(8) == 0) {
            spec.src_gid[0] = spec.dst_gid[0] = 0xfd;
        }
        PacketHeader header;
        constexpr std::uint8_t kSome[] = {kWriteOnly, kSendOnly, kAcknowledge, kReadRequest,
                                          kReadResponseOnly};
        header.opcode = kSome[random_.below(std::size(kSome))];
        header.psn = Psn(static_cast<std::uint32_t>(random_.next()));
        header.reth.va = random_.next();
        header.aeth.msn = static_cast<std::uint32_t>(random_.below(1U << 24U));
        const bool carries = (opcode_info(header.opcode).flags & kHasPayload) != 0;
        std::vector<std::byte> payload = random_.bytes(carries ? 1 + random_.below(64) : 0);
        const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())};
        std::vector<std::byte> frame(kMaxFrameBytes);
        const Path path = make_path(spec);
        frame.resize(build_frame(path, header, {&piece, carries ? 1U : 0U}, frame));
        EXPECT_FALSE(frame.empty());
        if (random_.below(4) == 0) {
            set_udp_checksum(path, frame);
        }
        return frame;
    }

  private:
    /// 1 seven times of eight (of `rarely`), else 0.
    std::uint8_t some_byte(std::size_t rarely) { return random_.below(rarely) != 0 ? 1 : 0; }

    test::Random& random_;
};

/// Puts IPv4's checksum right in an untagged frame that is long enough for it.
void repair_checksum(std::vector<std::byte>& frame) {
    if (frame.size() >= kEthernetBytes + kIpv4Bytes) {
        std::byte* const ip = frame.data() + kEthernetBytes;
        store_be16(ip + kIpv4Checksum, 0);
        store_be16(ip + kIpv4Checksum, checksum_fold(checksum_sum({ip, kIpv4Bytes})));
    }
}

void expect_same_views(const PacketView& got, const PacketView& wanted) {
    EXPECT_EQ(got.header.opcode, wanted.header.opcode);
    EXPECT_EQ(got.header.psn, wanted.header.psn);
    EXPECT_EQ(got.header.reth.va, wanted.header.reth.va);
    EXPECT_EQ(got.header.aeth.msn, wanted.header.aeth.msn);
    EXPECT_EQ(got.header.dest_qp, wanted.header.dest_qp);
    EXPECT_EQ(got.header.pad_count, wanted.header.pad_count);
    EXPECT_EQ(got.payload.data(), wanted.payload.data());
    EXPECT_EQ(got.payload.size(), wanted.payload.size());
    EXPECT_EQ(got.l3.data(), wanted.l3.data());
    EXPECT_EQ(got.l3.size(), wanted.l3.size());
    EXPECT_EQ(got.src_gid, wanted.src_gid);
    EXPECT_EQ(got.dst_gid, wanted.dst_gid);
    EXPECT_EQ(got.src_mac, wanted.src_mac);
    EXPECT_EQ(got.dst_mac, wanted.dst_mac);
    EXPECT_EQ(got.is_ipv4, wanted.is_ipv4);
    EXPECT_EQ(got.traffic_class, wanted.traffic_class);
    EXPECT_EQ(got.hop_limit, wanted.hop_limit);
    EXPECT_EQ(got.udp_src_port, wanted.udp_src_port);
    EXPECT_EQ(got.vlan_tci, wanted.vlan_tci);
}

void expect_same_verdict(FrameParser& parser, std::span<const std::byte> frame) {
    PacketView view;
    const ParseError error = parse_frame(frame, view);
    ASSERT_EQ(parser.parse(frame), error);
    if (error == ParseError::kNone) {
        expect_same_views(parser.view(), view);
    }
}

TEST(FrameParser, SaysOfEveryFrameWhatParseFrameSays) {
    test::Random random;
    FrameSource source(random);
    FrameParser parser;
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE(testing::Message() << "frame " << i << ' ' << random);
        std::vector<std::byte> frame = source.next();
        // One in two is not as it was built: a bit flipped in its headers, with a right checksum or a wrong
        // one, or cut.
        const std::size_t kind = random.below(6);
        if (kind < 2) {
            frame[random.below(std::min<std::size_t>(frame.size(), 54))] ^= std::byte{1} << random.below(8);
            if (kind == 0) {
                repair_checksum(frame);
            }
        } else if (kind == 2) {
            frame.resize(random.below(frame.size()));
        }
        // On the heap with its own length, so that AddressSanitizer sees a read past the end.
        const std::vector<std::byte> exact(frame.begin(), frame.end());
        expect_same_verdict(parser, exact);
    }
}

// Bit for bit behind a frame that was good, with a right checksum: what the parser does not look at again is
// what it has compared.
TEST(FrameParser, EveryBitOfTheHeadersCounts) {
    test::Random random;
    FrameSource source(random);
    std::vector<std::byte> frame;
    PacketView view;
    do {
        frame = source.next();
    } while (parse_frame(frame, view) != ParseError::kNone || !view.is_ipv4 || view.vlan_tci != 0);
    for (std::size_t bit = 0; bit < std::size_t{8} * 54; ++bit) {
        SCOPED_TRACE(testing::Message() << "bit " << bit << ' ' << random);
        for (const bool is_repaired : {false, true}) {
            FrameParser parser;
            expect_same_verdict(parser, frame);
            std::vector<std::byte> flipped = frame;
            flipped[bit / 8] ^= std::byte{1} << bit % 8;
            if (is_repaired) {
                repair_checksum(flipped);
            }
            expect_same_verdict(parser, flipped);
            expect_same_verdict(parser, frame);
        }
    }
}

// What is remembered lies elsewhere in them. Addresses that end so look like the UDP port that is compared.
TEST(FrameParser, RemembersNeitherIpv6NorATag) {
    PathSpec tagged;
    tagged.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    tagged.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0x12, 0xb7};
    tagged.vlan_tci = 5;
    PathSpec ipv6;
    ipv6.src_gid = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0xb7};
    ipv6.dst_gid = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    for (const PathSpec& spec : {tagged, ipv6}) {
        FrameParser parser;
        PacketHeader header;
        header.opcode = kAcknowledge;
        std::vector<std::byte> frame(kMaxFrameBytes);
        frame.resize(build_frame(make_path(spec), header, {}, frame));
        for (int i = 0; i < 2; ++i) {
            expect_same_verdict(parser, frame);
        }
    }
}

}  // namespace
}  // namespace urnic::wire
