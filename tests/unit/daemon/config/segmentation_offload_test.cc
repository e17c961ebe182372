// `segmentation_offload` of an [[rnic]]: a key of packet sockets alone.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>

#include "daemon/config/config.h"

namespace urnic::daemon {
namespace {

std::variant<Config, ConfigError> with_port(const std::string& lines) {
    return parse_config("[[rnic]]\nname = \"a\"\n" + lines + "\n", "test.toml");
}

TEST(SegmentationOffload, IsAutomaticOrOff) {
    const std::string packet = "port = \"af_packet\"\ninterface = \"eth0\"\n";
    for (const auto& [line, is_off] :
         {std::pair("", false), std::pair("segmentation_offload = \"auto\"", false),
          std::pair("segmentation_offload = \"off\"", true)}) {
        const auto result = with_port(packet + line);
        ASSERT_NE(std::get_if<Config>(&result), nullptr) << line;
        EXPECT_EQ(std::get<Config>(result).rnics[0].is_segmentation_off, is_off) << line;
    }
    const auto result = with_port(packet + "segmentation_offload = \"on\"");
    ASSERT_NE(std::get_if<ConfigError>(&result), nullptr);
    EXPECT_NE(std::get<ConfigError>(result).message.find("\"auto\" or \"off\""), std::string::npos);
}

TEST(SegmentationOffload, GoesWithPacketSockets) {
    for (const char* other :
         {"port = \"fabric\"\nfabric = \"lab\"", "port = \"af_xdp\"\ninterface = \"eth0\""}) {
        const auto result = with_port(std::string(other) + "\nsegmentation_offload = \"auto\"");
        ASSERT_NE(std::get_if<ConfigError>(&result), nullptr) << other;
        EXPECT_NE(std::get<ConfigError>(result).message.find(
                      "'segmentation_offload' goes with port = \"af_packet\""),
                  std::string::npos)
            << std::get<ConfigError>(result).message;
    }
}

}  // namespace
}  // namespace urnic::daemon
