// Packets of native InfiniBand: the published ones, every opcode there and back, every bit damaged, lies.
#include "rnic/wire/ib_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/bytes.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/dissect/ib/crc.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/hex.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

using IbBytes = std::vector<std::byte>;

PathSpec ib_spec(bool has_grh) {
    PathSpec spec;
    spec.is_infiniband = true;
    spec.has_grh = has_grh;
    spec.slid = 0x17d2;
    spec.dlid = 0x375c;
    spec.sl = 1;
    spec.src_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1};
    spec.dst_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2};
    spec.traffic_class = 0x6a;
    spec.flow_label = 0xabcde;
    spec.hop_limit = 9;
    return spec;
}

IbBytes build_ib(const Path& path, const PacketHeader& header, IbBytes payload) {
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())};
    IbBytes frame(kMaxFrameBytes);
    frame.resize(build_frame(path, header, {&piece, payload.empty() ? 0U : 1U}, frame));
    return frame;
}

/// Makes both CRCs anew, after something was changed.
void mend_crcs(IbBytes& frame, IcrcScope scope) {
    const std::size_t covered = frame.size() - kVcrcBytes;
    const std::size_t from = 0;
    const std::size_t icrc = covered - kIcrcBytes;
    store_le32(&frame[icrc], invariant_crc(scope, std::span(frame).subspan(from, icrc)));
    store_le16(&frame[covered], variant_crc(std::span(frame).first(covered)));
}

// The local packet that the specification prints, its VCRC after it.
const char* const kPublishedPacket =
    "7012375c000e17d20a2024870087b1b3000dec2a01710a1c015d400238f27a050000000e"
    "bb884d85fd5cfba4728bc0690ed400009625b75a45fa";

TEST(IbFrame, APublishedPacketIsRead) {
    const IbBytes wire = test::from_hex(kPublishedPacket);
    PacketView view;
    ASSERT_EQ(parse_ib_frame(wire, view), ParseError::kNone);
    EXPECT_EQ(view.dlid, 0x375c);
    EXPECT_EQ(view.slid, 0x17d2);
    EXPECT_EQ(view.sl, 1);
    EXPECT_FALSE(view.has_grh);
    EXPECT_EQ(view.src_gid, lid_gid(0x17d2));
    EXPECT_EQ(view.dst_gid, lid_gid(0x375c));
    EXPECT_EQ(view.header.opcode, 0x0a);
    EXPECT_EQ(view.header.pkey, 0x2487);
    EXPECT_EQ(view.header.dest_qp, 0x87b1b3U);
    EXPECT_EQ(view.header.psn.value(), 0x0dec2aU);
    EXPECT_EQ(view.header.reth.dma_length, 14U);
    EXPECT_EQ(view.payload.size(), 14U);
    EXPECT_EQ(peek_ib_dest_qp(wire), 0x87b1b3U);
    EXPECT_EQ(peek_dlid(wire), 0x375c);
}

TEST(IbFrame, APublishedPacketIsBuilt) {
    const IbBytes wire = test::from_hex(kPublishedPacket);
    PacketView view;
    ASSERT_EQ(parse_ib_frame(wire, view), ParseError::kNone);
    Path path = make_path(ib_spec(false));
    path.bytes[kLrhVl] = 0x70;  // a switch has put it on VL 7
    EXPECT_EQ(build_ib(path, view.header, {view.payload.begin(), view.payload.end()}), wire);
}

// The published packet is on VL 7, with the VCRC that this makes.
TEST(IbFrame, ASwitchPutsAPacketOnAnotherVl) {
    IbBytes wire = test::from_hex(kPublishedPacket);
    set_vl(wire, 3);
    LinkPeek seen = peek_link(wire);
    EXPECT_EQ(seen.vl, 3);
    EXPECT_EQ(seen.sl, 1);
    EXPECT_EQ(seen.dlid, 0x375c);
    EXPECT_TRUE(seen.has_pkey);
    EXPECT_EQ(seen.pkey, 0x2487);
    PacketView view;
    EXPECT_EQ(parse_ib_frame(wire, view), ParseError::kNone);
    set_vl(wire, 7);
    EXPECT_EQ(wire, test::from_hex(kPublishedPacket));
    // What has no transport has no P_Key, however short it is.
    wire.resize(kLrhBytes);
    seen = peek_link(wire);
    EXPECT_FALSE(seen.has_pkey);
    EXPECT_EQ(seen.vl, 7);
}

