#include "rnic/qp/rc/send_window.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

InflightWqe message(std::uint32_t packets, bool has_response = false) {
    InflightWqe wqe;
    wqe.psn_count = packets;
    wqe.has_response = has_response;
    return wqe;
}

TEST(SendWindow, GivesPsnsInOrder) {
    SendWindow window;
    window.reset(Psn(0xffffff));
    EXPECT_EQ(window.add(message(1)).first_psn, Psn(0xffffff));
    window.advance_cursor();
    const InflightWqe& second = window.add(message(3));
    EXPECT_EQ(second.first_psn, Psn(0));
    EXPECT_EQ(second.last_psn(), Psn(2));
    EXPECT_FALSE(window.at_tail());
    EXPECT_EQ(window.sent_end(), Psn(0));
    for (int i = 0; i < 3; ++i) {
        window.advance_cursor();
    }
    EXPECT_TRUE(window.at_tail());
    EXPECT_EQ(window.packets_in_flight(), 4U);
    EXPECT_TRUE(window.acknowledge(Psn(0xffffff)));
    EXPECT_FALSE(window.acknowledge(Psn(1)));
    EXPECT_EQ(window.packets_in_flight(), 1U);
    EXPECT_TRUE(window.acknowledge(Psn(2)));
    EXPECT_TRUE(window.empty());
    EXPECT_FALSE(window.is_awaiting_answer());
}

TEST(SendWindow, ResponsesAreNotPacketsInFlight) {
    SendWindow window;
    window.reset(Psn(10));
    window.add(message(100, true));
    window.advance_cursor();
    window.add(message(1));
    window.advance_cursor();
    EXPECT_EQ(window.packets_in_flight(), 1U);
    EXPECT_EQ(window.responses_in_flight(), 1U);
    EXPECT_FALSE(window.acknowledge(Psn(10)));
    EXPECT_EQ(window.packets_in_flight(), 1U);
    EXPECT_TRUE(window.acknowledge(Psn(109)));
    EXPECT_EQ(window.responses_in_flight(), 0U);
    EXPECT_EQ(window.packets_in_flight(), 1U);
}

TEST(SendWindow, RewindInsideARead) {
    SendWindow window;
    window.reset(Psn(10));
    window.add(message(4, true));
    window.advance_cursor();
    window.add(message(1));
    window.advance_cursor();
    (void)window.acknowledge(Psn(11));
    window.rewind();
    EXPECT_EQ(window.cursor_psn(), Psn(12));
    EXPECT_EQ(window.cursor_index(), 0U);
    EXPECT_EQ(window.sent_end(), Psn(15));
    // A response of the first request comes before the second goes out.
    (void)window.acknowledge(Psn(12));
    EXPECT_EQ(window.cursor_psn(), Psn(13));
    window.advance_cursor();
    EXPECT_EQ(window.cursor_psn(), Psn(14));
    EXPECT_EQ(window.cursor_index(), 1U);
    EXPECT_TRUE(window.acknowledge(Psn(13)));
    EXPECT_EQ(window.responses_in_flight(), 0U);
    EXPECT_EQ(window.packets_in_flight(), 0U);
    // The WRITE behind was acknowledged before it was sent again.
    EXPECT_TRUE(window.acknowledge(Psn(14)));
    EXPECT_TRUE(window.empty());
    EXPECT_TRUE(window.at_tail());
    EXPECT_EQ(window.cursor_psn(), Psn(15));
}

TEST(SendWindow, IsBounded) {
    SendWindow window;
    window.reset(Psn(0));
    for (std::uint32_t i = 0; i < kMaxInFlightWqes; ++i) {
        ASSERT_TRUE(window.has_room(1));
        window.add(message(1));
        window.advance_cursor();
    }
    EXPECT_FALSE(window.has_room(1));
    (void)window.acknowledge(Psn(0));
    EXPECT_TRUE(window.has_room(1));
}

TEST(SendWindow, KeepsToHalfThePsnSpace) {
    SendWindow window;
    window.reset(Psn(0));
    constexpr std::uint32_t kLongest = kMaxMessageBytes / 256;
    EXPECT_TRUE(window.has_room(kLongest));
    window.add(message(kLongest, true));
    window.advance_cursor();
    EXPECT_FALSE(window.has_room(kLongest));
    EXPECT_TRUE(window.has_room(1));
}

}  // namespace
}  // namespace urnic
