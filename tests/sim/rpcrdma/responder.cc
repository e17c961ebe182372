// The responder: which Calls are taken, how their arguments are read, how they are answered.
#include "tests/sim/rpcrdma/rpc_script.h"

namespace urnic::rpcrdma::sim {
namespace {

/// An item of `octets` in place of `message` at `at`, padded.
Octets with_item(const Octets& message, std::size_t at, const Octets& item) {
    Octets whole = message;
    Octets padded = item;
    padded.resize(xdr_padded(item.size()));
    whole.insert(whole.begin() + static_cast<std::ptrdiff_t>(at), padded.begin(), padded.end());
    return whole;
}

RPC_SCRIPT(RpcResponder, InlineBothWays, "draft 7.2.1", "MSG in, MSG out, credits granted") {
    open_server({.granted_credits = 10});
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"execute 7 40"});
    EXPECT_EQ(executed(), rpc_message(7, Direction::kCall, 40));
    reply({.octets = 48});
    does({"send 7 2 a 0 / 1 0 / 0 0 0 / reply:48"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, ReadChunkInPlace, "8166 3.4.5",
           "an argument is read into its place, its padding is added") {
    open_server();
    peer_memory[0xA101] = pattern(4095, 9);
    peer("7 2 20 0 / 0 0 / 1 a0 a101 fff 0 1000 0 / 0 0 / call:200");
    does({"read a101 1000 fff"});
    read_done();
    does({"execute 7 4296"});
    EXPECT_EQ(executed(), with_item(rpc_message(7, Direction::kCall, 200), 0xA0, pattern(4095, 9)));
    drop();
}

RPC_SCRIPT(RpcResponder, SegmentsOfOneChunk, "8166 3.4.3",
           "segments of one position are one chunk, in the order of the list") {
    open_server();
    peer_memory[0xA101] = pattern(4096, 1);
    peer_memory[0xA102] = pattern(100, 2);
    peer("7 2 20 0 / 0 a101 / 1 28 a101 1000 0 1000 / 1 28 a102 64 0 1000 / 0 / 0 0 / call:40");
    does({"read a101 1000 1000", "read a102 1000 64"});
    read_done();
    does_nothing();
    read_done();
    does({"execute 7 4236"});
    Octets item = pattern(4096, 1);
    const Octets rest = pattern(100, 2);
    item.insert(item.end(), rest.begin(), rest.end());
    EXPECT_EQ(executed(), with_item(rpc_message(7, Direction::kCall, 40), 0x28, item));
    drop();
}

RPC_SCRIPT(RpcResponder, TwoChunks, "8166 3.4.5", "positions count what was taken out in front") {
    open_server();
    peer_memory[0xA101] = pattern(10, 1);
    peer_memory[0xA102] = pattern(20, 2);
    // Behind octet 28 hexadecimal 12 octets, then 8 of the stream, then the second.
    peer("7 2 20 0 / 0 0 / 1 28 a101 a 0 1000 / 1 3c a102 14 0 1000 / 0 / 0 0 / call:52");
    does({"read a101 1000 a", "read a102 1000 14"});
    read_done();
    read_done();
    does({"execute 7 84"});
    const Octets one = with_item(rpc_message(7, Direction::kCall, 52), 0x28, pattern(10, 1));
    EXPECT_EQ(executed(), with_item(one, 0x3C, pattern(20, 2)));
    drop();
}

RPC_SCRIPT(RpcResponder, PositionZero, "8166 3.5.3", "NOMSG: the whole Call is read") {
    open_server();
    peer_memory[0xA101] = rpc_message(7, Direction::kCall, 5000);
    peer("7 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0");
    does({"read a101 1000 1388"});
    read_done();
    does({"execute 7 5000"});
    EXPECT_EQ(executed(), rpc_message(7, Direction::kCall, 5000));
    drop();
}

RPC_SCRIPT(RpcResponder, PositionZeroAndItem, "8166 3.5.3",
           "a reduced Call in a Position-Zero chunk is read around its item") {
    open_server();
    peer_memory[0xA101] = rpc_message(7, Direction::kCall, 5000);
    peer_memory[0xA102] = pattern(1001, 4);
    peer("7 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 / 1 a0 a102 3e9 0 1000 0 / 0 0");
    does({"read a101 1000 a0", "read a102 1000 3e9", "read a101 10a0 12e8"});
    read_done();
    read_done();
    read_done();
    does({"execute 7 6004"});
    EXPECT_EQ(executed(), with_item(rpc_message(7, Direction::kCall, 5000), 0xA0, pattern(1001, 4)));
    drop();
}

RPC_SCRIPT(RpcResponder, ReadFails, "8166 4.5",
           "an RDMA READ that fails ends the connection: the QP is in error") {
    open_server();
    peer("7 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0");
    does({"read a101 1000 1388"});
    read_done(false);
    does({"close read-failed"});
}

RPC_SCRIPT(RpcResponder, ResultInWriteChunk, "8166 4.3.2",
           "a result is written, the Write chunk comes back with its octets") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 2 c301 1000 0 1000 c302 1000 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 5000});
    does({"execute 7 40", "write c301 1000 1000", "write c302 1000 388",
          "send 7 2 40 0 / 1 0 / 0 / 1 2 c301 1000 0 1000 c302 388 0 1000 0 / 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, NoResult, "8166 4.3.2", "a Write chunk that is not used comes back with no octets") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 1000 0 1000 0 / 0 / call:40");
    reply();
    does({"execute 7 40", "send 7 2 40 0 / 1 0 / 0 / 1 1 c301 0 0 1000 0 / 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, ResultOneOctetTooLong, "draft 7.2.4",
           "a result that does not fit its Write chunk: WRITE_RESOURCE, which chunk and how much; nothing is "
           "written") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 1388 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 5001});
    does({"execute 7 40", "send 7 2 40 4 7 1 1389", "replied 7"});
}

