#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/unit/ulp/rpcrdma/onc/service_fixture.h"

namespace urnic::rpcrdma::onc {

namespace {

constexpr rpcprog_t kOddProgram = 0x20004713;
enum OddProcedure : rpcproc_t { kExit = 1, kSilent = 2, kUnencodable = 3, kPeer = 4, kMeet = 5 };

constexpr int kMeeting = 4;
std::barrier meeting(kMeeting);

const xdrproc_t kVoid = xdr_nothing;
const auto kWord = reinterpret_cast<xdrproc_t>(xdr_u_int);

bool_t never(XDR* /*xdr*/, ...) { return FALSE; }

void odd(svc_req* request, SVCXPRT* transport) {
    u_int word = 0;
    switch (request->rq_proc) {
        case kExit:
            svc_sendreply(transport, kVoid, nullptr);
            svc_exit();
            return;
        case kSilent:
            return;
        case kUnencodable:
            // As rpcgen's stubs do.
            if (!svc_sendreply(transport, never, nullptr)) {
                svcerr_systemerr(transport);
            }
            return;
        case kPeer:
            word = ntohl(static_cast<sockaddr_in*>(svc_getrpccaller(transport)->buf)->sin_addr.s_addr);
            svc_sendreply(transport, kWord, &word);
            return;
        case kMeet:
            meeting.arrive_and_wait();
            svc_sendreply(transport, kVoid, nullptr);
            return;
        default:
            svcerr_noproc(transport);
    }
}

constexpr rpcprog_t kPlaceProgram = 0x20004714;
enum PlaceProcedure : rpcproc_t { kSum = 1, kBack = 2 };
const auto kPayload = reinterpret_cast<xdrproc_t>(xdr_payload);

/// A service whose arguments stay in the message.
void in_place(svc_req* request, SVCXPRT* transport) {
    payload arguments{};
    if (!svc_getargs(transport, kPayload, reinterpret_cast<caddr_t>(&arguments))) {
        EXPECT_EQ(arguments.payload_val, nullptr);
        svcerr_decode(transport);
        return;
    }
    if (arguments.payload_len == 0) {
        EXPECT_EQ(arguments.payload_val, nullptr);
    } else {
        // Behind 44 octets of the message, which malloc() would not give.
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arguments.payload_val) % 16, 12U);
    }
    if (request->rq_proc == kBack) {
        svc_sendreply(transport, kPayload, reinterpret_cast<caddr_t>(&arguments));
    } else {
        u_int sum = 0;
        for (u_int i = 0; i < arguments.payload_len; ++i) {
            sum += static_cast<unsigned char>(arguments.payload_val[i]);
        }
        svc_sendreply(transport, kWord, reinterpret_cast<caddr_t>(&sum));
    }
    EXPECT_TRUE(svc_freeargs(transport, kPayload, reinterpret_cast<caddr_t>(&arguments)));
    EXPECT_EQ(arguments.payload_val, nullptr);
}

clnt_stat call(CLIENT* client, rpcproc_t procedure, u_int* result = nullptr, int timeout_s = 25) {
    const timeval timeout{.tv_sec = timeout_s == 0 ? 0 : timeout_s, .tv_usec = timeout_s == 0 ? 20'000 : 0};
    return clnt_call(client, procedure, kVoid, nullptr, result == nullptr ? kVoid : kWord, result, timeout);
}

}  // namespace

