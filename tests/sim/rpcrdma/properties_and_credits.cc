// Credits (RFC 8166, 3.3.1), transport properties (draft, section 6), backward calls (RFC 8167).
#include "tests/sim/rpcrdma/rpc_script.h"

namespace urnic::rpcrdma::sim {
namespace {

constexpr std::string_view kOwnConnprop = "send 0 2 40 6 / 2 / 1 4 1000 / 2 4 2 / 1 2";

// --- credits

RPC_SCRIPT(RpcCredits, OneUntilGranted, "8166 3.3.1",
           "as many Calls as the last grant says, the rest waits") {
    open_client(2);
    for (std::uint32_t xid = 7; xid <= 9; ++xid) {
        call({.xid = xid});
    }
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "send 8 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("8 2 2 0 / 1 0 / 0 0 0 / reply:40");
    does({"complete 2 replied 40", "send 9 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcCredits, GrantReduced, "8166 3.3.1", "a smaller grant holds for what is sent next") {
    open_client(3);
    for (std::uint32_t xid = 7; xid <= 10; ++xid) {
        call({.xid = xid});
    }
    peer("7 2 1 0 / 1 0 / 0 0 0 / reply:40");
    peer("8 2 1 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "send 8 2 40 0 / 0 0 / 0 0 0 / call:40",
          "send 9 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 replied 40", "complete 2 replied 40"});
    peer("9 2 1 0 / 1 0 / 0 0 0 / reply:40");
    does({"complete 3 replied 40", "send a 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcCredits, GrantOfZero, "8166 3.3.1", "a grant of 0 is taken as 1") {
    open_client(0);
    call({.xid = 7});
    call({.xid = 8});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcCredits, EndlessGrant, "8166 3.3.1",
           "never more Calls outstanding than receives are posted for their Replies") {
    open_client(0xFFFFFFFFU, {.wanted_credits = 2});
    for (std::uint32_t xid = 7; xid <= 9; ++xid) {
        call({.xid = xid});
    }
    does({"send 7 2 2 0 / 0 0 / 0 0 0 / call:40", "send 8 2 2 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcCredits, QueueIsBounded, "8166 3.3.1", "Calls beyond the queue are refused") {
    open_client(1, {.max_queued_calls = 1});
    for (std::uint32_t xid = 7; xid <= 9; ++xid) {
        call({.xid = xid});
    }
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 3 too-large"});
}

RPC_SCRIPT(RpcCredits, PeerExceedsGrant, "8166 3.3.1",
           "more Calls outstanding than granted: the connection is closed") {
    open_server({.granted_credits = 1});
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    peer("8 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"execute 7 40", "close credits-exceeded"});
    drop();
}

RPC_SCRIPT(RpcCredits, ErrorGivesItBack, "draft 7.2.4", "an ERROR gives the credit back and grants") {
    open_client(1);
    call({.xid = 7});
    call({.xid = 8});
    call({.xid = 9});
    peer("7 2 2 4 a");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 error 10 0 0",
          "send 8 2 40 0 / 0 0 / 0 0 0 / call:40", "send 9 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

// --- properties

RPC_SCRIPT(RpcProperties, LargerReceives, "draft 6.4.1", "CONNPROP with RBSIZ: larger messages go inline") {
    open_client();
    peer("0 2 20 6 / 1 / 1 4 2000 / 0");
    call({.octets = 8192 - 36});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:8156"});
    EXPECT_EQ(connection().send_limit(), 8192U);
}

RPC_SCRIPT(RpcProperties, OwnReceivesAreTold, "draft 6.4.1",
           "the Reply threshold is what CONNPROP has told") {
    open_client(16, {.receive_octets = 8192});
    call({.max_reply = 8192 - 36});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(
    RpcProperties, DefaultValue, "draft 6.1.1",
    "a value of length 0 is the default; unknown properties are skipped; of two values the last counts") {
    open_client();
    peer("0 2 20 6 / 4 / 1 4 2000 / 1 0 / ffffff01 8 1 2 / 63 0 / 0");
    EXPECT_EQ(connection().send_limit(), 4096U);
    does_nothing();
}

RPC_SCRIPT(RpcProperties, BadValue, "draft 6.1.1",
           "a value too short for its type, or beyond the message: BAD_XDR") {
    open_server();
    peer("9 2 20 6 / 1 / 1 2 20000000 / 0");
    does({"send 9 2 40 4 2"});
    peer("9 2 20 6 / 1 / 1 100 2000 / 0");
    does({"send 9 2 40 4 2"});
    peer("9 2 20 6 / 1 / 2 4 3 / 0");
    does({"send 9 2 40 4 2"});
}

RPC_SCRIPT(RpcProperties, NotSupported, "draft 6.3",
           "without properties: INVAL_OPTION for each of the four, but for an answer") {
    open_server({.has_properties = false});
    peer("9 2 20 6 / 0 0");
    peer("9 2 20 7 / 0");
    peer("9 2 20 8 / 0 0 0");
    peer("9 2 20 9 / 0");
    does({"send 9 2 40 4 9", "send 9 2 40 4 9", "send 9 2 40 4 9"});
}

RPC_SCRIPT(RpcProperties, RequestUp, "draft 6.3.3",
           "REQPROP for larger receives is answered when all smaller ones are used up") {
    open_server();
    peer("77 2 20 7 / 1 / 1 4 2000");
    does({"resize 8192"});
    resized(8192);
    does({"send 77 2 40 8 / 1 1 / 0 / 0"});
    EXPECT_EQ(connection().receive_limit(), 8192U);
}

RPC_SCRIPT(RpcProperties, RequestTooMuch, "draft 6.3.3",
           "more than is possible: the value that it has become") {
    open_server({.max_receive_octets = 16384});
    peer("77 2 20 7 / 1 / 1 4 10000");
    does({"resize 16384"});
    resized(16384);
    does({"send 77 2 40 8 / 0 / 0 / 1 1 4 4000"});
}

RPC_SCRIPT(RpcProperties, RequestWhatIs, "draft 6.3.3",
           "the value that it has is done; less than 4096 and unknown ones are rejected") {
    open_server();
    peer("77 2 20 7 / 2 / 1 4 1000 / 63 0");
    does({"send 77 2 40 8 / 1 1 / 1 2 / 0"});
    peer("78 2 20 7 / 1 / 1 4 400");
    does({"send 78 2 40 8 / 0 / 1 1 / 0"});
}

RPC_SCRIPT(RpcProperties, SecondRequest, "draft 6.3.3",
           "one change at a time: a second request is rejected") {
    open_server();
    peer("77 2 20 7 / 1 / 1 4 2000");
    peer("78 2 20 7 / 1 / 1 4 3000");
    resized(8192);
    does({"resize 8192", "send 78 2 40 8 / 0 / 1 1 / 0", "send 77 2 40 8 / 1 1 / 0 / 0"});
}

RPC_SCRIPT(RpcProperties, AskForMore, "draft 6.3.2",
           "REQPROP of ours: done, or another value; until then the old size holds") {
    open_client();
    EXPECT_TRUE(connection().request_receive_size(65536));
    EXPECT_FALSE(connection().request_receive_size(32768));
    does({"send 1 2 40 7 / 1 / 1 4 10000"});
    EXPECT_EQ(connection().send_limit(), 4096U);
    peer("1 2 20 8 / 0 / 0 / 1 1 4 4000");
    EXPECT_EQ(connection().send_limit(), 16384U);
}

RPC_SCRIPT(RpcProperties, AskForLess, "draft 6.4.1",
           "who asks for smaller receives sends no larger messages at once") {
    open_client();
    peer("0 2 20 6 / 1 / 1 4 4000 / 0");
    EXPECT_TRUE(connection().request_receive_size(8192));
    EXPECT_EQ(connection().send_limit(), 8192U);
    peer("1 2 20 8 / 0 / 1 1 / 0");
    EXPECT_EQ(connection().send_limit(), 16384U);
    does({"send 1 2 40 7 / 1 / 1 4 2000"});
}

RPC_SCRIPT(
    RpcProperties, SizeThatCrossesARequest, "draft 6.4.1",
    "a size that was told before the peer saw the request for smaller receives does not lift the limit") {
    open_client();
    peer("0 2 20 6 / 1 / 1 4 4000 / 0");
    EXPECT_TRUE(connection().request_receive_size(8192));
    peer("0 2 20 9 / 1 / 1 4 10000");
    EXPECT_EQ(connection().send_limit(), 8192U);
    peer("1 2 20 8 / 0 / 1 1 / 0");
    EXPECT_EQ(connection().send_limit(), 65536U);
    does({"send 1 2 40 7 / 1 / 1 4 2000"});
}

RPC_SCRIPT(RpcProperties, OverlappingAnswer, "draft 6.3.3",
           "done and rejected at once is rejected; an answer to nothing is counted") {
    open_client();
    EXPECT_TRUE(connection().request_receive_size(8192));
    peer("9 2 20 8 / 1 1 / 0 / 0");
    EXPECT_EQ(connection().counters().unknown_xids, 1U);
    peer("1 2 20 8 / 1 1 / 1 1 / 0");
    EXPECT_EQ(connection().send_limit(), 4096U);
    does({"send 1 2 40 7 / 1 / 1 4 2000"});
}

RPC_SCRIPT(RpcProperties, PeerWithoutProperties, "draft 6.3",
           "INVAL_OPTION or INVAL_PROC for ours: nothing is asked any more, Calls go on") {
    open_client();
    peer("0 2 20 4 3");
    EXPECT_FALSE(connection().request_receive_size(8192));
    call({});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcProperties, Update, "draft 6.3.4", "UPDPROP in both directions") {
    open_client();
    peer("0 2 20 9 / 1 / 1 4 2000");
    EXPECT_EQ(connection().send_limit(), 8192U);
    EXPECT_TRUE(connection().grow_receives(16384));
    EXPECT_FALSE(connection().grow_receives(32768));
    does({"resize 16384"});
    resized(16384);
    does({"send 0 2 40 9 / 1 / 1 4 4000"});
}

// --- backward

RPC_SCRIPT(RpcBackward, ServerCalls, "8167 4.1",
           "a server calls the client; the credits of both directions are apart") {
    open_server();
    call({.xid = 1});
    does({"send 1 2 40 0 / 0 0 / 0 0 0 / call:40"});
    peer("1 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"execute 1 40"});
    peer("1 2 20 0 / 1 0 / 0 0 0 / reply:40");
    does({"complete 1 replied 40"});
    drop();
}

RPC_SCRIPT(RpcBackward, NotBeforeTheVersion, "draft 8",
           "a server cannot call before the client has sent its first message") {
    server();
    call({.xid = 9});
    does_nothing();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({std::string(kOwnConnprop), "execute 7 40", "send 9 2 40 0 / 0 0 / 0 0 0 / call:40"});
    drop();
}

RPC_SCRIPT(RpcBackward, ClientAnswers, "8167 4.1", "a client answers Calls of the server's") {
    open_client();
    peer("5 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"execute 5 40"});
    reply();
    does({"send 5 2 40 0 / 1 0 / 0 0 0 / reply:40"});
    sent();
    does({"replied 5"});
}

RPC_SCRIPT(RpcBackward, ChunksNeedSupport, "draft 6.4.2",
           "property BRS: INLINE by default, so a backward Call with chunks is refused; GENL takes it, NONE "
           "takes none") {
    open_server();
    call({.xid = 1, .octets = 5000});
    does({"complete 1 backward-refused"});
    peer("0 2 20 6 / 1 / 2 4 2 / 0");
    call({.xid = 1, .octets = 5000});
    does({"send 1 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0"});
    peer("0 2 20 9 / 1 / 2 4 0");
    call({.xid = 2});
    peer("1 2 20 0 / 1 0 / 0 0 0 / reply:40");
    does({"withdraw a101", "complete 2 replied 40", "complete 3 backward-refused"});
}

RPC_SCRIPT(RpcBackward, OwnSupport, "draft 6.4.2",
           "what is not taken is answered by SYSTEM: chunks with INLINE, all with NONE") {
    open_client(16, {.backward = BackwardSupport::kInline});
    peer("5 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0");
    does({"send 5 2 40 4 a"});
    TearDown();
    open_client(16, {.backward = BackwardSupport::kNone});
    peer("5 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"send 5 2 40 4 a"});
}

RPC_SCRIPT(RpcBackward, Version1, "8167 5.1", "in version 1 the RPC message tells the direction") {
    server();
    peer("7 1 20 0 / 0 0 0 / call:40");
    call({.xid = 7});
    peer("7 1 20 0 / 0 0 0 / reply:40");
    does({"execute 7 40", "send 7 1 40 0 / 0 0 0 / call:40", "complete 1 replied 40"});
    drop();
}

}  // namespace
}  // namespace urnic::rpcrdma::sim
