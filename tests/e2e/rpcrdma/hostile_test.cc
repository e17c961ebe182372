// Clients that send what they should not: each gets the error that the draft names, or loses its connection;
// it is counted; and a client beside it notices nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"
#include "tests/e2e/rpcrdma/raw_client.h"

namespace urnic::e2e {
namespace {

constexpr std::uint32_t kXid = 0x77;
constexpr std::uint32_t kHeldProcedure = 2;
constexpr std::uint32_t kCallOctets = 44;   // of the RPC Call in front of the argument
constexpr std::uint32_t kReplyOctets = 28;  // of the RPC Reply in front of the result
using Counter = std::uint64_t rpcrdma_statistics::*;

// --- messages

Words operator+(Words left, const Words& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

Words repeated(std::size_t times, const Words& words) {
    Words all;
    for (std::size_t i = 0; i < times; ++i) {
        all = all + words;
    }
    return all;
}

/// XID, version, credits, header type, direction CALL, handle to invalidate.
Words header(std::uint32_t proc = 0, std::uint32_t invalidate = 0) {
    return {kXid, 2, 8, proc, 0, invalidate};
}

Words segment(std::uint32_t handle, std::uint32_t octets, std::uint64_t address) {
    return {handle, octets, static_cast<std::uint32_t>(address >> 32U), static_cast<std::uint32_t>(address)};
}

Words read_entry(std::uint32_t position, const Words& of) { return Words{1, position} + of; }

Words chunk(std::initializer_list<Words> segments) {
    Words all{1, static_cast<std::uint32_t>(segments.size())};
    for (const Words& one : segments) {
        all = all + one;
    }
    return all;
}

/// An RPC Call of the echo program without argument.
Words rpc_call(std::uint32_t argument_octets = 0, std::uint32_t procedure = 1, std::uint32_t xid = kXid) {
    return {xid, 0, 2, 0x20000001, 1, procedure, 0, 0, 0, 0, argument_octets};
}

const Words kNone{0};

// --- a server, a client that behaves and goes on calling, and one that does not

class RpcHostile : public testing::Test {
  protected:
    RpcHostile() : client_(server_.address()), bystander_(server_.address()) {
        EXPECT_EQ(bystander_.error(), 0) << rpcrdma_last_error();
        calling_ = std::thread([this] {
            for (std::uint32_t i = 0; !is_over_.load(); ++i) {
                if (!is_echoed(i)) wrong_.fetch_add(1);
            }
        });
    }
    ~RpcHostile() override {
        is_over_ = true;
        calling_.join();
        EXPECT_EQ(wrong_.load(), 0) << "calls of the other client failed";
        EXPECT_TRUE(is_echoed(1));
        EXPECT_EQ(bystander_.statistics().connects, 1U);
    }

    [[nodiscard]] EchoServer& server() { return server_; }
    [[nodiscard]] RawClient& client() { return client_; }
    [[nodiscard]] std::uint64_t counted(Counter counter) const { return server_.statistics().*counter; }
    /// The message is answered by that error.
    void is_answered(const Words& message, const Words& error) {
        client_.send(message);
        const Words answer = client_.receive();
        ASSERT_GE(answer.size(), 5U) << "the connection ended";
        EXPECT_EQ(answer[0], message[0]);
        EXPECT_EQ(answer[1], message[1]);
        EXPECT_EQ(answer[3], 4U) << "RDMA2_ERROR";
        EXPECT_EQ(Words(answer.begin() + 4, answer.end()), error);
    }

  private:
    [[nodiscard]] bool is_echoed(std::uint32_t seed) {
        const Octets argument = octets_of(64 + seed % 3 * 20'000, seed);
        const Echoed echoed = bystander_.echo(argument);
        return echoed.error == 0 && echoed.octets == argument;
    }

    EchoServer server_;
    RawClient client_;
    const EchoClient bystander_;
    std::atomic<bool> is_over_{false};
    std::atomic<int> wrong_{0};
    std::thread calling_;
};

struct Refusal {
    const char* name;
    Words (*message)(const RawClient& client);
    Words error;  ///< empty: the connection ends
    Counter counter;
};

void PrintTo(const Refusal& refusal, std::ostream* to) { *to << refusal.name; }

class RpcHostileMessage : public RpcHostile, public testing::WithParamInterface<Refusal> {};

TEST_P(RpcHostileMessage, IsRefused) {
    const Refusal& refusal = GetParam();
    // The version is settled.
    client().send(header() + kNone + kNone + kNone + rpc_call());
    ASSERT_EQ(client().receive().size(), 9 + kReplyOctets / 4);
    const std::uint64_t before = counted(refusal.counter);
    const std::uint64_t calls = counted(&rpcrdma_statistics::errors_sent);
    const Words message = refusal.message(client());
    if (refusal.error.empty()) {
        client().send(message);
        EXPECT_TRUE(client().ends());
    } else {
        is_answered(message, refusal.error);
        EXPECT_EQ(counted(&rpcrdma_statistics::errors_sent), calls + 1);
        // It goes on.
        client().send(header() + kNone + kNone + kNone + rpc_call());
        EXPECT_EQ(client().receive().size(), 9 + kReplyOctets / 4);
    }
    EXPECT_TRUE(comes([&] { return counted(refusal.counter) >= before + 1; }));
    EXPECT_EQ(counted(refusal.counter), before + 1);
}

// Codes of section 7.2.4 of the draft.
constexpr std::uint32_t kVers = 1;
constexpr std::uint32_t kBadXdr = 2;
constexpr std::uint32_t kInvalProc = 3;
constexpr std::uint32_t kReadChunks = 4;
constexpr std::uint32_t kWriteChunks = 5;
constexpr std::uint32_t kSegments = 6;
constexpr std::uint32_t kWriteResource = 7;
constexpr std::uint32_t kReplyResource = 8;
constexpr std::uint32_t kInvalOption = 9;
constexpr std::uint32_t kSystem = 10;
constexpr Counter kBadMessages = &rpcrdma_statistics::bad_messages;
constexpr Counter kErrors = &rpcrdma_statistics::errors_sent;
constexpr Counter kClosed = &rpcrdma_statistics::closed_connections;
constexpr Counter kFailed = &rpcrdma_statistics::failed_connections;

const Refusal kCutOff[] = {
    {"TooShortToAnswer", [](const RawClient&) { return Words{kXid}; }, {}, kClosed},
    {"EndsInTheHeader",
     [](const RawClient&) {
         return Words{kXid, 2, 8};
     },
     {kBadXdr},
     kBadMessages},
    {"EndsInAList",
     [](const RawClient& of) {
         return header() + Words{1, 40, of.handle()};
     },
     {kBadXdr},
     kBadMessages},
    {"EndsBehindTheLists",
     [](const RawClient&) { return header() + kNone + kNone + kNone; },
     {kBadXdr},
     kBadMessages},
    {"LongerThanTheReceives",
     [](const RawClient&) {
         return header() + kNone + kNone + kNone + rpc_call(4096) + repeated(1024, {0x5a5a5a5a});
     },
     {},
     kFailed},
};

const Refusal kLies[] = {
    {"WriteChunkOf4GSegments",
     [](const RawClient&) { return header() + kNone + Words{1, 0xffffffff, 1, 1, 1, 1, 0, 0} + rpc_call(); },
     {kBadXdr},
     kBadMessages},
    {"ReplyChunkOf4GSegments",
     [](const RawClient&) { return header() + kNone + kNone + Words{1, 0xffffffff, 1, 1, 1, 1}; },
     {kBadXdr},
     kBadMessages},
    {"AListOf160Segments",
     [](const RawClient& of) {
         return header() + repeated(160, read_entry(kCallOctets, segment(of.handle(), 4, of.address()))) +
                kNone + kNone + kNone + rpc_call(640);
     },
     {kSegments, 16},
     kErrors},
    {"FourGigabytes",
     [](const RawClient& of) {
         return header(1) + read_entry(0, segment(of.handle(), 0xffffffff, of.address())) + kNone + kNone +
                kNone;
     },
     {kSystem},
     kErrors},
    {"PositionsDecrease",
     [](const RawClient& of) {
         return header() + read_entry(40, segment(of.handle(), 4, of.address())) +
                read_entry(36, segment(of.handle(), 4, of.address())) + kNone + kNone + kNone + rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"PositionBehindTheStream",
     [](const RawClient& of) {
         return header() + read_entry(kCallOctets + 4, segment(of.handle(), 4, of.address())) + kNone +
                kNone + kNone + rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"ArgumentsOverlap",
     [](const RawClient& of) {
         return header() + read_entry(40, segment(of.handle(), 16, of.address())) +
                read_entry(44, segment(of.handle(), 16, of.address())) + kNone + kNone + kNone + rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"ResultsOverlap",
     [](const RawClient& of) {
         return header() + kNone + chunk({segment(of.handle(), 4096, of.address())}) +
                chunk({segment(of.handle(), 4096, of.address() + 4095)}) + kNone + kNone + rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"BeyondTheAddressSpace",
     [](const RawClient& of) {
         return header() + kNone + chunk({segment(of.handle(), 4096, ~std::uint64_t{4000})}) + kNone + kNone +
                rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"HandleToInvalidateThatIsNotOffered",
     [](const RawClient& of) {
         return header(0, of.handle() + 1) + kNone + chunk({segment(of.handle(), 4096, of.address())}) +
                kNone + kNone + rpc_call();
     },
     {kBadXdr},
     kBadMessages},
    {"AReplyThatSaysCall",
     [](const RawClient&) { return header() + kNone + kNone + kNone + Words{kXid, 1, 0, 0, 0, 0}; },
     {kBadXdr},
     kBadMessages},
};

const Refusal kBeyondLimits[] = {
    {"NineArguments",
     [](const RawClient& of) {
         Words lists;
         for (std::uint32_t i = 0; i < 9; ++i) {
             lists = lists + read_entry(kCallOctets + 4 * i, segment(of.handle(), 4, of.address()));
         }
         return header() + lists + kNone + kNone + kNone + rpc_call(36);
     },
     {kReadChunks, 8},
     kErrors},
    {"NineResults",
     [](const RawClient& of) {
         Words lists;
         for (std::uint32_t i = 0; i < 9; ++i) {
             lists = lists + chunk({segment(of.handle(), 8, of.address() + 8 * i)});
         }
         return header() + kNone + lists + kNone + kNone + rpc_call();
     },
     {kWriteChunks, 8},
     kErrors},
    {"AResultOneOctetTooLong",
     [](const RawClient& of) {
         return header() + read_entry(kCallOctets, segment(of.handle(), 8192, of.address())) + kNone +
                chunk({segment(of.handle(), 8191, of.address() + 8192)}) + kNone + kNone + rpc_call(8192);
     },
     {kWriteResource, 1, 8192},
     kErrors},
    {"AReplyWithoutRoom",
     [](const RawClient& of) {
         return header() + read_entry(kCallOctets, segment(of.handle(), 8192, of.address())) + kNone + kNone +
                kNone + rpc_call(8192);
     },
     {kReplyResource, kReplyOctets + 8192},
     kErrors},
    {"AnOption",
     [](const RawClient&) { return Words{kXid, 2, 8, 5, 0, 0x1234, 3, 0x61626300}; },
     {kInvalOption},
     kErrors},
    {"AnotherHeaderType", [](const RawClient&) { return header(17); }, {kInvalProc}, kBadMessages},
    {"AnotherVersion",
     [](const RawClient&) { return Words{kXid, 77, 8, 0, 0, 0}; },
     {kVers, 2, 2},
     kBadMessages},
    {"TheOtherVersionLater",
     [](const RawClient&) {
         return Words{kXid, 1, 8, 0} + kNone + kNone + kNone + rpc_call();
     },
     {kVers, 2, 2},
     kBadMessages},
};

const Refusal kForeignMemory[] = {
    {"AHandleNeverOffered",
     [](const RawClient& of) {
         return header() + read_entry(kCallOctets, segment(0xdeadbeef, 4096, of.address())) + kNone + kNone +
                kNone + rpc_call(4096);
     },
     {},
     kFailed},
    {"ArgumentBeyondTheRegion",
     [](const RawClient& of) {
         return header() +
                read_entry(kCallOctets, segment(of.handle(), RawClient::kMemoryOctets + 4, of.address())) +
                kNone + kNone + kNone + rpc_call(RawClient::kMemoryOctets + 4);
     },
     {},
     kFailed},
    {"ResultBeyondTheRegion",
     [](const RawClient& of) {
         const std::uint64_t last = of.address() + RawClient::kMemoryOctets;
         return header() + read_entry(kCallOctets, segment(of.handle(), 8192, of.address())) + kNone +
                chunk({segment(of.handle(), 8192, last - 8188)}) + kNone + kNone + rpc_call(8192);
     },
     {},
     kFailed},
    {"ResultToMemoryThatIsNotForWriting",
     [](const RawClient& of) {
         return header() + read_entry(kCallOctets, segment(of.handle(), 8192, of.address())) + kNone +
                chunk({segment(of.read_only_handle(), 8192, of.address())}) + kNone + kNone + rpc_call(8192);
     },
     {},
     kFailed},
};

std::string name_of(const testing::TestParamInfo<Refusal>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(CutOff, RpcHostileMessage, testing::ValuesIn(kCutOff), name_of);
INSTANTIATE_TEST_SUITE_P(Lies, RpcHostileMessage, testing::ValuesIn(kLies), name_of);
INSTANTIATE_TEST_SUITE_P(Limits, RpcHostileMessage, testing::ValuesIn(kBeyondLimits), name_of);
INSTANTIATE_TEST_SUITE_P(Memory, RpcHostileMessage, testing::ValuesIn(kForeignMemory), name_of);

TEST_F(RpcHostile, EveryPrefixOfAHeader) {
    const Words whole = header(0, client().handle()) +
                        read_entry(kCallOctets, segment(client().handle(), 4096, client().address())) +
                        kNone + chunk({segment(client().handle(), 4096, client().address() + 4096)}) + kNone +
                        chunk({segment(client().handle(), 8192, client().address() + 8192)});
    for (std::size_t words = 2; words < whole.size(); ++words) {
        SCOPED_TRACE(words);
        is_answered(Words(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(words)), {kBadXdr});
    }
    EXPECT_EQ(counted(kBadMessages), whole.size() - 2);
}

TEST_F(RpcHostile, MoreCallsThanGranted) {
    const std::uint32_t granted = default_options().credits;
    client().send(header() + kNone + kNone + kNone + rpc_call());
    EXPECT_EQ(client().receive().size(), 9 + kReplyOctets / 4);
    for (std::uint32_t i = 0; i < granted; ++i) {
        Words call = header() + kNone + kNone + kNone + rpc_call(0, kHeldProcedure, 0x100 + i);
        call[0] = 0x100 + i;
        client().send(call);
    }
    EXPECT_TRUE(comes([&] { return server().held() == granted; }));
    EXPECT_EQ(counted(kClosed), 0U);
    client().send(header() + kNone + kNone + kNone + rpc_call());
    EXPECT_TRUE(client().ends());
    EXPECT_TRUE(comes([&] { return counted(kClosed) == 1; }));
    // Nobody is there for these answers.
    server().answer_held();
}

TEST_F(RpcHostile, RepliesAndErrorsForNobody) {
    const Words reply{kXid, 2, 8, 0, 1, 0, 0, 0, 0, kXid, 1, 0, 0, 0, 0};
    client().send(header() + kNone + kNone + kNone + rpc_call());
    EXPECT_EQ(client().receive().size(), 9 + kReplyOctets / 4);
    client().send(reply);
    client().send(reply);
    client().send(Words{kXid, 2, 8, 4, kSystem});
    EXPECT_TRUE(comes([&] { return counted(&rpcrdma_statistics::unknown_xids) == 3; }));
    client().send(header() + kNone + kNone + kNone + rpc_call());
    EXPECT_EQ(client().receive().size(), 9 + kReplyOctets / 4) << "they are not answered, and it goes on";
}

TEST_F(RpcHostile, TwoRepliesToABackwardCall) {
    constexpr std::uint32_t kCallBackProcedure = 3;
    client().send(header() + kNone + kNone + kNone + rpc_call(0, kCallBackProcedure));
    const Words call = client().receive();
    ASSERT_EQ(call.size(), 9 + kCallOctets / 4);
    const Words reply{call[0], 2, 8, 0, 1, 0, 0, 0, 0, call[0], 1, 0, 0, 0, 0, 0};
    client().send(reply);
    EXPECT_EQ(client().receive().size(), 9 + kReplyOctets / 4);
    client().send(reply);
    EXPECT_TRUE(comes([&] { return counted(&rpcrdma_statistics::unknown_xids) == 1; }));
}

TEST(RpcFlood, OfConnections) {
    constexpr std::uint32_t kMost = 8;
    constexpr std::uint32_t kThreads = 8;
    constexpr std::uint32_t kTries = 10;
    rpcrdma_options options = default_options();
    options.max_connections = kMost;
    const EchoServer server(options);
    const EchoClient bystander(server.address());
    ASSERT_EQ(bystander.error(), 0) << rpcrdma_last_error();
    std::vector<std::unique_ptr<RawClient>> silent;
    while (silent.size() + 1 < kMost) {
        silent.push_back(std::make_unique<RawClient>(server.address()));
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (std::uint32_t n = 0; n < kTries; ++n) {
                wrong += EchoClient(server.address()).error() == ECONNREFUSED ? 0 : 1;
                wrong += bystander.echo(octets_of(5000, n)).error == 0 ? 0 : 1;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(server.statistics().refused_connections, kThreads * kTries);
    EXPECT_EQ(server.statistics().connects, kMost);
    // Those who leave without a word make room.
    silent.clear();
    EXPECT_TRUE(comes([&] { return EchoClient(server.address()).error() == 0; }));
}

}  // namespace
}  // namespace urnic::e2e