class OncServer : public ServiceTest {
  protected:
    OncServer() {
        EXPECT_TRUE(svc_register(transport, kOddProgram, 3, odd, 0));
        EXPECT_TRUE(svc_register(transport, kOddProgram, 5, odd, 0));
        odd_client = connect(kOddProgram, 3);
    }
    ~OncServer() override {
        stop();
        svc_unregister(kOddProgram, 3);
        svc_unregister(kOddProgram, 5);
        clnt_destroy(odd_client);
    }
    /// A message of these words, past libtirpc. Returns the words of the answer; none: there was none.
    std::vector<std::uint32_t> send(std::vector<std::uint32_t> words, std::uint32_t timeout_ms = 25'000) {
        for (std::uint32_t& word : words) {
            word = htonl(word);
        }
        struct rpcrdma_call request {};
        request.message.stream = words.data();
        request.message.stream_octets = words.size() * 4;
        request.timeout_ms = timeout_ms;
        rpcrdma_reply reply{};
        std::vector<std::uint32_t> answer;
        if (rpcrdma_call(clnt_rdma_connection(client), &request, &reply) == 0) {
            answer.resize(reply.stream_octets / 4);
            std::memcpy(answer.data(), reply.stream, reply.stream_octets);
            rpcrdma_reply_release(&reply);
        }
        for (std::uint32_t& word : answer) {
            word = ntohl(word);
        }
        return answer;
    }
    rpc_err error_of(CLIENT* caller) const {
        rpc_err error{};
        clnt_geterr(caller, &error);
        return error;
    }
    CLIENT* odd_client = nullptr;
};

TEST_F(OncServer, PlainSvcRunServesIt) {
    std::thread running([] { svc_run(); });
    for (std::uint32_t i = 0; i < 100; ++i) {
        EXPECT_EQ(echo(client, i * 20), RPC_SUCCESS);
    }
    EXPECT_EQ(call(odd_client, kExit), RPC_SUCCESS);
    running.join();
}

// Its descriptor is readable while Calls wait, so a program's own loop can serve it, too.
TEST_F(OncServer, TheDescriptorTellsOfCalls) {
    pollfd polled{.fd = transport->xp_fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 0), 0);
    std::atomic<int> answered{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 40; ++i) {
        callers.emplace_back([this, &answered] {
            EXPECT_EQ(echo(client, 10), RPC_SUCCESS);
            ++answered;
        });
    }
    while (answered < 40) {
        if (poll(&polled, 1, 10) == 1) {
            svc_getreq_common(transport->xp_fd);
        }
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    EXPECT_EQ(poll(&polled, 1, 0), 0);
}

TEST_F(OncServer, WrongProgramsVersionsAndProcedures) {
    run(1);
    CLIENT* const wrong_program = connect(FILE_SERVICE + 100);
    EXPECT_EQ(call(wrong_program, 1), RPC_PROGUNAVAIL);
    clnt_destroy(wrong_program);
    CLIENT* const wrong_version = connect(kOddProgram, 4);
    EXPECT_EQ(call(wrong_version, 1), RPC_PROGVERSMISMATCH);
    EXPECT_EQ(error_of(wrong_version).re_vers.low, 3U);
    EXPECT_EQ(error_of(wrong_version).re_vers.high, 5U);
    clnt_destroy(wrong_version);
    EXPECT_EQ(call(odd_client, 99), RPC_PROCUNAVAIL);
    EXPECT_EQ(call(client, NULLPROC), RPC_SUCCESS);
}

TEST_F(OncServer, GarbageArguments) {
    run(1);
    const timeval timeout{.tv_sec = 25, .tv_usec = 0};
    // A length that the message has not; libtirpc allocates it before it looks.
    u_int word = 0xFFFFFF;
    for (const rpcproc_t procedure : {FILE_WRITE, FILE_READ, FILE_LIST, FILE_ECHO, FILE_SAMPLE}) {
        EXPECT_EQ(clnt_call(client, procedure, kWord, &word, kVoid, nullptr, timeout), RPC_CANTDECODEARGS)
            << procedure;
    }
    EXPECT_EQ(echo(client, 5), RPC_SUCCESS);
}

