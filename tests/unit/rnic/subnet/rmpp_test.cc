// RMPP: messages of every length in segments and back; ACKs, windows and segments that lie.
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "rnic/subnet/rmpp.h"

namespace urnic::subnet {
namespace {

namespace mad = wire::mad;

std::vector<std::byte> message_of(std::size_t data_bytes, std::uint8_t mgmt_class) {
    std::vector<std::byte> message(rmpp_header_bytes(mgmt_class) + data_bytes);
    message[0] = std::byte{1};
    message[1] = std::byte{mgmt_class};
    message[3] = std::byte{0x92};
    for (std::size_t i = rmpp_header_bytes(mgmt_class); i < message.size(); ++i) {
        message[i] = static_cast<std::byte>(i * 7);
    }
    return message;
}

mad::Rmpp header_of(const MadBytes& bytes) {
    mad::Rmpp rmpp;
    wire::read_fields(mad::kRmppTable, &bytes[mad::kRmppOffset], &rmpp);
    return rmpp;
}
void set_header(MadBytes& bytes, const mad::Rmpp& rmpp) {
    wire::write_fields(mad::kRmppTable, &rmpp, &bytes[mad::kRmppOffset]);
}

constexpr std::size_t kMost = 100'000;

/// Carries a message from end to end. Returns the data that arrived; empty: it did not.
std::vector<std::byte> carry(const std::vector<std::byte>& message, std::uint8_t mgmt_class,
                             std::size_t& segments) {
    RmppSender sender(message, rmpp_header_bytes(mgmt_class));
    RmppReceiver receiver(kMost);
    segments = 0;
    while (true) {
        const std::optional<MadBytes> segment = sender.next();
        if (!segment) {
            return {};
        }
        ++segments;
        std::optional<MadBytes> answer;
        const auto result = receiver.on_data(*segment, answer);
        if (answer && !sender.on_control(*answer)) {
            return {};
        }
        if (result == RmppReceiver::Result::kDone) {
            return sender.is_done() ? receiver.message() : std::vector<std::byte>();
        }
        if (result == RmppReceiver::Result::kBad) {
            return {};
        }
    }
}

TEST(Rmpp, EveryLengthComesWhole) {
    for (const std::uint8_t mgmt_class : {std::uint8_t{0x03}, std::uint8_t{0x33}}) {
        const std::size_t in_each = wire::kMadBytes - rmpp_header_bytes(mgmt_class);
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, in_each - 1, in_each, in_each + 1,
                                        2 * in_each, 64 * in_each, 64 * in_each + 1, 300 * in_each + 17}) {
            std::size_t segments = 0;
            const std::vector<std::byte> message = message_of(bytes, mgmt_class);
            std::vector<std::byte> came = carry(message, mgmt_class, segments);
            ASSERT_EQ(came.size(), message.size()) << bytes;
            // Behind the protocol's own header all octets are those that were sent.
            EXPECT_TRUE(std::equal(message.begin() + 36, message.end(), came.begin() + 36)) << bytes;
            EXPECT_EQ(segments, std::max<std::size_t>((bytes + in_each - 1) / in_each, 1));
        }
    }
}

// IBA 13.6.2.4: of the first segment the whole payload, of the last its own; each counts the SA header.
TEST(Rmpp, LengthsOfSegments) {
    RmppSender sender(message_of(250, 0x03), 56);
    const mad::Rmpp first = header_of(*sender.next());
    EXPECT_EQ(first.flags, mad::kRmppActive | mad::kRmppFirst);
    EXPECT_EQ(first.data1, 1U);
    EXPECT_EQ(first.data2, 250U + 2 * 20U);
    EXPECT_FALSE(sender.next());  // until it is acknowledged
    MadBytes ack{};
    set_header(ack,
               {.version = 1, .type = mad::kRmppAck, .flags = mad::kRmppActive, .data1 = 1, .data2 = 65});
    EXPECT_TRUE(sender.on_control(ack));
    const mad::Rmpp last = header_of(*sender.next());
    EXPECT_EQ(last.flags, mad::kRmppActive | mad::kRmppLast);
    EXPECT_EQ(last.data2, 50U + 20U);
    EXPECT_FALSE(sender.is_done());
}

TEST(Rmpp, AckThatLiesEndsTheMessage) {
    const auto is_continued = [](std::uint8_t type, std::uint32_t segment, std::uint32_t window) {
        RmppSender sender(message_of(1000, 0x03), 56);
        (void)sender.next();
        MadBytes control{};
        set_header(
            control,
            {.version = 1, .type = type, .flags = mad::kRmppActive, .data1 = segment, .data2 = window});
        return sender.on_control(control);
    };
    EXPECT_TRUE(is_continued(mad::kRmppAck, 1, 65));
    EXPECT_FALSE(is_continued(mad::kRmppAck, 2, 65));  // not sent yet
    EXPECT_FALSE(is_continued(mad::kRmppAck, 1, 0));   // a window behind it
    EXPECT_FALSE(is_continued(mad::kRmppStop, 0, 0));
    EXPECT_FALSE(is_continued(mad::kRmppAbort, 0, 0));
}

