#include <netinet/in.h>

#include <cerrno>
#include <set>
#include <vector>

#include "tests/unit/ulp/rpcrdma/onc/service_fixture.h"
#include "ulp/rpcrdma/onc/reply_rooms.h"

namespace urnic::rpcrdma::onc {

namespace {

const xdrproc_t kXdrVoid = xdr_nothing;

}  // namespace

class OncClient : public ServiceTest {
  protected:
    OncClient() { run(2); }
    /// The status of a null procedure while the transport ends calls with an error.
    clnt_stat status_of(int error, std::uint32_t code = 0) const {
        loopback::set({.next_error = error, .next_error_code = code, .next_errors = 1});
        const timeval timeout{.tv_sec = 25, .tv_usec = 0};
        return clnt_call(client, NULLPROC, kXdrVoid, nullptr, kXdrVoid, nullptr, timeout);
    }
};

TEST_F(OncClient, EchoesEachLength) {
    for (std::uint32_t octets = 0; octets < 300; ++octets) {
        ASSERT_EQ(echo(client, octets, octets), RPC_SUCCESS) << octets;
    }
}

TEST_F(OncClient, EligibleDataTravelAsItems) {
    ASSERT_EQ(echo(client, kLeastOctets - 1), RPC_SUCCESS);
    EXPECT_TRUE(loopback::seen().call_items.empty());
    EXPECT_TRUE(loopback::seen().reply_items.empty());
    ASSERT_EQ(echo(client, kLeastOctets), RPC_SUCCESS);
    const loopback::Seen seen = loopback::seen();
    EXPECT_EQ(seen.call_items, std::vector<std::size_t>{kLeastOctets});
    EXPECT_EQ(seen.reply_items, std::vector<std::size_t>{kLeastOctets});
    EXPECT_EQ(seen.result_rooms, std::vector<std::size_t>{kMostOctets});
}

TEST_F(OncClient, SamplesComeBackWhole) {
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        sample arguments = file_service::make_sample(seed, seed * 11);
        sample result{};
        ASSERT_EQ(file_sample_1(&arguments, &result, client), RPC_SUCCESS);
        EXPECT_TRUE(file_service::are_equal(arguments, result)) << seed;
        xdr_free(reinterpret_cast<xdrproc_t>(xdr_sample), &arguments);
        xdr_free(reinterpret_cast<xdrproc_t>(xdr_sample), &result);
    }
}

// Data of one buffer in two places of the arguments.
TEST_F(OncClient, OneBufferTwice) {
    sample arguments = file_service::make_sample(9, 128);
    const payload behind = arguments.behind;
    arguments.behind = arguments.data;
    sample result{};
    ASSERT_EQ(file_sample_1(&arguments, &result, client), RPC_SUCCESS);
    EXPECT_TRUE(file_service::are_equal(arguments, result));
    EXPECT_TRUE(loopback::seen().call_items.empty());
    arguments.behind = behind;
    xdr_free(reinterpret_cast<xdrproc_t>(xdr_sample), &arguments);
    xdr_free(reinterpret_cast<xdrproc_t>(xdr_sample), &result);
}

// A result pointer that is set takes the data where they arrive.
TEST_F(OncClient, ResultsArriveInGivenMemory) {
    std::string data(2000, 'd');
    std::string memory(kMostOctets, '.');
    payload arguments{.payload_len = 2000, .payload_val = data.data()};
    payload result{.payload_len = 0, .payload_val = memory.data()};
    ASSERT_EQ(file_echo_1(&arguments, &result, client), RPC_SUCCESS);
    EXPECT_EQ(result.payload_val, memory.data());
    EXPECT_EQ(memory.substr(0, 2000), data);
    // More than it has room for: an error, and nothing behind it is written.
    std::string more(kMostOctets + 500, 'm');
    std::string guarded(kMostOctets + 500, '.');
    arguments = {.payload_len = static_cast<u_int>(more.size()), .payload_val = more.data()};
    result = {.payload_len = 0, .payload_val = guarded.data()};
    EXPECT_NE(file_echo_1(&arguments, &result, client), RPC_SUCCESS);
    EXPECT_EQ(guarded.substr(kMostOctets), std::string(500, '.'));
}

// What is larger than its room: the call goes once again with more, and is not executed a second time.
TEST_F(OncClient, LargerResultsGetMoreRoom) {
    const u_int before = executed(client);
    for (const std::uint32_t version : {2U, 1U}) {
        loopback::set({.version = version});
        const std::uint64_t calls = loopback::seen().calls;
        ASSERT_EQ(echo(client, kMostOctets + 1), RPC_SUCCESS) << version;
        EXPECT_EQ(loopback::seen().calls, calls + 2);
    }
    EXPECT_EQ(executed(client), before + 2);
}