RPC_SCRIPT(RpcResponder, LongReplyInReplyChunk, "8166 3.5.5",
           "a Reply beyond the threshold is written into the Reply chunk: NOMSG") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 1 2 b201 1000 0 1000 b202 1000 0 1000 / call:40");
    reply({.octets = 4064});
    does({"execute 7 40", "write b201 1000 fe0",
          "send 7 2 40 1 / 1 0 / 0 0 1 2 b201 fe0 0 1000 b202 0 0 1000"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, LongestInlineReply, "draft 3.3",
           "a Reply of 4096 octets with its header goes inline although there is a Reply chunk") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 1 1 b201 2000 0 1000 / call:40");
    reply({.octets = 4060});
    does({"execute 7 40", "send 7 2 40 0 / 1 0 / 0 0 0 / reply:4060"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, ItemInReplyChunk, "8166 3.5.5",
           "results without a Write chunk are in the Reply chunk, with padding, across its segments") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 1 2 b201 1000 0 1000 b202 1000 0 1000 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 4090});
    does({"execute 7 40", "write b201 1000 28", "write b201 1028 fd8", "write b202 1000 22",
          "write b202 1022 2", "send 7 2 40 1 / 1 0 / 0 0 1 2 b201 1000 0 1000 b202 24 0 1000"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, SecondItemInline, "8166 3.4.6",
           "a second result without a Write chunk of its own stays inline") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 1000 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 100, .second_item_octets = 4});
    // The 40 octets of the stream, and the second item.
    does({"execute 7 40", "write c301 1000 64",
          "send 7 2 40 0 / 1 0 / 0 / 1 1 c301 64 0 1000 0 / 0 / 7 1 22de9a56 11cd8945 1bc7834 f0ac6723 "
          "df9b5712 ce8a4602 bd7935f1 ad6824e0 "
          "1dd99551"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, NoRoomForReply, "draft 7.2.4",
           "a Reply without room: REPLY_RESOURCE says how much it needs") {
    open_server();
    peer("11223345 2 20 0 / 0 0 / 0 0 0 / call:40");
    reply({.octets = 9000});
    EXPECT_EQ(reply_status(), ReplyStatus::kNoRoom);
    does({"execute 11223345 40", "send 11223345 2 40 4 8 2328", "replied 11223345"});
}

RPC_SCRIPT(RpcResponder, ReplyChunkOneWordShort, "draft 7.2.4",
           "a Reply chunk that is one word short: REPLY_RESOURCE, nothing is written") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 1 1 b201 1384 0 1000 / call:40");
    reply({.octets = 5000});
    does({"execute 7 40", "send 7 2 40 4 8 1388", "replied 7"});
}

