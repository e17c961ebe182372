// What a peer sees of a client that it cannot trust, or that cannot trust it.
#include "tests/e2e/rpcrdma/raw_peer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"
#include "tests/e2e/rpcrdma/peer_process.h"
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

Named named_in(const std::vector<std::uint32_t>& words, std::size_t octets = kNamedOctets) {
    // xid vers credit proc, direction inv_handle, 1 position handle length offset, 0, 1 count handle length
    // offset
    const bool is_as_expected = words.size() > 20 && words[1] == 2 && words[6] == 1 && words[9] == octets &&
                                words[12] == 0 && words[13] == 1 && words[14] == 1 && words[16] == octets;
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

/// An inline Reply of the echo program; `length`: of its result, which follows as zeros.
std::vector<std::uint32_t> inline_reply(std::uint32_t xid, std::uint32_t credits, std::uint32_t length) {
    std::vector<std::uint32_t> words{xid, 2, credits, 0, 1, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0, length};
    words.resize(words.size() + (length + 3) / 4);
    return words;
}

TEST(RpcHandlesOfTheDead, AreNobodys) {
    RawPeer peer(kRawPort);
    Named named;
    {
        PeerProcess client = PeerProcess::client(kRawPort, 1);
        peer.accept();
        const std::vector<std::uint32_t> first = peer.receive();
        ASSERT_FALSE(first.empty());
        peer.send(inline_reply(first[0], 8, 64));
        named = named_in(peer.receive(), kHeldOctets);
        EXPECT_EQ(peer.write(named.write_handle, named.write_address), IBV_WC_SUCCESS) << "while it lives";
        client.kill();
    }
    // Until the daemon has heard of the death, the memory is there, and nobody's.
    EXPECT_TRUE(comes([&] { return peer.write(named.write_handle, named.write_address) != IBV_WC_SUCCESS; }));
    for (const bool writes : {true, false}) {
        SCOPED_TRACE(writes);
        // Nor does another process open it, which may have memory at the same place.
        PeerProcess next = PeerProcess::client(kRawPort, 1);
        peer.accept();
        ASSERT_FALSE(peer.receive().empty());
        EXPECT_EQ(writes ? peer.write(named.write_handle, named.write_address)
                         : peer.read(named.read_handle, named.read_address),
                  IBV_WC_REM_ACCESS_ERR);
    }
}

/// A server that is played; the client's first call of 64 octets is answered by `answer_first`.
class RpcFalseServer : public testing::Test {
  protected:
    void first_call(const std::function<void(std::uint32_t xid)>& answer_first) {
        std::thread serving([&] {
            peer_.accept();
            const std::vector<std::uint32_t> words = peer_.receive();
            ASSERT_FALSE(words.empty());
            answer_first(words[0]);
        });
        client_ = std::make_unique<EchoClient>(server_address(kRawPort));
        EXPECT_EQ(client_->error(), 0) << rpcrdma_last_error();
        EXPECT_EQ(client_->echo(octets_of(64, 1)).error, 0);
        serving.join();
    }
    /// Begins calls that nobody answers, and ends them.
    void submit(std::uint32_t count, std::uint64_t sent) {
        std::atomic<std::uint32_t> ended{0};
        std::vector<std::unique_ptr<EchoCall>> calls;
        for (std::uint32_t i = 0; i < count; ++i) {
            calls.push_back(std::make_unique<EchoCall>(next_xid(), octets_of(64, i), EchoOptions{}));
            const auto done = [](void* context, int error, rpcrdma_reply* /*reply*/) {
                EXPECT_EQ(error, ECONNRESET);
                static_cast<std::atomic<std::uint32_t>*>(context)->fetch_add(1);
            };
            ASSERT_EQ(rpcrdma_submit(client_->get(), &calls.back()->call(), done, &ended), 0);
        }
        EXPECT_EQ(client_->statistics().calls_sent, 1 + sent) << "the first call was one, too";
        peer_.disconnect();
        EXPECT_TRUE(comes([&] { return ended.load() == count; }));
    }
    [[nodiscard]] RawPeer& peer() { return peer_; }
    [[nodiscard]] EchoClient& client() { return *client_; }

  private:
    RawPeer peer_{kRawPort};
    std::unique_ptr<EchoClient> client_;
};

TEST_F(RpcFalseServer, GrantsNothing) {
    first_call([&](std::uint32_t xid) { peer().send(inline_reply(xid, 0, 64)); });
    submit(10, 1);
}

TEST_F(RpcFalseServer, GrantsWithoutEnd) {
    first_call([&](std::uint32_t xid) { peer().send(inline_reply(xid, 0xffffffff, 64)); });
    submit(200, default_options().credits);
}

TEST_F(RpcFalseServer, RepliesTwiceAndToNobody) {
    first_call([&](std::uint32_t xid) {
        peer().send(inline_reply(xid + 1000, 8, 64));
        peer().send(inline_reply(xid, 8, 64));
        peer().send(inline_reply(xid, 8, 64));
    });
    EXPECT_TRUE(comes([&] { return client().statistics().unknown_xids == 2; }));
    EXPECT_EQ(client().statistics().replies_received, 1U);
}

TEST_F(RpcFalseServer, SaysThatItWroteMore) {
    first_call([&](std::uint32_t xid) { peer().send(inline_reply(xid, 8, 64)); });
    std::thread serving([&] {
        const Named call = named_in(peer().receive());
        std::vector<std::uint32_t> reply = reply_to(call);
        ++reply[10];
        peer().send(reply);
    });
    EXPECT_EQ(client().echo(octets_of(kNamedOctets, 1)).error, EPROTO);
    serving.join();
    EXPECT_EQ(client().statistics().bad_replies, 1U);
}

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
