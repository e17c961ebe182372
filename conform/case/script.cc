#include "conform/case/script.h"

#include <algorithm>

#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"

namespace urnic::conform {

namespace {

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        // No period that a path MTU divides, so that a slice from the wrong place differs.
        data[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13U);
    }
    return data;
}

}  // namespace

const std::vector<std::byte>& Script::own_data() {
    static const std::vector<std::byte> data = pattern(kMemoryBytes, 1);
    return data;
}
const std::vector<std::byte>& Script::peer_data() {
    static const std::vector<std::byte> data = pattern(kMemoryBytes, 77);
    return data;
}

void Script::play(Bench& bench) {
    use(bench);
    body();
    check_nothing_left();
}

// --- The connection ---------------------------------------------------------------------------------------

void Script::create(const ConnectOptions& options, const QpOptions& qp) {
    if (created_) {
        check_nothing_left();
    }
    log_.clear();
    forget_history();
    options_ = options;
    bench_->create(options, qp, own_data());
    created_ = true;
    rest_is_checked_ = true;
}

void Script::forget_history() {
    burst_.clear();
    sent_.clear();
    answers_.clear();
    is_answered_ = true;
    may_repeat_ = false;
    has_gap_ = false;
    spare_acks_ = 0;
}

void Script::rtr() { bench_->rtr(); }
void Script::rts() {
    forget_history();
    bench_->rts();
}
void Script::init() { bench_->init(); }

void Script::connect(const ConnectOptions& options, const QpOptions& qp) {
    create(options, qp);
    rtr();
    rts();
}

void Script::modify(QpState state, Where where) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = state;
    if (modify(attr) != 0) {
        fail(where, "modify_qp to state " + std::to_string(static_cast<unsigned>(state)) + " was refused");
    }
}

int Script::modify(const abi::QpAttr& attr) { return bench_->modify(attr); }

void Script::drain(bool notify, Where where) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrEnSqdAsyncNotify;
    attr.state = QpState::kSqd;
    attr.en_sqd_async_notify = notify ? 1 : 0;
    if (modify(attr) != 0) {
        fail(where, "modify_qp to SQD was refused");
    }
}

void Script::state(QpState expected, Where where) {
    const QpState seen = bench_->state(expected);
    if (seen != expected) {
        fail(where, "expected QP state " + std::to_string(static_cast<unsigned>(expected)) +
                        "\n    seen QP state " + std::to_string(static_cast<unsigned>(seen)));
    }
}

// --- Work requests ----------------------------------------------------------------------------------------

SendRequest Script::send(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request;
    request.opcode = WrOpcode::kSend;
    request.wr_id = wr_id;
    request.sge = {memory().sge(offset, length)};
    request.remote_addr = memory().addr(offset);
    request.rkey = memory().key();
    return request;
}
SendRequest Script::send_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm) {
    SendRequest request = send(wr_id, length);
    request.opcode = WrOpcode::kSendWithImm;
    request.imm_or_rkey = imm;
    return request;
}
SendRequest Script::write(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request = send(wr_id, length, offset);
    request.opcode = WrOpcode::kWrite;
    return request;
}
SendRequest Script::write_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm) {
    SendRequest request = send_imm(wr_id, length, imm);
    request.opcode = WrOpcode::kWriteWithImm;
    return request;
}
SendRequest Script::read(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request = send(wr_id, length, offset);
    request.opcode = WrOpcode::kRead;
    return request;
}
SendRequest Script::fetch_add(std::uint64_t wr_id, std::uint64_t add, std::size_t offset) {
    SendRequest request = send(wr_id, sizeof(std::uint64_t), offset);
    request.opcode = WrOpcode::kFetchAdd;
    request.compare_add = add;
    return request;
}
SendRequest Script::compare_swap(std::uint64_t wr_id, std::uint64_t compare, std::uint64_t swap,
                                 std::size_t offset) {
    SendRequest request = send(wr_id, sizeof(std::uint64_t), offset);
    request.opcode = WrOpcode::kCompareSwap;
    request.compare_add = compare;
    request.swap = swap;
    return request;
}
SendRequest Script::fenced(SendRequest request) {
    request.flags |= kSendFence;
    return request;
}
SendRequest Script::unsignaled(SendRequest request) {
    request.flags &= static_cast<std::uint16_t>(~unsigned{kSendSignaled});
    return request;
}
SendRequest Script::solicited(SendRequest request) {
    request.flags |= kSendSolicited;
    return request;
}