TEST_F(OncClient, LargerRepliesGetMoreRoom) {
    payload data{};
    const std::string prefix(180, 'p');
    for (int i = 0; i < 40; ++i) {
        std::string name = prefix + std::to_string(i);
        write_arguments arguments{.name = name.data(), .offset = 0, .data = data};
        write_result written{};
        ASSERT_EQ(file_write_1(&arguments, &written, client), RPC_SUCCESS);
    }
    for (const std::uint32_t version : {1U, 2U}) {
        loopback::set({.version = version});
        CLIENT* const other = connect();
        const u_int before = executed(other);
        for (int round = 0; round < 2; ++round) {
            std::string asked = prefix;
            char* pointer = asked.data();
            list_result result{};
            const std::uint64_t calls = loopback::seen().calls;
            ASSERT_EQ(file_list_1(&pointer, &result, other), RPC_SUCCESS) << version;
            std::set<std::string> names;
            for (const file_entry* entry = result.first; entry != nullptr; entry = entry->next) {
                names.insert(entry->name);
            }
            EXPECT_EQ(names.size(), 40U);
            // The second time the room is known.
            EXPECT_EQ(loopback::seen().calls - calls, round == 0 ? 2U : 1U);
            clnt_freeres(other, reinterpret_cast<xdrproc_t>(xdr_list_result), &result);
        }
        EXPECT_EQ(executed(other), before + 2);
        clnt_destroy(other);
    }
}

