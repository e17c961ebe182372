// What a script expects is shown as the packet that it would be.
#include "conform/case/script_packet.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rnic/wire/frame.h"

namespace urnic::conform {
namespace {

constexpr Gid kDevice = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 70, 0, 1};
constexpr Gid kTester = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 70, 0, 2};
constexpr Gid kDeviceIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Gid kTesterIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

wire::PathSpec path(const Gid& from, const Gid& to) {
    wire::PathSpec spec;
    spec.src_gid = from;
    spec.dst_gid = to;
    return spec;
}

TEST(ScriptPackets, AnExpectedPacketOfAnotherLengthThanTheSeenOneIsWhole) {
    const std::vector<std::byte> data(64);
    for (const auto& [from, to] : {std::pair(kDevice, kTester), std::pair(kDeviceIpv6, kTesterIpv6)}) {
        wire::PathSpec of_the_device = path(from, to);
        of_the_device.udp_src_port = 0xc123;
        const FrameBytes seen = ScriptPacket(wire::kWriteOnly, 1000)
                                    .reth(0x1000, 7, 8)
                                    .slice(0, 8)
                                    .build(wire::make_path(of_the_device), data);
        const FrameBytes expected = ScriptPacket(wire::kSendOnly, 1000)
                                        .slice(0, 8)
                                        .expected_for(&seen, wire::make_path(path(from, to)), data);
        constexpr std::size_t kRethBytes = 16;
        ASSERT_EQ(seen.size(), expected.size() + kRethBytes);
        const std::string text = frame_dump(expected);
        EXPECT_NE(text.find("outcome: complete"), std::string::npos) << text;
        EXPECT_NE(text.find("good"), std::string::npos) << text;
        EXPECT_EQ(text.find("bad"), std::string::npos) << text;
        // What the sender chooses is no difference.
        EXPECT_NE(text.find("src_port: 49443"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace urnic::conform
