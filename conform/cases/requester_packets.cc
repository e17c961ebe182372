// How work requests become packets: opcodes, lengths, padding, PSNs, AckReq, what each header says.
#include <span>

#include "conform/case/case_list.h"
#include "rnic/qp/limits.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kMtus[] = {256, 512, 1024, 2048, 4096};

class RequesterPackets : public Script {
  protected:
    // The packets of a message of `total` bytes: `first`, `middle`, `last` and `only` are operations.
    ScriptPackets message(wire::Operation first, wire::Operation middle, wire::Operation last,
                          wire::Operation only, std::uint32_t psn, std::uint32_t total) {
        const std::uint32_t mtu = options().mtu;
        const std::uint32_t count = total == 0 ? 1 : (total + mtu - 1) / mtu;
        ScriptPackets packets;
        for (std::uint32_t i = 0; i < count; ++i) {
            const bool is_last = i + 1 == count;
            const wire::Operation operation = i == 0 ? (is_last ? only : first) : (is_last ? last : middle);
            const std::size_t offset = std::size_t{i} * mtu;
            const std::uint32_t bytes = is_last ? total - i * mtu : mtu;
            packets.push_back(packet(operation, psn + i, bytes, offset));
            if (i == 0) {
                packets.back().reth(memory().addr(), memory().key(), total);
            }
        }
        return packets;
    }
    ScriptPackets send_message(std::uint32_t psn, std::uint32_t total) {
        return message(wire::kSendFirst, wire::kSendMiddle, wire::kSendLast, wire::kSendOnly, psn, total);
    }
    ScriptPackets write_message(std::uint32_t psn, std::uint32_t total) {
        return message(wire::kWriteFirst, wire::kWriteMiddle, wire::kWriteLast, wire::kWriteOnly, psn, total);
    }
    // Calls `check(length)` for n path MTUs, one byte less and one more, with each path MTU, on a new
    // connection.
    template <typename Check>
    void for_each_length(Check&& check) {
        for (const std::uint32_t mtu : kMtus) {
            for (const std::uint32_t length : {mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1,
                                               3 * mtu - 1, 3 * mtu, 3 * mtu + 1, 5 * mtu - 3, 5 * mtu - 2}) {
                given("length", length);
                connect({.mtu = mtu});
                check(length);
            }
        }
    }
};

CONFORM_CASE_IN(
    RequesterPackets, SendOfEachLength, "9.7.3",
    "SEND, each path MTU, lengths around its multiples: Only or First, Middle..., Last of whole path MTUs") {
    for_each_length([this](std::uint32_t length) {
        post(send(1, length));
        const ScriptPackets packets = send_message(1000, length);
        sends(packets);
        peer(ack(packets.back().psn(), 1));
        completes(ok(1));
    });
}

CONFORM_CASE_IN(RequesterPackets, WriteOfEachLength, "9.7.3",
                "WRITE, each path MTU, lengths around its multiples: RETH with the whole length in the first "
                "packet alone") {
    for_each_length([this](std::uint32_t length) {
        post(write(1, length));
        const ScriptPackets packets = write_message(1000, length);
        sends(packets);
        peer(ack(packets.back().psn(), 1));
        completes(ok(1));
    });
}

CONFORM_CASE_IN(RequesterPackets, ReadOfEachLength, "9.7.3",
                "READ, each path MTU, lengths around its multiples: one request, as many PSNs as responses") {
    for_each_length([this](std::uint32_t length) {
        const std::uint32_t responses = (length + options().mtu - 1) / options().mtu;
        post({read(1, length), write(2, 8, 65536)});
        sends({read_request(1000, length), write_only(1000 + responses, 8, 65536)});
        answers_read(1000, 1, length);
        completes(ok(1).bytes(length));
        holds_peer_data(0, length, 0);
        peer(ack(1000 + responses, 2));
        completes(ok(2));
    });
}