TEST_F(OncClient, ManyThreadsOnOneClient) {
    constexpr int kThreads = 64;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([this, i] {
            for (std::uint32_t round = 0; round < 50; ++round) {
                EXPECT_EQ(
                    echo(client, static_cast<std::uint32_t>(i) * 31 + round, static_cast<std::uint64_t>(i)),
                    RPC_SUCCESS);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_F(OncClient, TimeoutsEndCalls) {
    u_int milliseconds = 60'000;
    u_int result = 0;
    timeval timeout{.tv_sec = 0, .tv_usec = 20'000};
    stop();  // nobody answers
    EXPECT_EQ(clnt_call(client, FILE_COUNT, reinterpret_cast<xdrproc_t>(xdr_u_int), &milliseconds,
                        reinterpret_cast<xdrproc_t>(xdr_u_int), &result, timeout),
              RPC_TIMEDOUT);
    // CLSET_TIMEOUT counts more than what calls say.
    ASSERT_TRUE(clnt_control(client, CLSET_TIMEOUT, &timeout));
    EXPECT_EQ(file_count_1(&milliseconds, &result, client), RPC_TIMEDOUT);
    timeval told{};
    ASSERT_TRUE(clnt_control(client, CLGET_TIMEOUT, &told));
    EXPECT_EQ(told.tv_usec, 20'000);
    timeval wrong{.tv_sec = -1, .tv_usec = 0};
    EXPECT_FALSE(clnt_control(client, CLSET_TIMEOUT, &wrong));
}

TEST_F(OncClient, ZeroTimeoutDoesNotWait) {
    const u_int before = executed(client);
    u_int none = 0;
    u_int result = 0;
    const timeval zero{};
    const auto encode = reinterpret_cast<xdrproc_t>(xdr_u_int);
    EXPECT_EQ(clnt_call(client, FILE_COUNT, encode, &none, encode, &result, zero), RPC_TIMEDOUT);
    std::string data(500, 'x');
    payload arguments{.payload_len = 500, .payload_val = data.data()};
    EXPECT_EQ(clnt_call(client, FILE_ECHO, reinterpret_cast<xdrproc_t>(xdr_payload), &arguments, nullptr,
                        nullptr, zero),
              RPC_SUCCESS);
    while (executed(client) != before + 1) {
        std::this_thread::yield();
    }
}

TEST_F(OncClient, ControlKnowsWhatThereIs) {
    std::uint32_t xid = 0x7FFFFFFF;
    ASSERT_TRUE(clnt_control(client, CLSET_XID, &xid));
    ASSERT_EQ(echo(client, 3), RPC_SUCCESS);
    EXPECT_EQ(loopback::seen().xid, 0x7FFFFFFFU);
    ASSERT_TRUE(clnt_control(client, CLGET_XID, &xid));
    EXPECT_EQ(xid, 0x7FFFFFFFU);
    std::uint32_t number = 0;
    ASSERT_TRUE(clnt_control(client, CLGET_PROG, &number));
    EXPECT_EQ(number, static_cast<std::uint32_t>(FILE_SERVICE));
    ASSERT_TRUE(clnt_control(client, CLGET_VERS, &number));
    EXPECT_EQ(number, static_cast<std::uint32_t>(FILE_SERVICE_V1));
    sockaddr_storage address{};
    ASSERT_TRUE(clnt_control(client, CLGET_SERVER_ADDR, &address));
    EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port), transport->xp_port);
    netbuf buffer{};
    ASSERT_TRUE(clnt_control(client, CLGET_SVC_ADDR, &buffer));
    EXPECT_EQ(buffer.len, sizeof(sockaddr_in));
    for (const u_int request : {CLGET_FD, CLSET_FD_CLOSE, CLSET_FD_NCLOSE, CLSET_SVC_ADDR, CLSET_ASYNC, 77}) {
        EXPECT_FALSE(clnt_control(client, request, &number)) << request;
    }
    EXPECT_FALSE(clnt_control(client, CLGET_PROG, nullptr));
    EXPECT_STREQ(client->cl_netid, "rdma");
}

TEST_F(OncClient, ErrorsHaveTheirNames) {
    EXPECT_EQ(status_of(ETIMEDOUT), RPC_TIMEDOUT);
    EXPECT_EQ(status_of(ECONNRESET), RPC_CANTRECV);
    rpc_err error{};
    clnt_geterr(client, &error);
    EXPECT_EQ(error.re_status, RPC_CANTRECV);
    EXPECT_EQ(error.re_errno, ECONNRESET);
    EXPECT_EQ(status_of(EMSGSIZE), RPC_CANTSEND);
    EXPECT_EQ(status_of(EINVAL), RPC_CANTSEND);
    EXPECT_EQ(status_of(ENOMEM), RPC_SYSTEMERROR);
    EXPECT_EQ(status_of(EPROTO, 10), RPC_CANTRECV);
    EXPECT_EQ(status_of(EPROTO, 1), RPC_VERSMISMATCH);
    // An XID that is in use is no error: there are others.
    EXPECT_EQ(status_of(EEXIST), RPC_SUCCESS);
    clnt_geterr(client, &error);
    EXPECT_EQ(error.re_status, RPC_SUCCESS);
}

TEST_F(OncClient, EachThreadHasItsError) {
    ASSERT_EQ(status_of(ECONNRESET), RPC_CANTRECV);
    std::thread([this] {
        rpc_err error{};
        error.re_status = RPC_FAILED;
        EXPECT_EQ(echo(client, 1), RPC_SUCCESS);
        clnt_geterr(client, &error);
        EXPECT_EQ(error.re_status, RPC_SUCCESS);
    }).join();
    rpc_err error{};
    clnt_geterr(client, &error);
    EXPECT_EQ(error.re_status, RPC_CANTRECV);
}

TEST_F(OncClient, EachClientHasItsErrors) {
    CLIENT* const other = connect();
    ASSERT_EQ(status_of(ECONNRESET), RPC_CANTRECV);
    rpc_err error{};
    clnt_geterr(other, &error);
    EXPECT_EQ(error.re_status, RPC_SUCCESS);
    clnt_destroy(other);
}

TEST(OncReplyRooms, FollowTheReplies) {
    ReplyRooms rooms;
    rooms.note(1, 512);
    EXPECT_EQ(rooms.room(1), 0U);
    rooms.note(1, 100'000);
    EXPECT_EQ(rooms.room(1), 131'072U);
    EXPECT_EQ(rooms.room(2), 0U);
    // Not forgotten at once, but in the end.
    rooms.note(1, 100);
    EXPECT_GT(rooms.room(1), 100'000U);
    for (int i = 0; i < 100; ++i) {
        rooms.note(1, 100);
    }
    EXPECT_LT(rooms.room(1), 512U);
    rooms.note(1, 3000);
    EXPECT_EQ(rooms.room(1), 4096U);
}

TEST_F(OncClient, CreationTellsWhyNot) {
    EXPECT_EQ(clnt_rdma_create("127.0.0.1", "1", FILE_SERVICE, FILE_SERVICE_V1, nullptr), nullptr);
    EXPECT_EQ(rpc_createerr.cf_stat, RPC_SYSTEMERROR);
    EXPECT_EQ(rpc_createerr.cf_error.re_errno, ECONNREFUSED);
    char name[] = "client";
    EXPECT_NE(std::string(clnt_spcreateerror(name)).find("refused"), std::string::npos)
        << clnt_spcreateerror(name);
    EXPECT_EQ(clnt_rdma_create("no.such.host.invalid.", "1", FILE_SERVICE, FILE_SERVICE_V1, nullptr),
              nullptr);
    EXPECT_EQ(rpc_createerr.cf_stat, RPC_UNKNOWNHOST);
    EXPECT_EQ(clnt_rdma_connection(nullptr), nullptr);
    EXPECT_NE(clnt_rdma_connection(client), nullptr);
}

// A server that is gone, and one that goes while calls wait.
TEST_F(OncClient, LostServers) {
    SVCXPRT* const other = svc_rdma_create("127.0.0.1", "0", nullptr);
    CLIENT* const lost = clnt_rdma_create("127.0.0.1", std::to_string(other->xp_port).c_str(), FILE_SERVICE,
                                          FILE_SERVICE_V1, nullptr);
    const std::uint64_t calls = loopback::seen().calls;
    std::thread waiting([lost] { EXPECT_EQ(echo(lost, 5), RPC_CANTRECV); });
    while (loopback::seen().calls == calls) {
        std::this_thread::yield();
    }
    SVC_DESTROY(other);
    waiting.join();
    EXPECT_EQ(echo(lost, 5), RPC_CANTRECV);
    clnt_destroy(lost);
}

}  // namespace urnic::rpcrdma::onc