void Script::post(const SendRequests& requests) { bench_->post(requests); }

void Script::post_receive(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    post_receive(wr_id, {memory().sge(offset, length)});
}
void Script::post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
    bench_->post_receive(wr_id, sge);
}

// --- Packets ----------------------------------------------------------------------------------------------

ScriptPacket Script::packet(std::uint8_t operation, std::uint32_t psn, std::uint32_t length,
                            std::size_t offset) {
    ScriptPacket packet(operation, psn);
    packet.reth(memory().addr(offset), memory().key(), length);
    const wire::OpcodeInfo& info = wire::opcode_info(operation);
    if ((info.flags & wire::kHasPayload) != 0) {
        packet.slice(offset, length);
    }
    return packet;
}
ScriptPacket Script::send_first(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendFirst, psn, length, offset);
}
ScriptPacket Script::send_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendMiddle, psn, length, offset);
}
ScriptPacket Script::send_last(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendLast, psn, length, offset);
}
ScriptPacket Script::send_only(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendOnly, psn, length, offset);
}
ScriptPacket Script::write_first(std::uint32_t psn, std::uint32_t total, std::uint32_t length,
                                 std::size_t offset) {
    return packet(wire::kWriteFirst, psn, length, offset).reth(memory().addr(offset), memory().key(), total);
}
ScriptPacket Script::write_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteMiddle, psn, length, offset);
}
ScriptPacket Script::write_last(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteLast, psn, length, offset);
}
ScriptPacket Script::write_only(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteOnly, psn, length, offset);
}
ScriptPacket Script::read_request(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kReadRequest, psn, length, offset);
}
ScriptPacket Script::fetch_add_request(std::uint32_t psn, std::uint64_t add, std::size_t offset) {
    return packet(wire::kFetchAdd, psn, 0, offset).atomic(add);
}
ScriptPacket Script::compare_swap_request(std::uint32_t psn, std::uint64_t compare, std::uint64_t swap,
                                          std::size_t offset) {
    return packet(wire::kCompareSwap, psn, 0, offset).atomic(swap, compare);
}
ScriptPacket Script::response_first(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                    std::size_t offset) {
    return packet(wire::kReadResponseFirst, psn, length, offset).msn(msn);
}
ScriptPacket Script::response_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kReadResponseMiddle, psn, length, offset);
}
ScriptPacket Script::response_last(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                   std::size_t offset) {
    return packet(wire::kReadResponseLast, psn, length, offset).msn(msn);
}
ScriptPacket Script::response_only(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                   std::size_t offset) {
    return packet(wire::kReadResponseOnly, psn, length, offset).msn(msn);
}
ScriptPacket Script::atomic_ack(std::uint32_t psn, std::uint32_t msn, std::uint64_t original) {
    return packet(wire::kAtomicAcknowledge, psn, 0).msn(msn).original(original);
}
ScriptPacket Script::ack(std::uint32_t psn, std::uint32_t msn) {
    return packet(wire::kAcknowledge, psn, 0).msn(msn);
}
ScriptPacket Script::nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome) {
    return packet(wire::kAcknowledge, psn, 0).aeth(syndrome, msn);
}
ScriptPacket Script::sequence_nak(std::uint32_t psn, std::uint32_t msn) {
    return nak(psn, msn, wire::kNakPsnSequenceError);
}
ScriptPacket Script::rnr_nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t timer_code) {
    return nak(psn, msn, static_cast<std::uint8_t>(wire::kSyndromeRnrNak | timer_code));
}

}  // namespace urnic::conform
