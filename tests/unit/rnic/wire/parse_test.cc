// Frames that are wrong: cut, flipped, of other protocols. Nothing may crash, read past the end or pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/pcap.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

using Frame = std::vector<std::byte>;

std::vector<Frame> golden_packets() {
    std::vector<Frame> packets;
    for (const auto& entry : std::filesystem::directory_iterator(URNIC_GOLDEN_DIR)) {
        if (entry.path().extension() != ".pcap") {
            continue;
        }
        for (Frame& frame : test::read_pcap(entry.path().string())) {
            PacketView view;
            if (parse_frame(frame, view) == ParseError::kNone) {
                packets.push_back(std::move(frame));
            }
        }
    }
    return packets;
}

TEST(ParseBadInput, EveryPacketCutAtEveryLengthIsRefused) {
    const std::vector<Frame> packets = golden_packets();
    ASSERT_GT(packets.size(), 600U);
    for (const Frame& packet : packets) {
        PacketView view;
        ASSERT_EQ(parse_frame(packet, view), ParseError::kNone);
        const std::size_t needed = 14 + view.l3.size() + 4;
        for (std::size_t length = 0; length < needed; length += length < 100 ? 1 : 7) {
            // An exact copy on the heap, so that AddressSanitizer sees a read past the end.
            const Frame cut(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(length));
            ASSERT_NE(parse_frame(cut, view), ParseError::kNone) << "cut to " << length << " bytes";
            (void)peek_dest_qp(cut);
        }
    }
}

/// Returns whether it is a bit that the ICRC leaves out, so that a router may change them.
bool is_masked(const PacketView& view, std::size_t l3_offset, std::size_t byte, unsigned bit) {
    if (byte < l3_offset) {
        return true;  // Ethernet
    }
    const std::size_t at = byte - l3_offset;
    const std::size_t udp = view.is_ipv4 ? 20 : 40;
    if (view.is_ipv4) {
        if (at == 1 || at == 8 || at == 10 || at == 11) {
            return true;
        }
    } else if ((at == 0 && bit < 4) || (at >= 1 && at <= 3) || at == 7) {
        return true;
    }
    return at == udp + 6 || at == udp + 7 || at == udp + 12;
}

TEST(ParseBadInput, AFlippedBitThatTheIcrcCoversNeverPasses) {
    test::Random random;
    for (const Frame& packet : golden_packets()) {
        PacketView original;
        ASSERT_EQ(parse_frame(packet, original), ParseError::kNone);
        const auto l3_offset = static_cast<std::size_t>(original.l3.data() - packet.data());
        const std::size_t covered = l3_offset + original.l3.size() + 4;
        // Every bit of the headers, and some of the payload.
        for (std::size_t i = 0; i < 900; ++i) {
            const std::size_t which = i < 800 ? i : random.below(covered * 8);
            const std::size_t byte = which / 8;
            const auto bit = static_cast<unsigned>(which % 8);
            if (byte >= covered) {
                continue;
            }
            Frame flipped = packet;
            flipped[byte] ^= static_cast<std::byte>(1U << bit);
            PacketView view;
            const bool passes = parse_frame(flipped, view) == ParseError::kNone && icrc_ok(view);
            if (!is_masked(original, l3_offset, byte, bit)) {
                ASSERT_FALSE(passes) << "byte " << byte << " bit " << bit << ' ' << random;
            }
        }
    }
}

TEST(ParseBadInput, RandomDamageNeverReadsOutside) {
    test::Random random;
    const std::vector<Frame> packets = golden_packets();
    for (int round = 0; round < 20000; ++round) {
        Frame frame = packets[random.below(packets.size())];
        for (std::size_t count = 1 + random.below(8); count != 0; --count) {
            const std::size_t reach =
                random.below(2) == 0 ? std::min<std::size_t>(frame.size(), 80) : frame.size();
            frame[random.below(reach)] = static_cast<std::byte>(random.next());
        }
        frame.resize(random.below(4) == 0 ? random.below(frame.size() + 1) : frame.size());
        const Frame exact(frame.begin(), frame.end());
        PacketView view;
        (void)peek_dest_qp(exact);
        if (parse_frame(exact, view) == ParseError::kNone) {
            (void)icrc_ok(view);
            ASSERT_GE(view.payload.data(), exact.data());
            ASSERT_LE(view.payload.data() + view.payload.size() + 4, exact.data() + exact.size());
            ASSERT_LE(view.l3.data() + view.l3.size() + 4, exact.data() + exact.size());
        }
    }
}

/// A frame of one SEND Only with 8 bytes over IPv4.
Frame good_frame(bool is_ipv4 = true) {
    PathSpec spec;
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    if (!is_ipv4) {
        spec.src_gid[0] = 0xfd;
        spec.dst_gid[0] = 0xfd;
    }
    PacketHeader header;
    header.opcode = kSendOnly;
    header.dest_qp = 0x123;
    std::vector<std::byte> payload(8, std::byte{0x42});
    const MemoryPiece piece{payload.data(), nullptr, 0, 8};
    Frame frame(kMaxFrameBytes);
    frame.resize(build_frame(make_path(spec), header, {&piece, 1}, frame));
    return frame;
}

