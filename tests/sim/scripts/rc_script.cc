#include "tests/sim/scripts/rc_script.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "rnic/wire/opcodes.h"

namespace urnic::sim {

namespace {

Recovery& recovery() {
    static Recovery value = Recovery::kGoBackN;
    return value;
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        // No period that a path MTU divides, so that a slice from the wrong place differs.
        data[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13U);
    }
    return data;
}

}  // namespace

void set_recovery(Recovery value) { recovery() = value; }

const std::vector<std::byte>& RcScript::own_data() {
    static const std::vector<std::byte> data = pattern(kMemoryBytes, 1);
    return data;
}
const std::vector<std::byte>& RcScript::peer_data() {
    static const std::vector<std::byte> data = pattern(kMemoryBytes, 77);
    return data;
}

RcScript::RcScript() = default;
RcScript::~RcScript() = default;

bool RcScript::is_selective() { return recovery() == Recovery::kSelective; }

void RcScript::TearDown() { check_nothing_left(Where::current()); }

// --- The connection ---------------------------------------------------------------------------------------

void RcScript::create(const ConnectOptions& options, const SimHost::Options& host) {
    if (host_) {
        check_nothing_left(Where::current());
    }
    peer_address_.reset();
    host_.reset();
    log_.clear();
    options_ = options;
    network_ = std::make_unique<SimNetwork>();
    network_->lose = [](const SentPacket& /*packet*/) { return true; };  // the script is the peer
    last_path_ = {};
    SimHost::Options with_recovery = host;
    with_recovery.holds_early_packets |= is_selective();
    host_ = std::make_unique<SimHost>(*network_, "A", kQp, with_recovery);
    // Only its addresses are used; a table of keys of its own would take most of a script's time under ASan.
    SimHost::Options addresses = host;
    addresses.keys = &host_->keys();
    peer_address_ = std::make_unique<SimHost>(*network_, "B", kPeerQp, addresses);
    memory_ = &host_->add_region(kMemoryBytes);
    std::copy(own_data().begin(), own_data().end(), memory_->data());
    host_->to_init(options.access);
}

void RcScript::rtr() { host_->to_rtr(*peer_address_, options_, options_.psn_b); }

void RcScript::rts() {
    host_->to_rts(options_, options_.psn_a);
    host_->progress();
}

void RcScript::connect(const ConnectOptions& options, const SimHost::Options& host) {
    create(options, host);
    rtr();
    rts();
}

void RcScript::modify(QpState state, Where where) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = state;
    if (modify(attr) != 0) {
        fail(where, "modify_qp to state " + std::to_string(static_cast<unsigned>(state)) + " was refused");
    }
}

int RcScript::modify(const abi::QpAttr& attr) {
    const int error = host_->modify(attr);
    host_->progress();
    return error;
}

void RcScript::state(QpState expected, Where where) {
    if (!HasFailure() && host_->qp().state() != expected) {
        fail(where, "expected QP state " + std::to_string(static_cast<unsigned>(expected)) +
                        "\n    seen QP state " + std::to_string(static_cast<unsigned>(host_->qp().state())));
    }
}

// --- Work requests ----------------------------------------------------------------------------------------

SendRequest RcScript::send(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request;
    request.opcode = WrOpcode::kSend;
    request.wr_id = wr_id;
    request.sge = {memory_->sge(offset, length)};
    request.remote_addr = memory_->addr(offset);
    request.rkey = memory_->key();
    return request;
}
SendRequest RcScript::send_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm) {
    SendRequest request = send(wr_id, length);
    request.opcode = WrOpcode::kSendWithImm;
    request.imm_or_rkey = imm;
    return request;
}
SendRequest RcScript::write(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request = send(wr_id, length, offset);
    request.opcode = WrOpcode::kWrite;
    return request;
}
SendRequest RcScript::write_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm) {
    SendRequest request = send_imm(wr_id, length, imm);
    request.opcode = WrOpcode::kWriteWithImm;
    return request;
}
SendRequest RcScript::read(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    SendRequest request = send(wr_id, length, offset);
    request.opcode = WrOpcode::kRead;
    return request;
}
SendRequest RcScript::fetch_add(std::uint64_t wr_id, std::uint64_t add, std::size_t offset) {
    SendRequest request = send(wr_id, sizeof(std::uint64_t), offset);
    request.opcode = WrOpcode::kFetchAdd;
    request.compare_add = add;
    return request;
}
SendRequest RcScript::compare_swap(std::uint64_t wr_id, std::uint64_t compare, std::uint64_t swap,
                                   std::size_t offset) {
    SendRequest request = send(wr_id, sizeof(std::uint64_t), offset);
    request.opcode = WrOpcode::kCompareSwap;
    request.compare_add = compare;
    request.swap = swap;
    return request;
}
SendRequest RcScript::fenced(SendRequest request) {
    request.flags |= kSendFence;
    return request;
}
SendRequest RcScript::unsignaled(SendRequest request) {
    request.flags &= static_cast<std::uint16_t>(~unsigned{kSendSignaled});
    return request;
}
SendRequest RcScript::solicited(SendRequest request) {
    request.flags |= kSendSolicited;
    return request;
}

