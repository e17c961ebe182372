#include "cli/decode/hex_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace urnic::decode {
namespace {

using Packets = std::vector<std::vector<int>>;

Packets packets_of(const std::string& text) {
    std::istringstream stream(text);
    const std::unique_ptr<CaptureReader> reader = read_hex(stream, "paste", wire::LinkLayer::kInfiniBand);
    Packets packets;
    while (const std::optional<Record> record = reader->next()) {
        EXPECT_EQ(record->link, wire::LinkLayer::kInfiniBand);
        EXPECT_EQ(record->wire_bytes, record->bytes.size());
        std::vector<int>& bytes = packets.emplace_back();
        for (const std::byte byte : record->bytes) {
            bytes.push_back(std::to_integer<int>(byte));
        }
    }
    return packets;
}

std::string message_of(const std::string& text) {
    try {
        packets_of(text);
    } catch (const CaptureError& error) {
        return error.what();
    }
    return "";
}

const Packets kTwo = {{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD,
                       0xEE, 0xFF, 0x41, 0x42},
                      {0x12, 0x34}};

TEST(HexReader, Words) {
    EXPECT_EQ(packets_of("00112233445566778899aabbccddeeff4142\n\n1234\n"), kTwo);
    EXPECT_EQ(packets_of("# a remark\n\n00 11 22 33 44 55 66 77\n0x8899aabb ccddeeff\n41 42\n\n\n12 34"),
              kTwo);
}

TEST(HexReader, WithOffsetsAndCharacters) {
    // hexdump -C, od -Ax -tx1, xxd, tcpdump -XX, Wireshark.
    EXPECT_EQ(packets_of("00000000  00 11 22 33 44 55 66 77  88 99 aa bb cc dd ee ff  |.dead beef 12 "
                         "34.|\n00000010  41 42   |AB|\n\n12 34\n"),
              kTwo);
    EXPECT_EQ(
        packets_of("000000 00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff\n000010 41 42\n000000 12 34\n"),
        kTwo);
    EXPECT_EQ(packets_of("00000000: 0011 2233 4455 6677 8899 aabb ccdd eeff  .beef cafe 12 3.\n00000010: "
                         "4142  AB\n\n00000000: 1234  .4\n"),
              kTwo);
    EXPECT_EQ(packets_of("\t0x0000:  0011 2233 4455 6677 8899 aabb ccdd eeff  ..dead..\n\t0x0010:  4142  "
                         "AB\n\t0x0000:  1234  .4\n"),
              kTwo);
    EXPECT_EQ(
        packets_of("0000   00 11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff\n0010   41 42\n\n0000   12 34\n"),
        kTwo);
}

TEST(HexReader, WhatIsNoHexadecimalIsNamed) {
    EXPECT_THAT(message_of("00 11\n22 zz\n"), testing::HasSubstr("paste:2: \"zz\""));
    EXPECT_THAT(message_of("00 111\n"), testing::HasSubstr("paste:1: \"111\""));
    EXPECT_THAT(message_of("zz: 00 11\n"), testing::HasSubstr("\"zz\" is no offset"));
    EXPECT_THAT(message_of(std::string(600000, '0')), testing::HasSubstr("more than"));
    EXPECT_TRUE(packets_of("").empty());
    EXPECT_TRUE(packets_of("\n \n# nothing\n").empty());
}

}  // namespace
}  // namespace urnic::decode
