// Records of a capture ring that make no sense, and packets of QPs elsewhere.
#include "observe/trace/ring_records.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

namespace urnic::trace {
namespace {

/// Traces one record, and says whether it made sense.
struct Traced {
    explicit Traced(const abi::CaptureRecord& header, std::span<const std::byte> bytes = {}) {
        std::ostringstream out;
        JsonLines lines(out, "host");
        PacketTrace events(lines, {});
        makes_sense = add_record(events, {"urnic0", wire::LinkLayer::kInfiniBand}, {header, bytes}, 1'000);
        text = out.str();
    }
    bool makes_sense = false;
    std::string text;
};

TEST(RingRecords, WhatMakesNoSenseIsLeftOut) {
    abi::CaptureRecord record{};
    record.kind = static_cast<abi::CaptureKind>(99);
    EXPECT_FALSE(Traced(record).makes_sense);
    record.kind = abi::CaptureKind::kPacket;
    record.fate = static_cast<abi::PacketFate>(std::size(abi::kPacketFates));
    EXPECT_FALSE(Traced(record).makes_sense);
    record.fate = abi::PacketFate::kDropped;
    record.drop = static_cast<std::uint8_t>(std::size(abi::kPacketDrops));
    EXPECT_FALSE(Traced(record).makes_sense);
    const std::array<std::byte, sizeof(abi::CapturedWqe) - 1> cut{};
    record.kind = abi::CaptureKind::kWqe;
    EXPECT_FALSE(Traced(record, cut).makes_sense);
    record.kind = abi::CaptureKind::kCompletion;
    EXPECT_FALSE(Traced(record, cut).makes_sense);
}

TEST(RingRecords, APacketOfNoQpHereIsSeenToPass) {
    // LRH (lane 0, local, from LID 2 to LID 1), BTH (RC ACK to QP 0x11, PSN 5), AETH, ICRC, VCRC.
    constexpr std::array<std::uint8_t, 30> kFrame = {0x00, 0x02, 0x00, 0x01, 0x00, 0x07, 0x00, 0x02,
                                                     0x11, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11,
                                                     0x00, 0x00, 0x00, 0x05, 0x1f, 0x00, 0x00, 0x01};
    abi::CaptureRecord record{};
    record.kind = abi::CaptureKind::kPacket;
    record.qpn = abi::kNoQp;
    record.wire_bytes = kFrame.size();
    const Traced traced(record, std::as_bytes(std::span(kFrame)));
    EXPECT_TRUE(traced.makes_sense);
    EXPECT_NE(traced.text.find("packet_observed"), std::string::npos) << traced.text;
    EXPECT_NE(traced.text.find("LID 2 > LID 1"), std::string::npos) << traced.text;
    record.qpn = 0x11;
    EXPECT_EQ(Traced(record, std::as_bytes(std::span(kFrame))).text.find("packet_observed"),
              std::string::npos);
}

}  // namespace
}  // namespace urnic::trace
