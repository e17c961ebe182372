// Records of a capture ring that make no sense, and packets of QPs elsewhere.
#include "observe/trace/ring_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/support/pcap.h"
#include "tests/support/random_bytes.h"

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
    for (const abi::CaptureKind kind :
         {abi::CaptureKind::kRate, abi::CaptureKind::kTimer, abi::CaptureKind::kPause}) {
        record.kind = kind;
        EXPECT_FALSE(Traced(record, std::span(cut).first(5)).makes_sense);
    }
}

template <class Content>
std::string traced(abi::CaptureKind kind, const Content& content, bool makes_sense = true) {
    abi::CaptureRecord record{};
    record.kind = kind;
    record.qpn = 0x11;
    const Traced made(record, std::as_bytes(std::span(&content, 1)));
    EXPECT_EQ(made.makes_sense, makes_sense);
    return made.text;
}

TEST(RingRecords, RatesAndTimers) {
    abi::CapturedRate rate{};
    rate.bits_per_s = 500'000'000;
    rate.old_bits_per_s = 1'000'000'000;
    rate.target_bits_per_s = 900'000'000;
    rate.alpha_ppm = 250'000;
    rate.cause = abi::RateCause::kByteCounter;
    EXPECT_NE(
        traced(abi::CaptureKind::kRate, rate)
            .find(R"("name":"rdma:rate_changed","group_id":"urnic0/0x11","data":{"cause":"byte_counter",)"
                  R"("bits_per_s":500000000,"old_bits_per_s":1000000000,"target_bits_per_s":900000000,)"
                  R"("alpha":0.25}})"),
        std::string::npos);
    rate.cause = static_cast<abi::RateCause>(std::size(abi::kRateCauses));
    (void)traced(abi::CaptureKind::kRate, rate, false);
    abi::CapturedTimer timer{};
    timer.timer = 1;
    timer.retries = 2;
    timer.retry_limit = 7;
    EXPECT_NE(traced(abi::CaptureKind::kTimer, timer)
                  .find(R"("data":{"timer":"rnr","retries":2,"retry_limit":7}})"),
              std::string::npos);
    timer.timer = std::size(abi::kTimerNames);
    (void)traced(abi::CaptureKind::kTimer, timer, false);
}

TEST(PacketTrace, PausesAreSaidOnce) {
    std::ostringstream out;
    JsonLines lines(out, "host");
    PacketTrace events(lines, {});
    const auto pause = [&](std::uint8_t paused, std::uint8_t resumed, bool is_sent) {
        abi::CapturedPause one{};
        one.paused = paused;
        one.resumed = resumed;
        one.is_sent = is_sent ? 1 : 0;
        const std::uint64_t before = events.events();
        events.add_pause("urnic0", 1'000, one);
        return events.events() - before;
    };
    EXPECT_EQ(pause(0b1001, 0, true), 2U);
    EXPECT_EQ(pause(0b1001, 0, true), 0U) << "it is sent again while it lasts";
    EXPECT_EQ(pause(0b1000, 0, false), 1U) << "the other direction";
    EXPECT_EQ(pause(0b0100, 0b0001, true), 2U);
    EXPECT_EQ(pause(0, 0b0001, false), 1U) << "paused before the trace began";
    EXPECT_NE(
        out.str().find(
            R"("name":"rdma:pfc_paused","group_id":"urnic0","data":{"priority":3,"direction":"sent"}})"),
        std::string::npos)
        << out.str();
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

/// The events of a packet that a QP has received: as a record of a ring, or as a frame of a file.
std::string received(std::span<const std::byte> bytes, std::size_t wire_bytes, bool is_record) {
    std::ostringstream out;
    JsonLines lines(out, "host");
    PacketTrace events(lines, {});
    if (is_record) {
        abi::CaptureRecord record{};
        record.kind = abi::CaptureKind::kPacket;
        record.fate = abi::PacketFate::kDelivered;
        record.state = abi::kNoState;
        record.qpn = 0x11;
        record.wire_bytes = static_cast<std::uint32_t>(wire_bytes);
        EXPECT_TRUE(add_record(events, {"urnic0", wire::LinkLayer::kEthernet}, {record, bytes}, 1'000));
    } else {
        events.add(CapturedFrame{wire::LinkLayer::kEthernet, bytes, wire_bytes, 1'000, "urnic0", false,
                                 "fate=delivered qpn=0x11"});
    }
    return out.str();
}

TEST(RingRecords, PacketsAreReadAsThoseOfFiles) {
    test::Random random;
    std::size_t with_events = 0;
    for (const auto& entry : std::filesystem::directory_iterator(URNIC_GOLDEN_DIR)) {
        if (entry.path().extension() != ".pcap") continue;
        for (std::vector<std::byte> frame : test::read_pcap(entry.path())) {
            for (int damage = 0; damage < 8; ++damage) {
                const std::size_t captured = std::min<std::size_t>(frame.size(), damage % 2 == 0 ? 128 : 60);
                const auto bytes = std::span(frame).first(captured);
                const std::string events = received(bytes, frame.size(), true);
                ASSERT_EQ(events, received(bytes, frame.size(), false)) << entry.path();
                with_events += events.empty() ? 0 : 1;
                // Of a header, mostly.
                frame[random.below(std::min<std::size_t>(frame.size(), 60))] ^=
                    static_cast<std::byte>(1U << random.below(8));
            }
        }
    }
    EXPECT_GT(with_events, 1'000U);
}

}  // namespace
}  // namespace urnic::trace
