// The steps of packets: what the peer sends, what is expected of the QP under test, and when.
#include <algorithm>

#include "conform/case/script.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::conform {

namespace {

std::string time_text(TimeNs time) { return std::to_string(time) + " ns"; }

bool is_ack(const wire::PacketHeader& header) {
    return (header.opcode & 0x1fU) == wire::kAcknowledge &&
           (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}
// A mark may be answered at once (annex A17.9.3).
bool is_cnp(const FrameBytes& frame) { return frame_header(frame).opcode == wire::kCnp; }
bool is_sequence_nak(const wire::PacketHeader& header) {
    return (header.opcode & 0x1fU) == wire::kAcknowledge &&
           header.aeth.syndrome == wire::kNakPsnSequenceError;
}
/// From the BTH to the ICRC, which AckReq changes.
bool same_but_for_ackreq(const FrameBytes& a, const FrameBytes& b) {
    const std::size_t bth = bth_offset(a);
    const std::size_t ack_req = bth + 8;
    if (a.size() != b.size() || a.size() < ack_req + 4) {
        return false;
    }
    for (std::size_t i = bth; i < a.size() - wire::kIcrcBytes; ++i) {
        if (i != ack_req && a[i] != b[i]) {
            return false;
        }
    }
    return true;
}
bool has_aeth_ack(const wire::PacketHeader& header) {
    const wire::OpcodeInfo& info = wire::opcode_info(header.opcode);
    return (info.headers & wire::kHasAeth) != 0 &&
           (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

}  // namespace

void Script::note(const char* who, TimeNs time, const FrameBytes& frame) {
    log_.push_back(time_text(time) + " " + who + " " + frame_line(frame));
}

void Script::fail(Where where, const std::string& what) const {
    std::string text = std::string(where.file) + ":" + std::to_string(where.line) + ": " + what +
                       (given_.empty() ? "" : "\nwith " + given_) + "\nat " + time_text(now()) +
                       "; all packets so far:\n";
    for (const std::string& line : log_) {
        text += "  " + line + "\n";
    }
    if (const SeenFrame* next = bench_->next(now()); next != nullptr) {
        text += "  " + time_text(next->time) + " sends, not asked for yet: " + frame_line(next->bytes) + "\n";
    }
    throw StepFailed(text);
}

// --- Packets in -------------------------------------------------------------------------------------------

FrameBytes Script::built(const ScriptPacket& packet) const {
    wire::PathSpec spec = bench_->path();
    spec.src_gid = packet.source().value_or(spec.src_gid);
    ScriptPacket addressed = packet;
    if (packet.header().dest_qp == 0) {
        addressed.dest_qp(bench_->qp_num());
    }
    return addressed.build(wire::make_path(spec), peer_data());
}

void Script::peer(const ScriptPackets& packets, Where /*where*/) {
    std::vector<FrameBytes> frames;
    if (is_answered_) {
        burst_.clear();
        spare_acks_ = 0;
        is_answered_ = false;
    }
    spare_acks_ += packets.size();
    for (const ScriptPacket& packet : packets) {
        frames.push_back(built(packet));
        burst_.push_back(packet.psn());
        note("peer", now(), frames.back());
        may_repeat_ = may_repeat_ || is_sequence_nak(packet.header());
    }
    bench_->transmit(frames);
}

// --- Packets out ------------------------------------------------------------------------------------------

SeenFrame Script::take_seen() {
    SeenFrame frame = bench_->take();
    note("sends", frame.time, frame.bytes);
    return frame;
}

std::string Script::missing(const ScriptPacket& expected) const {
    ScriptPacket addressed = expected;
    addressed.dest_qp(bench_->peer_qp_num());
    const FrameBytes frame = addressed.expected_for(nullptr, wire::make_path(bench_->path()), own_data());
    return "expected packet " + frame_line(frame) + "\n" + frame_dump(frame) + "  seen: none";
}

// The peer may acknowledge each packet of a burst, where the script has one ACK for all.
bool Script::is_acknowledgement_on_the_way(const FrameBytes& seen, const ScriptPacket& expected) const {
    const wire::PacketHeader header = frame_header(seen);
    return spare_acks_ > 0 && is_ack(header) && header.psn < Psn(expected.psn()) &&
           std::find(burst_.begin(), burst_.end(), header.psn.value()) != burst_.end();
}

// A requester that recovers may repeat what it has sent, more than once and at times of its own.
bool Script::is_spare_repetition(const FrameBytes& seen) const {
    const wire::PacketHeader header = frame_header(seen);
    const auto found = sent_.find(header.psn.value());
    if (!may_repeat_ || (wire::opcode_info(header.opcode).flags & wire::kIsRequest) == 0) {
        return false;
    }
    if (found != sent_.end() && same_but_for_ackreq(found->second, seen)) {
        return true;
    }
    return is_part_of_a_read(header);
}

// A READ for some of what an earlier one was for.
bool Script::is_part_of_a_read(const wire::PacketHeader& header) const {
    return (wire::opcode_info(header.opcode).flags & wire::kIsRead) != 0 &&
           std::any_of(sent_.begin(), sent_.end(), [&](const auto& item) {
               const wire::PacketHeader read = frame_header(item.second);
               const std::int32_t ahead = header.psn.distance(read.psn);
               const std::uint64_t skipped = static_cast<std::uint64_t>(std::max(ahead, 0)) * options_.mtu;
               return (wire::opcode_info(read.opcode).flags & wire::kIsRead) != 0 && ahead >= 0 &&
                      header.reth.va == read.reth.va + skipped && header.reth.rkey == read.reth.rkey &&
                      header.reth.dma_length + skipped <= read.reth.dma_length;
           });
}

// A responder in whose way a packet is missing may acknowledge again what it has, and answer again what is
// sent again.
bool Script::is_spare_answer(const FrameBytes& seen) const {
    const wire::PacketHeader header = frame_header(seen);
    const auto is_newer = [&](std::uint32_t psn) { return Psn(psn) <= header.psn; };
    if (!has_gap_ || (wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0) {
        return false;
    }
    if (is_ack(header)) {
        return std::none_of(burst_.begin(), burst_.end(), is_newer);
    }
    const auto found = answers_.find(header.psn.value());
    return found != answers_.end() && found->second.size() == seen.size() &&
           frame_header(found->second).opcode == header.opcode &&
           (header.opcode & 0x1fU) != wire::kAcknowledge;
}

void Script::remember(const FrameBytes& seen) {
    const wire::PacketHeader header = frame_header(seen);
    if ((wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0) {
        may_repeat_ = may_repeat_ || is_part_of_a_read(header);
        may_repeat_ = !sent_.emplace(header.psn.value(), seen).second || may_repeat_;
        return;
    }
    answers_.insert_or_assign(header.psn.value(), seen);
    has_gap_ = has_gap_ || is_sequence_nak(header);
}

void Script::skip_what_is_open(const ScriptPacket& expected) {
    const Tolerance& tolerance = bench_->tolerance();
    while (tolerance.takes_what_specification_leaves_open) {
        const SeenFrame* next = bench_->next(now() + tolerance.patience_ns);
        if (next == nullptr) {
            return;
        }
        if (is_acknowledgement_on_the_way(next->bytes, expected)) {
            --spare_acks_;
        } else if (!is_cnp(next->bytes) && !is_spare_answer(next->bytes) &&
                   (frame_header(next->bytes).psn.value() == expected.psn() ||
                    !is_spare_repetition(next->bytes))) {
            return;
        }
        (void)take_seen();
    }
}

ScriptPacket Script::tolerant(const ScriptPacket& expected, const FrameBytes& seen) {
    ScriptPacket packet = expected;
    packet.dest_qp(bench_->peer_qp_num());
    if (!bench_->tolerance().takes_what_specification_leaves_open) {
        return packet;
    }
    const wire::PacketHeader header = frame_header(seen);
    if ((wire::opcode_info(expected.header().opcode).flags & wire::kIsRequest) != 0) {
        packet.any_ackreq();
    }
    if (expected.header().mig_req && !header.mig_req) {
        packet.mig_req(false);
        if (std::find(deviations_.begin(), deviations_.end(), kMigReqZero) == deviations_.end()) {
            deviations_.emplace_back(kMigReqZero);
        }
    }
    if (has_aeth_ack(expected.header()) && has_aeth_ack(header)) {
        if (header.aeth.syndrome == wire::kCreditsUnlimited) {
            packet.credits(wire::kCreditsUnlimited & 0x1fU);
        }
        const std::uint32_t behind = (expected.header().aeth.msn - header.aeth.msn) & Psn::kMask;
        if (!burst_.empty() && behind < burst_.size()) {
            packet.msn(header.aeth.msn);
        }
    }
    return packet;
}

void Script::same_as(const SeenFrame& seen, const ScriptPacket& expected, Where where) {
    const FrameBytes frame =
        tolerant(expected, seen.bytes).expected_for(&seen.bytes, wire::make_path(bench_->path()), own_data());
    std::string differences;
    if (!same_from_bth(frame, seen.bytes, differences)) {
        fail(where, "another packet than expected; they differ in\n" + differences + "  expected\n" +
                        frame_dump(frame) + "  seen\n" + frame_dump(seen.bytes));
    }
}

void Script::sends(const ScriptPackets& expected, Where where) {
    for (const ScriptPacket& packet : expected) {
        skip_what_is_open(packet);
        if (bench_->next(now() + bench_->tolerance().patience_ns) == nullptr) {
            fail(where, missing(packet));
        }
        const SeenFrame seen = take_seen();
        same_as(seen, packet, where);
        remember(seen.bytes);
        const bool is_answer = (wire::opcode_info(packet.header().opcode).flags & wire::kIsRequest) == 0;
        spare_acks_ -= is_answer && spare_acks_ > 0 ? 1 : 0;
    }
    is_answered_ = true;
}

bool Script::may_send(const ScriptPacket& expected, Where where) {
    const Tolerance& tolerance = bench_->tolerance();
    skip_what_is_open(expected);
    if (!tolerance.takes_what_specification_leaves_open ||
        bench_->next(now() + tolerance.patience_ns) == nullptr) {
        return false;
    }
    sends(expected, where);
    return true;
}

void Script::sends_nothing(Where where) {
    const Tolerance& tolerance = bench_->tolerance();
    const TimeNs until = now() + tolerance.settle_ns;
    while (const SeenFrame* next = bench_->next(until)) {
        const wire::PacketHeader header = frame_header(next->bytes);
        const bool is_spare_ack = spare_acks_ > 0 && is_answered_ && is_ack(header) &&
                                  std::find(burst_.begin(), burst_.end(), header.psn.value()) != burst_.end();
        if (!tolerance.takes_what_specification_leaves_open ||
            (!is_spare_ack && !is_cnp(next->bytes) && !is_spare_repetition(next->bytes) &&
             !is_spare_answer(next->bytes))) {
            fail(where, "expected no packet\n  seen\n" + frame_dump(next->bytes));
        }
        spare_acks_ -= is_spare_ack ? 1 : 0;
        (void)take_seen();
    }
}

void Script::wait(TimeNs duration) { bench_->wait_until(now() + duration); }

void Script::silence(TimeNs duration, Where where) {
    const Tolerance& tolerance = bench_->tolerance();
    const TimeNs length = tolerance.longest_silence_ns != 0 && duration >= kSecond
                              ? tolerance.longest_silence_ns
                          : tolerance.early_ns != 0 ? duration - duration / 4
                                                    : duration;
    // A moment of virtual time is none on a wire: what a device should not send takes longer to come.
    const TimeNs end = now() + std::max(length, tolerance.settle_ns);
    if (const SeenFrame* next = bench_->next(end); next != nullptr) {
        sends_nothing(where);
        if (bench_->next(end) != nullptr) {
            fail(where, "expected no packet\n  seen\n" + frame_dump(bench_->next(end)->bytes));
        }
    }
    if (end > now()) {
        bench_->wait_until(end);
    }
}

void Script::silent_then_sends(TimeNs least, TimeNs most, const ScriptPacket& expected, Where where) {
    const TimeNs start = now();
    const Tolerance& tolerance = bench_->tolerance();
    const SeenFrame* next = bench_->next(start + most + tolerance.late_ns + tolerance.too_late_ns);
    if (next == nullptr) {
        fail(where, "within " + time_text(most) + " " + missing(expected));
    }
    if (next->time > start + most + tolerance.late_ns) {
        throw StepLate("expected a packet within " + time_text(most) + ", and it came after " +
                       time_text(next->time - start));
    }
    // What begins a wait may lie before the packet that the tester saw last.
    if (next->time + std::min(tolerance.early_ns, least / 8) < start + least) {
        fail(where, "expected no packet before " + time_text(least) + "; after " +
                        time_text(next->time < start ? 0 : next->time - start) + " seen\n" +
                        frame_dump(next->bytes));
    }
}

void Script::sends_within(TimeNs least, TimeNs most, const ScriptPackets& expected, Where where) {
    silent_then_sends(least, most, expected.front(), where);
    sends(expected, where);
}

void Script::resends_within(TimeNs least, TimeNs most, const ScriptPackets& expected, Where where) {
    silent_then_sends(least, most, expected.front(), where);
    resends(expected, where);
}

std::uint32_t Script::asks_again(std::uint32_t psn, std::size_t offset, std::uint32_t least,
                                 std::uint32_t most, Where where) {
    const SeenFrame* next = bench_->next(now() + bench_->tolerance().patience_ns);
    if (next == nullptr) {
        fail(where, missing(read_request(psn, most, offset)));
    }
    const std::uint32_t length = frame_header(next->bytes).reth.dma_length;
    may_repeat_ = true;
    sends(read_request(psn, std::clamp(length, least, most), offset), where);
    return length;
}

void Script::if_repeated(const ScriptPackets& requests, const ScriptPackets& answers, Where where) {
    while (something_seen()) {
        const FrameBytes& next = bench_->next(now() + bench_->tolerance().settle_ns)->bytes;
        const std::uint32_t psn = frame_header(next).psn.value();
        const bool is_repeated = bench_->tolerance().patience_ns == 0 || psn == requests.front().psn();
        if (is_repeated) {
            sends(requests, where);
            peer(answers, where);
            return;
        }
        if (!is_spare_repetition(next)) {
            return;
        }
        (void)take_seen();
    }
}

void Script::no_answer(const ScriptPacket& repeated, Where where) {
    constexpr std::size_t kMostTimes = 4;
    const bool may_probe = is_selective() || bench_->tolerance().recovery_is_unknown;
    const std::size_t least_times = is_selective() && !bench_->tolerance().recovery_is_unknown ? 1 : 0;
    const TimeNs end = now() + least_timeout(options_.timeout) / 2;
    if (is_selective() == false && !may_probe) {
        sends_nothing(where);
    }
    std::size_t times = 0;
    while (bench_->next(end) != nullptr) {
        if (++times > (may_probe ? kMostTimes : 0)) {
            fail(where, "without an answer, something was sent " + std::to_string(times) + " times");
        }
        same_as(take_seen(), repeated, where);
    }
    if (times < least_times) {
        fail(where, "without an answer, nothing was sent");
    }
    if (end > now()) {
        bench_->wait_until(end);
    }
}

void Script::answers_read(std::uint32_t psn, std::uint32_t msn, std::uint32_t length, std::size_t offset) {
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

void Script::resends(const ScriptPackets& expected, Where where) {
    const bool is_exact = bench_->tolerance().patience_ns == 0;
    const TimeNs until = now() + (is_exact ? 4 * most_timeout(options_.timeout)
                                           : std::min(4 * most_timeout(options_.timeout), 5 * kSecond));
    may_repeat_ = true;
    std::size_t next = 0;  // of `expected`: what the peer waits for
    bool nak_sent = false;
    bool may_ack = true;  // a READ or an atomic is answered by the script
    while (next < expected.size()) {
        if (bench_->next(until) == nullptr) {
            fail(where, missing(expected[next]));
        }
        const SeenFrame taken = take_seen();
        const wire::PacketHeader header = frame_header(taken.bytes);
        if (bench_->tolerance().takes_what_specification_leaves_open && next == 0 && !nak_sent &&
            header.psn.value() != expected.front().psn() && is_spare_repetition(taken.bytes)) {
            continue;
        }
        const auto found = std::find_if(expected.begin(), expected.end(), [&](const ScriptPacket& packet) {
            return packet.psn() == header.psn.value();
        });
        const auto index = static_cast<std::size_t>(found - expected.begin());
        const bool is_first_seen = next == 0 && !nak_sent;
        if (found == expected.end() || (is_first_seen && index != 0)) {
            same_as(taken, expected[next], where);
            return;
        }
        ScriptPacket repeated = *found;
        if (index + 1 != expected.size()) {
            repeated.any_ackreq();
        }
        same_as(taken, repeated, where);
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
        if (next < expected.size() && header.ack_req && may_ack && !something_seen()) {
            peer(ack(expected[next - 1].psn(), 0));
        }
    }
}

}  // namespace urnic::conform