TEST_F(OncServer, MessagesThatAreNoCalls) {
    run(1);
    using Words = std::vector<std::uint32_t>;
    const auto program = static_cast<std::uint32_t>(FILE_SERVICE);
    EXPECT_EQ(send({1, 0, 2, program, 1, 0, 0, 0, 0, 0}), (Words{1, 1, 0, 0, 0, 0}));
    // RPC version 3: MSG_DENIED, RPC_MISMATCH, 2 to 2.
    EXPECT_EQ(send({2, 0, 3, program, 1, 0, 0, 0, 0, 0}), (Words{2, 1, 1, 0, 2, 2}));
    // Credentials that are cut off or too long: MSG_DENIED, AUTH_ERROR, AUTH_BADCRED.
    EXPECT_EQ(send({3, 0, 2, program, 1, 0, 1}), (Words{3, 1, 1, 1, AUTH_BADCRED}));
    Words words = {4, 0, 2, program, 1, 0, 1, 404};
    words.resize(words.size() + 110);
    EXPECT_EQ(send(words), (Words{4, 1, 1, 1, AUTH_BADCRED}));
    // RPCSEC_GSS.
    EXPECT_EQ(send({5, 0, 2, program, 1, 0, 6, 0, 0, 0}), (Words{5, 1, 1, 1, AUTH_REJECTEDCRED}));
    // Not even a header, and a Reply: no answer.
    EXPECT_TRUE(send({6, 0}, 100).empty());
    EXPECT_TRUE(send({7, 1, 2, program, 1, 0, 0, 0, 0, 0}, 100).empty());
    EXPECT_EQ(echo(client, 5), RPC_SUCCESS);
}

TEST_F(OncServer, WhatIsNotAnsweredIsDropped) {
    run(1);
    EXPECT_EQ(call(odd_client, kSilent, nullptr, 0), RPC_TIMEDOUT);
    EXPECT_EQ(call(odd_client, NULLPROC), RPC_PROCUNAVAIL);
}

TEST_F(OncServer, ResultsThatCannotBeEncoded) {
    run(1);
    EXPECT_EQ(call(odd_client, kUnencodable), RPC_SYSTEMERROR);
}

TEST_F(OncServer, ServicesSeeTheirCallers) {
    run(1);
    u_int peer = 0;
    EXPECT_EQ(call(odd_client, kPeer, &peer), RPC_SUCCESS);
    EXPECT_EQ(peer, 0xC6120001U);
}

