// Peers that are killed, and networks that lose packets.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"
#include "tests/e2e/rpcrdma/peer_process.h"

namespace urnic::e2e {
namespace {

constexpr std::uint16_t kPort = 20049;

/// Calls that the server holds, each of a thread; `ended` counts those that came to the expected end.
std::vector<std::thread> hold_calls(const EchoClient& client, int calls, int expected_error,
                                    std::atomic<int>& ended) {
    std::vector<std::thread> threads;
    for (int i = 0; i < calls; ++i) {
        threads.emplace_back([&client, expected_error, &ended] {
            const Octets argument = octets_of(300'000, 3);
            const Echoed echoed = client.echo(argument, {.procedure = Procedure::kHold});
            EXPECT_EQ(echoed.error, expected_error) << echoed.text;
            EXPECT_TRUE(echoed.error != 0 || echoed.octets == argument);
            ended.fetch_add(1);
        });
    }
    return threads;
}

void join(std::vector<std::thread>& threads) {
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(RpcDeaths, KilledServerFailsCalls) {
    PeerProcess server = PeerProcess::server(kPort, "6");
    ASSERT_EQ(server.line(), "ready");
    const EchoClient client(server_address(kPort));
    ASSERT_EQ(client.error(), 0) << rpcrdma_last_error();
    EXPECT_EQ(client.echo(octets_of(64, 1)).error, 0);
    std::atomic<int> ended{0};
    std::vector<std::thread> threads = hold_calls(client, 4, ECONNRESET, ended);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(server.line(), "held");
    }
    server.kill();
    join(threads);
    // Nobody listens.
    EXPECT_EQ(client.echo(octets_of(64, 1)).error, ECONNRESET);
    PeerProcess next = PeerProcess::server(kPort, "6");
    ASSERT_EQ(next.line(), "ready");
    EXPECT_EQ(client.echo(octets_of(64, 1)).error, 0) << "a new call connects again";
    EXPECT_EQ(client.statistics().connects, 2U);
}

TEST(RpcDeaths, KilledServerIsCalledAgain) {
    PeerProcess server = PeerProcess::server(kPort, "6");
    ASSERT_EQ(server.line(), "ready");
    rpcrdma_options options = default_options();
    options.lost_calls = RPCRDMA_LOST_RETRANSMIT;
    options.reconnect_attempts = 1000;
    const EchoClient client(server_address(kPort), options);
    ASSERT_EQ(client.error(), 0) << rpcrdma_last_error();
    EXPECT_EQ(client.echo(octets_of(64, 1)).error, 0);
    std::atomic<int> ended{0};
    std::vector<std::thread> threads = hold_calls(client, 4, 0, ended);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(server.line(), "held");
    }
    const Echoed late = client.echo(octets_of(300'000, 1), {.procedure = Procedure::kHold, .timeout_ms = 20});
    EXPECT_EQ(late.error, ETIMEDOUT);
    server.kill();
    const Echoed without_server = client.echo(octets_of(64, 1), {.timeout_ms = 20});
    EXPECT_EQ(without_server.error, ETIMEDOUT);
    EchoServer next(default_options(), 2, kPort);
    // They come again: one at first, the others when it has brought a grant of credits.
    EXPECT_TRUE(comes([&] {
        next.answer_held();
        return ended.load() == 4;
    }));
    join(threads);
    EXPECT_EQ(client.echo(octets_of(64, 1)).error, 0);
    EXPECT_EQ(client.statistics().version, 2U);
}

TEST(RpcDeaths, KilledClientGivesEverythingBack) {
    EchoServer server;
    const std::uint16_t port = ntohs(server.address().sin_port);
    for (int round = 0; round < 3; ++round) {
        PeerProcess client = PeerProcess::client(port, 5);
        ASSERT_EQ(client.line(), "calls");
        ASSERT_TRUE(comes([&] { return server.held() == 5; }));
        client.kill();
        // The WRITEs of these answers go to memory that is nobody's; the server lives on.
        server.answer_held();
        const EchoClient other(server.address());
        ASSERT_EQ(other.error(), 0) << rpcrdma_last_error();
        EXPECT_EQ(other.echo(octets_of(100'000, 1)).error, 0);
    }
}

int urnic(const std::string& arguments) {
    const char* const build = std::getenv("URNIC_BUILD");
    return std::system(((build != nullptr ? std::string(build) : "build") + "/urnic " + arguments).c_str());
}

TEST(RpcDeaths, LossOfPackets) {
    const EchoServer server;
    const EchoClient client(server.address());
    ASSERT_EQ(client.error(), 0) << rpcrdma_last_error();
    ASSERT_EQ(urnic("fault add drop --probability 0.02 --seed 11"), 0);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint32_t i = 0; i < 20; ++i) {
                const Octets argument = octets_of(100 + i * 20'000, thread);
                const Echoed echoed =
                    client.echo(argument, {.has_result = (i & 1U) != 0, .is_pooled = (i & 2U) != 0});
                if (echoed.error != 0 || echoed.octets != argument) wrong.fetch_add(1);
            }
        });
    }
    join(threads);
    EXPECT_EQ(urnic("fault clear"), 0);
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(client.statistics().connects, 1U);
}

}  // namespace
}  // namespace urnic::e2e

int main(int argc, char** argv) {
    if (urnic::e2e::run_as_peer(argc, argv)) return 0;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
