// Calls and replies of all sizes and forms, by both versions. Under `urnic run --standalone`.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <tuple>

#include "tests/e2e/rpcrdma/echo.h"

namespace urnic::e2e {
namespace {

constexpr std::uint32_t kBoth = 0x6;

/// Versions that the client tries and the server serves.
using Versions = std::tuple<std::uint32_t, std::uint32_t>;

class RpcEcho : public testing::TestWithParam<Versions> {
  protected:
    void SetUp() override {
        rpcrdma_options options = default_options();
        options.versions = std::get<1>(GetParam());
        server_ = std::make_unique<EchoServer>(options);
        options.versions = std::get<0>(GetParam());
        client_ = std::make_unique<EchoClient>(server_->address(), options);
        ASSERT_EQ(client_->error(), 0) << rpcrdma_last_error();
    }
    void expect_echo(std::size_t octets, const EchoOptions& options) const {
        SCOPED_TRACE(testing::Message() << octets << " octets, item " << options.has_item << ", result "
                                        << options.has_result << ", pooled " << options.is_pooled);
        const Octets argument = octets_of(octets, static_cast<std::uint32_t>(octets));
        const Echoed echoed = client_->echo(argument, options);
        EXPECT_EQ(echoed.error, 0) << echoed.text;
        EXPECT_TRUE(echoed.octets == argument);
    }

    std::unique_ptr<EchoServer> server_;
    std::unique_ptr<EchoClient> client_;
};

TEST_P(RpcEcho, EverySizeAndForm) {
    const std::size_t sizes[] = {0,    1,    3,    4,    100,  850,   900,   960,   1000,    1024,     3900,
                                 4000, 4016, 4060, 4096, 5000, 65535, 65536, 65537, 1048576, 4U << 20U};
    for (const std::size_t octets : sizes) {
        for (int form = 0; form < 8; ++form) {
            expect_echo(
                octets,
                {.has_item = (form & 1) != 0, .has_result = (form & 2) != 0, .is_pooled = (form & 4) != 0});
            if (HasFailure()) return;
        }
    }
    const std::uint32_t common = std::get<0>(GetParam()) & std::get<1>(GetParam());
    EXPECT_EQ(client_->statistics().version, (common & 4U) != 0 ? 2U : 1U);
    EXPECT_EQ(client_->statistics().connects, 1U);
}

TEST_P(RpcEcho, SixtyFourMegabytes) {
    constexpr std::size_t kOctets = 64U << 20U;
    expect_echo(kOctets, {});
    expect_echo(kOctets, {.is_pooled = false});
    expect_echo(kOctets, {.has_item = false, .has_result = false});
}

INSTANTIATE_TEST_SUITE_P(Versions, RpcEcho,
                         testing::Values(Versions{kBoth, kBoth}, Versions{kBoth, 2U}, Versions{2U, kBoth},
                                         Versions{4U, 4U}),
                         [](const auto& info) {
                             return "Client" + std::to_string(std::get<0>(info.param)) + "Server" +
                                    std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace urnic::e2e