RPC_SCRIPT(RpcResponder, StatusOfAReply, "draft 7.2.4",
           "whoever answers learns whether the Reply was sent, or may be asked for again") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 100 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 257});
    EXPECT_EQ(reply_status(), ReplyStatus::kNoRoom);
    does({"execute 7 40", "send 7 2 40 4 7 1 101", "replied 7"});
    peer("8 2 20 0 / 0 0 / 0 0 0 / call:40");
    reply({.octets = 40, .item_at = 42, .item_octets = 8});
    EXPECT_EQ(reply_status(), ReplyStatus::kRefused);
    does({"execute 8 40", "send 8 2 40 4 a", "replied 8"});
    peer("9 2 20 0 / 0 0 / 0 0 0 / call:40");
    reply();
    EXPECT_EQ(reply_status(), ReplyStatus::kSent);
    does({"execute 9 40", "send 9 2 40 0 / 1 0 / 0 0 0 / reply:40"});
    peer("a 2 20 0 / 0 0 / 0 0 0 / call:40");
    disconnected();
    reply();
    EXPECT_EQ(reply_status(), ReplyStatus::kUnknown);
    does({"execute a 40", "replied 9", "replied a"});
}

// --- what is refused

RPC_SCRIPT(RpcResponderErrors, TooShortToAnswer, "draft 7.2.4",
           "what has no XID and version cannot be answered") {
    server();
    peer_octets(Octets(7));
    does({"close unanswerable"});
}

RPC_SCRIPT(RpcResponderErrors, HeaderCutOff, "draft 7.2.4", "every shorter part of a header: BAD_XDR") {
    open_server();
    const Octets whole = message_of(
        "7 2 20 0 / 0 a101 / 1 28 a101 1000 0 1000 / 1 28 a102 64 0 1000 / 0 / 0 / 1 1 b201 2000 0 1000");
    for (std::size_t octets = 16; octets < whole.size(); octets += 4) {
        peer_octets({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(octets)});
        does({"send 7 2 40 4 2"});
    }
}

RPC_SCRIPT(RpcResponderErrors, UnknownProc, "draft 7.2.4",
           "an unknown header type: INVAL_PROC, those of version 1 too") {
    open_server();
    peer("7 2 20 a");
    does({"send 7 2 40 4 3"});
    peer("7 2 20 3");
    does({"send 7 2 40 4 3"});
}