std::uint16_t folded(std::uint32_t sum) {
    while (sum > 0xffffU) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(sum);
}

std::uint32_t word_sum(const Frame& frame, std::size_t begin, std::size_t end) {
    std::uint32_t sum = 0;
    for (std::size_t i = begin; i < end; i += 2) {
        sum += static_cast<std::uint32_t>(frame[i]) << 8U | static_cast<std::uint32_t>(frame[i + 1]);
    }
    return sum;
}

void put_be16(Frame& frame, std::size_t offset, unsigned value) {
    frame[offset] = static_cast<std::byte>(value >> 8U);
    frame[offset + 1] = static_cast<std::byte>(value);
}

/// Makes the IPv4 header checksum right again after a change.
void mend_ipv4(Frame& frame) {
    put_be16(frame, 24, 0);
    put_be16(frame, 24, static_cast<std::uint16_t>(~folded(word_sum(frame, 14, 34))));
}

/// VLAN 7, in front of what is there.
void insert_tag(Frame& frame) {
    const std::array<std::byte, 4> tag{std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{7}};
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
}

/// IPv4's, which UDP counts as its own; all else is right.
void insert_options(Frame& frame) {
    frame.insert(frame.begin() + 34, 4, std::byte{0});
    frame[14] = std::byte{0x46};
    put_be16(frame, 16, 52 + 4);
    put_be16(frame, 38 + 4, 32 + 4);
}

struct Damage {
    const char* name;
    bool is_ipv4;
    std::function<void(Frame&)> apply;  // the IPv4 checksum is mended after it
    ParseError expected;
};

const std::vector<Damage>& damages() {
    using enum ParseError;
    static const std::vector<Damage> list = {
        {"nothing", true, [](Frame&) {}, kNone},
        {"nothing_ipv6", false, [](Frame&) {}, kNone},
        {"arp", true, [](Frame& f) { put_be16(f, 12, 0x0806); }, kNotRoce},
        {"rocev1", true, [](Frame& f) { put_be16(f, 12, 0x8915); }, kNotRoce},
        {"ip_version", true, [](Frame& f) { f[14] = std::byte{0x65}; }, kNotRoce},
        {"ipv6_version", false, [](Frame& f) { f[14] = std::byte{0x40}; }, kNotRoce},
        {"tcp", true, [](Frame& f) { f[23] = std::byte{6}; }, kNotRoce},
        {"ipv6_extension_header", false, [](Frame& f) { f[20] = std::byte{0}; }, kNotRoce},
        {"other_port", true, [](Frame& f) { put_be16(f, 36, 4790); }, kNotRoce},
        {"more_fragments", true, [](Frame& f) { put_be16(f, 20, 0x2000); }, kNotRoce},
        {"fragment_offset", true, [](Frame& f) { put_be16(f, 20, 1); }, kNotRoce},
        {"header_length_below_five", true,
         [](Frame& f) {
             f[14] = std::byte{0x44};
             put_be16(f, 32, 4791);  // where the UDP port would be
         },
         kNotRoce},
        {"fragment_allowed", true, [](Frame& f) { put_be16(f, 20, 0); }, kNone},
        {"options", true, insert_options, kMalformed},
        {"one_tag", false, [](Frame& f) { insert_tag(f); }, kNone},
        {"two_tags", false,
         [](Frame& f) {
             insert_tag(f);
             insert_tag(f);
         },
         kNotRoce},
        {"total_length_beyond_frame", true, [](Frame& f) { put_be16(f, 16, 53); }, kMalformed},
        {"total_length_too_small", true, [](Frame& f) { put_be16(f, 16, 27); }, kMalformed},
        {"udp_length_unlike_ip", true, [](Frame& f) { put_be16(f, 38, 28); }, kMalformed},
        {"udp_length_zero", true, [](Frame& f) { put_be16(f, 38, 0); }, kMalformed},
        {"ipv6_length_beyond_frame", false,
         [](Frame& f) {
             put_be16(f, 18, 36);
             put_be16(f, 58, 36);
         },
         kMalformed},
        {"not_whole_words", true,
         [](Frame& f) {
             put_be16(f, 16, 51);
             put_be16(f, 38, 31);
         },
         kMalformed},
        {"too_short_for_bth", true,
         [](Frame& f) {
             put_be16(f, 16, 40);
             put_be16(f, 38, 20);
         },
         kMalformed},
        {"tver", true, [](Frame& f) { f[43] |= std::byte{1}; }, kMalformed},
        {"reserved_opcode", true, [](Frame& f) { f[42] = std::byte{0x18}; }, kNone},
        {"pad_beyond_payload", true,
         [](Frame& f) {
             put_be16(f, 16, 44);
             put_be16(f, 38, 24);
             f[43] |= std::byte{0x10};
         },
         kMalformed},
        {"payload_on_acknowledge", true, [](Frame& f) { f[42] = std::byte{0x11}; }, kMalformed},
        {"no_room_for_reth", true, [](Frame& f) { f[42] = std::byte{0x0a}; }, kMalformed},
        {"wrong_udp_checksum", true, [](Frame& f) { put_be16(f, 40, 0x1234); }, kMalformed},
        {"wrong_udp_checksum_ipv6", false, [](Frame& f) { put_be16(f, 60, 0x1234); }, kMalformed},
    };
    return list;
}

