// The requester: how a Call travels, what room its Reply gets, how it ends.
#include "tests/sim/rpcrdma/rpc_script.h"

namespace urnic::rpcrdma::sim {
namespace {

constexpr std::size_t kInline = 4096 - 36;

RPC_SCRIPT(RpcRequester, LongestInline, "draft 3.3", "a Call of 4096 octets with its header goes inline") {
    open_client();
    call({.octets = kInline});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:4060"});
}

RPC_SCRIPT(RpcRequester, OneWordBeyond, "draft 3.3",
           "a Call of 4100 octets with its header goes by a Position-Zero Read chunk") {
    open_client();
    call({.octets = kInline + 4});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 fe0 0 1000 0 / 0 0"});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"withdraw a101", "complete 1 replied 40"});
}

RPC_SCRIPT(RpcRequester, ItemByReadChunk, "8166 3.4.5",
           "a DDP-eligible item that does not fit inline is left out; its position counts the whole stream") {
    open_client();
    call({.octets = 160, .item_at = 160, .item_octets = 8190});
    does({"send 7 2 40 0 / 0 0 / 1 a0 a101 1ffe 0 1000 0 / 0 0 / call:160"});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"withdraw a101", "complete 1 replied 40"});
}

RPC_SCRIPT(
    RpcRequester, ItemAndLongStream, "8166 3.5.3",
    "where the rest does not fit either, it goes by a Position-Zero chunk in front of the item's chunk") {
    open_client();
    call({.octets = 5000, .item_at = 160, .item_octets = 8192});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 / 1 a0 a102 2000 0 1000 0 / 0 0"});
}

RPC_SCRIPT(RpcRequester, LargeReplyGetsAChunk, "8166 3.4.6",
           "a Reply that may exceed the threshold gets a Reply chunk; the Reply comes in it") {
    open_client();
    call({.max_reply = 9000});
    does({"send 7 2 40 0 / 0 0 / 0 0 1 1 a101 2328 0 1000 / call:40"});
    peer("7 2 10 1 / 1 0 / 0 0 1 1 a101 1f40 0 1000");
    does({"withdraw a101", "complete 1 replied 8000"});
}

RPC_SCRIPT(RpcRequester, ReplyChunkUnused, "8166 3.4.6",
           "a Reply that fits inline leaves the Reply chunk out, or says that nothing was written") {
    open_client();
    call({.max_reply = 9000});
    peer("7 2 10 0 / 1 0 / 0 0 1 1 a101 0 0 1000 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 0 1 1 a101 2328 0 1000 / call:40", "withdraw a101",
          "complete 1 replied 40"});
}

RPC_SCRIPT(RpcRequester, ReplyAtTheThreshold, "draft 3.3",
           "a Reply of 4096 octets with its header needs no chunk, one word more does") {
    open_client();
    call({.xid = 7, .max_reply = kInline});
    call({.xid = 8, .max_reply = kInline + 4});
    does(
        {"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "send 8 2 40 0 / 0 0 / 0 0 1 1 a101 fe0 0 1000 / call:40"});
}

RPC_SCRIPT(RpcRequester, ResultByWriteChunk, "8166 3.4.6",
           "a DDP-eligible result gets a Write chunk; the Reply says how much was written") {
    open_client();
    call({.results = {8192}});
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40"});
    peer("7 2 10 0 / 1 0 / 0 1 1 a101 1388 0 1000 0 0 / reply:40");
    does({"withdraw a101", "complete 1 replied 40 result:5000"});
}

RPC_SCRIPT(RpcRequester, SmallResultIsInline, "8166 3.4.6", "a result that fits inline gets no chunk") {
    open_client();
    call({.results = {512}});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcRequester, WriteListLeftOut, "8166 4.4.1",
           "a responder that wrote nothing may leave the Write list out") {
    open_client();
    call({.results = {8192}});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "complete 1 replied 40"});
}

// --- lies

