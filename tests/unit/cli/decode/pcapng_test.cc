// What base/pcapng.h writes, as urnic decode reads it.
#include <gmock/gmock.h>

#include <sstream>
#include <string>

#include "base/pcapng.h"
#include "cli/decode/capture_reader.h"
#include "cli/decode/print.h"

namespace urnic {
namespace {

using testing::HasSubstr;

std::vector<decode::Record> records_of(const std::string& file) {
    std::istringstream stream(file);
    const auto reader = decode::open_capture(stream, "written");
    std::vector<decode::Record> records;
    while (auto record = reader->next()) {
        records.push_back(std::move(*record));
    }
    return records;
}

TEST(PcapngWritten, PacketsWithEverythingComeBack) {
    const std::vector<std::byte> odd(61, std::byte{0x5a});
    const std::vector<std::byte> native(64, std::byte{0});
    PcapngInterface infiniband{PcapLinkType::kInfiniBand, 128, "urnic1", "an RNIC", "qpn=1"};
    PcapngPacket first;
    first.time_ns = 1'700'000'000'123'456'789;
    first.wire_bytes = 1000;
    first.bytes = odd;
    first.direction = PcapngDirection::kOutbound;
    first.dropped = 3;
    first.comment = "fate=sent \x1b[31m";
    PcapngPacket second;
    second.interface = 1;
    second.wire_bytes = 64;
    second.bytes = native;
    const auto records =
        records_of(pcapng_section("a test") + pcapng_interface({}) + pcapng_interface(infiniband) +
                   pcapng_packet(first) + pcapng_statistics({0, 5, 10, 3}) + pcapng_packet(second));
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(records[0].time_ns, first.time_ns);
    EXPECT_EQ(records[0].bytes, odd);
    EXPECT_EQ(records[0].wire_bytes, 1000U);
    EXPECT_EQ(records[0].comment, first.comment);
    EXPECT_EQ(records[0].link, wire::LinkLayer::kEthernet);
    EXPECT_EQ(records[1].link, wire::LinkLayer::kInfiniBand);
    EXPECT_EQ(records[1].comment, "");
    // A comment does not reach the terminal as more than text.
    const std::string line = decode::print_record(records[0], 1, 0, decode::Style::kLines, nullptr);
    EXPECT_THAT(line, HasSubstr("(fate=sent ?[31m)"));
    const std::string json = decode::print_record(records[0], 1, 0, decode::Style::kJson, nullptr);
    EXPECT_THAT(json, HasSubstr("\"comment\":\"fate=sent \\u001b[31m\""));
}

TEST(PcapngWritten, ABlockOfAPacketToTheByte) {
    const std::vector<std::byte> bytes(5, std::byte{0x5a});
    PcapngPacket packet;
    packet.interface = 2;
    packet.time_ns = 0x0102030405060708;
    packet.wire_bytes = 9;
    packet.bytes = bytes;
    packet.direction = PcapngDirection::kInbound;
    packet.dropped = 0x0a0b;
    packet.comment = "abcde";
    using std::string_literals::operator""s;
    const std::string block =
        "\6\0\0\0\x4c\0\0\0\2\0\0\0\4\3\2\1\x8\7\6\5\5\0\0\0\x9\0\0\0"
        "ZZZZZ\0\0\0"
        "\2\0\4\0\1\0\0\0"
        "\4\0\x8\0\xb\xa\0\0\0\0\0\0"
        "\1\0\5\0"
        "abcde\0\0\0"
        "\0\0\0\0\x4c\0\0\0"s;
    EXPECT_EQ(pcapng_packet(packet), block);
    std::string file = "before";
    append_pcapng_packet(packet, file);
    EXPECT_EQ(file, "before" + block);
    EXPECT_EQ(pcapng_packet_bytes(packet), block.size());
    // Nothing that can be left out.
    EXPECT_EQ(pcapng_packet({}), "\6\0\0\0\x20\0\0\0"s + std::string(20, '\0') + "\x20\0\0\0"s);
}

TEST(PcapngWritten, NoCommentIsTooLong) {
    const std::string comment(100'000, 'x');
    PcapngPacket packet;
    packet.comment = comment;
    const auto records = records_of(pcapng_section("") + pcapng_interface({}) + pcapng_packet(packet));
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].comment.size(), 65'535U);
}

}  // namespace
}  // namespace urnic
