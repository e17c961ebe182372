// What a peer sees of a client that it cannot trust, or that cannot trust it.
#include "tests/e2e/rpcrdma/raw_peer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"
#include "tests/e2e/rpcrdma/windows.h"

namespace urnic::e2e {
namespace {

constexpr std::uint16_t kRawPort = 20048;
/// More than is copied of the program's memory.
constexpr std::size_t kNamedOctets = 2'000'000;

/// The memory that a Call of version 2 with one item and one result names.
struct Named {
    std::uint32_t xid = 0;
    std::uint32_t read_handle = 0;
    std::uint64_t read_address = 0;
    std::uint32_t write_handle = 0;
    std::uint64_t write_address = 0;
};

std::uint64_t two(const std::vector<std::uint32_t>& words, std::size_t at) {
    return std::uint64_t{words[at]} << 32U | words[at + 1];
}

Named named_in(const std::vector<std::uint32_t>& words) {
    // xid vers credit proc, direction inv_handle, 1 position handle length offset, 0, 1 count handle length
    // offset
    const bool is_as_expected = words.size() > 20 && words[1] == 2 && words[6] == 1 &&
                                words[9] == kNamedOctets && words[12] == 0 && words[13] == 1 &&
                                words[14] == 1 && words[16] == kNamedOctets;
    EXPECT_TRUE(is_as_expected) << words.size() << " words";
    if (!is_as_expected) return {};
    // The key of an MR is not to be invalidated.
    EXPECT_EQ(words[5] != 0, has_windows());
    return {words[0], words[8], two(words, 10), words[15], two(words, 17)};
}

/// A Reply that used the Write chunk as a whole, without Invalidate.
std::vector<std::uint32_t> reply_to(const Named& call) {
    const auto high = static_cast<std::uint32_t>(call.write_address >> 32U);
    const auto low = static_cast<std::uint32_t>(call.write_address);
    return {call.xid, 2, 8, 0,        1, 0, 0, 1, 1, call.write_handle, kNamedOctets, high,
            low,      0, 0, call.xid, 1, 0, 0, 0, 0, kNamedOctets};
}

class RpcHandles : public testing::TestWithParam<bool> {};

TEST_P(RpcHandles, AreDeadOnceTheCallHasReturned) {
    const bool is_pooled = GetParam();
    for (const bool writes : {true, false}) {
        SCOPED_TRACE(writes);
        RawPeer peer(kRawPort);
        std::atomic<bool> has_returned{false};
        std::atomic<ibv_wc_status> late{IBV_WC_SUCCESS};
        std::thread serving([&] {
            peer.accept();
            const Named call = named_in(peer.receive());
            EXPECT_EQ(peer.write(call.write_handle, call.write_address), IBV_WC_SUCCESS);
            EXPECT_EQ(peer.read(call.read_handle, call.read_address), IBV_WC_SUCCESS);
            peer.send(reply_to(call));
            EXPECT_TRUE(comes([&] { return has_returned.load(); }));
            late = writes ? peer.write(call.write_handle, call.write_address)
                          : peer.read(call.read_handle, call.read_address);
        });
        const EchoClient client(server_address(kRawPort));
        EXPECT_EQ(client.error(), 0) << rpcrdma_last_error();
        const Echoed echoed = client.echo(octets_of(kNamedOctets, 1), {.is_pooled = is_pooled});
        EXPECT_EQ(echoed.error, 0) << echoed.text;
        EXPECT_EQ(echoed.octets[7], 0xee) << "what it wrote in time is there";
        EXPECT_EQ(echoed.octets[8], 0x5a);
        has_returned = true;
        serving.join();
        EXPECT_EQ(late.load(), IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(client.statistics().local_invalidations, 2U);
    }
}

TEST_P(RpcHandles, AreForTheirPurposeAlone) {
    const bool is_pooled = GetParam();
    for (const bool writes : {true, false}) {
        SCOPED_TRACE(writes);
        RawPeer peer(kRawPort);
        std::thread serving([&] {
            peer.accept();
            const Named call = named_in(peer.receive());
            // To an argument nobody writes, of a result nobody reads.
            EXPECT_EQ(writes ? peer.write(call.read_handle, call.read_address)
                             : peer.read(call.write_handle, call.write_address),
                      IBV_WC_REM_ACCESS_ERR);
            peer.disconnect();
        });
        const EchoClient client(server_address(kRawPort));
        EXPECT_EQ(client.error(), 0) << rpcrdma_last_error();
        EXPECT_EQ(client.echo(octets_of(kNamedOctets, 1), {.is_pooled = is_pooled}).error, ECONNRESET);
        serving.join();
    }
}

INSTANTIATE_TEST_SUITE_P(Memory, RpcHandles, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfThePool" : "OfTheProgram"; });

TEST(RpcVersions, AnUnansweredFirstMessageLeadsToVersion1) {
    auto peer = std::make_unique<RawPeer>(kRawPort);
    std::thread serving([&] {
        peer->accept();
        const std::vector<std::uint32_t> words = peer->receive();
        EXPECT_TRUE(words.size() > 4 && words[1] == 2);
        // A server that knows nothing but version 1 may do so.
        peer.reset();
    });
    rpcrdma_options options = default_options();
    options.lost_calls = RPCRDMA_LOST_RETRANSMIT;
    options.reconnect_attempts = 1000;
    const EchoClient client(server_address(kRawPort), options);
    ASSERT_EQ(client.error(), 0) << rpcrdma_last_error();
    Echoed echoed;
    std::thread calling([&] { echoed = client.echo(octets_of(5000, 1)); });
    serving.join();
    const EchoServer server(default_options(), 1, kRawPort);
    calling.join();
    EXPECT_EQ(echoed.error, 0) << echoed.text;
    EXPECT_TRUE(echoed.octets == octets_of(5000, 1));
    EXPECT_EQ(client.statistics().version, 1U);
    EXPECT_EQ(client.statistics().connects, 2U);
}

}  // namespace
}  // namespace urnic::e2e
