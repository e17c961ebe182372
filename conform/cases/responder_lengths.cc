// Payload lengths, DMALen and pad bytes that do not fit together (IBA 9.7.4.1.6).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

// --- Payload against the path MTU -------------------------------------------------------------------------

CONFORM_CASE(ResponderLength, FirstIsNotThePathMtu, "9.7.4.1.6 (C9-92)",
             "a First shorter or longer than the path MTU: NAK invalid request") {
    for (const std::uint32_t length : {0U, 1U, 255U, 257U, 260U, 512U}) {
        connect({.mtu = 256});
        peer(unasked(write_first(2000, 1024, length)));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 1024);
        connect({.mtu = 256});
        post_receive(100, 1024);
        peer(unasked(send_first(2000, length)));
        refuses(2000, 0, kInvalid);
        receives(flushed(100));
        holds_own_data(0, 1024);
    }
}

CONFORM_CASE(ResponderLength, MiddleIsNotThePathMtu, "9.7.4.1.6 (C9-92)",
             "a Middle shorter or longer than the path MTU: NAK invalid request") {
    for (const std::uint32_t length : {0U, 1U, 255U, 257U, 260U, 512U}) {
        connect({.mtu = 256});
        peer({write_first(2000, 2048, 256), unasked(write_middle(2001, length, 256))});
        refuses(2001, 0, kInvalid);
        holds_own_data(256, 1024);
        connect({.mtu = 256});
        post_receive(100, 2048);
        peer({send_first(2000, 256), unasked(send_middle(2001, length, 256))});
        sends(nak(2001, 0, kInvalid));
        state(QpState::kErr);
        receives(failed(100, WcStatus::kRemInvReqErr));
        holds_own_data(256, 1024);
    }
}

CONFORM_CASE(ResponderLength, LastIsEmpty, "9.7.4.1.6 (C9-92)",
             "a Last without payload: NAK invalid request") {
    connect({.mtu = 256});
    peer({write_first(2000, 300, 256), write_last(2001, 0, 256)});
    refuses(2001, 0, kInvalid);
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({send_first(2000, 256), send_last(2001, 0, 256)});
    sends(nak(2001, 0, kInvalid));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kRemInvReqErr));
}

CONFORM_CASE(ResponderLength, LastIsLongerThanThePathMtu, "9.7.4.1.6 (C9-92)",
             "a Last longer than the path MTU: NAK invalid request") {
    for (const std::uint32_t length : {257U, 260U, 512U}) {
        connect({.mtu = 256});
        peer({write_first(2000, 256 + length, 256), write_last(2001, length, 256)});
        refuses(2001, 0, kInvalid);
        holds_own_data(256, length);
        connect({.mtu = 256});
        post_receive(100, 1024);
        peer({send_first(2000, 256), send_last(2001, length, 256)});
        sends(nak(2001, 0, kInvalid));
        state(QpState::kErr);
        receives(failed(100, WcStatus::kRemInvReqErr));
        holds_own_data(256, length);
    }
}

CONFORM_CASE(ResponderLength, OnlyIsLongerThanThePathMtu, "9.7.4.1.6 (C9-92)",
             "an Only longer than the path MTU: NAK invalid request") {
    for (const std::uint32_t length : {257U, 260U, 512U}) {
        connect({.mtu = 256});
        peer(write_only(2000, length));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, length);
        connect({.mtu = 256});
        post_receive(100, 1024);
        peer(send_only(2000, length));
        refuses(2000, 0, kInvalid);
        receives(flushed(100));
        holds_own_data(0, length);
    }
}

CONFORM_CASE(ResponderLength, NothingIsLongerThan4096, "9.7.4.1.6 (C9-92)",
             "4096 bytes are the most that a packet carries, also where a frame has room for more") {
    connect({.mtu = 4096});
    peer(write_only(2000, 4096));
    sends(acked(2000, 1));
    holds_peer_data(0, 4096, 0);
    peer(write_only(2001, 4100, 8192));
    refuses(2001, 1, kInvalid);
    holds_own_data(8192, 4100);
}

// --- WRITE against its DMALen -----------------------------------------------------------------------------

CONFORM_CASE(ResponderLength, WriteOnlyUnlikeItsDmaLength, "9.7.4.1.6",
             "WRITE Only with more or fewer bytes than DMALen says: NAK invalid request") {
    const struct {
        std::uint32_t dma_length;
        std::uint32_t length;
    } rows[] = {{12, 8}, {4, 8}, {9, 8}, {7, 8}, {0, 8}, {8, 0}, {1024, 256}};
    for (const auto& row : rows) {
        connect({.mtu = 256});
        peer(write_only(2000, row.length).reth(memory().addr(), memory().key(), row.dma_length));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 1024);
    }
}

CONFORM_CASE(ResponderLength, WriteFirstOfOnePacket, "9.7.4.1.6",
             "WRITE First whose DMALen leaves nothing for a Last: NAK invalid request") {
    for (const std::uint32_t dma_length : {0U, 1U, 255U, 256U}) {
        connect({.mtu = 256});
        peer(unasked(write_first(2000, dma_length, 256)));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 256);
    }
}

