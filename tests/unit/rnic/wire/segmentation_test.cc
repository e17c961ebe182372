// Frames put together and cut apart: what comes out is what went in, bit for bit, or nothing is put together.
#include "rnic/wire/segmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/frame.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

using Frame = std::vector<std::byte>;
using VnetHeader = std::array<std::byte, kVnetHeaderBytes>;

struct Flow {
    bool is_ipv4 = true;
    std::uint16_t vlan_tci = 0;
    std::uint16_t source_port = 0xc123;
};

/// WRITE Middle to a QP, whose PSN is the identification.
Frame frame_of(const Flow& flow, std::uint32_t psn, std::vector<std::byte> payload, std::uint32_t qp = 5) {
    PathSpec spec;
    spec.src_mac = {2, 0, 0, 0, 0, 1};
    spec.dst_mac = {2, 0, 0, 0, 0, 2};
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    if (!flow.is_ipv4) {
        spec.src_gid[0] = spec.dst_gid[0] = 0xfd;
    }
    spec.vlan_tci = flow.vlan_tci;
    spec.udp_src_port = flow.source_port;
    spec.hop_limit = 64;
    PacketHeader header;
    header.opcode = kWriteMiddle;
    header.dest_qp = qp;
    header.psn = Psn(psn);
    Frame frame(kMaxFrameBytes);
    const MemoryPiece piece{.direct = payload.data(),
                            .length_bytes = static_cast<std::uint32_t>(payload.size())};
    frame.resize(build_frame(make_path(spec), header, {&piece, 1}, frame));
    EXPECT_FALSE(frame.empty());
    return frame;
}

struct Whole {
    VnetHeader vnet_header{};
    Frame frame;
    std::uint32_t count = 0;
};

/// As many of the frames as follow the first.
Whole put_together(const std::vector<Frame>& frames) {
    SegmentRun run;
    Whole whole;
    if (!run.begin(frames.front())) {
        return whole;
    }
    std::size_t end = 1;
    while (end < frames.size() && run.extend(frames[end])) {
        ++end;
    }
    whole.count = run.count();
    EXPECT_EQ(whole.count, end);
    whole.frame.resize(run.front_bytes());
    run.write_front(whole.frame.data());
    for (std::size_t i = 0; i < end; ++i) {
        whole.frame.insert(whole.frame.end(),
                           frames[i].begin() + static_cast<std::ptrdiff_t>(run.front_bytes()),
                           frames[i].end());
    }
    run.write_vnet_header(whole.vnet_header.data());
    return whole;
}

std::vector<Frame> cut_apart(const Whole& whole) {
    // An exact copy of what may be looked at, so that AddressSanitizer sees a read past the end.
    const Frame beginning(
        whole.frame.begin(),
        whole.frame.begin() + static_cast<std::ptrdiff_t>(std::min(whole.frame.size(), UdpFront::kMaxBytes)));
    const auto cut =
        SegmentedFrame::parse(beginning, whole.frame.size(), segment_bytes_of(whole.vnet_header));
    std::vector<Frame> frames;
    for (std::uint32_t i = 0; cut && i < cut->count(); ++i) {
        Frame frame(cut->front_bytes());
        cut->write_front(i, frame.data());
        const auto payload =
            whole.frame.begin() + static_cast<std::ptrdiff_t>(cut->front_bytes() + cut->payload_offset(i));
        frame.insert(frame.end(), payload, payload + static_cast<std::ptrdiff_t>(cut->payload_bytes(i)));
        frames.push_back(std::move(frame));
    }
    return frames;
}

std::vector<Frame> run_of(const Flow& flow, std::uint32_t first_psn, std::size_t count, std::size_t bytes,
                          std::size_t last_bytes, test::Random& random) {
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < count; ++i) {
        frames.push_back(frame_of(flow, first_psn + static_cast<std::uint32_t>(i),
                                  random.bytes(i + 1 == count ? last_bytes : bytes)));
    }
    return frames;
}

TEST(Segmentation, WhatIsCutApartIsWhatWasPutTogether) {
    test::Random random;
    SCOPED_TRACE(testing::Message() << random);
    for (const Flow& flow : {Flow{}, Flow{false}, Flow{true, 7}, Flow{false, 0x6007}}) {
        for (int i = 0; i < 200; ++i) {
            const std::size_t bytes = 4 + 4 * random.below(1023);
            const std::size_t fits = std::min<std::size_t>(kMaxSegments, 64000 / (bytes + 90));
            const std::size_t count = 1 + random.below(fits);
            // Around the end of the identifications, too.
            const auto psn = static_cast<std::uint32_t>(0xffff - random.below(100));
            const std::vector<Frame> frames =
                run_of(flow, psn, count, bytes, 4 + 4 * random.below(bytes / 4), random);
            const Whole whole = put_together(frames);
            ASSERT_EQ(whole.count, count);
            ASSERT_EQ(cut_apart(whole), frames) << count << " of " << bytes;
        }
    }
}

