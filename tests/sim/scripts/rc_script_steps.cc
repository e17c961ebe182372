// What a script's steps do and what they compare.
#include <algorithm>
#include <cstring>
#include <utility>

#include "rnic/wire/opcodes.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {

namespace {

std::string time_text(TimeNs time) { return std::to_string(time) + " ns"; }

template <typename List, typename Text>
std::string joined(const List& list, Text text) {
    std::string result;
    for (const auto& item : list) {
        result += (result.empty() ? "" : ", ") + text(item);
    }
    return result.empty() ? "none" : result;
}

std::string wc_text(std::uint64_t wr_id, WcStatus status) {
    return "{wr_id " + std::to_string(wr_id) + ", status " + std::to_string(static_cast<unsigned>(status)) +
           "}";
}

}  // namespace

void RcScript::note(const char* who, TimeNs time, const FrameBytes& frame) {
    log_.push_back(time_text(time) + " " + who + " " + frame_line(frame));
}

void RcScript::fail(Where where, const std::string& what) const {
    std::string text = what + "\nat " + time_text(now()) + "; all packets so far:\n";
    for (const std::string& line : log_) {
        text += "  " + line + "\n";
    }
    for (const SentPacket& packet : seen()) {
        text +=
            "  " + time_text(packet.time) + " sends, not asked for yet: " + frame_line(packet.frame) + "\n";
    }
    ADD_FAILURE_AT(where.file, where.line) << text;
}

// --- Packets in -------------------------------------------------------------------------------------------

void RcScript::arrives(const ScriptPacket& request) {
    wire::PacketView view;
    view.header = request.header();
    view.src_gid = peer_gid();
    host().deliver(view);
}

void RcScript::deliver(const ScriptPacket& packet) {
    wire::PathSpec spec;
    spec.src_mac = peer_address_->mac();
    spec.dst_mac = host_->mac();
    spec.src_gid = packet.source().value_or(peer_address_->gid());
    spec.dst_gid = host_->gid();
    ScriptPacket addressed = packet;
    if (packet.header().dest_qp == 0) {
        addressed.dest_qp(kQp);
    }
    const FrameBytes frame = addressed.build(wire::make_path(spec), peer_data());
    note("peer", now(), frame);
    // As the daemon does: the DestQP finds the QP, then the frame is checked.
    wire::PacketView view;
    if (wire::peek_dest_qp(frame) == kQp && wire::parse_frame(frame, view) == wire::ParseError::kNone &&
        wire::icrc_ok(view)) {
        host_->deliver(view);
    }
}

void RcScript::peer(const ScriptPackets& packets, Where /*where*/) {
    if (HasFailure()) {
        return;
    }
    for (const ScriptPacket& packet : packets) {
        deliver(packet);
    }
    host_->progress();
}

// --- Packets out ------------------------------------------------------------------------------------------

SentPacket RcScript::take_seen() {
    SentPacket packet = std::move(seen().front());
    seen().pop_front();
    note("sends", packet.time, packet.frame);
    last_path_ = packet.path;
    return packet;
}

std::string RcScript::missing(const ScriptPacket& expected) const {
    ScriptPacket addressed = expected;
    addressed.dest_qp(kPeerQp);
    const FrameBytes frame = addressed.expected_for(nullptr, last_path_, own_data());
    return "expected packet " + frame_line(frame) + "\n" + frame_dump(frame) + "  seen: none";
}

bool RcScript::same_as(const SentPacket& seen, const ScriptPacket& expected, Where where) {
    ScriptPacket addressed = expected;
    addressed.dest_qp(kPeerQp);
    const FrameBytes frame = addressed.expected_for(&seen.frame, last_path_, own_data());
    std::string differences;
    if (same_from_bth(frame, seen.frame, differences)) {
        return true;
    }
    fail(where, "another packet than expected; they differ in\n" + differences + "  expected\n" +
                    frame_dump(frame) + "  seen\n" + frame_dump(seen.frame));
    return false;
}

void RcScript::sends_something(const ScriptPacket& expected, Where where) const {
    if (!HasFailure() && seen().empty()) {
        fail(where, missing(expected));
    }
}

void RcScript::sends(const ScriptPackets& expected, Where where) {
    for (const ScriptPacket& packet : expected) {
        if (HasFailure()) {
            return;
        }
        sends_something(packet, where);
        if (HasFailure() || !same_as(take_seen(), packet, where)) {
            return;
        }
    }
}

void RcScript::sends_nothing(Where where) {
    if (!HasFailure() && !seen().empty()) {
        fail(where, "expected no packet\n  seen\n" + frame_dump(seen().front().frame));
    }
}

