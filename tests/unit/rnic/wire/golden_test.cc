// Captured traffic of Linux rxe: every packet parses, its ICRC is good, and building it again gives its
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "conform/case/reference_icrc.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/pcap.h"

namespace urnic::wire {
namespace {

std::string golden(const std::string& name) { return std::string(URNIC_GOLDEN_DIR) + '/' + name; }

struct Expected {
    const char* file;
    std::size_t roce_packets;        // counted with tshark: -Y infiniband
    std::vector<std::uint8_t> some;  // opcodes that must be among them
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.file; }

class GoldenTest : public testing::TestWithParam<Expected> {};

std::size_t l3_offset(const std::vector<std::byte>& frame, const PacketView& view) {
    return static_cast<std::size_t>(view.l3.data() - frame.data());
}

/// The frame as this implementation numbers it: IPv4 identification from the PSN, header checksum and ICRC
/// made anew by the reference. Nothing else is touched; IPv6 has no identification and stays as it is.
std::vector<std::byte> renumbered(const std::vector<std::byte>& original, const PacketView& view) {
    std::vector<std::byte> frame = original;
    if (!view.is_ipv4) {
        return frame;
    }
    const std::size_t ip = l3_offset(original, view);
    frame[ip + 4] = static_cast<std::byte>(view.header.psn.value() >> 8U);
    frame[ip + 5] = static_cast<std::byte>(view.header.psn.value());
    frame[ip + 10] = frame[ip + 11] = std::byte{0};
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) {
        sum +=
            static_cast<std::uint32_t>(frame[ip + i]) << 8U | static_cast<std::uint32_t>(frame[ip + i + 1]);
    }
    while (sum > 0xffffU) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    frame[ip + 10] = static_cast<std::byte>(~sum >> 8U);
    frame[ip + 11] = static_cast<std::byte>(~sum);
    const std::uint32_t icrc = conform::reference_icrc({frame.data() + ip, view.l3.size()});
    for (unsigned i = 0; i < 4; ++i) {
        frame[ip + view.l3.size() + i] = static_cast<std::byte>(icrc >> (8U * i));
    }
    return frame;
}

Path path_of(const std::vector<std::byte>& frame, const PacketView& view) {
    PathSpec spec;
    spec.src_mac = view.src_mac;
    spec.dst_mac = view.dst_mac;
    spec.src_gid = view.src_gid;
    spec.dst_gid = view.dst_gid;
    spec.vlan_tci = view.vlan_tci;
    spec.traffic_class = view.traffic_class;
    spec.hop_limit = view.hop_limit;
    spec.udp_src_port = view.udp_src_port;
    if (!view.is_ipv4) {
        const std::size_t ip = l3_offset(frame, view);
        spec.flow_label = (static_cast<std::uint32_t>(frame[ip + 1]) & 0x0fU) << 16U |
                          static_cast<std::uint32_t>(frame[ip + 2]) << 8U |
                          static_cast<std::uint32_t>(frame[ip + 3]);
    }
    return make_path(spec);
}

/// The payload cut into `count` pieces of uneven, mostly odd sizes.
std::vector<MemoryPiece> pieces_of(std::vector<std::byte>& payload, std::size_t count) {
    std::vector<MemoryPiece> pieces;
    std::size_t begin = 0;
    for (std::size_t i = 1; i <= count; ++i) {
        const std::size_t end = i == count ? payload.size() : payload.size() * i / count | 1U;
        const std::size_t stop = std::min(std::max(end, begin), payload.size());
        pieces.push_back({payload.data() + begin, nullptr, 0, static_cast<std::uint32_t>(stop - begin)});
        begin = stop;
    }
    return pieces;
}

TEST_P(GoldenTest, EveryPacketParsesChecksAndIsBuiltAgain) {
    std::size_t packets = 0;
    std::vector<std::uint8_t> opcodes;
    for (const std::vector<std::byte>& frame : test::read_pcap(golden(GetParam().file))) {
        PacketView view;
        const ParseError error = parse_frame(frame, view);
        if (error == ParseError::kNotRoce) {
            EXPECT_EQ(peek_dest_qp(frame), ~0U);
            continue;
        }
        ++packets;
        SCOPED_TRACE("RoCE packet " + std::to_string(packets));
        ASSERT_EQ(error, ParseError::kNone);
        EXPECT_TRUE(icrc_ok(view));
        EXPECT_EQ(peek_dest_qp(frame), view.header.dest_qp);
        opcodes.push_back(view.header.opcode);

        const std::vector<std::byte> expected = renumbered(frame, view);
        std::vector<std::byte> payload(view.payload.begin(), view.payload.end());
        for (const std::size_t count : {1U, 2U, 5U, 16U}) {
            std::vector<std::byte> built(kMaxFrameBytes);
            built.resize(build_frame(path_of(frame, view), view.header, pieces_of(payload, count), built));
            ASSERT_EQ(built, expected) << opcode_info(view.header.opcode).name << ", " << count << " pieces";
        }
    }
    EXPECT_EQ(packets, GetParam().roce_packets);
    for (const std::uint8_t opcode : GetParam().some) {
        EXPECT_TRUE(std::count(opcodes.begin(), opcodes.end(), opcode) > 0) << opcode_info(opcode).name;
    }
}

std::string file_stem(const testing::TestParamInfo<Expected>& info) {
    return std::filesystem::path(info.param.file).stem().string();
}

INSTANTIATE_TEST_SUITE_P(Rxe, GoldenTest,
                         testing::Values(Expected{"atomic_cas.pcap", 10, {0x12, 0x13}},
                                         Expected{"mtu4096_write.pcap", 25, {0x06, 0x07, 0x08, 0x11}},
                                         Expected{"rc_read.pcap", 45, {0x0c, 0x0d, 0x0e, 0x0f}},
                                         Expected{"rc_send.pcap", 40, {0x00, 0x01, 0x02, 0x11}},
                                         Expected{"rc_send_ll6.pcap", 40, {0x00, 0x01, 0x02, 0x11}},
                                         Expected{"rc_write.pcap", 45, {0x06, 0x07, 0x08, 0x11}},
                                         Expected{"rnr.pcap", 148, {0x04, 0x11}},
                                         Expected{"rping.pcap", 29, {0x04, 0x0a, 0x0c, 0x10, 0x11, 0x64}},
                                         Expected{"send_odd_sizes.pcap", 15, {0x00, 0x02, 0x11}},
                                         Expected{"uc_send.pcap", 32, {0x20, 0x21, 0x22}},
                                         Expected{"ud_send.pcap", 8, {0x64}},
                                         Expected{"udaddy_sidr.pcap", 6, {0x64, 0x65}},
                                         Expected{"write_loss.pcap", 228, {0x06, 0x07, 0x08, 0x11}}),
                         file_stem);

TEST(GoldenCaptures, EveryFileIsTested) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(URNIC_GOLDEN_DIR)) {
        files += entry.path().extension() == ".pcap" ? 1U : 0U;
    }
    EXPECT_EQ(files, 13U);
}

}  // namespace
}  // namespace urnic::wire
