#include "tests/sim/walk/operation_maker.h"

#include <algorithm>
#include <cstring>

namespace urnic::sim {

namespace {

// Under what READs and atomics bring: no value of the model looks like it.
constexpr int kUntouched = 0xa5;
constexpr std::uint32_t kLandingGap = 8;

}  // namespace

std::uint32_t OperationMaker::random_length(const Limits& limits, std::uint32_t most) {
    const std::uint32_t mtu = limits.mtu_bytes;
    std::uint64_t length = 0;
    switch (random_.below(20)) {
        case 0:
            break;
        case 1:
        case 2:
        case 3:
        case 4:
            length = random_.between(1, 16);
            break;
        case 5:
        case 6:
        case 7:
        case 8:
        case 9:
            length = random_.below(256);
            break;
        case 10:
        case 11:
        case 12:
        case 13:
            // Around whole packets: where First, Middle and Last change places.
            length = random_.between(1, 4) * mtu + random_.below(5) - 2;
            break;
        case 14:
        case 15:
        case 16:
        case 17:
        case 18:
            length = random_.below(4ULL * mtu);
            break;
        default:
            length = random_.below((most >> random_.below(8)) + 1ULL);
    }
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, most));
}

void OperationMaker::make(Oracle& oracle, const Limits& limits, Operation& operation, SendRequest& request) {
    Made made{oracle, limits, operation, request};
    operation.landing_begin = landing_end_;
    const std::uint64_t kind = random_.below(100);
    if (kind >= 95) {
        make_local(made);
        return;
    }
    bool is_made = false;
    if (limits.has_rd_atomic && kind < 20) {
        is_made = make_read(made);
    } else if (limits.has_rd_atomic && kind < 38) {
        is_made = make_atomic(made);
    } else if (kind < 70) {
        make_send(made);
        is_made = true;
    }
    if (!is_made) {
        make_write(made);
    }
    request.opcode = operation.opcode;
    request.wr_id = operation.number;
    if (operation.has_imm()) {
        operation.imm = static_cast<std::uint32_t>(random_.next());
        request.imm_or_rkey = operation.imm;
    }
    operation.flags |= random_.chance(100) ? kSendFence : 0;
    operation.flags |= operation.takes_receive() && random_.chance(300) ? kSendSolicited : 0;
    if (random_.below(10'000) < limits.poison_per_10000) {
        poison(made);
    }
}

// Binds a type 1 window to nothing: sends no packet, and completes in its turn.
void OperationMaker::make_local(Made& made) {
    made.operation.opcode = WrOpcode::kBindMw;
    made.operation.flags |= random_.chance(100) ? kSendFence : 0;
    made.request.opcode = WrOpcode::kBindMw;
    made.request.wr_id = made.operation.number;
    made.request.rkey = places_.window_key;
}

void OperationMaker::make_last(Operation& operation, SendRequest& request) {
    operation.opcode = WrOpcode::kWrite;
    request.opcode = WrOpcode::kWrite;
    request.wr_id = operation.number;
}

// Random pieces of the source. Nothing ever writes there, so that a request may be sent again at any time.
void OperationMaker::take_source(Made& made, std::uint32_t length) {
    std::uint32_t left = length;
    const std::uint64_t most = random_.chance(600) ? 1 : random_.between(1, kMaxSge);
    auto& operation = made.operation;
    made.request.sge.clear();
    for (std::uint64_t i = 0; i < most && (left != 0 || i == 0); ++i) {
        const std::uint32_t part =
            i + 1 == most ? left : static_cast<std::uint32_t>(random_.below(std::uint64_t{left} + 1));
        const std::size_t offset = random_.below(places_.source->size() - part + 1);
        operation.pieces[i] = {places_.source->data() + offset, part};
        made.request.sge.push_back(places_.source->sge(offset, part));
        operation.num_pieces = static_cast<std::uint8_t>(i + 1);
        left -= part;
    }
    operation.length = length;
}

// Sends on what the READ or atomic before this is going to bring: wrong without the fence.
bool OperationMaker::take_landed(Made& made, std::uint32_t most) {
    const Operation* before = made.oracle.newest();
    if (before == nullptr || !(before->is_read() || before->is_atomic()) || before->length > most ||
        before->poison != WcStatus::kSuccess || made.oracle.failed() || !random_.chance(300)) {
        return false;
    }
    Operation& operation = made.operation;
    operation.num_pieces = before->num_pieces;
    operation.pieces = before->pieces;
    operation.length = before->length;
    operation.landing_begin = before->landing_begin;
    operation.flags |= kSendFence;
    for (std::size_t i = 0; i < operation.num_pieces; ++i) {
        const Piece& piece = operation.pieces[i];
        made.request.sge.push_back(
            places_.landing.sge(static_cast<std::size_t>(piece.data - places_.landing.data()), piece.length));
    }
    return true;
}

// Takes memory for what comes back. Returns false when too much of it is in use.
bool OperationMaker::take_landing(Made& made, std::uint32_t length) {
    const std::uint64_t size = places_.landing.size();
    const std::uint64_t needed = std::uint64_t{length} + kMaxSge * kLandingGap;
    std::uint64_t begin = landing_end_;
    if (begin % size + needed > size) {
        begin += size - begin % size;  // in one piece: from the start again
    }
    const std::uint64_t in_use_from = std::min(made.oracle.landing_begin(), begin);
    if (needed > size || begin + needed - in_use_from > size) {
        return false;
    }
    Operation& operation = made.operation;
    operation.landing_begin = begin;
    std::size_t place = begin % size;
    std::memset(places_.landing.data() + place, kUntouched, needed);
    std::uint32_t left = length;
    const std::uint64_t most = random_.chance(600) ? 1 : random_.between(1, kMaxSge);
    for (std::uint64_t i = 0; i < most && (left != 0 || i == 0); ++i) {
        const std::uint32_t part =
            i + 1 == most ? left : static_cast<std::uint32_t>(random_.below(std::uint64_t{left} + 1));
        operation.pieces[i] = {places_.landing.data() + place, part};
        made.request.sge.push_back(places_.landing.sge(place, part));
        operation.num_pieces = static_cast<std::uint8_t>(i + 1);
        place += part + kLandingGap;
        left -= part;
    }
    operation.length = length;
    landing_end_ = begin + needed;
    return true;
}

void OperationMaker::put_inline(Made& made) {
    const Operation& operation = made.operation;
    if (operation.num_pieces == 1 && operation.length <= kMaxInlineBytes && random_.chance(400)) {
        made.operation.flags |= kSendInline;
        made.request.inline_data.assign(operation.pieces[0].data,
                                        operation.pieces[0].data + operation.length);
    }
}

void OperationMaker::make_send(Made& made) {
    made.operation.opcode = random_.chance(330) ? WrOpcode::kSendWithImm : WrOpcode::kSend;
    if (!take_landed(made, made.limits.receive_bytes)) {
        take_source(made, random_length(made.limits, made.limits.receive_bytes));
        put_inline(made);
    }
}

void OperationMaker::make_write(Made& made) {
    Operation& operation = made.operation;
    operation.opcode = random_.chance(330) ? WrOpcode::kWriteWithImm : WrOpcode::kWrite;
    if (!take_landed(made, plan_.max_message_bytes)) {
        take_source(made, random_length(made.limits, plan_.max_message_bytes));
        put_inline(made);
    }
    operation.offset = random_.below(places_.area.size() - operation.length + 1);
    made.request.remote_addr = places_.area.addr(operation.offset);
    made.request.rkey = places_.area.key();
    if (made.oracle.must_fence(operation.offset, operation.length)) {
        operation.flags |= kSendFence;
    }
}

bool OperationMaker::make_read(Made& made) {
    Operation& operation = made.operation;
    const auto most = std::min<std::uint32_t>(plan_.max_message_bytes,
                                              static_cast<std::uint32_t>(places_.landing.size() / 4));
    if (!take_landing(made, random_length(made.limits, most))) {
        return false;
    }
    operation.opcode = WrOpcode::kRead;
    operation.offset = random_.below(places_.area.size() - operation.length + 1);
    made.request.remote_addr = places_.area.addr(operation.offset);
    made.request.rkey = places_.area.key();
    return true;
}

bool OperationMaker::make_atomic(Made& made) {
    Operation& operation = made.operation;
    if (!take_landing(made, sizeof(std::uint64_t))) {
        return false;
    }
    operation.opcode = WrOpcode::kFetchAdd;
    if (random_.chance(330)) {
        operation.is_shared_counter = true;
        operation.compare_add = 1;
        made.request.remote_addr = places_.counter.addr();
        made.request.rkey = places_.counter.key();
    } else {
        operation.offset = random_.below(Oracle::kWords);
        operation.compare_add = random_.next();
        if (random_.chance(500)) {
            operation.opcode = WrOpcode::kCompareSwap;
            operation.swap = random_.next();
            operation.compare_add =
                random_.chance(700) ? made.oracle.predicted_word(operation.offset) : operation.compare_add;
        }
        made.request.remote_addr = places_.words.addr(operation.offset * sizeof(std::uint64_t));
        made.request.rkey = places_.words.key();
    }
    made.request.compare_add = operation.compare_add;
    made.request.swap = operation.swap;
    return true;
}

// Makes a request fail, in one of the ways that there are for it, and notes how.
void OperationMaker::poison(Made& made) {
    Operation& operation = made.operation;
    SendRequest& request = made.request;
    const std::uint64_t way = random_.below(4);
    if (way == 0 || (operation.takes_receive() && operation.is_write())) {
        poison_local(made);
    } else if (operation.is_send()) {
        // One byte too long for the peer's receive (IBA 9.7.4.1.7).
        operation.flags &= static_cast<std::uint16_t>(~kSendInline);
        request.inline_data = {};
        take_source(made, made.limits.receive_bytes + 1);
        operation.poison = WcStatus::kRemInvReqErr;
    } else if (operation.is_atomic() && way == 1) {
        request.remote_addr += random_.between(1, 7);
        operation.poison = WcStatus::kRemInvReqErr;
    } else if (operation.length != 0 && way == 2) {
        request.rkey ^= 0x4000'0000U;
        operation.poison = WcStatus::kRemAccessErr;
    } else if (operation.length != 0) {
        // The last byte lies behind the region's end.
        const Region& region = operation.is_shared_counter ? places_.counter
                               : operation.is_atomic()     ? places_.words
                                                           : places_.area;
        request.remote_addr = operation.is_atomic() ? region.addr(region.size())
                                                    : region.addr(region.size() - operation.length + 1);
        operation.poison = WcStatus::kRemAccessErr;
    }
}

// What the requester has to find out before it sends anything, or in the middle of a message.
void OperationMaker::poison_local(Made& made) {
    Operation& operation = made.operation;
    SendRequest& request = made.request;
    if (random_.chance(200)) {
        const bool is_bind = random_.chance(500);  // of no window; or what no send queue takes
        request.opcode = is_bind ? WrOpcode::kBindMw : static_cast<WrOpcode>(10);
        request.rkey ^= is_bind ? 0x2000'0000U : 0;
        operation.poison = is_bind ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr;
        return;
    }
    if (operation.length == 0 || (operation.flags & kSendInline) != 0) {
        return;
    }
    if (operation.is_atomic() && random_.chance(500)) {
        request.sge.clear();
        operation.poison = WcStatus::kLocLenErr;
        return;
    }
    std::size_t bad = operation.num_pieces - 1U;
    while (operation.pieces[bad].length == 0) {
        --bad;
    }
    request.sge[bad].lkey ^= 0x4000'0000U;
    operation.pieces[bad].data = nullptr;
    operation.poison = WcStatus::kLocProtErr;
}

}  // namespace urnic::sim