void RcScript::wait(TimeNs duration) {
    if (!HasFailure()) {
        network_->run_for(duration);
    }
}

void RcScript::silence(TimeNs duration, Where where) {
    sends_nothing(where);
    wait(duration);
    sends_nothing(where);
}

// Lets time pass until a packet went out; false: none did up to and including `until`.
bool RcScript::advance_to_next_frame(TimeNs until) {
    while (seen().empty()) {
        const TimeNs deadline = host_->qp().deadline();
        if (deadline > until) {
            network_->run_until(until);
            return !seen().empty();
        }
        network_->run_until(std::max(deadline, now()));
    }
    return true;
}

bool RcScript::silent_then_sends(TimeNs least, TimeNs most, const ScriptPacket& expected, Where where) {
    const TimeNs start = now();
    silence(least - 1, where);
    if (HasFailure()) {
        return false;
    }
    if (!advance_to_next_frame(start + most)) {
        fail(where, "within " + time_text(most) + " " + missing(expected));
        return false;
    }
    return true;
}

void RcScript::sends_within(TimeNs least, TimeNs most, const ScriptPackets& expected, Where where) {
    if (silent_then_sends(least, most, expected.front(), where)) {
        sends(expected, where);
    }
}

void RcScript::resends_within(TimeNs least, TimeNs most, const ScriptPackets& expected, Where where) {
    if (silent_then_sends(least, most, expected.front(), where)) {
        resends(expected, where);
    }
}

std::uint32_t RcScript::asks_again(std::uint32_t psn, std::size_t offset, std::uint32_t least,
                                   std::uint32_t most, Where where) {
    sends_something(read_request(psn, most, offset), where);
    if (HasFailure()) {
        return least;
    }
    const std::uint32_t length = frame_header(seen().front().frame).reth.dma_length;
    sends(read_request(psn, std::clamp(length, least, most), offset), where);
    return length;
}

void RcScript::if_repeated(const ScriptPackets& requests, const ScriptPackets& answers, Where where) {
    if (!HasFailure() && !seen().empty()) {
        sends(requests, where);
        peer(answers, where);
    }
}

void RcScript::no_answer(const ScriptPacket& repeated, Where where) {
    constexpr std::size_t kMost = 4;
    sends_nothing(where);
    wait(least_timeout(options_.timeout) / 2);
    const std::size_t times = HasFailure() ? 0 : seen().size();
    if (!HasFailure() && (is_selective() ? times < 1 || times > kMost : times != 0)) {
        fail(where, "without an answer, something was sent " + std::to_string(times) + " times");
    }
    sends(ScriptPackets(times, repeated), where);
}

void RcScript::answers_read(std::uint32_t psn, std::uint32_t msn, std::uint32_t length, std::size_t offset) {
    ScriptPackets burst;
    const std::uint32_t mtu = options_.mtu;
    const std::uint32_t count = length == 0 ? 1 : (length + mtu - 1) / mtu;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t bytes = std::min(mtu, length - i * mtu);
        const std::size_t at = offset + std::size_t{i} * mtu;
        burst.push_back(count == 1       ? response_only(psn, msn, bytes, at)
                        : i == 0         ? response_first(psn, msn, bytes, at)
                        : i + 1 == count ? response_last(psn + i, msn, bytes, at)
                                         : response_middle(psn + i, bytes, at));
    }
    peer(burst);
}

void RcScript::resends(const ScriptPackets& expected, Where where) {
    const TimeNs until = now() + 4 * most_timeout(options_.timeout);
    std::size_t next = 0;  // of `expected`: what the peer waits for
    bool nak_sent = false;
    bool may_ack = true;  // a READ or an atomic is answered by the script
    while (next < expected.size() && !HasFailure()) {
        if (!advance_to_next_frame(until)) {
            fail(where, missing(expected[next]));
            return;
        }
        const SentPacket taken = take_seen();
        const wire::PacketHeader header = frame_header(taken.frame);
        const auto found = std::find_if(expected.begin(), expected.end(), [&](const ScriptPacket& packet) {
            return packet.psn() == header.psn.value();
        });
        const auto index = static_cast<std::size_t>(found - expected.begin());
        const bool is_first_seen = next == 0 && !nak_sent;
        if (found == expected.end() || (is_first_seen && index != 0)) {
            (void)same_as(taken, expected[next], where);
            return;
        }
        ScriptPacket repeated = *found;
        if (index + 1 != expected.size()) {
            repeated.any_ackreq();
        }
        if (!same_as(taken, repeated, where)) {
            return;
        }
        if (index > next) {
            if (!nak_sent) {
                nak_sent = true;
                peer(sequence_nak(expected[next].psn(), 0));
            }
            continue;
        }
        if (index == next) {
            ++next;
            nak_sent = false;
            const wire::OpcodeInfo& info = wire::opcode_info(header.opcode);
            may_ack = may_ack && (info.flags & (wire::kIsRead | wire::kIsAtomic)) == 0;
        }
        if (seen().empty() && header.ack_req && may_ack && next < expected.size()) {
            peer(ack(expected[next - 1].psn(), 0));
        }
    }
}