TEST_F(OncServer, ManyThreadsServeAtOnce) {
    run(4);
    // Each is answered when all four are in the service.
    std::vector<std::thread> callers;
    for (int i = 0; i < kMeeting; ++i) {
        callers.emplace_back([this] { EXPECT_EQ(call(odd_client, kMeet), RPC_SUCCESS); });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    stop();
    // It can run again.
    run(2);
    EXPECT_EQ(echo(client, 70), RPC_SUCCESS);
}

TEST_F(OncServer, RunSaysWhyNot) {
    EXPECT_EQ(svc_rdma_run(transport, 0), EINVAL);
    EXPECT_EQ(svc_rdma_run(nullptr, 1), EINVAL);
    run(1);
    EXPECT_EQ(call(client, NULLPROC), RPC_SUCCESS);
    EXPECT_EQ(svc_rdma_run(transport, 1), EBUSY);
    errno = 0;
    EXPECT_EQ(svc_rdma_create("127.0.0.1", std::to_string(transport->xp_port).c_str(), nullptr), nullptr);
    EXPECT_EQ(errno, EADDRINUSE);
    EXPECT_NE(svc_rdma_server(transport), nullptr);
}

class OncInPlace : public ServiceTest {
  protected:
    OncInPlace() {
        static const int added = [] {
            rpcrdma_onc_item item{};
            item.program = kPlaceProgram;
            item.version = 1;
            item.procedure = kSum;
            item.side = RPCRDMA_ONC_ARGUMENT_IN_PLACE;
            item.offset = offsetof(payload, payload_val);
            item.least_octets = kLeastOctets;
            rpcrdma_onc_item back = item;
            back.procedure = kBack;
            rpcrdma_onc_item result = back;
            result.side = RPCRDMA_ONC_RESULT;
            result.max_octets = kMostOctets;
            const std::vector<rpcrdma_onc_item> items{item, back, result};
            return rpcrdma_onc_ddp(items.data(), items.size());
        }();
        EXPECT_EQ(added, 0);
        EXPECT_TRUE(svc_register(transport, kPlaceProgram, 1, in_place, 0));
        run(2);
        place_client = connect(kPlaceProgram, 1);
    }
    ~OncInPlace() override {
        stop();
        svc_unregister(kPlaceProgram, 1);
        clnt_destroy(place_client);
    }
    clnt_stat call_with(payload& arguments, rpcproc_t procedure, xdrproc_t decode, void* result) const {
        const timeval timeout{.tv_sec = 25, .tv_usec = 0};
        return clnt_call(place_client, procedure, kPayload, reinterpret_cast<caddr_t>(&arguments), decode,
                         static_cast<caddr_t>(result), timeout);
    }
    CLIENT* place_client = nullptr;
};

TEST_F(OncInPlace, ArgumentsPointIntoTheMessage) {
    for (const u_int octets : {0U, 1U, 3U, 4U, kLeastOctets - 1, kLeastOctets, 5000U, 70'001U}) {
        std::string data(octets, '\3');
        payload arguments{.payload_len = octets, .payload_val = data.data()};
        u_int sum = 0;
        ASSERT_EQ(call_with(arguments, kSum, kWord, &sum), RPC_SUCCESS) << octets;
        EXPECT_EQ(sum, 3 * octets);
    }
}

// A result may be of the argument's memory, also where the Reply has to wait for more room.
TEST_F(OncInPlace, ResultsOfTheSameMemory) {
    for (const u_int octets : {0U, 10U, kLeastOctets, kMostOctets, kMostOctets + 5000}) {
        std::string data(octets, ' ');
        file_service::fill_pattern(octets, 0, data.data(), octets);
        payload arguments{.payload_len = octets, .payload_val = data.data()};
        payload result{};
        ASSERT_EQ(call_with(arguments, kBack, kPayload, &result), RPC_SUCCESS) << octets;
        EXPECT_EQ(std::string(result.payload_val, result.payload_len), data);
        clnt_freeres(place_client, kPayload, &result);
    }
}

TEST_F(OncInPlace, LengthsThatLie) {
    std::vector<std::uint32_t> words{77, 0, 2, kPlaceProgram, 1, kSum, 0, 0, 0, 0, 1000, 1};
    for (std::uint32_t& word : words) {
        word = htonl(word);
    }
    struct rpcrdma_call request {};
    request.message.stream = words.data();
    request.message.stream_octets = words.size() * 4;
    request.timeout_ms = 25'000;
    rpcrdma_reply reply{};
    ASSERT_EQ(rpcrdma_call(clnt_rdma_connection(place_client), &request, &reply), 0);
    std::uint32_t status = 0;
    ASSERT_GE(reply.stream_octets, 6 * sizeof(status));
    std::memcpy(&status, static_cast<const std::uint32_t*>(reply.stream) + 5, sizeof(status));
    EXPECT_EQ(ntohl(status), static_cast<std::uint32_t>(GARBAGE_ARGS));
    rpcrdma_reply_release(&reply);
}

// Everything that was allocated for messages is back.
TEST(OncMemory, NothingIsLeft) { EXPECT_EQ(loopback::allocated_blocks(), 0U); }

TEST(OncDdp, TablesAreChecked) {
    // The table is the process's: another procedure with each repetition.
    static rpcproc_t procedure = 0;
    rpcrdma_onc_item item{};
    item.program = 1;
    item.procedure = ++procedure;
    item.side = 3;
    EXPECT_EQ(rpcrdma_onc_ddp(&item, 1), EINVAL);
    item.side = RPCRDMA_ONC_ARGUMENT_IN_PLACE;
    item.locate = [](void* /*object*/) -> char** { return nullptr; };
    EXPECT_EQ(rpcrdma_onc_ddp(&item, 1), EINVAL) << "what is decoded into memory of its own has no place yet";
    item.locate = nullptr;
    EXPECT_EQ(rpcrdma_onc_ddp(nullptr, 1), EINVAL);
    item.side = RPCRDMA_ONC_RESULT;
    const std::vector<rpcrdma_onc_item> many(RPCRDMA_MAX_ITEMS + 1, item);
    EXPECT_EQ(rpcrdma_onc_ddp(many.data(), many.size()), EINVAL);
    EXPECT_EQ(rpcrdma_onc_ddp(many.data(), RPCRDMA_MAX_ITEMS), 0);
    EXPECT_EQ(rpcrdma_onc_ddp(many.data(), 1), EINVAL);
}

}  // namespace urnic::rpcrdma::onc