RPC_SCRIPT(RpcRequester, MoreWrittenThanOffered, "8166 4.4.1",
           "a Write chunk that came back longer ends the Call as a bad Reply") {
    open_client();
    call({.results = {8192}});
    peer("7 2 10 0 / 1 0 / 0 1 1 a101 2001 0 1000 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, ForeignHandleBack, "8166 4.4.1",
           "a Write chunk with another handle ends the Call as a bad Reply") {
    open_client();
    call({.results = {8192}});
    peer("7 2 10 0 / 1 0 / 0 1 1 a102 100 0 1000 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, OneChunkTooMany, "8166 4.4.1",
           "more Write chunks than were given end the Call as a bad Reply") {
    open_client();
    call({.results = {8192}});
    peer("7 2 10 0 / 1 0 / 0 1 1 a101 100 0 1000 1 1 a101 100 0 1000 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, ReplyChunkNeverGiven, "8166 3.5.5",
           "NOMSG without a Reply chunk of ours ends the Call as a bad Reply") {
    open_client();
    call({});
    peer("7 2 10 1 / 1 0 / 0 0 1 1 a101 100 0 1000");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, NomsgWithNothing, "8166 3.5.5",
           "NOMSG whose Reply chunk is empty ends the Call as a bad Reply") {
    open_client();
    call({.max_reply = 9000});
    peer("7 2 10 1 / 1 0 / 0 0 1 1 a101 0 0 1000");
    does({"send 7 2 40 0 / 0 0 / 0 0 1 1 a101 2328 0 1000 / call:40", "withdraw a101",
          "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, ReplyWithReadList, "8166 4.3", "a Reply with Read chunks is a bad one") {
    open_client();
    call({});
    peer("7 2 10 0 / 1 0 / 1 28 b1 10 0 1000 0 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, ReplyThatDoesNotParse, "draft 7.2.4",
           "a Reply that cannot be parsed ends the Call and is not answered: errors go from responder to "
           "requester") {
    open_client();
    call({});
    peer("7 2 10 0 / 1 0 / 2 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, EmptyReply, "draft 7.2.1", "MSG without a payload is a bad Reply") {
    open_client();
    call({});
    peer("7 2 10 0 / 1 0 / 0 0 0");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 bad-reply"});
}

RPC_SCRIPT(RpcRequester, UnknownXid, "draft 7.2.2",
           "a Reply to an XID that is not outstanding is counted and dropped") {
    open_client();
    peer("9 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does_nothing();
    EXPECT_EQ(connection().counters().unknown_xids, 1U);
}

RPC_SCRIPT(RpcRequester, TwoReplies, "draft 7.2.2",
           "the second Reply is to an XID that is no longer outstanding") {
    open_client();
    call({});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 replied 40"});
    EXPECT_EQ(connection().counters().unknown_xids, 1U);
}

RPC_SCRIPT(RpcRequester, SameXidTwice, "5531 9", "an XID that is outstanding is refused") {
    open_client();
    call({});
    call({});
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 2 duplicate-xid"});
}

// --- errors (draft, table of section 7.2.4)

RPC_SCRIPT(RpcRequesterErrors, BadXdrEnds, "draft 7.2.4",
           "BAD_XDR ends the Call; the same is never sent again") {
    open_client();
    call({});
    peer("7 2 10 4 2");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 error 2 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, SystemEnds, "draft 7.2.4", "SYSTEM ends the Call") {
    open_client();
    call({});
    peer("7 2 10 4 a");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 error 10 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, InvalProcEnds, "draft 7.2.4",
           "INVAL_PROC ends the Call: the peer lacks that header type; others go on") {
    open_client();
    call({.xid = 7, .octets = 5000});
    call({.xid = 8});
    peer("7 2 10 4 3");
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "send 8 2 40 0 / 0 0 / 0 0 0 / call:40",
          "withdraw a101", "complete 1 error 3 0 0"});
    peer("8 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"complete 2 replied 40"});
}

RPC_SCRIPT(
    RpcRequesterErrors, SegmentsEnds, "draft 7.2.4",
    "SEGMENTS ends a Call whose chunks have one segment each, and tells the program how many are taken") {
    open_client();
    call({.octets = 5000});
    peer("7 2 10 4 6 0");
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101", "complete 1 error 6 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, InvalOptionEnds, "draft 7.2.4",
           "INVAL_OPTION with the XID of a Call ends it") {
    open_client();
    call({});
    peer("7 2 10 4 9");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 error 9 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, ChunkErrorOfVersion1Ends, "8166 4.5.3",
           "ERR_CHUNK of version 1 ends the Call; it is not sent again") {
    client({.versions = 1U << kVersion1});
    call({.octets = 5000});
    peer("7 1 10 4 2");
    does({"send 7 1 40 1 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101", "complete 1 error 2 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, ReadChunksSendsWhole, "draft 7.2.4",
           "READ_CHUNKS: sent again whole, in a Position-Zero Read chunk, once") {
    open_client();
    call({.octets = 160, .item_at = 160, .item_octets = 8192});
    peer("7 2 10 4 4 0");
    does({"send 7 2 40 0 / 0 0 / 1 a0 a101 2000 0 1000 0 / 0 0 / call:160", "withdraw a101",
          "send 7 2 40 1 / 0 0 / 1 0 a102 20a0 0 1000 0 / 0 0"});
    peer("7 2 10 4 4 0");
    does({"withdraw a102", "complete 1 error 4 0 0"});
    EXPECT_EQ(connection().counters().calls_resent, 1U);
}

RPC_SCRIPT(RpcRequesterErrors, ClosedBeforeItIsSentAgain, "draft 7.2.4",
           "a connection that closes while the chunks of a refused Call are withdrawn ends the Call without "
           "a Reply") {
    open_client();
    withdraw_later();
    call({.octets = 160, .item_at = 160, .item_octets = 8192});
    peer("7 2 10 4 4 0");
    peer_octets(Octets(7));
    does({"send 7 2 40 0 / 0 0 / 1 a0 a101 2000 0 1000 0 / 0 0 / call:160", "withdraw a101",
          "close unanswerable"});
    withdrawn();
    does({"complete 1 disconnected"});
}

RPC_SCRIPT(RpcRequesterErrors, ReadChunksForPositionZero, "draft 7.2.4",
           "READ_CHUNKS for a Position-Zero chunk ends the Call") {
    open_client();
    call({.octets = 5000});
    peer("7 2 10 4 4 0");
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101", "complete 1 error 4 0 0"});
}

RPC_SCRIPT(RpcRequesterErrors, WriteChunksGivesReplyChunk, "draft 7.2.4",
           "WRITE_CHUNKS: sent again without Write chunks, with a Reply chunk large enough") {
    open_client();
    call({.results = {8192}, .max_reply = 100});
    peer("7 2 10 4 5 0");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "send 7 2 40 0 / 0 0 / 0 0 1 1 a102 2064 0 1000 / call:40"});
    peer("7 2 10 1 / 1 0 / 0 0 1 1 a102 2064 0 1000");
    does({"withdraw a102", "complete 1 replied 8292"});
}

RPC_SCRIPT(RpcRequesterErrors, ReplyResourceGivesRoom, "draft 7.2.4",
           "REPLY_RESOURCE: sent again with the same XID and the room that is needed, once") {
    open_client();
    call({});
    peer("7 2 10 4 8 2328");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40",
          "send 7 2 40 0 / 0 0 / 0 0 1 1 a101 2328 0 1000 / call:40"});
    peer("7 2 10 4 8 4000");
    does({"withdraw a101", "complete 1 error 8 16384 0"});
}

RPC_SCRIPT(RpcRequesterErrors, ReplyResourceBeyondTheLimit, "draft 7.2.4",
           "a length beyond the own limit ends the Call") {
    open_client();
    call({});
    peer("7 2 10 4 8 ffffffff");
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 1 error 8 4294967295 0"});
}

RPC_SCRIPT(RpcRequesterErrors, WriteResourceIsTold, "draft 7.2.4",
           "WRITE_RESOURCE tells the program which chunk was too short, and what it needs") {
    open_client();
    call({.results = {8192}});
    peer("7 2 10 4 7 1 2ee0");
    does({"send 7 2 40 0 / 0 0 / 0 1 1 a101 2000 0 1000 0 0 / call:40", "withdraw a101",
          "complete 1 error 7 1 12000"});
}

RPC_SCRIPT(RpcRequesterErrors, ErrorForNothing, "draft 7.2.4", "an ERROR is never answered by an ERROR") {
    open_client();
    peer("9 2 10 4 2");
    peer("9 2 10 4 63");
    peer("9 2 10 4");
    does_nothing();
}

// --- ends

RPC_SCRIPT(RpcRequester, Timeout, "8166 3.3.1",
           "a Call that times out gives its memory back; its credit comes with the late Reply") {
    open_client(1);
    call({.xid = 7, .octets = 5000, .deadline_ns = 100});
    call({.xid = 8});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0"});
    time(99);
    does_nothing();
    EXPECT_EQ(connection().next_timer_ns(), 100);
    time(100);
    does({"withdraw a101", "complete 1 timed-out"});
    peer("7 2 1 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 8 2 40 0 / 0 0 / 0 0 0 / call:40"});
}

RPC_SCRIPT(RpcRequester, TimeoutInTheQueue, "8166 3.3.1", "a Call that never got a credit times out, too") {
    open_client(1);
    call({.xid = 7});
    call({.xid = 8, .deadline_ns = 100});
    time(100);
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "complete 2 timed-out"});
}

RPC_SCRIPT(RpcRequester, EndsAfterWithdrawal, "8166 3.4.6",
           "a Call ends when its memory is out of the peer's reach, not before") {
    open_client();
    withdraw_later();
    call({.octets = 5000});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101"});
    withdrawn();
    does({"complete 1 replied 40"});
}

RPC_SCRIPT(RpcRequester, ConnectionLost, "draft 9", "the connection's end ends all Calls, sent and queued") {
    open_client(1);
    call({.xid = 7, .octets = 5000});
    call({.xid = 8});
    disconnected();
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101", "complete 1 disconnected",
          "complete 2 disconnected"});
    call({.xid = 9});
    does({"complete 3 disconnected"});
}

