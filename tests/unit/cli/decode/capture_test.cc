// Capture files of every format and byte order; files that are cut off, damaged or something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/decode/capture_reader.h"
#include "cli/decode/print.h"
#include "tests/support/capture_bytes.h"
#include "tests/support/packet_build.h"
#include "tests/support/packet_samples.h"

namespace urnic::decode {
namespace {

using test::CapturedPacket;
using test::pcapng_block;
using test::pcapng_interface;
using test::pcapng_packet;
using test::pcapng_section;
using testing::HasSubstr;

constexpr std::uint32_t kEthernet = 1;
constexpr std::uint32_t kErf = 197;
constexpr std::uint32_t kInfiniBand = 247;

struct Result {
    std::vector<Record> records;
    std::string error;
};

Result read(const std::string& file) {
    Result result;
    std::istringstream stream(file);
    try {
        const std::unique_ptr<CaptureReader> reader = open_capture(stream, "trace.bin");
        while (std::optional<Record> record = reader->next()) {
            result.records.push_back(std::move(*record));
        }
    } catch (const CaptureError& error) {
        result.error = error.what();
    }
    return result;
}

std::vector<CapturedPacket> three_packets(test::Random& random) {
    std::vector<CapturedPacket> packets;
    for (const std::size_t length : {60U, 91U, 14U}) {
        packets.push_back(
            {random.bytes(length), length, 1'700'000'000'000'000'000U + packets.size() * 1'234'567'000U});
    }
    packets[1].wire_bytes = 1500;
    return packets;
}

void expect_packets(const Result& result, const std::vector<CapturedPacket>& packets, wire::LinkLayer link) {
    EXPECT_EQ(result.error, "");
    ASSERT_EQ(result.records.size(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        EXPECT_EQ(result.records[i].link, link);
        EXPECT_EQ(result.records[i].bytes, packets[i].bytes);
        EXPECT_EQ(result.records[i].wire_bytes, packets[i].wire_bytes);
        EXPECT_EQ(result.records[i].time_ns, packets[i].time_ns);
    }
}

TEST(Pcap, EitherByteOrderAndResolution) {
    test::Random random;
    const std::vector<CapturedPacket> packets = three_packets(random);
    for (const bool big_endian : {false, true}) {
        for (const bool nanoseconds : {false, true}) {
            expect_packets(read(test::pcap_file(big_endian, nanoseconds, kEthernet, packets)), packets,
                           wire::LinkLayer::kEthernet);
            expect_packets(read(test::pcap_file(big_endian, nanoseconds, kInfiniBand, packets)), packets,
                           wire::LinkLayer::kInfiniBand);
        }
    }
}

TEST(Pcap, OfErfRecords) {
    test::Random random;
    std::vector<CapturedPacket> packets = three_packets(random);
    std::vector<CapturedPacket> wrapped;
    for (const CapturedPacket& packet : packets) {
        const std::string record = test::erf_record(21, 1, packet);
        const auto* bytes = reinterpret_cast<const std::byte*>(record.data());
        wrapped.push_back({{bytes, bytes + record.size()}, record.size(), 0});
    }
    // Whole records, of which the padding is part.
    const Result result = read(test::pcap_file(false, false, kErf, wrapped));
    ASSERT_EQ(result.records.size(), 3U);
    EXPECT_EQ(result.records[0].bytes, packets[0].bytes);
    EXPECT_EQ(result.records[2].bytes, packets[2].bytes);
    EXPECT_EQ(result.records[0].link, wire::LinkLayer::kInfiniBand);
    EXPECT_EQ(result.records[0].time_ns, packets[0].time_ns);
}

TEST(Pcapng, EitherByteOrderAndEveryResolution) {
    test::Random random;
    const std::vector<CapturedPacket> packets = three_packets(random);
    const struct {
        std::uint8_t resolution;
        std::uint64_t ticks_per_second;
    } resolutions[] = {{6, 1'000'000}, {9, 1'000'000'000}, {12, 1'000'000'000'000}};
    for (const bool big_endian : {false, true}) {
        for (const auto& resolution : resolutions) {
            std::string file =
                pcapng_section(big_endian) + pcapng_interface(big_endian, kEthernet, resolution.resolution);
            for (CapturedPacket packet : packets) {
                packet.time_ns %= 1'000'000'000'000'000;  // picoseconds since 1970 do not fit
                const std::uint64_t ticks = packet.time_ns / 1000 * (resolution.ticks_per_second / 1'000'000);
                file += pcapng_packet(big_endian, 0, ticks, packet);
            }
            const Result result = read(file);
            EXPECT_EQ(result.error, "");
            ASSERT_EQ(result.records.size(), 3U);
            for (std::size_t i = 0; i < 3; ++i) {
                EXPECT_EQ(result.records[i].bytes, packets[i].bytes);
                EXPECT_EQ(result.records[i].time_ns, packets[i].time_ns % 1'000'000'000'000'000);
            }
        }
    }
}

TEST(Pcapng, PowersOfTwoAndFineResolutions) {
    const CapturedPacket packet{std::vector<std::byte>(14), 14, 0};
    const struct {
        std::uint8_t resolution;
        std::uint64_t ticks;
        std::uint64_t time_ns;
    } cases[] = {
        {0x80 | 10, 1024 + 512, 1'500'000'000},
        {0x80 | 32, 0x0000'0002'4000'0000, 2'250'000'000},
        {0x80 | 40, 0x0000'0380'0000'0000, 3'500'000'000},
        {0, 7, 7'000'000'000},
        {19, 10'000'000'000'000'000'000U, 1'000'000'000},
        {0x80 | 64, 12345, 0},
    };
    for (const auto& one : cases) {
        const Result result =
            read(pcapng_section(false) + pcapng_interface(false, kEthernet, one.resolution) +
                 pcapng_packet(false, 0, one.ticks, packet));
        ASSERT_EQ(result.records.size(), 1U) << result.error;
        EXPECT_EQ(result.records[0].time_ns, one.time_ns) << unsigned{one.resolution};
    }
}

TEST(Pcapng, SectionsInterfacesAndOtherBlocks) {
    test::Random random;
    const CapturedPacket ethernet{random.bytes(61), 61, 0};
    const CapturedPacket native{random.bytes(40), 40, 0};
    const std::string simple =
        test::FileBytes(true).u32(100).bytes(std::span(ethernet.bytes).first(20)).text();
    const std::string obsolete =
        test::FileBytes(true).u16(0).u16(3).u32(0).u32(5).u32(61).u32(61).bytes(ethernet.bytes).text();
    const Result result =
        read(pcapng_section(false) + pcapng_interface(false, kEthernet, 6) +
             pcapng_interface(false, kInfiniBand, 6) + pcapng_block(false, 4, "names") +
             pcapng_packet(false, 1, 1, native) + pcapng_packet(false, 0, 2, ethernet) +
             pcapng_section(true) + pcapng_interface(true, kEthernet, 6, 20) + pcapng_block(true, 3, simple) +
             pcapng_block(true, 2, obsolete) + pcapng_block(true, 5, "statistics"));
    EXPECT_EQ(result.error, "");
    ASSERT_EQ(result.records.size(), 4U);
    EXPECT_EQ(result.records[0].link, wire::LinkLayer::kInfiniBand);
    EXPECT_EQ(result.records[0].bytes, native.bytes);
    EXPECT_EQ(result.records[1].link, wire::LinkLayer::kEthernet);
    EXPECT_EQ(result.records[1].time_ns, 2000U);
    EXPECT_EQ(result.records[2].bytes.size(), 20U);
    EXPECT_EQ(result.records[2].wire_bytes, 100U);
    EXPECT_EQ(result.records[3].bytes, ethernet.bytes);
    EXPECT_EQ(result.records[3].time_ns, 5000U);
}

TEST(Erf, RecordsWithExtensionsPaddingAndOtherTypes) {
    test::Random random;
    std::vector<CapturedPacket> packets = three_packets(random);
    std::string file;
    for (const unsigned extensions : {0U, 1U, 3U}) {
        file += test::erf_record(2, extensions, packets[extensions % 3]);
        file += test::erf_record(48, 0, {});
        file += test::erf_record(21, extensions, packets[(extensions + 1) % 3]);
    }
    file += test::erf_record(5, 0, packets[0]);
    const Result result = read(file);
    EXPECT_EQ(result.error, "");
    ASSERT_EQ(result.records.size(), 7U);
    EXPECT_EQ(result.records[0].link, wire::LinkLayer::kEthernet);
    EXPECT_EQ(result.records[0].bytes, packets[0].bytes);
    EXPECT_EQ(result.records[1].link, wire::LinkLayer::kInfiniBand);
    EXPECT_EQ(result.records[1].time_ns, packets[1].time_ns);
    EXPECT_EQ(result.records[1].wire_bytes, 1500U);
    EXPECT_EQ(result.records[2].bytes.size(),
              94U);  // cut, so that the padding cannot be told from the packet
    EXPECT_EQ(std::vector(result.records[5].bytes.begin(), result.records[5].bytes.begin() + 91),
              packets[1].bytes);
    EXPECT_FALSE(result.records[6].link.has_value());
    EXPECT_THAT(result.records[6].note, HasSubstr("type 5"));
}

TEST(Erf, WhatTheCardSaysIsWrongWithAPacketStandsOnItsLine) {
    test::Random random;
    const std::vector<test::Sample> samples = test::make_samples(random, 64);
    CapturedPacket packet;
    packet.bytes.resize(wire::kMaxPacketBytes);
    packet.bytes.resize(wire::build_packet(samples.front().packet, packet.bytes));
    packet.wire_bytes = packet.bytes.size();
    const struct {
        std::uint8_t flags;
        const char* fault;
    } cases[] = {
        {0x04, ""},
        {0x07, ""},  // interface 3
        {0x14, "receive error"},
        {0x0c, "truncated by the card"},
        {0x24, "error inside the card"},
        {0x3c, "receive error, truncated by the card, error inside the card"},
    };
    for (const auto& one : cases) {
        SCOPED_TRACE(unsigned{one.flags});
        const Result result = read(test::erf_record(2, 0, packet, one.flags));
        EXPECT_EQ(result.error, "");
        ASSERT_EQ(result.records.size(), 1U);
        const Record& record = result.records[0];
        EXPECT_EQ(record.link, wire::LinkLayer::kEthernet);
        EXPECT_EQ(record.fault, one.fault);
        const std::string line = print_record(record, 1, 0, Style::kLines);
        const auto json = nlohmann::json::parse(print_record(record, 1, 0, Style::kJson));
        if (*one.fault == '\0') {
            EXPECT_THAT(line, testing::Not(HasSubstr("card")));
            EXPECT_FALSE(json.contains("fault"));
        } else {
            EXPECT_THAT(line, testing::EndsWith(" [" + std::string(one.fault) + "]\n"));
            EXPECT_EQ(json["fault"], one.fault);
        }
    }
    // A record that is not decoded has been received wrongly all the same.
    EXPECT_EQ(
        read(test::erf_record(21, 0, packet) + test::erf_record(5, 0, packet, 0x14)).records.at(1).fault,
        "receive error");
}

/// Each format, cut at each byte: the packets before the cut, and a message that names file and offset unless
/// the cut lies between two packets.
TEST(Captures, CutOffAnywhere) {
    test::Random random;
    const std::vector<CapturedPacket> packets = three_packets(random);
    std::string ng = pcapng_section(true) + pcapng_interface(true, kEthernet, 9);
    std::string erf;
    for (const CapturedPacket& packet : packets) {
        ng += pcapng_packet(true, 0, packet.time_ns, packet);
        erf += test::erf_record(2, 1, packet);
    }
    for (const std::string& file : {test::pcap_file(false, true, kEthernet, packets), ng, erf}) {
        std::size_t clean_ends = 0;
        for (std::size_t length = 0; length < file.size(); ++length) {
            const Result result = read(file.substr(0, length));
            ASSERT_LT(result.records.size(), 3U) << length;
            if (result.error.empty()) {
                ++clean_ends;
            } else {
                ASSERT_THAT(result.error, HasSubstr("trace.bin: offset "));
            }
        }
        EXPECT_GE(clean_ends, 2U);
        EXPECT_LE(clean_ends, 4U);
    }
}

TEST(Captures, DamagedAnywhere) {
    test::Random random;
    const std::vector<CapturedPacket> packets = three_packets(random);
    std::string ng = pcapng_section(false) + pcapng_interface(false, kEthernet, 9);
    std::string erf;
    for (const CapturedPacket& packet : packets) {
        ng += pcapng_packet(false, 0, packet.time_ns, packet);
        erf += test::erf_record(21, 2, packet);
    }
    for (const std::string& file : {test::pcap_file(true, false, kEthernet, packets), ng, erf}) {
        for (int round = 0; round < 1000; ++round) {
            std::string damaged = file;
            for (std::size_t changes = 1 + random.below(3); changes != 0; --changes) {
                damaged[random.below(damaged.size())] = static_cast<char>(random.next());
            }
            for (const Record& record : read(damaged).records) {
                (void)print_record(record, 1, 0, Style::kFull);
                (void)print_record(record, 1, 0, Style::kJson);
            }
        }
    }
}

TEST(Captures, WrongFilesSayWhatIsWrong) {
    const CapturedPacket packet{std::vector<std::byte>(60), 60, 0};
    const std::string section = pcapng_section(false);
    const std::string interface = pcapng_interface(false, kEthernet, 6);
    const std::string good_packet = pcapng_packet(false, 0, 0, packet);
    std::string wrong_version = test::pcap_file(false, false, kEthernet, {});
    wrong_version[4] = 9;
    std::string huge = test::pcap_file(false, false, kEthernet, {packet});
    huge[24 + 11] = 0x7f;
    std::string wrong_magic = section;
    wrong_magic[8] = 0;
    std::string wrong_trailer = section + interface;
    wrong_trailer[wrong_trailer.size() - 4] = 99;
    std::string long_packet = section + interface + good_packet;
    long_packet[section.size() + interface.size() + 8 + 13] = 1;
    std::string odd_length = section;
    odd_length[4] = 29;
    const struct {
        std::string file;
        const char* message;
    } cases[] = {
        {"", "trace.bin: offset 0: the file is empty"},
        {"# urnic\n\nA software RNIC, and this is a text file.",
         "no pcap, pcapng or ERF file: it begins with 23 20 75 72"},
        {"abc", "it begins with 61 62 63"},
        {std::string("\x7f"
                     "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0",
                     17),
         "it begins with 7f 45 4c 46"},
        {wrong_version, "offset 4: pcap version 9"},
        {test::pcap_file(false, false, 113, {}),
         "offset 20: link type 113 cannot be decoded; these can: 1 Ethernet"},
        {huge, "offset 32: packet 1 claims 2130706492 captured bytes"},
        {wrong_magic, "offset 8: the byte-order magic"},
        {wrong_trailer, "the block began with a length of 20 bytes and ends with 99"},
        {odd_length, "offset 4: block of type 168627466 claims a length of 29 bytes"},
        {section + good_packet, "a packet of interface 0, but the section describes 0 interfaces"},
        {section + interface + pcapng_packet(false, 7, 0, packet), "a packet of interface 7"},
        {section + pcapng_interface(false, 147, 6) + good_packet, "link type 147"},
        {section + pcapng_block(false, 1, "x"), "too short for its snap length"},
        {section + interface + pcapng_block(false, 6, std::string(4, 0)), "too short for its time"},
        {long_packet, "a packet claims 316 captured bytes, its block holds 60"},
        {test::erf_record(2, 0, packet) + std::string(16, '\0'),
         "this is no ERF record: type 0, record length 0"},
    };
    for (const auto& one : cases) {
        EXPECT_THAT(read(one.file).error, HasSubstr(one.message));
    }
}

TEST(Print, CutPacketsAndNotesAndJson) {
    test::Random random;
    std::vector<std::byte> wire(wire::kMaxPacketBytes);
    const std::vector<test::Sample> samples = test::make_samples(random, 64);
    wire.resize(wire::build_packet(samples.front().packet, wire));
    Record record;
    record.link = wire::LinkLayer::kEthernet;
    record.wire_bytes = wire.size();
    record.bytes.assign(wire.begin(), wire.begin() + 50);
    record.time_ns = 1'000'000'500;
    const std::string line = print_record(record, 12, 2'000'000'000, Style::kLines);
    EXPECT_THAT(line, testing::StartsWith("12 -0.999999500 "));
    EXPECT_THAT(line, HasSubstr("[cut in BTH]"));
    EXPECT_THAT(line, HasSubstr("[50 of " + std::to_string(wire.size()) + " bytes captured]"));

    record.bytes = wire;
    const auto json = nlohmann::json::parse(print_record(record, 3, 0, Style::kJson));
    EXPECT_EQ(json["number"], 3);
    EXPECT_EQ(json["time_ns"], 1'000'000'500);
    EXPECT_EQ(json["layers"][0]["name"], "Ethernet");
    EXPECT_EQ(json["layers"][3]["name"], "BTH");
    EXPECT_EQ(json["layers"][3]["fields"]["psn"], samples.front().packet.transport.psn.value());
    for (const auto& layer : json["layers"]) {
        if (layer["name"] == "checks") {
            EXPECT_THAT(layer["fields"]["icrc"].get<std::string>(), testing::EndsWith(" good"));
        }
    }
    const Record note{std::nullopt, "ERF record type 5, which is not decoded", {}, 0, 0};
    EXPECT_EQ(print_record(note, 1, 0, Style::kFull),
              "1 0.000000000 ERF record type 5, which is not decoded\n");
    EXPECT_EQ(nlohmann::json::parse(print_record(note, 1, 0, Style::kJson))["note"], note.note);
}

}  // namespace
}  // namespace urnic::decode
