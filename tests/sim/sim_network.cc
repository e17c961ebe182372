#include "tests/sim/sim_network.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"
#include "tests/sim/local_form.h"

namespace urnic::sim {

wire::PacketView SentPacket::view() const {
    wire::PacketView view;
    URNIC_CHECK(wire::parse_frame(frame, view) == wire::ParseError::kNone);
    return view;
}

bool SentPacket::is_request() const {
    return (wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0;
}

bool SimNetwork::transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                          std::span<const MemoryPiece> pieces) {
    if (discards) {
        return true;
    }
    Network& network = link_->network;
    Frame& frame = network.take_frame();
    frame.length = static_cast<std::uint32_t>(wire::build_frame(path, header, pieces, frame.bytes));
    if (frame.length == 0) {
        network.release(frame);
        return false;
    }
    check_local_form(path, header, pieces, frame.span());
    SentPacket packet{now(), from.name(), path, header, 0, {frame.span().begin(), frame.span().end()}};
    for (const MemoryPiece& piece : pieces) {
        packet.payload_bytes += piece.length_bytes;
    }
    if (mark && mark(packet)) {
        wire::set_ce(std::span(frame.bytes).first(frame.length));
    }
    if (lose && lose(packet)) {
        network.release(frame);
    } else {
        network.set_options(link_->direction, faults);
        network.send(link_->direction, frame);
    }
    if (keep_trace) {
        packets_.push_back(std::move(packet));
    }
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

void SimNetwork::Link::receive(TimeNs /*now*/, DirectionId /*from*/, Frame& frame) {
    wire::PacketView view;
    if (wire::parse_frame(frame.span(), view) == wire::ParseError::kNone && wire::icrc_ok(view)) {
        const auto host = std::find_if(hosts.begin(), hosts.end(), [&view](const SimHost* each) {
            return each->qp().qp_num() == view.header.dest_qp;
        });
        if (host != hosts.end()) {
            overwrite_absent_fields(view.header);
            (*host)->deliver(view);
        }
    }
    network.release(frame);
}

TimeNs SimNetwork::next_time() const {
    TimeNs next = link_->network.next_time();
    for (const SimHost* host : link_->hosts) {
        next = std::min(next, host->qp().deadline());
    }
    return next;
}

void SimNetwork::run_until(TimeNs until) {
    for (SimHost* host : link_->hosts) {
        host->progress();
    }
    for (TimeNs next = next_time(); next <= until; next = next_time()) {
        link_->network.run_until(std::max(now(), next));
        for (SimHost* host : link_->hosts) {
            if (host->qp().deadline() <= now()) {
                host->qp().handle_timeout(now(), *host);
            }
            host->progress();
        }
    }
    link_->network.run_until(until);
}

bool SimNetwork::run() {
    constexpr TimeNs kMinute = 60'000'000'000;
    const TimeNs end = now() + kMinute;
    do {
        const TimeNs next = next_time();
        run_until(next == kNever ? now() : std::max(next, now()));
        if (next_time() == kNever) {
            return true;
        }
    } while (now() < end);
    return false;
}

std::vector<SentPacket> SimNetwork::take_packets() {
    std::vector<SentPacket> taken(std::make_move_iterator(packets_.begin()),
                                  std::make_move_iterator(packets_.end()));
    packets_.clear();
    return taken;
}

}  // namespace urnic::sim