RPC_SCRIPT(RpcRequester, LostWhileWithdrawing, "draft 9",
           "a Reply that was there is not lost with the connection") {
    open_client();
    withdraw_later();
    call({.octets = 5000});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40");
    disconnected();
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0", "withdraw a101", "complete 1 replied 40"});
}

RPC_SCRIPT(RpcRequester, NoMemory, "8166 3.4",
           "memory that cannot be exposed ends the Call; what was exposed is withdrawn") {
    open_client();
    refuse_memory();
    call({.octets = 5000});
    does({"complete 1 no-memory"});
}

// --- remote invalidation

RPC_SCRIPT(RpcInvalidation, FirstHandleIsOffered, "draft 7.2.3",
           "inv_handle is a handle of the Call; a Reply that invalidates it leaves the others to us") {
    has_windows = true;
    open_client();
    call({.octets = 160, .item_at = 160, .item_octets = 8192, .results = {8192}});
    does({"send 7 2 40 0 / 0 a101 / 1 a0 a101 2000 0 1000 0 / 1 1 a102 2000 0 1000 0 0 / call:160"});
    peer("7 2 10 0 / 1 0 / 0 1 1 a102 10 0 1000 0 0 / reply:40", 0xA101);
    does({"withdraw a101(invalidated) a102", "complete 1 replied 40 result:16"});
}