TEST(IbFrame, EveryOpcodeThereAndBack) {
    test::Random random;
    PacketView view;  // one for all: nothing of an earlier packet may stay
    for (const bool has_grh : {true, false}) {
        const PathSpec spec = ib_spec(has_grh);
        const Path path = make_path(spec);
        for (unsigned opcode = 0; opcode < 256; ++opcode) {
            const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(opcode));
            if ((info.flags & kValid) == 0) {
                continue;
            }
            for (const std::size_t length : {0U, 1U, 2U, 3U, 4U, 255U, 4096U}) {
                if ((info.flags & kHasPayload) == 0 && length != 0) {
                    break;
                }
                SCOPED_TRACE(std::string(info.name) + ", " + std::to_string(length) + " bytes");
                PacketHeader sent;
                sent.opcode = static_cast<std::uint8_t>(opcode);
                sent.fecn = random.below(2) != 0;
                sent.pkey = static_cast<std::uint16_t>(random.next());
                sent.dest_qp = static_cast<std::uint32_t>(random.next()) & 0xffffffU;
                sent.psn = Psn(static_cast<std::uint32_t>(random.next()));
                const IbBytes payload = random.bytes(length);
                const IbBytes frame = build_ib(path, sent, payload);
                const std::size_t front = has_grh ? 48 : 8;
                ASSERT_EQ(frame.size(), front + info.header_bytes + (length + 3) / 4 * 4 + 4 + 2);
                const std::size_t icrc = frame.size() - 6;
                EXPECT_EQ(load_le32(&frame[icrc]),
                          invariant_crc(has_grh ? IcrcScope::kLrhAndGrh : IcrcScope::kLrh,
                                        std::span(frame).first(icrc)));
                ASSERT_EQ(parse_ib_frame(frame, view), ParseError::kNone);
                EXPECT_EQ(view.header.opcode, sent.opcode);
                EXPECT_EQ(view.header.fecn, sent.fecn);
                EXPECT_EQ(view.header.pkey, sent.pkey);
                EXPECT_EQ(view.header.dest_qp, sent.dest_qp);
                EXPECT_EQ(view.header.psn, sent.psn);
                EXPECT_EQ(IbBytes(view.payload.begin(), view.payload.end()), payload);
                EXPECT_EQ(view.has_grh, has_grh);
                EXPECT_EQ(view.src_gid, has_grh ? spec.src_gid : lid_gid(spec.slid));
                EXPECT_EQ(view.dst_gid, has_grh ? spec.dst_gid : lid_gid(spec.dlid));
                EXPECT_EQ(view.slid, spec.slid);
                EXPECT_EQ(view.dlid, spec.dlid);
                EXPECT_EQ(view.sl, spec.sl);
            }
        }
    }
}

TEST(IbFrame, PiecesOfAnyLength) {
    IbBytes bytes = test::Random().bytes(100);
    PacketHeader header;
    header.opcode = kSendOnly;
    const std::vector<MemoryPiece> pieces{{bytes.data(), nullptr, 0, 1},
                                          {bytes.data() + 1, nullptr, 0, 0},
                                          {bytes.data() + 1, nullptr, 0, 66},
                                          {bytes.data() + 67, nullptr, 0, 33}};
    IbBytes frame(kMaxFrameBytes);
    const std::size_t length = build_frame(make_path(ib_spec(true)), header, pieces, frame);
    PacketView view;
    ASSERT_EQ(parse_ib_frame(std::span(frame).first(length), view), ParseError::kNone);
    EXPECT_EQ(IbBytes(view.payload.begin(), view.payload.end()), bytes);
    IbBytes small(length - 1);
    EXPECT_EQ(build_frame(make_path(ib_spec(true)), header, pieces, small), 0U) << "no room for the VCRC";
}

TEST(IbFrame, EveryBitOfDamageIsSeen) {
    for (const bool has_grh : {true, false}) {
        PacketHeader header;
        header.opcode = kSendOnly;
        const IbBytes good = build_ib(make_path(ib_spec(has_grh)), header, test::Random().bytes(37));
        PacketView view;
        for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
            IbBytes bad = good;
            bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
            const ParseError error = parse_ib_frame(bad, view);
            EXPECT_NE(error, ParseError::kNone) << bit;
        }
        for (std::size_t length = 0; length < good.size(); ++length) {
            EXPECT_NE(parse_ib_frame(std::span(good).first(length), view), ParseError::kNone) << length;
        }
    }
}

