#include "tests/sim/sim_network.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"

namespace urnic::sim {

namespace {

// Names of AETH syndromes as they are written down.
std::string syndrome_text(const wire::Aeth& aeth) {
    const std::string value = std::to_string(aeth.syndrome & wire::kSyndromeValueMask);
    switch (aeth.syndrome & wire::kSyndromeKindMask) {
        case wire::kSyndromeAck:
            return " msn=" + std::to_string(aeth.msn);
        case wire::kSyndromeRnrNak:
            return " RNR=" + value;
        default:
            return " NAK=" + value;
    }
}

std::string line_of(const SentPacket& packet) {
    const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
    std::string line = std::to_string(packet.time / 1000) + "us " + packet.from + " " +
                       (info.name == nullptr ? "?" : info.name + std::strlen("RC ")) +
                       " psn=" + std::to_string(packet.header.psn.value());
    if ((info.flags & wire::kHasPayload) != 0) {
        line += " len=" + std::to_string(packet.payload_bytes);
    }
    if ((info.flags & wire::kIsRead) != 0) {
        line += " dma=" + std::to_string(packet.header.reth.dma_length);
    }
    if ((info.headers & wire::kHasAeth) != 0) {
        line += syndrome_text(packet.header.aeth);
    }
    if (packet.header.ack_req) {
        line += " ackreq";
    }
    if (packet.header.solicited) {
        line += " se";
    }
    return line;
}

}  // namespace

wire::PacketView SentPacket::view() const {
    wire::PacketView view;
    URNIC_CHECK(wire::parse_frame(frame, view) == wire::ParseError::kNone);
    return view;
}

bool SentPacket::is_request() const {
    return (wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0;
}

bool SimNetwork::chance(std::uint32_t thousandths) {
    return thousandths != 0 && random_() % 1000 < thousandths;
}

bool SimNetwork::transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                          std::span<const MemoryPiece> pieces) {
    if (discards) {
        return true;
    }
    SentPacket packet{now_, from.name(), path, header, 0, std::vector<std::byte>(wire::kMaxFrameBytes)};
    packet.frame.resize(wire::build_frame(path, header, pieces, packet.frame));
    if (packet.frame.empty()) {
        return false;
    }
    for (const MemoryPiece& piece : pieces) {
        packet.payload_bytes += piece.length_bytes;
    }
    put_on_wire(std::move(packet));
    return true;
}

void SimNetwork::inject(SimHost& from, const wire::PacketHeader& header, std::span<const std::byte> payload) {
    wire::PathSpec spec;
    spec.src_mac = from.mac();
    spec.src_gid = from.gid();
    spec.dst_gid = from.gid();
    MemoryPiece piece;
    std::vector<std::byte> copy(payload.begin(), payload.end());
    piece.direct = copy.data();
    piece.length_bytes = static_cast<std::uint32_t>(copy.size());
    URNIC_CHECK(transmit(from, wire::make_path(spec), header, {&piece, copy.empty() ? 0U : 1U}));
}

void SimNetwork::put_on_wire(SentPacket packet) {
    const bool is_marked = mark && mark(packet);
    const bool is_lost = (lose && lose(packet)) || chance(faults.loss);
    if (!is_lost) {
        send_copies(packet, is_marked);
    }
    if (keep_trace) {
        packets_.push_back(std::move(packet));
    }
}

void SimNetwork::send_copies(const SentPacket& packet, bool is_marked) {
    const int copies = chance(faults.duplicate) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
        Frame frame{packet.header.dest_qp, packet.frame};
        if (is_marked) {
            wire::set_ce(frame.bytes);
        }
        if (chance(faults.corrupt)) {
            // Behind the IP header: the fields that the ICRC leaves out lie before.
            const std::size_t at = 14 + 20 + 8 + 5 + random_() % (frame.bytes.size() - (14 + 20 + 8 + 5));
            frame.bytes[at] ^= static_cast<std::byte>(1U << (random_() % 8));
            ++frames_corrupted;
        }
        const TimeNs more = chance(faults.reorder) ? random_() % faults.reorder_ns : 0;
        in_flight_.emplace(now_ + kDelayNs + more, std::move(frame));
    }
}

void SimNetwork::deliver(const Frame& frame) {
    wire::PacketView view;
    if (wire::parse_frame(frame.bytes, view) != wire::ParseError::kNone || !wire::icrc_ok(view)) {
        return;
    }
    for (SimHost* host : hosts_) {
        if (host->qp().qp_num() == view.header.dest_qp) {
            host->deliver(view);
            return;
        }
    }
}

TimeNs SimNetwork::next_time() const {
    TimeNs next = in_flight_.empty() ? kNever : in_flight_.begin()->first;
    for (const SimHost* host : hosts_) {
        next = std::min(next, host->qp().deadline());
    }
    return next;
}

void SimNetwork::run_until(TimeNs until) {
    for (SimHost* host : hosts_) {
        host->progress();
    }
    for (TimeNs next = next_time(); next <= until; next = next_time()) {
        now_ = std::max(now_, next);
        while (!in_flight_.empty() && in_flight_.begin()->first <= now_) {
            const Frame frame = std::move(in_flight_.begin()->second);
            in_flight_.erase(in_flight_.begin());
            deliver(frame);
        }
        for (SimHost* host : hosts_) {
            if (host->qp().deadline() <= now_) {
                host->qp().handle_timeout(now_, *host);
            }
            host->progress();
        }
    }
    now_ = std::max(now_, until);
}

bool SimNetwork::run() {
    constexpr TimeNs kMinute = 60'000'000'000;
    const TimeNs end = now_ + kMinute;
    do {
        const TimeNs next = next_time();
        run_until(next == kNever ? now_ : std::max(next, now_));
        if (next_time() == kNever) {
            return true;
        }
    } while (now_ < end);
    return false;
}

std::vector<SentPacket> SimNetwork::take_packets() {
    std::vector<SentPacket> taken(std::make_move_iterator(packets_.begin()),
                                  std::make_move_iterator(packets_.end()));
    packets_.clear();
    return taken;
}

std::vector<std::string> SimNetwork::take_trace() {
    std::vector<std::string> lines;
    for (const SentPacket& packet : take_packets()) {
        lines.push_back(line_of(packet));
    }
    return lines;
}

}  // namespace urnic::sim