RPC_SCRIPT(RpcInvalidation, OtherHandle, "draft 7.2.3",
           "another handle of the Call invalidated: the connection is closed") {
    has_windows = true;
    open_client();
    call({.octets = 160, .item_at = 160, .item_octets = 8192, .results = {8192}});
    peer("7 2 10 0 / 1 0 / 0 1 1 a102 10 0 1000 0 0 / reply:40", 0xA102);
    does({"send 7 2 40 0 / 0 a101 / 1 a0 a101 2000 0 1000 0 / 1 1 a102 2000 0 1000 0 0 / call:160",
          "close wrong-invalidation"});
    disconnected();
    does({"withdraw a101 a102", "complete 1 disconnected"});
}

RPC_SCRIPT(RpcInvalidation, HandleNeverOffered, "draft 7.2.3",
           "an invalidation where nothing was offered closes the connection") {
    open_client();
    call({});
    peer("7 2 10 0 / 1 0 / 0 0 0 / reply:40", 0xA101);
    does({"send 7 2 40 0 / 0 0 / 0 0 0 / call:40", "close wrong-invalidation"});
    disconnected();
    does({"complete 1 disconnected"});
}

RPC_SCRIPT(RpcInvalidation, CallThatInvalidates, "draft 7.2.3", "nothing but a Reply may invalidate") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40", 0xA101);
    does({"close wrong-invalidation"});
}

RPC_SCRIPT(RpcInvalidation, TurnedOff, "draft 7.2.3", "inv_handle is 0 if nothing may be invalidated") {
    has_windows = true;
    open_client(16, {.can_offer_invalidation = false});
    call({.octets = 5000});
    does({"send 7 2 40 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0"});
}

RPC_SCRIPT(RpcInvalidation, AnyHandleInVersion1, "8797 4.1.1",
           "a responder of version 1 may invalidate any handle of the Call") {
    has_windows = true;
    client({.versions = 1U << kVersion1});
    call({.octets = 160, .item_at = 160, .item_octets = 8192, .results = {8192}});
    peer("7 1 10 0 / 0 1 1 a102 10 0 1000 0 0 / reply:40", 0xA102);
    does({"send 7 1 40 0 / 1 a0 a101 2000 0 1000 0 / 1 1 a102 2000 0 1000 0 0 / call:160",
          "withdraw a101 a102(invalidated)", "complete 1 replied 40 result:16"});
}

}  // namespace
}  // namespace urnic::rpcrdma::sim