// Linux: virtio_net_hdr_to_skb() and the sum from which the device goes on.
TEST(Segmentation, TheKernelIsToldWhereToCut) {
    test::Random random;
    for (const bool is_ipv4 : {true, false}) {
        const std::vector<Frame> frames = run_of({is_ipv4}, 77, 3, 1000, 200, random);
        const Whole whole = put_together(frames);
        const std::size_t udp = is_ipv4 ? 34 : 54;
        EXPECT_EQ(whole.vnet_header[0], std::byte{1});  // VIRTIO_NET_HDR_F_NEEDS_CSUM
        EXPECT_EQ(whole.vnet_header[1], std::byte{5});  // VIRTIO_NET_HDR_GSO_UDP_L4
        EXPECT_EQ(load_le16(&whole.vnet_header[2]), udp + 8);
        EXPECT_EQ(load_le16(&whole.vnet_header[4]), frames[0].size() - udp - 8);
        EXPECT_EQ(load_le16(&whole.vnet_header[6]), udp);
        EXPECT_EQ(load_le16(&whole.vnet_header[8]), 6U);
        EXPECT_EQ(load_be16(&whole.frame[udp + 4]), whole.frame.size() - udp);
        // What a device makes of it is right.
        Frame sent = whole.frame;
        const std::span<const std::byte> datagram = std::span<const std::byte>(sent).subspan(udp);
        store_be16(&sent[udp + 6], checksum_fold(checksum_sum(datagram)));
        EXPECT_EQ(udp_checksum(std::span<const std::byte>(sent).subspan(is_ipv4 ? 26 : 22, is_ipv4 ? 8 : 32),
                               datagram),
                  0U);
    }
}

TEST(Segmentation, NoMoreThanTheKernelTakes) {
    test::Random random;
    EXPECT_EQ(put_together(run_of({}, 1, 70, 8, 8, random)).count, 64U);
    // 15 frames of 4154 bytes, the headers once: 61,722 bytes; 16 would be 65,834.
    EXPECT_EQ(put_together(run_of({}, 1, 16, 4096, 4096, random)).count, 15U);
    // Behind 15 with 4096 bytes of UDP payload there is room for 4053 more, and frames are whole words.
    std::vector<Frame> frames = run_of({}, 1, 16, 4080, 4080, random);
    ASSERT_EQ(frames[0].size(), 42 + 4096U);
    frames.back() = frame_of({}, 16, random.bytes(4036));
    const Whole whole = put_together(frames);
    EXPECT_EQ(whole.count, 16U);
    EXPECT_EQ(whole.frame.size(), 65534U);
    EXPECT_EQ(cut_apart(whole), frames);
    frames.back() = frame_of({}, 16, random.bytes(4040));
    EXPECT_EQ(put_together(frames).count, 15U);
}