TEST(IbFrame, WhatChangesOnTheWayIsNoDamage) {
    PacketHeader header;
    header.opcode = kSendOnly;
    IbBytes local = build_ib(make_path(ib_spec(false)), header, IbBytes(8));
    PacketView view;
    const auto with_vcrc = [](IbBytes frame) {
        store_le16(&frame[frame.size() - 2], variant_crc(std::span(frame).first(frame.size() - 2)));
        return frame;
    };
    local[kLrhVl] = std::byte{0x50};
    EXPECT_EQ(parse_ib_frame(local, view), ParseError::kBadVcrc) << "the switch makes the VCRC anew";
    EXPECT_EQ(parse_ib_frame(with_vcrc(local), view), ParseError::kNone);
    local[kLrhSlid + 1] ^= std::byte{1};
    EXPECT_EQ(parse_ib_frame(with_vcrc(local), view), ParseError::kBadIcrc);
    IbBytes global = build_ib(make_path(ib_spec(true)), header, IbBytes(8));
    global[kLrhSlid + 1] ^= std::byte{1};
    global[kLrhDlid] ^= std::byte{1};
    global[kLrhBytes + kIpv6HopLimit] = std::byte{3};
    EXPECT_EQ(parse_ib_frame(with_vcrc(global), view), ParseError::kNone) << "a router has sent it on";
    global[kLrhBytes + kIpv6Source] ^= std::byte{1};
    EXPECT_EQ(parse_ib_frame(with_vcrc(global), view), ParseError::kBadIcrc);
}

TEST(IbFrame, LiesWithGoodCrcs) {
    PacketHeader header;
    header.opcode = kSendOnly;
    const auto outcome = [&](bool has_grh, auto change) {
        IbBytes frame = build_ib(make_path(ib_spec(has_grh)), header, IbBytes(8));
        change(frame);
        mend_crcs(frame, has_grh ? IcrcScope::kLrhAndGrh : IcrcScope::kLrh);
        PacketView view;
        return parse_ib_frame(frame, view);
    };
    EXPECT_EQ(outcome(false, [](IbBytes&) {}), ParseError::kNone);
    EXPECT_EQ(outcome(true, [](IbBytes&) {}), ParseError::kNone);
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f[kLrhVl] |= std::byte{1}; }), ParseError::kMalformed)
        << "LVer";
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f[kLrhLength + 1] ^= std::byte{1}; }), ParseError::kMalformed);
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f.insert(f.begin() + 20, 3, std::byte{}); }),
              ParseError::kMalformed)
        << "no whole words";
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f[kLrhSlLnh] &= std::byte{0xfc}; }), ParseError::kNotRoce)
        << "raw";
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f[kLrhBytes + 1] |= std::byte{0x01}; }), ParseError::kMalformed)
        << "TVer";
    EXPECT_EQ(outcome(true, [](IbBytes& f) { f[kLrhBytes] = std::byte{0x40}; }), ParseError::kMalformed)
        << "IPVer";
    EXPECT_EQ(outcome(true, [](IbBytes& f) { f[kLrhBytes + kIpv6NextHeader] = std::byte{17}; }),
              ParseError::kMalformed);
    EXPECT_EQ(outcome(true, [](IbBytes& f) { f[kLrhBytes + kIpv6PayloadLength + 1] ^= std::byte{4}; }),
              ParseError::kMalformed);
    header.opcode = kAcknowledge;
    EXPECT_EQ(outcome(false, [](IbBytes& f) { f[kLrhBytes + 1] |= std::byte{0x10}; }), ParseError::kMalformed)
        << "a pad without payload";
}

TEST(IbFrame, ShortOnesHaveNoDestination) {
    const IbBytes wire = test::from_hex(kPublishedPacket);
    for (std::size_t length = 0; length < 26; ++length) {
        EXPECT_EQ(peek_ib_dest_qp(std::span(wire).first(length)), ~0U) << length;
    }
    IbBytes raw = wire;
    raw[kLrhSlLnh] = std::byte{0x11};
    EXPECT_EQ(peek_ib_dest_qp(raw), ~0U);
}

}  // namespace
}  // namespace urnic::wire