RPC_SCRIPT(RpcResponderErrors, UnknownProcOfVersion1, "8166 4.5", "version 1 has ERR_CHUNK for it") {
    server();
    peer("7 1 20 9 / 0 0 0");
    does({"send 7 1 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, TooManyReadChunks, "draft 7.2.4",
           "more Read chunks than are taken: READ_CHUNKS says how many; none is read") {
    open_server({.limits = {.max_read_chunks = 1}});
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 0 1000 / 1 38 a102 10 0 1000 / 0 / 0 0 / call:40");
    does({"send 7 2 40 4 4 1"});
}

RPC_SCRIPT(RpcResponderErrors, NoReadChunks, "draft 7.2.4",
           "none are taken: READ_CHUNKS says 0; a Position-Zero chunk is no argument") {
    open_server({.limits = {.max_read_chunks = 0}});
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 0 1000 / 0 / 0 0 / call:40");
    does({"send 7 2 40 4 4 0"});
    peer("7 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0");
    does({"read a101 1000 1388"});
    peer_memory[0xA101] = rpc_message(7, Direction::kCall, 5000);
    read_done();
    does({"execute 7 5000"});
    drop();
}

RPC_SCRIPT(RpcResponderErrors, TooManyWriteChunks, "draft 7.2.4",
           "more Write chunks than are taken: WRITE_CHUNKS; where none is taken, REPLY_RESOURCE") {
    open_server({.limits = {.max_write_chunks = 1}});
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 10 0 1000 / 1 1 c302 10 0 1000 / 0 / 0 / call:40");
    does({"send 7 2 40 4 5 1"});
    TearDown();
    open_server({.limits = {.max_write_chunks = 0}});
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 10 0 1000 / 0 / 0 / call:40");
    does({"send 7 2 40 4 8 0"});
}

RPC_SCRIPT(RpcResponderErrors, TooManySegments, "draft 7.2.4",
           "a chunk with more segments than are taken: SEGMENTS says how many") {
    open_server({.limits = {.max_segments = 1}});
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 0 1000 / 1 28 a102 10 0 1000 / 0 / 0 0 / call:40");
    does({"send 7 2 40 4 6 1"});
}

RPC_SCRIPT(RpcResponderErrors, CallTooLong, "draft 7.2.4",
           "chunks of 4 GiB are refused before any memory is taken: SYSTEM") {
    open_server();
    peer("7 2 20 1 / 0 0 / 1 0 a101 ffffffff 0 1000 / 1 0 a102 ffffffff 0 1000 0 / 0 0");
    does({"send 7 2 40 4 a"});
}

RPC_SCRIPT(RpcResponderErrors, AddressWraps, "8166 4.4",
           "a segment beyond the end of the address space: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 ffffffff fffffff1 0 / 0 0 / call:40");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, PositionBeyondTheStream, "8166 3.4.5",
           "a chunk behind the end of the payload stream: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 0 / 1 2c a101 10 0 1000 0 / 0 0 / call:40");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, ChunksOverlap, "8166 3.4.5", "a position inside the chunk in front: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 0 1000 / 1 2c a102 10 0 1000 / 0 / 0 0 / call:80");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, ResultsOverlap, "8166 3.4.4",
           "segments that two results, or a result and the Reply, would share: BAD_XDR; neighbours do not") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 10 0 1000 / 1 1 c301 10 0 100f / 0 / 0 / call:40");
    peer("7 2 20 0 / 0 0 / 0 / 1 1 c301 10 0 1000 / 0 / 1 1 c301 100 0 f01 / call:40");
    peer("7 2 20 0 / 0 0 / 0 / 1 2 c301 10 0 1000 c301 10 0 1004 / 0 / 0 / call:40");
    does({"send 7 2 40 4 2", "send 7 2 40 4 2", "send 7 2 40 4 2"});
    peer("7 2 20 0 / 0 0 / 0 / 1 2 c301 10 0 1000 c301 10 0 1010 / 0 / 1 1 c302 100 0 1000 / call:40");
    does({"execute 7 40"});
    drop();
}

RPC_SCRIPT(RpcResponder, OneBufferIsTwoArguments, "8166 3.4.5", "what is only read may be named twice") {
    open_server();
    peer_memory[0xA101] = pattern(16, 1);
    peer("7 2 20 0 / 0 0 / 1 28 a101 10 0 1000 / 1 3c a101 10 0 1000 / 0 / 0 0 / call:48");
    does({"read a101 1000 10", "read a101 1000 10"});
    read_done();
    read_done();
    does({"execute 7 80"});
    drop();
}

RPC_SCRIPT(RpcResponderErrors, PositionsDecrease, "8166 3.4.5", "positions that decrease: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 0 / 1 28 a101 4 0 1000 / 1 24 a102 4 0 1000 / 0 / 0 0 / call:80");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, NomsgWithoutChunk, "draft 7.2.1",
           "NOMSG without a Position-Zero chunk: BAD_XDR; so is one with MSG") {
    open_server();
    peer("7 2 20 1 / 0 0 / 0 0 0");
    does({"send 7 2 40 4 2"});
    peer("7 2 20 0 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0 / call:40");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, WrongHandleOffered, "draft 7.2.3",
           "inv_handle is none of the Call's: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 a102 / 1 28 a101 10 0 1000 0 / 0 0 / call:40");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, DirectionIsNotTheMessages, "draft 7.2.2",
           "direction CALL in front of an RPC Reply: BAD_XDR") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / reply:40");
    does({"send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, OtherXidInside, "draft 7.2.2",
           "the RPC message has the header's XID, also one that was read") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / 8 0 0 0");
    does({"send 7 2 40 4 2"});
    peer_memory[0xA101] = rpc_message(8, Direction::kCall, 5000);
    peer("7 2 20 1 / 0 0 / 1 0 a101 1388 0 1000 0 / 0 0");
    read_done();
    does({"read a101 1000 1388", "send 7 2 40 4 2"});
}