CONFORM_CASE(ResponderLength, WriteMiddleBeyondItsDmaLength, "9.7.4.1.6",
             "WRITE Middle that uses DMALen up: NAK invalid request") {
    for (const std::uint32_t dma_length : {300U, 512U}) {
        connect({.mtu = 256});
        peer({write_first(2000, dma_length, 256), unasked(write_middle(2001, 256, 256))});
        refuses(2001, 0, kInvalid);
        holds_own_data(256, 256);
    }
}

CONFORM_CASE(ResponderLength, WriteLastUnlikeItsDmaLength, "9.7.4.1.6",
             "WRITE Last that ends before or behind DMALen: NAK invalid request") {
    for (const std::uint32_t dma_length : {263U, 265U, 257U, 512U, 520U}) {
        connect({.mtu = 256});
        peer({write_first(2000, dma_length, 256), write_last(2001, 8, 256)});
        refuses(2001, 0, kInvalid);
        holds_own_data(256, 264);
    }
}

CONFORM_CASE(
    ResponderLength, WriteLastImmUnlikeItsDmaLength, "9.7.4.1.6",
    "WRITE Last with Immediate that ends before DMALen: NAK invalid request, no success for its receive") {
    connect({.mtu = 256});
    post_receive(100, 64, 4096);
    peer({write_first(2000, 265, 256), packet(wire::kWriteLastImm, 2001, 8, 256)});
    sends(nak(2001, 0, kInvalid));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kRemInvReqErr));
}

CONFORM_CASE(
    ResponderLength, DmaLengthOf2To31, "9.7.4.1.6 (C9-94)",
    "DMALen of more than max_msg_sz, which is 2^31 at most: NAK invalid request for WRITE and READ") {
    for (const std::uint32_t dma_length : {bench().max_message_bytes() + 1, 0x8000'0001U, 0xffff'ffffU}) {
        connect({.mtu = 256});
        peer(unasked(write_first(2000, dma_length, 256)));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 256);
        connect({.mtu = 256});
        peer(read_request(2000, dma_length));
        refuses(2000, 0, kInvalid);
    }
}

// --- Pad bytes --------------------------------------------------------------------------------------------

CONFORM_CASE(ResponderLength, PadBytesAreNoData, "9.2",
             "1, 2 and 3 pad bytes are cut off: they are neither stored nor counted") {
    for (const std::uint32_t length : {5U, 6U, 7U}) {
        connect();
        post_receive(100, 64);
        peer({send_only(2000, length), write_only(2001, length, 4096)});
        sends(acked(2001, 2));
        receives(ok(100).bytes(length));
        holds_peer_data(0, length, 0);
        holds_own_data(length, 8 - length);
        holds_peer_data(4096, length, 4096);
        holds_own_data(4096 + length, 8 - length);
    }
}

CONFORM_CASE(
    ResponderLength, PadInFirstOrMiddle, "9.7.4.1.6",
    "PadCnt in a First or Middle of the right size: it is no longer the path MTU, NAK invalid request") {
    for (const std::uint8_t pad : {1, 2, 3}) {
        connect({.mtu = 256});
        peer(unasked(write_first(2000, 1024, 256).pad_count_lie(pad)));
        refuses(2000, 0, kInvalid);
        connect({.mtu = 256});
        peer({write_first(2000, 1024, 256), unasked(write_middle(2001, 256, 256).pad_count_lie(pad))});
        refuses(2001, 0, kInvalid);
        holds_own_data(256, 256);
    }
}

CONFORM_CASE(ResponderLength, PadUnlikeDmaLength, "9.7.4.1.6",
             "PadCnt that makes a WRITE shorter or longer than DMALen: NAK invalid request") {
    for (const std::uint8_t pad : {0, 1, 2}) {
        connect();
        peer(write_only(2000, 5).pad_count_lie(pad));  // 3 is right
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 8);
    }
}

CONFORM_CASE(ResponderLength, PadBeyondThePayload, "9.2",
             "PadCnt that says more than there is: no such packet, dropped") {
    connect();
    post_receive(100, 64);
    for (const std::uint8_t pad : {1, 2, 3}) {
        peer(send_only(2000, 0).pad_count_lie(pad));
        peer(read_request(2000, 8).pad_count_lie(pad));
        peer(fetch_add_request(2000, 1).pad_count_lie(pad));
    }
    silence(kSecond);
    holds_own_data(0, 64);
    state(QpState::kRts);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
}

CONFORM_CASE(ResponderLength, PayloadWhereNoneBelongs, "9.2",
             "a READ or atomic request with payload: no such packet, dropped") {
    connect();
    peer(packet(wire::kWriteOnly, 2000, 8).opcode_lie(wire::kReadRequest));
    peer(packet(wire::kWriteOnly, 2000, 64).opcode_lie(wire::kFetchAdd));
    silence(kSecond);
    state(QpState::kRts);
    holds_own_data(0, 64);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

CONFORM_CASE(ResponderLength, HeadersCutOff, "9.2",
             "a request too short for the headers that its opcode asks for: dropped") {
    connect();
    peer(packet(wire::kSendOnly, 2000, 0).opcode_lie(wire::kWriteOnly));
    peer(packet(wire::kSendOnly, 2000, 12).opcode_lie(wire::kReadRequest));
    peer(packet(wire::kSendOnly, 2000, 24).opcode_lie(wire::kCompareSwap));
    peer(packet(wire::kSendOnly, 2000, 0).opcode_lie(wire::kSendOnlyImm));
    silence(kSecond);
    state(QpState::kRts);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

}  // namespace
}  // namespace urnic::conform