// --- Completions, events, memory --------------------------------------------------------------------------

void RcScript::check_completions(bool recv, const Wcs& expected, Where where) {
    if (HasFailure()) {
        return;
    }
    const std::vector<abi::Cqe*> seen = host_->poll_raw(recv);
    const auto matches = [](const abi::Cqe* cqe, const Wc& wc) {
        return cqe->wr_id == wc.wr_id && static_cast<WcStatus>(cqe->status) == wc.status &&
               (!wc.byte_len || cqe->byte_len == *wc.byte_len) &&
               (!wc.opcode || static_cast<WcOpcode>(cqe->opcode) == *wc.opcode) &&
               (!wc.wqe_index || cqe->wqe_index == *wc.wqe_index) &&
               (!wc.imm || ((cqe->wc_flags & kWcWithImm) != 0 && cqe->imm_or_rkey == *wc.imm)) &&
               (!wc.invalidated ||
                ((cqe->wc_flags & kWcWithInv) != 0 && cqe->imm_or_rkey == *wc.invalidated));
    };
    if (std::equal(seen.begin(), seen.end(), expected.begin(), expected.end(), matches)) {
        return;
    }
    const auto seen_text = [](const abi::Cqe* cqe) {
        return wc_text(cqe->wr_id, static_cast<WcStatus>(cqe->status)) + " opcode " +
               std::to_string(unsigned{cqe->opcode}) + " byte_len " + std::to_string(cqe->byte_len);
    };
    const auto expected_text = [](const Wc& wc) {
        return wc_text(wc.wr_id, wc.status) +
               (wc.opcode ? " opcode " + std::to_string(static_cast<unsigned>(*wc.opcode)) : "") +
               (wc.byte_len ? " byte_len " + std::to_string(*wc.byte_len) : "");
    };
    fail(where, std::string(recv ? "receive" : "send") + " completions\n  expected " +
                    joined(expected, expected_text) + "\n      seen " + joined(seen, seen_text));
}

void RcScript::completes(const Wcs& expected, Where where) { check_completions(false, expected, where); }
void RcScript::receives(const Wcs& expected, Where where) { check_completions(true, expected, where); }

void RcScript::raises(const std::vector<AsyncEventType>& expected, Where where) {
    if (HasFailure()) {
        return;
    }
    const std::vector<AsyncEventType> seen = std::exchange(host_->events, {});
    if (seen != expected) {
        const auto text = [](AsyncEventType type) { return std::to_string(static_cast<unsigned>(type)); };
        fail(where, "events\n  expected " + joined(expected, text) + "\n      seen " + joined(seen, text));
    }
}

void RcScript::refuses(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome, Where where) {
    sends(nak(psn, msn, syndrome), where);
    state(QpState::kErr, where);
    raises({syndrome == wire::kNakInvalidRequest      ? AsyncEventType::kQpReqErr
            : syndrome == wire::kNakRemoteAccessError ? AsyncEventType::kQpAccessErr
                                                      : AsyncEventType::kQpFatal},
           where);
}

void RcScript::check_nothing_left(Where where) {
    if (HasFailure() || !host_) {
        return;
    }
    sends_nothing(where);
    completes({}, where);
    receives({}, where);
    raises({}, where);
}

void RcScript::holds_peer_data(std::size_t offset, std::size_t length, std::size_t peer_offset, Where where) {
    if (!HasFailure() &&
        std::memcmp(memory_->data() + offset, peer_data().data() + peer_offset, length) != 0) {
        fail(where, "memory at " + std::to_string(offset) + " is not the peer's data of " +
                        std::to_string(peer_offset) + ", length " + std::to_string(length));
    }
}

void RcScript::holds_own_data(std::size_t offset, std::size_t length, Where where) {
    if (!HasFailure() && std::memcmp(memory_->data() + offset, own_data().data() + offset, length) != 0) {
        fail(where, "memory at " + std::to_string(offset) + ", length " + std::to_string(length) +
                        " is not as it was in the beginning");
    }
}

std::uint64_t& RcScript::word(std::size_t offset) {
    return *reinterpret_cast<std::uint64_t*>(memory_->data() + offset);
}

}  // namespace urnic::sim