TEST(Segmentation, WhatIsNoSegmentEndsARun) {
    test::Random random;
    const std::vector<std::byte> payload = random.bytes(256);
    const Frame first = frame_of({}, 100, payload);
    const auto follows = [&first](const Frame& second) { return put_together({first, second}).count == 2; };
    EXPECT_TRUE(follows(frame_of({}, 101, payload)));
    EXPECT_FALSE(follows(frame_of({}, 100, payload))) << "another identification";
    EXPECT_FALSE(follows(frame_of({}, 102, payload)));
    EXPECT_FALSE(follows(frame_of({}, 101, payload, 6))) << "another QP";
    EXPECT_FALSE(follows(frame_of({true, 0, 0xc124}, 101, payload))) << "another source port";
    EXPECT_FALSE(follows(frame_of({true, 7}, 101, payload))) << "a VLAN";
    EXPECT_FALSE(follows(frame_of({false}, 101, payload))) << "IPv6";
    EXPECT_FALSE(follows(frame_of({}, 101, random.bytes(260)))) << "longer than the first";
    const Frame shorter = frame_of({}, 101, random.bytes(252));
    EXPECT_TRUE(follows(shorter));
    EXPECT_EQ(put_together({first, shorter, frame_of({}, 102, random.bytes(252))}).count, 2U);
    // Any bit of the headers, up to BTH.DestQP, that is another one.
    for (std::size_t bit = 0; bit < 42 * 8; ++bit) {
        Frame second = frame_of({}, 101, payload);
        second[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        EXPECT_FALSE(follows(second)) << "bit " << bit;
    }
}

TEST(Segmentation, WhatIsNotRoceOrHasAChecksumLeavesAlone) {
    test::Random random;
    for (const bool is_ipv4 : {true, false}) {
        const Frame good = frame_of({is_ipv4}, 9, random.bytes(64));
        SegmentRun run;
        ASSERT_TRUE(run.begin(good));
        // All that says what the frame is: lengths, protocols, checksums, the port.
        const std::size_t end = is_ipv4 ? 42 : 62;
        for (const std::size_t at :
             is_ipv4 ? std::vector<std::size_t>{12, 14, 16, 17, 20, 21, 23, 24, 25, 36, 37, 38, 39, 40, 41}
                     : std::vector<std::size_t>{12, 18, 19, 20, 56, 57, 58, 59, 60, 61}) {
            Frame bad = good;
            bad[at] ^= std::byte{0x21};
            EXPECT_FALSE(run.begin(bad)) << "byte " << at;
            EXPECT_FALSE(run.extend(bad));
        }
        for (std::size_t length = 0; length < good.size(); ++length) {
            const Frame cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
            EXPECT_FALSE(run.begin(cut)) << length << " of " << end;
        }
        EXPECT_TRUE(run.begin(good));
    }
}

TEST(Segmentation, LiesAreNotCutApart) {
    test::Random random;
    for (const bool is_ipv4 : {true, false}) {
        const Whole good = put_together(run_of({is_ipv4}, 9, 5, 1024, 100, random));
        ASSERT_EQ(cut_apart(good).size(), 5U);
        const std::vector<std::size_t> what =
            is_ipv4 ? std::vector<std::size_t>{12, 14, 16, 17, 20, 21, 23, 24, 36, 37, 38, 39}
                    : std::vector<std::size_t>{12, 18, 19, 20, 56, 57, 58, 59};
        for (const std::size_t at : what) {
            Whole bad = good;
            bad.frame[at] ^= std::byte{0x21};
            EXPECT_TRUE(cut_apart(bad).empty()) << "byte " << at;
        }
        Whole longer = good;
        longer.frame.push_back(std::byte{0});
        EXPECT_TRUE(cut_apart(longer).empty());
        for (std::size_t length = 0; length < good.frame.size(); length += length < 80 ? 1 : 97) {
            Whole cut = good;
            cut.frame.resize(length);
            EXPECT_TRUE(cut_apart(cut).empty()) << length;
        }
        Whole none = good;
        store_le16(&none.vnet_header[4], 0);
        EXPECT_TRUE(cut_apart(none).empty());
        // 128 segments at most, whatever they are; one that is all is one.
        Whole many = good;
        const std::size_t payload = good.frame.size() - (is_ipv4 ? 42 : 62);
        store_le16(&many.vnet_header[4], static_cast<std::uint16_t>(payload / 129));
        EXPECT_TRUE(cut_apart(many).empty());
        store_le16(&many.vnet_header[4], static_cast<std::uint16_t>(payload / 128 + 1));
        EXPECT_LE(cut_apart(many).size(), 128U);
        EXPECT_GT(cut_apart(many).size(), 100U);
        store_le16(&many.vnet_header[4], 0xffff);
        EXPECT_EQ(cut_apart(many).size(), 1U);
    }
}

TEST(Segmentation, OtherOffloadsAreNotSegments) {
    VnetHeader header{};
    store_le16(&header[4], 1000);
    for (const unsigned type : {0U, 1U, 3U, 4U, 0x81U}) {  // none, TCP over IPv4, UFO, TCP over IPv6
        header[1] = static_cast<std::byte>(type);
        EXPECT_EQ(segment_bytes_of(header), 0U) << type;
    }
    header[1] = std::byte{0x85};  // with the flag that is TCP's
    EXPECT_EQ(segment_bytes_of(header), 1000U);
}

// A kernel that cuts for an interface of its own host leaves the pseudo header's sum in the field.
TEST(Segmentation, AChecksumThatADeviceWasToFinishIsNone) {
    test::Random random;
    for (const bool is_ipv4 : {true, false}) {
        Frame frame = frame_of({is_ipv4}, 9, random.bytes(512));
        const std::size_t udp = is_ipv4 ? 34 : 54;
        const std::span<const std::byte> addresses =
            std::span<const std::byte>(frame).subspan(is_ipv4 ? 26 : 22, is_ipv4 ? 8 : 32);
        const auto sum = static_cast<std::uint16_t>(
            ~checksum_fold(checksum_sum(addresses, kProtocolUdp + frame.size() - udp)));
        store_be16(&frame[udp + 6], sum);
        PacketView view;
        EXPECT_EQ(parse_frame(frame, view), ParseError::kNone);
        EXPECT_TRUE(icrc_ok(view));
        store_be16(&frame[udp + 6], static_cast<std::uint16_t>(sum + 1));
        EXPECT_EQ(parse_frame(frame, view), ParseError::kMalformed);
    }
}

}  // namespace
}  // namespace urnic::wire
