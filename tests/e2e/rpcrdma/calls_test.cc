// Many calls at once, without waiting, backwards; limits; ends by the program.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"
#include "tests/e2e/rpcrdma/windows.h"

namespace urnic::e2e {
namespace {

/// A server and a client of it.
class RpcCalls : public testing::Test {
  protected:
    /// Begins anew; by an exception the test fails.
    void start(const rpcrdma_options& options, const rpcrdma_options& of_server) {
        client_.reset();
        server_ = std::make_unique<EchoServer>(of_server);
        client_ = std::make_unique<EchoClient>(server_->address(), options);
        if (client_->error() != 0) throw std::runtime_error(rpcrdma_last_error());
    }
    void start(const rpcrdma_options& options = default_options()) { start(options, options); }
    [[nodiscard]] EchoServer& server() { return *server_; }
    [[nodiscard]] EchoClient& client() { return *client_; }

  private:
    std::unique_ptr<EchoServer> server_;
    std::unique_ptr<EchoClient> client_;
};

/// Calls of `threads` threads, each of all sizes and forms, every octet compared.
void call_from_threads(const EchoClient& client, std::uint32_t threads, std::uint32_t calls) {
    std::atomic<std::uint32_t> wrong{0};
    std::vector<std::thread> running;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
        running.emplace_back([&, thread] {
            for (std::uint32_t i = 0; i < calls; ++i) {
                constexpr std::uint32_t kSizes[] = {64, 5000, 700, 70'000};
                const std::uint32_t seed = thread * calls + i;
                const Octets argument = octets_of(kSizes[seed % 4] + thread, seed);
                const Echoed echoed = client.echo(
                    argument,
                    {.has_item = (i & 1U) != 0, .has_result = (i & 2U) != 0, .is_pooled = (i & 4U) != 0});
                const bool is_right = echoed.error == 0 && echoed.octets == argument;
                if (!is_right && wrong.fetch_add(1) == 0) {
                    ADD_FAILURE() << "thread " << thread << ", call " << i << ": " << echoed.text;
                }
            }
        });
    }
    for (std::thread& thread : running) {
        thread.join();
    }
    EXPECT_EQ(wrong.load(), 0U);
}

TEST_F(RpcCalls, SixtyFourThreads) {
    for (const std::uint32_t versions : {2U, 4U}) {
        SCOPED_TRACE(versions);
        rpcrdma_options options = default_options();
        options.versions = versions;
        start(options);
        call_from_threads(client(), 64, 40);
        const rpcrdma_statistics statistics = client().statistics();
        EXPECT_EQ(statistics.replies_received, 64U * 40U);
        EXPECT_EQ(statistics.connects, 1U);
        EXPECT_EQ(server().statistics().calls_received, 64U * 40U);
    }
}

TEST_F(RpcCalls, ThreadsThatNeverSpin) {
    rpcrdma_options options = default_options();
    options.spin_us = 0;
    start(options);
    call_from_threads(client(), 8, 100);
}

TEST_F(RpcCalls, MoreSmallCallsThanTheSendQueueHasPlaces) {
    start();
    // Their SENDs ask for no completion.
    for (int i = 0; i < 2000 && !HasFailure(); ++i) {
        const Echoed echoed =
            client().echo(octets_of(64, 1), {.has_item = false, .has_result = false, .timeout_ms = 20'000});
        EXPECT_EQ(echoed.error, 0) << i << ": " << echoed.text;
    }
}

TEST_F(RpcCalls, OneCredit) {
    rpcrdma_options options = default_options();
    options.credits = 1;
    start(options);
    call_from_threads(client(), 8, 30);
    EXPECT_EQ(client().statistics().credits, 1U);
}

TEST_F(RpcCalls, LargeReceives) {
    rpcrdma_options options = default_options();
    options.receive_octets = 65536;
    start(options);
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    // Both have told their sizes; what fits travels inline now.
    const Octets argument = octets_of(60'000, 2);
    const Echoed echoed = client().echo(argument);
    EXPECT_EQ(echoed.error, 0) << echoed.text;
    EXPECT_TRUE(echoed.octets == argument);
    EXPECT_EQ(client().statistics().send_limit_octets, 65536U);
    EXPECT_EQ(client().statistics().receive_limit_octets, 65536U);
    EXPECT_EQ(server().statistics().read_chunk_octets, 0U);
    call_from_threads(client(), 8, 40);
}

TEST_F(RpcCalls, LargerReceivesOnRequest) {
    rpcrdma_options options = default_options();
    options.versions = 4;
    start(options);
    EXPECT_EQ(rpcrdma_request_receive_size(client().get(), 32768), EAGAIN) << "no version is settled";
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    EXPECT_EQ(client().statistics().send_limit_octets, 4096U);
    ASSERT_EQ(rpcrdma_request_receive_size(client().get(), 32768), 0) << rpcrdma_last_error();
    // The server tells once all smaller receives are used up.
    const bool is_told = comes([&] {
        call_from_threads(client(), 4, 10);
        return client().statistics().send_limit_octets == 32768;
    });
    EXPECT_TRUE(is_told);
    const std::uint64_t read_before = server().statistics().read_chunk_octets;
    const Octets argument = octets_of(32'000, 3);
    EXPECT_TRUE(client().echo(argument).octets == argument);
    EXPECT_EQ(server().statistics().read_chunk_octets, read_before);
}

TEST_F(RpcCalls, LargerReceivesOfOnesOwn) {
    rpcrdma_options options = default_options();
    options.versions = 4;
    start(options);
    EXPECT_EQ(rpcrdma_grow_receives(client().get(), 32768), EAGAIN) << "no version is settled";
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    EXPECT_EQ(rpcrdma_grow_receives(client().get(), 4096), EAGAIN) << "they are as large";
    ASSERT_EQ(rpcrdma_grow_receives(client().get(), 32768), 0) << rpcrdma_last_error();
    // The server is told once all smaller receives are used up.
    EXPECT_TRUE(comes([&] {
        call_from_threads(client(), 4, 10);
        return client().statistics().receive_limit_octets == 32768 &&
               server().statistics().send_limit_octets == 32768;
    }));
    const std::uint64_t written_before = server().statistics().write_chunk_octets;
    const Octets argument = octets_of(32'000, 3);
    EXPECT_TRUE(client().echo(argument).octets == argument);
    EXPECT_EQ(server().statistics().write_chunk_octets, written_before);
}

TEST_F(RpcCalls, RemoteInvalidationOnAndOff) {
    for (const std::uint32_t versions : {2U, 4U}) {
        for (const bool is_on : {true, false}) {
            SCOPED_TRACE(testing::Message() << "versions " << versions << ", invalidation " << is_on);
            rpcrdma_options options = default_options();
            options.versions = versions;
            options.has_remote_invalidation = is_on ? 1 : 0;
            start(options);
            for (const bool is_pooled : {true, false}) {
                const Octets argument = octets_of(2'000'000, is_pooled ? 1 : 2);
                const Echoed echoed = client().echo(argument, {.is_pooled = is_pooled});
                EXPECT_TRUE(echoed.octets == argument) << echoed.text;
            }
            const rpcrdma_statistics statistics = client().statistics();
            // Of a Call's two handles the server can invalidate one, if they are windows.
            EXPECT_EQ(statistics.remote_invalidations, is_on && has_windows() ? 2U : 0U);
            EXPECT_EQ(statistics.local_invalidations, is_on && has_windows() ? 2U : 4U);
        }
    }
}

struct Ended {
    std::unique_ptr<EchoCall> call;
    Octets argument;
    Echoed echoed;
    std::atomic<bool> has_ended{false};
};

void on_done(void* context, int error, rpcrdma_reply* reply) {
    auto& ended = *static_cast<Ended*>(context);
    ended.echoed = ended.call->take(error, *reply);
    ended.has_ended.store(true);
}

void submit(const EchoClient& client, Ended& ended, std::size_t octets, const EchoOptions& options) {
    ended.argument = octets_of(octets, next_xid());
    ended.call = std::make_unique<EchoCall>(next_xid(), ended.argument, options);
    ASSERT_EQ(rpcrdma_submit(client.get(), &ended.call->call(), on_done, &ended), 0) << rpcrdma_last_error();
}

bool all_ended(const std::vector<Ended>& calls) {
    return std::all_of(calls.begin(), calls.end(), [](const Ended& one) { return one.has_ended.load(); });
}

TEST_F(RpcCalls, WithoutWaiting) {
    start();
    // More than there are credits, beside callers that wait.
    std::vector<Ended> calls(500);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        submit(client(), calls[i], 100 + i * 20, {});
    }
    call_from_threads(client(), 4, 20);
    ASSERT_TRUE(comes([&] { return all_ended(calls); }));
    for (const Ended& ended : calls) {
        ASSERT_EQ(ended.echoed.error, 0) << ended.echoed.text;
        ASSERT_TRUE(ended.echoed.octets == ended.argument);
    }
}

TEST_F(RpcCalls, BackwardWhileForwardIsOutstanding) {
    for (const std::uint32_t versions : {2U, 4U}) {
        SCOPED_TRACE(versions);
        rpcrdma_options options = default_options();
        options.versions = versions;
        start(options);
        rpcrdma_client_handler(
            client().get(), [](void*, rpcrdma_request* request) { answer(request); }, nullptr);
        std::vector<std::thread> threads;
        for (std::uint32_t thread = 0; thread < 8; ++thread) {
            threads.emplace_back([this, thread] {
                for (const std::size_t octets : {16U, 3000U, 100'000U}) {
                    const Octets argument = octets_of(octets, thread);
                    const Echoed echoed = client().echo(argument, {.procedure = Procedure::kCallBack});
                    EXPECT_EQ(echoed.error, 0) << echoed.text;
                    EXPECT_TRUE(echoed.octets == argument);
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        EXPECT_EQ(client().statistics().calls_received, 24U);
        EXPECT_EQ(server().statistics().replies_received, 24U);
    }
}

/// The connection of the first request that came.
struct KeptConnection {
    ~KeptConnection() {
        if (connection != nullptr) rpcrdma_connection_release(connection);
    }
    static void handle(void* context, rpcrdma_request* request) {
        auto& kept = *static_cast<KeptConnection*>(context);
        if (kept.connection == nullptr) {
            kept.connection = rpcrdma_request_connection(request);
            rpcrdma_connection_hold(kept.connection);
        }
        answer(request);
    }
    rpcrdma_connection* connection = nullptr;
};

TEST_F(RpcCalls, BackwardToAClientThatIsIdle) {
    // Callers that sleep take events that the workers may have waited for.
    for (const int spin_us : {0, 1000}) {
        SCOPED_TRACE(spin_us);
        rpcrdma_options options = default_options();
        options.spin_us = spin_us;
        KeptConnection kept;
        rpcrdma_server* server = nullptr;
        const sockaddr_in any = server_address();
        ASSERT_EQ(rpcrdma_listen(reinterpret_cast<const sockaddr*>(&any), &options, 1, KeptConnection::handle,
                                 &kept, &server),
                  0);
        sockaddr_storage bound;
        ASSERT_EQ(rpcrdma_server_address(server, &bound), 0);
        {
            const EchoClient client(reinterpret_cast<const sockaddr_in&>(bound), options);
            ASSERT_EQ(client.error(), 0) << rpcrdma_last_error();
            rpcrdma_client_handler(
                client.get(), [](void*, rpcrdma_request* request) { answer(request); }, nullptr);
            for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
                EXPECT_EQ(client.echo(octets_of(64, 1), {.timeout_ms = 10'000}).error, 0);
                if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(i % 7));
                EXPECT_EQ(echo_back(kept.connection, octets_of(64, 1), {.timeout_ms = 10'000}).error, 0) << i;
            }
        }
        rpcrdma_server_stop(server);
    }
}

/// Of a server: arguments of kInlineArgument octets come inline, so that a Call that has timed out has no
/// Read chunk which the server would read in vain. Their results do not fit the client's receives.
rpcrdma_options with_large_receives() {
    rpcrdma_options options = default_options();
    options.receive_octets = 65536;
    return options;
}
constexpr std::size_t kInlineArgument = 30'000;

TEST_F(RpcCalls, TimeOut) {
    start(default_options(), with_large_receives());
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    // A caller that is alone.
    EXPECT_EQ(
        client().echo(octets_of(kInlineArgument, 2), {.procedure = Procedure::kHold, .timeout_ms = 50}).error,
        ETIMEDOUT);
    // A caller that polls, and one that waits beside it; memory in the server's reach.
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([this] {
            const Echoed late = client().echo(octets_of(kInlineArgument, 2),
                                              {.procedure = Procedure::kHold, .timeout_ms = 50});
            EXPECT_EQ(late.error, ETIMEDOUT);
            EXPECT_NE(late.text.find("in time"), std::string::npos) << late.text;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    // And one that nobody waits for.
    std::vector<Ended> calls(1);
    submit(client(), calls[0], kInlineArgument, {.procedure = Procedure::kHold, .timeout_ms = 50});
    ASSERT_TRUE(comes([&] { return all_ended(calls); }));
    EXPECT_EQ(calls[0].echoed.error, ETIMEDOUT);
    EXPECT_GE(client().statistics().timeouts, 1U);
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    // The server writes through handles that are dead: its RNIC is told so, and the connection ends.
    // A call may have ended before it was sent.
    ASSERT_TRUE(comes([&] {
        return server().held() != 0 ||
               (client()
                    .echo(octets_of(kInlineArgument, 2), {.procedure = Procedure::kHold, .timeout_ms = 50})
                    .error == 0);
    }));
    server().answer_held();
    EXPECT_TRUE(comes(
        [&] { return client().echo(octets_of(64, 1)).error == 0 && client().statistics().connects == 2; }));
}

TEST_F(RpcCalls, ALostCallIsNotSentAgain) {
    start(default_options(), with_large_receives());
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    ASSERT_TRUE(comes([&] {
        return server().held() != 0 ||
               client().echo(octets_of(kInlineArgument, 2), {.procedure = Procedure::kHold, .timeout_ms = 50})
                       .error == 0;
    }));
    const std::size_t late = server().held();
    std::vector<Ended> calls(1);
    submit(client(), calls[0], kInlineArgument, {.procedure = Procedure::kHold});
    ASSERT_TRUE(comes([&] { return server().held() > late; }));
    // The first answer goes to memory that is out of reach, which ends the connection; the server is still
    // there.
    server().answer_held();
    ASSERT_TRUE(comes([&] { return all_ended(calls); }));
    EXPECT_EQ(calls[0].echoed.error, ECONNRESET);
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    EXPECT_EQ(server().held(), 0U);
}

TEST_F(RpcCalls, DisconnectEndsCalls) {
    start();
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    std::vector<Ended> calls(3);
    for (Ended& ended : calls) {
        submit(client(), ended, 100'000, {.procedure = Procedure::kHold});
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([this] {
            EXPECT_EQ(client().echo(octets_of(100'000, 2), {.procedure = Procedure::kHold}).error, ECANCELED);
        });
    }
    EXPECT_TRUE(comes([&] { return server().held() == 6; }));
    client().disconnect();
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const Ended& ended : calls) {
        EXPECT_TRUE(ended.has_ended.load());
        EXPECT_EQ(ended.echoed.error, ECANCELED);
    }
    // Nobody is there for these answers.
    server().answer_held();
}

TEST_F(RpcCalls, TooManyConnections) {
    rpcrdma_options options = default_options();
    options.max_connections = 4;
    const EchoServer server(options);
    std::vector<std::unique_ptr<EchoClient>> clients;
    for (std::uint32_t i = 0; i < 12; ++i) {
        clients.push_back(std::make_unique<EchoClient>(server.address(), options));
        EXPECT_EQ(clients.back()->error(), i < 4 ? 0 : ECONNREFUSED) << i;
    }
    EXPECT_EQ(clients[0]->echo(octets_of(64, 1)).error, 0);
    // One that leaves makes room.
    clients.erase(clients.begin());
    EXPECT_TRUE(comes([&] {
        clients.push_back(std::make_unique<EchoClient>(server.address(), options));
        return clients.back()->error() == 0;
    }));
}

TEST_F(RpcCalls, WrongArguments) {
    start();
    const EchoCall good(next_xid(), octets_of(64, 1), {});
    rpcrdma_reply reply;
    struct rpcrdma_call call = good.call();
    call.message.stream_octets = 4;
    EXPECT_EQ(rpcrdma_call(client().get(), &call, &reply), EINVAL);
    call = good.call();
    rpcrdma_item item = call.message.items[0];
    item.at = call.message.stream_octets + 4;
    call.message.items = &item;
    EXPECT_EQ(rpcrdma_call(client().get(), &call, &reply), EINVAL);
    call = good.call();
    call.result_count = RPCRDMA_MAX_RESULTS + 1;
    EXPECT_EQ(rpcrdma_call(client().get(), &call, &reply), EINVAL);
    rpcrdma_options options = default_options();
    options.receive_octets = 1024;
    const EchoClient refused(server().address(), options);
    EXPECT_EQ(refused.error(), EINVAL);
    EXPECT_NE(std::string(rpcrdma_last_error()).find("receive_octets"), std::string::npos);
    const EchoClient nobody(server_address(1));
    EXPECT_EQ(nobody.error(), ECONNREFUSED);
    EXPECT_NE(std::string(rpcrdma_last_error()).find(server_host() + std::string(":1")), std::string::npos)
        << rpcrdma_last_error();
}

TEST_F(RpcCalls, ResultsThatDoNotFit) {
    start();
    EXPECT_EQ(client().echo(octets_of(64, 1)).error, 0);
    const EchoCall good(next_xid(), octets_of(20'000, 1), {});
    struct rpcrdma_call call = good.call();
    iovec result = call.results[0];
    result.iov_len = 19'999;
    call.results = &result;
    rpcrdma_reply reply;
    EXPECT_EQ(rpcrdma_call(client().get(), &call, &reply), EMSGSIZE);
    EXPECT_EQ(reply.error_code, 7U);
    EXPECT_EQ(reply.error_first, 1U);
    EXPECT_EQ(reply.error_second, 20'000U);
    // A Reply that is larger than announced is asked for again, with room for it.
    const Octets argument = octets_of(20'000, 2);
    const Echoed echoed = client().echo(argument, {.has_result = false, .max_reply_octets = 28});
    EXPECT_EQ(echoed.error, 0) << echoed.text;
    EXPECT_TRUE(echoed.octets == argument);
    EXPECT_EQ(client().statistics().calls_resent, 1U);
}

}  // namespace
}  // namespace urnic::e2e
