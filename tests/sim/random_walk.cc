#include "tests/sim/random_walk.h"

#include <cstring>

namespace urnic::sim {

RandomWalk::RandomWalk(std::uint64_t seed) : random_(seed), net_(seed ^ 0x5eedULL) {
    net_.keep_trace = false;
    net_.faults.loss = static_cast<std::uint32_t>(below(4) == 0 ? 0 : below(40));
    net_.faults.duplicate = static_cast<std::uint32_t>(below(40));
    net_.faults.reorder = static_cast<std::uint32_t>(below(3) == 0 ? 0 : below(40));
    net_.faults.corrupt = static_cast<std::uint32_t>(below(20));
    ConnectOptions options;
    options.mtu = 256U << below(5);
    options.psn_a = static_cast<std::uint32_t>(below(3) == 0 ? 0xffff00 + below(256) : random_() & 0xffffff);
    options.psn_b = static_cast<std::uint32_t>(random_() & 0xffffff);
    options.timeout = static_cast<std::uint8_t>(8 + below(3));
    options.min_rnr_timer = static_cast<std::uint8_t>(1 + below(8));
    options.max_dest_rd_atomic = static_cast<std::uint8_t>(1 + below(16));
    options.max_rd_atomic = static_cast<std::uint8_t>(1 + below(options.max_dest_rd_atomic));
    SimHost::Options host;
    host.send_entries = 64U << below(3);
    host.recv_entries = 64;
    host.max_sge = 4;
    host.sq_sig_all = below(4) == 0;
    for (std::size_t i = 0; i < 2; ++i) {
        Side& side = sides_[i];
        side.host =
            std::make_unique<SimHost>(net_, i == 0 ? "A" : "B", static_cast<std::uint32_t>(i + 1), host);
        side.host->packets_per_progress = static_cast<std::uint32_t>(1 + below(64));
        side.peer = &sides_[1 - i];
        side.source = &side.host->add_region(kSlots * kSlotBytes);
        side.shared = &side.host->add_region(kSharedBytes, {.mapped = below(3) != 0});
        side.words = &side.host->add_region(kWords * 8, {.mapped = below(3) != 0});
        side.receives = &side.host->add_region(host.recv_entries * kSlotBytes);
        side.shared_model.assign(kSharedBytes, std::byte{0});
    }
    connect(*sides_[0].host, *sides_[1].host, options);
}

void RandomWalk::fail(const Side& side, const std::string& what) {
    if (failure_.empty()) {
        failure_ = side.host->name() + " at " + std::to_string(net_.now()) + " ns: " + what;
    }
}

std::string RandomWalk::run(std::uint32_t steps) {
    for (std::uint32_t i = 0; i < steps && failure_.empty(); ++i) {
        step(sides_[below(2)]);
    }
    if (failure_.empty()) {
        finish();
    }
    return failure_;
}

void RandomWalk::step(Side& side) {
    switch (below(8)) {
        case 0:
        case 1:
            post_receive(side);
            break;
        case 2:
            net_.run_for(below(10) == 0 ? below(300'000) : below(3000));
            poll(sides_[0]);
            poll(sides_[1]);
            break;
        default:
            for (std::uint64_t count = 1 + below(4); count != 0; --count) {
                post_request(side);
            }
    }
}

std::size_t RandomWalk::random_length() {
    switch (below(4)) {
        case 0:
            return below(3) * 8;
        case 1:
            return below(256);
        default:
            return below(kMaxLength);
    }
}

void RandomWalk::post_request(Side& side) {
    if (side.outstanding.size() >= kSlots) {
        return;
    }
    Sent sent;
    sent.request.wr_id = side.next_wr_id++;
    sent.request.flags = below(3) == 0 ? 0 : kSendSignaled;
    sent.slot = sent.request.wr_id % kSlots;
    std::byte* slot = side.source->data() + sent.slot * kSlotBytes;
    for (std::size_t i = 0; i < kSlotBytes; i += 8) {
        const std::uint64_t value = random_();
        std::memcpy(slot + i, &value, 8);
    }
    switch (below(6)) {
        case 0:
        case 1:
            post_write(side, sent, false);
            break;
        case 2:
            post_write(side, sent, true);
            break;
        case 3:
            post_send_request(side, sent);
            break;
        case 4:
            post_read(side, sent);
            break;
        default:
            post_atomic(side, sent);
    }
    // The oracle has to know when the slot is free: a request that is not signaled is free with the next one
    // that is, so the last slot is always signaled.
    if (side.outstanding.size() + 1 == kSlots) {
        sent.request.flags |= kSendSignaled;
    }
    side.host->post_send(sent.request);
    side.outstanding.push_back(std::move(sent));
}

void RandomWalk::split_into_sges(Side& side, Sent& sent, std::size_t length) {
    std::size_t offset = sent.slot * kSlotBytes;
    for (int i = 0; i < 3 && below(2) == 0; ++i) {
        const auto part = static_cast<std::uint32_t>(below(length + 1));
        sent.request.sge.push_back(side.source->sge(offset, part));
        offset += part;
        length -= part;
    }
    sent.request.sge.push_back(side.source->sge(offset, static_cast<std::uint32_t>(length)));
}

void RandomWalk::post_write(Side& side, Sent& sent, bool with_imm) {
    const std::size_t length = random_length();
    const std::size_t offset = below(kSharedBytes - length);
    const std::byte* slot = side.source->data() + sent.slot * kSlotBytes;
    sent.request.opcode = with_imm ? WrOpcode::kWriteWithImm : WrOpcode::kWrite;
    sent.request.remote_addr = side.peer->shared->addr(offset);
    sent.request.rkey = side.peer->shared->key();
    if (length <= 200 && below(2) == 0) {
        sent.request.flags |= kSendInline;
        sent.request.inline_data.assign(slot, slot + length);
    } else {
        split_into_sges(side, sent, length);
    }
    if (side.read_pending) {
        sent.request.flags |= kSendFence;
        side.read_pending = false;
    }
    std::copy(slot, slot + length, side.peer->shared_model.begin() + static_cast<std::ptrdiff_t>(offset));
    if (with_imm) {
        sent.request.imm_or_rkey = static_cast<std::uint32_t>(random_());
        side.peer->incoming.push_back(
            {{}, static_cast<std::uint32_t>(length), sent.request.imm_or_rkey, true, true});
    }
}

void RandomWalk::post_send_request(Side& side, Sent& sent) {
    const std::size_t length = random_length();
    const std::byte* slot = side.source->data() + sent.slot * kSlotBytes;
    const bool has_imm = below(2) == 0;
    sent.request.opcode = has_imm ? WrOpcode::kSendWithImm : WrOpcode::kSend;
    sent.request.imm_or_rkey = static_cast<std::uint32_t>(random_());
    split_into_sges(side, sent, length);
    side.peer->incoming.push_back({{slot, slot + length},
                                   static_cast<std::uint32_t>(length),
                                   sent.request.imm_or_rkey,
                                   has_imm,
                                   false});
}

void RandomWalk::post_read(Side& side, Sent& sent) {
    const std::size_t length = random_length();
    const auto offset = static_cast<std::ptrdiff_t>(below(kSharedBytes - length));
    sent.request.opcode = WrOpcode::kRead;
    sent.request.remote_addr = side.peer->shared->addr(static_cast<std::size_t>(offset));
    sent.request.rkey = side.peer->shared->key();
    split_into_sges(side, sent, length);
    const auto from = side.peer->shared_model.begin() + offset;
    sent.expected.assign(from, from + static_cast<std::ptrdiff_t>(length));
    side.read_pending = true;
}

void RandomWalk::post_atomic(Side& side, Sent& sent) {
    const std::size_t word = below(kWords);
    std::uint64_t& model = side.peer->word_model[word];
    sent.request.remote_addr = side.peer->words->addr(word * 8);
    sent.request.rkey = side.peer->words->key();
    sent.request.sge = {side.source->sge(sent.slot * kSlotBytes, 8)};
    sent.expected.resize(8);
    std::memcpy(sent.expected.data(), &model, 8);
    sent.request.compare_add = random_();
    if (below(2) == 0) {
        sent.request.opcode = WrOpcode::kFetchAdd;
        model += sent.request.compare_add;
        return;
    }
    sent.request.opcode = WrOpcode::kCompareSwap;
    sent.request.swap = random_();
    if (below(3) != 0) {
        sent.request.compare_add = model;
        model = sent.request.swap;
    }
}

void RandomWalk::post_receive(Side& side) {
    for (std::uint64_t count = 1 + below(8); count != 0; --count) {
        if (side.posted_receives - side.done_receives == 64) {
            return;
        }
        const std::size_t slot = side.posted_receives % 64;
        side.host->post_recv(side.posted_receives++, {side.receives->sge(slot * kSlotBytes, 3000),
                                                      side.receives->sge(slot * kSlotBytes + 3000, 3000)});
    }
}

void RandomWalk::poll(Side& side) {
    for (const abi::Cqe* cqe : side.host->poll_raw(false)) {
        const bool all = side.host->qp().config().sq_sig_all;
        while (!side.outstanding.empty() && side.outstanding.front().request.wr_id != cqe->wr_id) {
            const Sent& skipped = side.outstanding.front();
            if (all || (skipped.request.flags & kSendSignaled) != 0) {
                fail(side, "no completion for request " + std::to_string(skipped.request.wr_id));
                return;
            }
            check_sent(side, skipped, *cqe);
            side.outstanding.pop_front();
        }
        if (side.outstanding.empty()) {
            fail(side, "completion of unknown request " + std::to_string(cqe->wr_id));
            return;
        }
        if (!all && (side.outstanding.front().request.flags & kSendSignaled) == 0) {
            fail(side, "completion of a request that was not signaled");
        }
        check_sent(side, side.outstanding.front(), *cqe);
        side.outstanding.pop_front();
    }
    poll_receives(side);
    if (!side.host->events.empty()) {
        const bool only_comm_est = side.host->events.front() == AsyncEventType::kCommEst;
        if (!only_comm_est) {
            fail(side, "asynchronous event " +
                           std::to_string(static_cast<std::uint32_t>(side.host->events.front())));
        }
    }
}

void RandomWalk::check_sent(const Side& side, const Sent& sent, const abi::Cqe& cqe) {
    const std::string name = "request " + std::to_string(sent.request.wr_id) + " (opcode " +
                             std::to_string(static_cast<int>(sent.request.opcode)) + ")";
    if (cqe.status != 0) {
        fail(side, name + " completed with status " + std::to_string(cqe.status));
        return;
    }
    if (!std::equal(sent.expected.begin(), sent.expected.end(),
                    side.source->data() + sent.slot * kSlotBytes)) {
        fail(side, name + " brought wrong data");
    }
}

void RandomWalk::poll_receives(Side& side) {
    for (const abi::Cqe* cqe : side.host->poll_raw(true)) {
        const std::string name = "receive " + std::to_string(cqe->wr_id);
        if (cqe->status != 0 || cqe->wr_id != side.done_receives || side.incoming.empty()) {
            fail(side, name + " has status " + std::to_string(cqe->status) + ", expected " +
                           std::to_string(side.done_receives));
            return;
        }
        const Message& message = side.incoming.front();
        const bool has_imm = (cqe->wc_flags & kWcWithImm) != 0;
        const auto opcode = static_cast<WcOpcode>(cqe->opcode);
        const std::byte* buffer = side.receives->data() + (cqe->wr_id % 64) * kSlotBytes;
        if (cqe->byte_len != message.length || has_imm != message.has_imm ||
            (has_imm && cqe->imm_or_rkey != message.imm) ||
            opcode != (message.is_write ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv) ||
            !std::equal(message.data.begin(), message.data.end(), buffer)) {
            fail(side, name + " does not hold the message that was sent");
        }
        ++side.done_receives;
        side.incoming.pop_front();
    }
}

std::uint64_t RandomWalk::requests() const { return sides_[0].next_wr_id + sides_[1].next_wr_id; }

std::uint64_t RandomWalk::retries() const {
    return sides_[0].host->counters.completer_retry_err.value() +
           sides_[1].host->counters.completer_retry_err.value();
}

void RandomWalk::finish() {
    const auto busy = [](const Side& side) { return !side.outstanding.empty() || !side.incoming.empty(); };
    const TimeNs end = net_.now() + 10'000'000'000;
    std::array<bool, 2> last_posted{};
    while ((busy(sides_[0]) || busy(sides_[1])) && net_.now() < end && failure_.empty()) {
        for (std::size_t i = 0; i < 2; ++i) {
            Side& side = sides_[i];
            post_receive(side);
            poll(side);
            // One last signaled request tells that all before it are done.
            if (!last_posted[i] && side.outstanding.size() < kSlots) {
                Sent sent;
                sent.request.wr_id = side.next_wr_id++;
                sent.request.opcode = WrOpcode::kWrite;
                side.host->post_send(sent.request);
                side.outstanding.push_back(sent);
                last_posted[i] = true;
            }
        }
        net_.run_for(100'000);
    }
    for (Side& side : sides_) {
        if (busy(side)) {
            fail(side, std::to_string(side.outstanding.size()) + " requests and " +
                           std::to_string(side.incoming.size()) + " messages never completed");
        }
        if (!std::equal(side.shared_model.begin(), side.shared_model.end(), side.shared->data())) {
            fail(side, "the peer's WRITEs left wrong memory");
        }
        if (std::memcmp(side.word_model.data(), side.words->data(), sizeof(side.word_model)) != 0) {
            fail(side, "the peer's atomics left wrong memory");
        }
    }
}

}  // namespace urnic::sim
