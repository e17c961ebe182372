// Pause frames of IEEE 802.1Qbb, byte by byte, and what is none; priorities of frames.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "rnic/wire/dissect/eth/pause_frame.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/priority.h"

namespace urnic::wire {
namespace {

constexpr Mac kSource = {0x02, 0x00, 0xc6, 0x12, 0x00, 0x01};

std::vector<std::byte> bytes_of(std::initializer_list<unsigned> numbers) {
    std::vector<std::byte> bytes;
    for (const unsigned number : numbers) {
        bytes.push_back(static_cast<std::byte>(number));
    }
    return bytes;
}

// Priority 3 stops for 0x1234 quanta, priority 7 continues.
std::vector<std::byte> sample() {
    std::vector<std::byte> frame = bytes_of({
        0x01, 0x80, 0xc2, 0x00, 0x00, 0x01,              // the other end of the link
        0x02, 0x00, 0xc6, 0x12, 0x00, 0x01,              // from
        0x88, 0x08, 0x01, 0x01, 0x00, 0x88,              // MAC control, opcode, classes
        0,    0,    0,    0,    0,    0,    0x12, 0x34,  // times of 0 to 3
        0,    0,    0,    0,    0,    0,    0,    0,     // of 4 to 7
    });
    frame.resize(kPauseFrameBytes);
    return frame;
}

Pfc sample_pause() {
    Pfc pause;
    pause.class_enable = 0x88;
    pause.pause_quanta[3] = 0x1234;
    return pause;
}

TEST(PauseFrame, IsBuiltAsTheStandardHasIt) {
    std::array<std::byte, kPauseFrameBytes> frame;
    frame.fill(std::byte{0xaa});
    build_pause_frame(kSource, sample_pause(), frame);
    EXPECT_EQ(std::vector<std::byte>(frame.begin(), frame.end()), sample());
}

TEST(PauseFrame, IsReadBack) {
    Pfc pause;
    ASSERT_TRUE(is_mac_control(sample()));
    ASSERT_TRUE(parse_pause_frame(sample(), pause));
    EXPECT_EQ(pause, sample_pause());
}

TEST(PauseFrame, NeedsNoPadding) {
    const std::vector<std::byte> frame = sample();
    Pfc pause;
    EXPECT_TRUE(parse_pause_frame(std::span(frame).first(34), pause));
    EXPECT_EQ(pause, sample_pause());
}

TEST(PauseFrame, CutOffAnywhereIsNone) {
    const std::vector<std::byte> frame = sample();
    Pfc pause;
    for (std::size_t length = 0; length < 34; ++length) {
        EXPECT_FALSE(parse_pause_frame(std::span(frame).first(length), pause)) << length;
        EXPECT_EQ(is_mac_control(std::span(frame).first(length)), length >= 14) << length;
    }
}

TEST(PauseFrame, ForAnotherAddressIsNone) {
    for (std::size_t byte = 0; byte < 6; ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::vector<std::byte> frame = sample();
            frame[byte] ^= std::byte{1} << bit;
            Pfc pause;
            EXPECT_TRUE(is_mac_control(frame));
            EXPECT_FALSE(parse_pause_frame(frame, pause)) << byte << "." << bit;
        }
    }
}

TEST(PauseFrame, FromAGroupIsNone) {
    std::vector<std::byte> frame = sample();
    frame[6] |= std::byte{1};
    Pfc pause;
    EXPECT_FALSE(parse_pause_frame(frame, pause));
}

TEST(PauseFrame, OtherOpcodesAreNone) {
    for (const std::uint16_t opcode : {0x0000, 0x0001, 0x0100, 0x0102, 0x0301, 0xffff}) {
        std::vector<std::byte> frame = sample();
        frame[14] = static_cast<std::byte>(opcode >> 8U);
        frame[15] = static_cast<std::byte>(opcode & 0xffU);
        Pfc pause;
        EXPECT_FALSE(parse_pause_frame(frame, pause)) << opcode;
    }
}

TEST(PauseFrame, OtherEtherTypesAreNoMacControl) {
    for (const std::size_t at : {12U, 13U}) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::vector<std::byte> frame = sample();
            frame[at] ^= std::byte{1} << bit;
            EXPECT_FALSE(is_mac_control(frame));
        }
    }
}

TEST(PauseFrame, ReservedBitsAndPaddingAreNotLookedAt) {
    std::vector<std::byte> frame = sample();
    frame[16] = std::byte{0xff};
    std::fill(frame.begin() + 34, frame.end(), std::byte{0xee});
    Pfc pause;
    ASSERT_TRUE(parse_pause_frame(frame, pause));
    EXPECT_EQ(pause, sample_pause());
}

TEST(Priority, IsTheTagsElseTheClassOfTheDscp) {
    PathSpec spec;
    Gid ipv4{};
    ipv4[10] = ipv4[11] = 0xff;
    ipv4[12] = 10;
    Gid ipv6{};
    ipv6[0] = 0xfd;
    for (const Gid& gid : {ipv4, ipv6}) {
        spec.src_gid = spec.dst_gid = gid;
        for (unsigned priority = 0; priority < kPriorities; ++priority) {
            spec.vlan_tci = 0;
            spec.traffic_class = static_cast<std::uint8_t>(priority << 5U | 0x1f);
            EXPECT_EQ(priority_of(make_path(spec)), priority);
            spec.traffic_class = static_cast<std::uint8_t>((7 - priority) << 5U);
            spec.vlan_tci = static_cast<std::uint16_t>(priority << 13U | 7);
            EXPECT_EQ(priority_of(make_path(spec)), priority);
        }
    }
}

TEST(Priority, OfAnythingElseIsZero) {
    std::array<std::uint8_t, 60> frame;
    frame.fill(0xff);
    frame[12] = 0x08;
    frame[13] = 0x06;  // ARP
    EXPECT_EQ(priority_of(frame.data()), 0);
}

}  // namespace
}  // namespace urnic::wire