void RcScript::post(const SendRequests& requests) {
    for (const SendRequest& request : requests) {
        host_->post_send(request);
    }
    host_->progress();
}

void RcScript::post_receive(std::uint64_t wr_id, std::uint32_t length, std::size_t offset) {
    host_->post_recv(wr_id, {memory_->sge(offset, length)});
    // The provider rings the doorbell when it knows that nothing else would flush the receive.
    host_->progress();
}

// --- Packets ----------------------------------------------------------------------------------------------

ScriptPacket RcScript::packet(std::uint8_t operation, std::uint32_t psn, std::uint32_t length,
                              std::size_t offset) {
    ScriptPacket packet(operation, psn);
    packet.reth(memory_->addr(offset), memory_->key(), length);
    const wire::OpcodeInfo& info = wire::opcode_info(operation);
    if ((info.flags & wire::kHasPayload) != 0) {
        packet.slice(offset, length);
    }
    return packet;
}
ScriptPacket RcScript::send_first(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendFirst, psn, length, offset);
}
ScriptPacket RcScript::send_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendMiddle, psn, length, offset);
}
ScriptPacket RcScript::send_last(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendLast, psn, length, offset);
}
ScriptPacket RcScript::send_only(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kSendOnly, psn, length, offset);
}
ScriptPacket RcScript::write_first(std::uint32_t psn, std::uint32_t total, std::uint32_t length,
                                   std::size_t offset) {
    return packet(wire::kWriteFirst, psn, length, offset).reth(memory_->addr(offset), memory_->key(), total);
}
ScriptPacket RcScript::write_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteMiddle, psn, length, offset);
}
ScriptPacket RcScript::write_last(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteLast, psn, length, offset);
}
ScriptPacket RcScript::write_only(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kWriteOnly, psn, length, offset);
}
ScriptPacket RcScript::read_request(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kReadRequest, psn, length, offset);
}
ScriptPacket RcScript::fetch_add_request(std::uint32_t psn, std::uint64_t add, std::size_t offset) {
    return packet(wire::kFetchAdd, psn, 0, offset).atomic(add);
}
ScriptPacket RcScript::compare_swap_request(std::uint32_t psn, std::uint64_t compare, std::uint64_t swap,
                                            std::size_t offset) {
    return packet(wire::kCompareSwap, psn, 0, offset).atomic(swap, compare);
}
ScriptPacket RcScript::response_first(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                      std::size_t offset) {
    return packet(wire::kReadResponseFirst, psn, length, offset).msn(msn);
}
ScriptPacket RcScript::response_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset) {
    return packet(wire::kReadResponseMiddle, psn, length, offset);
}
ScriptPacket RcScript::response_last(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                     std::size_t offset) {
    return packet(wire::kReadResponseLast, psn, length, offset).msn(msn);
}
ScriptPacket RcScript::response_only(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                     std::size_t offset) {
    return packet(wire::kReadResponseOnly, psn, length, offset).msn(msn);
}
ScriptPacket RcScript::atomic_ack(std::uint32_t psn, std::uint32_t msn, std::uint64_t original) {
    return packet(wire::kAtomicAcknowledge, psn, 0).msn(msn).original(original);
}
ScriptPacket RcScript::ack(std::uint32_t psn, std::uint32_t msn) {
    return packet(wire::kAcknowledge, psn, 0).msn(msn);
}
ScriptPacket RcScript::nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome) {
    return packet(wire::kAcknowledge, psn, 0).aeth(syndrome, msn);
}
ScriptPacket RcScript::sequence_nak(std::uint32_t psn, std::uint32_t msn) {
    return nak(psn, msn, wire::kNakPsnSequenceError);
}
ScriptPacket RcScript::rnr_nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t timer_code) {
    return nak(psn, msn, static_cast<std::uint8_t>(wire::kSyndromeRnrNak | timer_code));
}

}  // namespace urnic::sim