RPC_SCRIPT(RpcResponderErrors, NoMemory, "draft 7.2.4", "no memory for the Call: SYSTEM") {
    open_server();
    refuse_memory();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    does({"send 7 2 40 4 a"});
}

RPC_SCRIPT(RpcResponderErrors, Option, "draft 5.1",
           "an unknown option: INVAL_OPTION; the answer to one is not answered") {
    open_server();
    peer("55 2 20 5 / 0 1234 3 61626300");
    does({"send 55 2 40 4 9"});
    peer("55 2 20 5 / 1 1234 3 61626300");
    does_nothing();
}

// --- invalidation and ends

RPC_SCRIPT(RpcResponder, InvalidatesTheOffered, "draft 7.2.3",
           "the Reply is a SEND with Invalidate of exactly the handle that was offered") {
    open_server();
    peer("7 2 20 0 / 0 c301 / 0 / 1 1 c301 1000 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 8});
    does({"execute 7 40", "write c301 1000 8",
          "send+inv:c301 7 2 40 0 / 1 0 / 0 / 1 1 c301 8 0 1000 0 / 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, CannotInvalidate, "draft 7.2.3", "an RNIC without SEND with Invalidate sends SEND") {
    open_server({.can_send_invalidation = false});
    peer("7 2 20 0 / 0 c301 / 0 / 1 1 c301 1000 0 1000 0 / 0 / call:40");
    reply();
    does({"execute 7 40", "send 7 2 40 0 / 1 0 / 0 / 1 1 c301 0 0 1000 0 / 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, InvalidatesInVersion1, "8797 4.1.1",
           "in version 1 the first handle, if the client's private data allow it") {
    server({.own_private_data = {4096, 4096, true}, .peer_private_data = PrivateData{4096, 4096, true}});
    peer("7 1 20 0 / 0 / 1 1 c301 1000 0 1000 0 / 0 / call:40");
    reply({.octets = 40, .item_at = 40, .item_octets = 8});
    does({"execute 7 40", "write c301 1000 8",
          "send+inv:c301 7 1 40 0 / 0 / 1 1 c301 8 0 1000 0 / 0 / reply:40"});
    sent();
    does({"replied 7"});
}

RPC_SCRIPT(RpcResponder, ThresholdsOfPrivateData, "8797 4.1",
           "sizes of version 1 are the lesser of sender's and receiver's") {
    server({.own_private_data = {8192, 4096, true}, .peer_private_data = PrivateData{1024, 2048, false}});
    peer("7 1 20 0 / 0 0 0 / call:40");
    reply({.octets = 2048 - 28});
    does({"execute 7 40", "send 7 1 40 0 / 0 0 0 / reply:2020"});
    sent();
    does({"replied 7"});
    peer("8 1 20 0 / 0 0 0 / call:40");
    reply({.octets = 2048 - 24});
    does({"execute 8 40", "send 8 1 40 4 2", "replied 8"});
}

RPC_SCRIPT(RpcResponder, LostWhileExecuting, "draft 9",
           "a Reply that comes after the connection's end goes nowhere; its memory comes back") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    disconnected();
    reply();
    does({"execute 7 40", "replied 7"});
}

RPC_SCRIPT(RpcResponder, LostWhileReplying, "draft 9",
           "the memory of a Reply under way comes back with the connection's end") {
    open_server();
    peer("7 2 20 0 / 0 0 / 0 0 0 / call:40");
    reply();
    disconnected();
    does({"execute 7 40", "send 7 2 40 0 / 1 0 / 0 0 0 / reply:40", "replied 7"});
}

}  // namespace
}  // namespace urnic::rpcrdma::sim