class DamagedFrame : public testing::TestWithParam<Damage> {};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

TEST_P(DamagedFrame, IsTold) {
    Frame frame = good_frame(GetParam().is_ipv4);
    GetParam().apply(frame);
    if (GetParam().is_ipv4) {
        mend_ipv4(frame);
    }
    PacketView view;
    EXPECT_EQ(parse_frame(frame, view), GetParam().expected);
    if (GetParam().expected == ParseError::kNotRoce) {
        EXPECT_EQ(peek_dest_qp(frame), ~0U);
    }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFrame, testing::ValuesIn(damages()),
                         [](const testing::TestParamInfo<Damage>& info) {
                             return std::string(info.param.name);
                         });

// The rest of a good frame lies behind it in memory.
TEST(Parse, AFrameThatEndsInItsHeadersEndsThere) {
    Frame frame = good_frame();
    PacketView view;
    for (std::size_t length = 34; length < 42; ++length) {
        EXPECT_EQ(parse_frame(std::span(frame).first(length), view), ParseError::kNotRoce) << length;
    }
    insert_tag(frame);
    ASSERT_EQ(parse_frame(frame, view), ParseError::kNone);
    for (std::size_t length = 14; length < 18; ++length) {
        EXPECT_EQ(parse_frame(std::span(frame).first(length), view), ParseError::kNotRoce) << length;
    }
}

TEST(Parse, AWrongIpv4ChecksumIsMalformed) {
    Frame frame = good_frame();
    frame[25] ^= std::byte{1};
    PacketView view;
    EXPECT_EQ(parse_frame(frame, view), ParseError::kMalformed);
}

TEST(Parse, ARightUdpChecksumIsAccepted) {
    for (const bool is_ipv4 : {true, false}) {
        Frame frame = good_frame(is_ipv4);
        const std::size_t udp = is_ipv4 ? 34 : 54;
        const std::size_t addresses = is_ipv4 ? 26 : 22;
        const auto udp_bytes = static_cast<std::uint32_t>(frame.size() - udp);
        const std::uint32_t sum =
            word_sum(frame, addresses, udp) + 17U + udp_bytes + word_sum(frame, udp, frame.size());
        put_be16(frame, udp + 6, static_cast<std::uint16_t>(~folded(sum)));
        PacketView view;
        EXPECT_EQ(parse_frame(frame, view), ParseError::kNone);
        EXPECT_TRUE(icrc_ok(view));  // the ICRC leaves the UDP checksum out
        frame.back() ^= std::byte{1};
        EXPECT_EQ(parse_frame(frame, view), ParseError::kMalformed);
    }
}

TEST(OpcodeTable, ServicesAndOperationsOfTheSpecification) {
    struct Row {
        std::uint8_t opcode;
        const char* name;
        std::uint8_t header_bytes;
    };
    for (const Row& row :
         {Row{0x04, "RC SEND Only", 12}, Row{0x06, "RC WRITE First", 28},
          Row{0x0b, "RC WRITE Only with Immediate", 32}, Row{0x0e, "RC READ Response Middle", 12},
          Row{0x11, "RC Acknowledge", 16}, Row{0x12, "RC ATOMIC Acknowledge", 24},
          Row{0x13, "RC CmpSwap", 40}, Row{0x17, "RC SEND Only with Invalidate", 16},
          Row{0x1c, "RC FLUSH", 32}, Row{0x2a, "UC WRITE Only", 28}, Row{0x54, "RD FetchAdd", 52},
          Row{0x64, "UD SEND Only", 20}, Row{0x65, "UD SEND Only with Immediate", 24}, Row{0x81, "CNP", 28},
          Row{0xac, "XRC READ Request", 32}, Row{0xb1, "XRC Acknowledge", 16}}) {
        const OpcodeInfo& info = opcode_info(row.opcode);
        EXPECT_STREQ(info.name, row.name);
        EXPECT_EQ(info.header_bytes, row.header_bytes) << row.name;
        EXPECT_NE(info.flags & kValid, 0) << row.name;
    }
    for (const unsigned reserved :
         {0x15U, 0x18U, 0x1fU, 0x2cU, 0x33U, 0x60U, 0x66U, 0x80U, 0x82U, 0xc0U, 0xffU}) {
        EXPECT_EQ(opcode_info(static_cast<std::uint8_t>(reserved)).flags, 0) << reserved;
    }
    for (unsigned opcode = 0; opcode < 256; ++opcode) {
        EXPECT_LE(opcode_info(static_cast<std::uint8_t>(opcode)).header_bytes, kMaxHeaderBytes);
    }
}

}  // namespace
}  // namespace urnic::wire