CONFORM_CASE_IN(RequesterPackets, EmptySend, "9.4.1", "SEND of zero bytes: one packet without payload") {
    connect();
    SendRequest request = send(1, 0);
    request.sge.clear();
    post({request, send(2, 0)});
    sends({send_only(1000, 0), send_only(1001, 0)});
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(RequesterPackets, EmptySendWithImmediate, "9.4.1", "SEND with immediate of zero bytes") {
    connect();
    post(send_imm(1, 0, 0xdeadbeef));
    sends(packet(wire::kSendOnlyImm, 1000, 0).imm(0xdeadbeef));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, EmptyWrite, "9.4.3", "WRITE of zero bytes: one packet, DMALen 0") {
    connect();
    post(write(1, 0));
    sends(write_only(1000, 0));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, EmptyWriteWithImmediate, "9.4.3",
                "WRITE with immediate of zero bytes: RETH and ImmDt") {
    connect();
    post(write_imm(1, 0, 0x01020304));
    sends(packet(wire::kWriteOnlyImm, 1000, 0).imm(0x01020304));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, EmptyRead, "9.4.4",
                "READ of zero bytes: one PSN, completed by an empty Only") {
    connect();
    post({read(1, 0), write(2, 8)});
    sends({read_request(1000, 0), write_only(1001, 8)});
    peer(response_only(1000, 1, 0));
    completes(ok(1).bytes(0));
    peer(ack(1001, 2));
    completes(ok(2));
    holds_own_data(0, 64);
}

CONFORM_CASE_IN(RequesterPackets, Immediate, "9.4.1",
                "ImmDt is in the last packet alone, of SEND and of WRITE") {
    connect({.mtu = 256});
    post({send_imm(1, 300, 0x11), write_imm(2, 300, 0x22)});
    sends({send_first(1000, 256), packet(wire::kSendLastImm, 1001, 44, 256).imm(0x11)});
    sends({write_first(1002, 300, 256), packet(wire::kWriteLastImm, 1003, 44, 256).imm(0x22)});
    peer(ack(1003, 2));
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(RequesterPackets, Invalidate, "9.4.1.1",
                "SEND with invalidate: the IETH with the R_Key is in the last packet alone") {
    connect({.mtu = 256});
    SendRequest request = send_imm(1, 300, 0x00abcdef);
    request.opcode = WrOpcode::kSendWithInvalidate;
    post(request);
    sends({send_first(1000, 256), packet(wire::kSendLastInvalidate, 1001, 44, 256).imm(0x00abcdef)});
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, SolicitedEvent, "9.2",
                "SE is in the last packet of a SEND and of a WRITE with immediate, never in a WRITE") {
    connect({.mtu = 256});
    post({solicited(send(1, 300)), solicited(write_imm(2, 8, 3)), solicited(write(3, 8)), send(4, 8)});
    sends({send_first(1000, 256), send_last(1001, 44, 256).solicited()});
    sends({packet(wire::kWriteOnlyImm, 1002, 8).imm(3).solicited(), write_only(1003, 8), send_only(1004, 8)});
}

CONFORM_CASE_IN(RequesterPackets, Atomics, "9.4.5",
                "AtomicETH: operands of FetchAdd and CmpSwap, and the value that comes back") {
    connect();
    post({fetch_add(1, 0x1122334455667788, 64), compare_swap(2, 5, 0xffffffffffffffff, 128)});
    sends({fetch_add_request(1000, 0x1122334455667788, 64),
           compare_swap_request(1001, 5, 0xffffffffffffffff, 128)});
    peer({atomic_ack(1000, 1, 0x8877665544332211), atomic_ack(1001, 2, 6)});
    completes({ok(1).bytes(8).op(WcOpcode::kFetchAdd), ok(2).bytes(8).op(WcOpcode::kCompSwap)});
    holds_word(64, 0x8877665544332211);
    holds_word(128, 6);
}

CONFORM_CASE_IN(RequesterPackets, GatheredPayload, "10.6.3",
                "a payload gathered from several entries; the key of one of zero bytes is not looked at") {
    connect({.mtu = 256});
    SendRequest request = write(1, 0);
    request.sge = {memory().sge(0, 100), {0x1234, 0, 0xdead}, memory().sge(100, 1), memory().sge(101, 199)};
    post(request);
    sends({write_first(1000, 300, 256), write_last(1001, 44, 256)});
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, InlinePayload, "11.4.1.1",
                "inline data is taken from the WQE, with no key, over packet borders") {
    connect({.mtu = 256}, {.max_inline = 400});
    SendRequest request = write(1, 0);
    request.sge.clear();
    request.flags |= kSendInline;
    for (std::size_t i = 0; i < 300; ++i) {
        request.inline_data.push_back(static_cast<std::byte>(i % 251));
    }
    const std::span<const std::byte> data = request.inline_data;
    post(request);
    sends(
        {write_first(1000, 300, 256).bytes(data.first(256)), write_last(1001, 44).bytes(data.subspan(256))});
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterPackets, PsnWrap, "9.7.1",
                "PSNs go on with 0 behind 2^24 - 1: in a message, in a READ, in an ACK, in a NAK") {
    connect({.mtu = 256, .psn_a = 0xff'fffe});
    post({write(1, 768), read(2, 512, 4096), send(3, 8)});
    sends({write_first(0xff'fffe, 768, 256), write_middle(0xff'ffff, 256, 256), write_last(0, 256, 512),
           read_request(1, 512, 4096), send_only(3, 8)});
    peer(sequence_nak(0, 0));
    resends({write_last(0, 256, 512), read_request(1, 512, 4096), send_only(3, 8)});
    if (is_selective()) {
        completes(ok(1));  // its Last went alone, and was acknowledged
    }
    peer(ack(0xff'ffff, 0));
    completes_nothing();
    answers_read(1, 2, 512, 4096);
    completes(is_selective() ? Wcs{ok(2)} : Wcs{ok(1), ok(2)});
    peer(ack(3, 3));
    completes(ok(3));
}

CONFORM_CASE_IN(RequesterPackets, ReadAcrossTheWrap, "9.7.1",
                "a READ whose PSNs wrap, with a response lost behind the wrap") {
    connect({.mtu = 256, .psn_a = 0xff'ffff, .timeout = kTimeout});
    post(read(1, 768));
    sends(read_request(0xff'ffff, 768));
    peer({response_first(0xff'ffff, 1, 256), response_last(1, 1, 256, 512)});
    const std::uint32_t length = asks_again(0, 256, 256, 512);
    answers_read(0, 1, length, 256);
    completes(ok(1));
    holds_peer_data(0, 768, 0);
}

CONFORM_CASE_IN(RequesterPackets, AckReqOfEachMessage, "9.7.3",
                "the last packet of what has to be acknowledged asks for it") {
    connect({.mtu = 256});
    post({write(1, 600), send(2, 300), write_imm(3, 8, 1)});
    sends({write_first(1000, 600, 256), write_middle(1001, 256, 256), write_last(1002, 88, 512).ackreq(),
           send_first(1003, 256), send_last(1004, 44, 256).ackreq(),
           packet(wire::kWriteOnlyImm, 1005, 8).imm(1).ackreq()});
}

CONFORM_CASE_IN(RequesterPackets, AckReqOfUnsignaled, "9.7.3",
                "a request without completion asks for its ACK all the same: a loss has to show") {
    connect();
    post({unsignaled(write(1, 8)), unsignaled(send(2, 8))});
    sends({write_only(1000, 8).any_ackreq(), send_only(1001, 8).ackreq()});
}

CONFORM_CASE_IN(RequesterPackets, KeyFields, "9.2",
                "P_Key of the QP, DestQP, TVer 0, MigReq 1, no FECN or BECN in every kind of request") {
    connect({}, {.pkeys = {0x8123}});
    post({send(1, 8), write(2, 8), read(3, 8), fetch_add(4, 1)});
    sends({send_only(1000, 8).pkey(0x8123), write_only(1001, 8).pkey(0x8123),
           read_request(1002, 8).pkey(0x8123), fetch_add_request(1003, 1).pkey(0x8123)});
}

}  // namespace
}  // namespace urnic::conform