TEST(Rmpp, SegmentsThatLie) {
    const auto result_of = [](mad::Rmpp rmpp) {
        RmppReceiver receiver(1000);
        MadBytes bytes{};
        bytes[1] = std::byte{0x03};
        set_header(bytes, rmpp);
        std::optional<MadBytes> answer;
        return receiver.on_data(bytes, answer);
    };
    using Result = RmppReceiver::Result;
    const mad::Rmpp good{.version = 1, .type = 1, .flags = 7, .data1 = 1, .data2 = 120};
    const auto with = [&](auto change) {
        mad::Rmpp rmpp = good;
        change(rmpp);
        return result_of(rmpp);
    };
    EXPECT_EQ(result_of(good), Result::kDone);
    EXPECT_EQ(with([](auto& rmpp) { rmpp.version = 2; }), Result::kBad);
    EXPECT_EQ(with([](auto& rmpp) { rmpp.data1 = 0; }), Result::kBad);
    EXPECT_EQ(with([](auto& rmpp) { rmpp.data1 = 2; }), Result::kBad);  // yet first
    EXPECT_EQ(with([](auto& rmpp) { rmpp.flags = 5; }), Result::kBad);  // number 1, yet not first
    EXPECT_EQ(with([](auto& rmpp) { rmpp.data2 = 19; }), Result::kBad);
    EXPECT_EQ(with([](auto& rmpp) { rmpp.data2 = 221; }), Result::kBad);
    EXPECT_EQ(with([](auto& rmpp) { rmpp.data2 = 0xffff'ffff; }), Result::kBad);
}

TEST(Rmpp, ALongMessageIsRefused) {
    RmppReceiver receiver(1000);
    std::optional<MadBytes> answer;
    auto result = RmppReceiver::Result::kMore;
    RmppSender sender(message_of(2000, 0x03), 56);
    int segments = 0;
    while (result == RmppReceiver::Result::kMore) {
        const auto segment = sender.next();
        ASSERT_TRUE(segment);
        ++segments;
        result = receiver.on_data(*segment, answer);
        ASSERT_TRUE(!answer || sender.on_control(*answer));
    }
    EXPECT_EQ(result, RmppReceiver::Result::kBad);
    EXPECT_EQ(segments, 5);
}

TEST(Rmpp, AMessageOfTheGreatestLengthIsTaken) {
    RmppReceiver receiver(56 + 600);
    RmppSender sender(message_of(600, 0x03), 56);
    std::optional<MadBytes> answer;
    for (int segment = 1; segment <= 3; ++segment) {
        const auto bytes = sender.next();
        ASSERT_TRUE(bytes);
        EXPECT_EQ(receiver.on_data(*bytes, answer),
                  segment == 3 ? RmppReceiver::Result::kDone : RmppReceiver::Result::kMore);
        ASSERT_TRUE(!answer || sender.on_control(*answer));
    }
}

/// The sender repeats what is not acknowledged, and an ACK of before changes nothing.
TEST(Rmpp, ALostSegmentIsSentAgain) {
    RmppSender sender(message_of(600, 0x03), 56);
    RmppReceiver receiver(kMost);
    std::optional<MadBytes> answer;
    EXPECT_EQ(receiver.on_data(*sender.next(), answer), RmppReceiver::Result::kMore);
    const std::optional<MadBytes> old = answer;
    ASSERT_TRUE(old && sender.on_control(*old));
    (void)sender.next();  // lost
    const MadBytes third = *sender.next();
    EXPECT_EQ(receiver.on_data(third, answer), RmppReceiver::Result::kMore);
    EXPECT_FALSE(sender.next());
    sender.rewind();
    EXPECT_EQ(receiver.on_data(*sender.next(), answer), RmppReceiver::Result::kMore);
    EXPECT_TRUE(sender.on_control(*old));
    EXPECT_EQ(receiver.on_data(*sender.next(), answer), RmppReceiver::Result::kDone);
    ASSERT_TRUE(answer && sender.on_control(*answer));
    EXPECT_TRUE(sender.is_done());
    EXPECT_EQ(receiver.message().size(), 56U + 600U);
}

/// A segment that comes twice is not taken twice; one that comes early asks for the missing one.
TEST(Rmpp, OrderAndDoubles) {
    RmppSender sender(message_of(600, 0x03), 56);
    RmppReceiver receiver(kMost);
    std::optional<MadBytes> answer;
    const MadBytes first = *sender.next();
    EXPECT_EQ(receiver.on_data(first, answer), RmppReceiver::Result::kMore);
    ASSERT_TRUE(answer && sender.on_control(*answer));
    const MadBytes second = *sender.next();
    const MadBytes third = *sender.next();
    EXPECT_EQ(receiver.on_data(first, answer), RmppReceiver::Result::kMore);
    EXPECT_EQ(receiver.on_data(third, answer), RmppReceiver::Result::kMore);
    ASSERT_TRUE(answer);
    EXPECT_EQ(header_of(*answer).data1, 1U);
    EXPECT_EQ(receiver.on_data(second, answer), RmppReceiver::Result::kMore);
    EXPECT_EQ(receiver.on_data(third, answer), RmppReceiver::Result::kDone);
    EXPECT_EQ(receiver.message().size(), 56U + 600U);
}

}  // namespace
}  // namespace urnic::subnet
