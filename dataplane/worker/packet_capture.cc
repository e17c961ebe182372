#include "dataplane/worker/packet_capture.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// In the order of abi::kPacketDrops.
constexpr Counter Counters::*kDropCounters[] = {
    &Counters::drop_malformed,      &Counters::drop_not_roce,       &Counters::drop_not_for_us,
    &Counters::drop_unknown_qp,     &Counters::drop_wrong_sender,   &Counters::drop_qp_state,
    &Counters::drop_pkey,           &Counters::drop_qkey,           &Counters::drop_opcode,
    &Counters::drop_uc_message,     &Counters::drop_mad_full,       &Counters::drop_port_down,
    &Counters::drop_neighbour_msgs, &Counters::rx_icrc_encapsulated};
static_assert(std::size(kDropCounters) == std::size(abi::kPacketDrops));

constexpr std::uint32_t kAlignment = 8;

}  // namespace

wire::Gid peer_of(const wire::Path& path) {
    wire::Gid peer{};
    const std::uint8_t* const l3 = path.bytes.data() + path.l3_offset;
    if (path.l3_offset == 0) {  // native InfiniBand: an LRH, and a GRH in the form of an IPv6 header
        const std::uint8_t* const dlid = path.bytes.data() + wire::kLrhDlid;
        if (path.length < wire::kLrhBytes + wire::kGrhBytes) {
            return wire::lid_gid(static_cast<std::uint16_t>(dlid[0] << 8U | dlid[1]));
        }
        std::memcpy(peer.data(), l3 + wire::kLrhBytes + wire::kIpv6Destination, peer.size());
    } else if (path.is_ipv4) {
        peer[10] = peer[11] = 0xff;
        std::memcpy(peer.data() + 12, l3 + wire::kIpv4Destination, 4);
    } else {
        std::memcpy(peer.data(), l3 + wire::kIpv6Destination, peer.size());
    }
    return peer;
}

void WorkerCapture::use(const PacketCaptures& captures) {
    settle();
    for (std::size_t i = 0; i < kMaxCaptures; ++i) {
        if (captures_[i] != captures[i]) {
            lost_[i] = {};
        }
    }
    captures_ = captures;
    rnics_ = 0;
    for (const PacketCapture* capture : captures_) {
        rnics_ |= capture != nullptr ? capture->rnics : 0;
    }
}

void WorkerCapture::look(const Counters& counters, std::uint32_t held, Seen& seen) {
    for (std::size_t i = 0; i < kDrops; ++i) {
        seen.drops[i] = (counters.*kDropCounters[i]).value();
    }
    seen.duplicate = counters.duplicate_request.value();
    seen.early = counters.out_of_seq_request.value();
    seen.no_receive = counters.send_rnr_err.value();
    seen.refused = counters.resp_remote_access_errors.value() + counters.resp_local_length_error.value() +
                   counters.resp_cqe_error.value();
    seen.held = held;
}

WorkerCapture::Fate WorkerCapture::fate_between(const Seen& before, const Seen& after) {
    for (std::size_t i = 0; i < kDrops; ++i) {
        if (after.drops[i] != before.drops[i]) {
            return {abi::PacketFate::kDropped, static_cast<std::uint8_t>(i)};
        }
    }
    if (after.duplicate != before.duplicate) {
        return {abi::PacketFate::kDuplicate};
    }
    // A response that comes early counts nowhere, but it is held, too.
    if (after.held > before.held) {
        return {abi::PacketFate::kEarlyKept};
    }
    if (after.early != before.early) {
        return {abi::PacketFate::kEarlyDropped};
    }
    if (after.no_receive != before.no_receive) {
        return {abi::PacketFate::kNoReceive};
    }
    return {after.refused != before.refused ? abi::PacketFate::kRefused : abi::PacketFate::kDelivered};
}

bool WorkerCapture::is_chosen(const PacketCapture& capture, const Packet& packet) {
    if ((capture.rnics >> packet.rnic & 1U) == 0) {
        return false;
    }
    if (capture.filters == 0) {
        return true;
    }
    if (packet.header == nullptr || packet.peer == nullptr) {
        return false;
    }
    const bool is_qp = capture.qpn == packet.qpn || capture.qpn == packet.header->dest_qp;
    return ((capture.filters & abi::kFilterQpn) == 0 || is_qp) &&
           ((capture.filters & abi::kFilterOpcode) == 0 || capture.opcode == packet.header->opcode) &&
           ((capture.filters & abi::kFilterPeer) == 0 || wire::same_gid(capture.peer, *packet.peer));
}

void WorkerCapture::begin_receive(const Counters& counters, std::uint32_t held) {
    settle();
    is_receiving_ = true;
    received_at_ = clock_.now();
    look(counters, held, before_);
}

void WorkerCapture::end_receive(const Packet& packet, const Counters& counters, std::uint32_t held) {
    Seen after;
    look(counters, held, after);
    settle();
    is_receiving_ = false;
    record(packet, received_at_, false, fate_between(before_, after));
    publish();
}

void WorkerCapture::publish() {
    for (PacketCapture* capture : captures_) {
        if (capture != nullptr) {
            capture->rings[worker_].publish();
        }
    }
    pending_ = {};
}

void WorkerCapture::sent(const Packet& packet, const Counters& counters) {
    settle();
    record(packet, clock_.now(), true, {abi::PacketFate::kSent});
    pending_counters_ = &counters;
    retransmitted_before_ = counters.retrans_pkts.value();
}

// A requester counts a retransmission behind its transmit(), and nobody else does in between.
void WorkerCapture::publish_pending() {
    const bool again = pending_counters_->retrans_pkts.value() != retransmitted_before_;
    for (abi::CaptureRecord* const record : pending_) {
        if (record != nullptr && again) {
            record->fate = abi::PacketFate::kRetransmission;
        }
    }
    pending_ = {};
    pending_counters_ = nullptr;
    // The answers to a packet are seen together with it: the reader puts them in the order of time.
    if (!is_receiving_) {
        publish();
    }
}

void WorkerCapture::record(const Packet& packet, TimeNs time, bool is_sent, Fate fate) {
    abi::CaptureRecord header{};
    header.rnic = static_cast<std::uint16_t>(packet.rnic);
    header.fate = fate.fate;
    header.drop = fate.drop;
    header.time_ns = time;
    header.wire_bytes = packet.wire_bytes;
    header.qpn = packet.qpn;
    header.is_sent = is_sent ? 1 : 0;
    header.state = abi::kNoState;
    if (packet.qp != nullptr) {
        abi::QpAttr attr{};
        packet.qp->query(attr);
        header.state = static_cast<std::uint8_t>(packet.qp->state());
        header.expected_psn = attr.rq_psn;
        header.next_psn = attr.sq_psn;
    }
    for (std::size_t i = 0; i < kMaxCaptures; ++i) {
        PacketCapture* const capture = captures_[i];
        if (capture == nullptr || !is_chosen(*capture, packet)) {
            continue;
        }
        CaptureRingWriter& ring = capture->rings[worker_];
        header.captured =
            static_cast<std::uint32_t>(std::min<std::size_t>(packet.bytes.size(), capture->snap_bytes));
        header.bytes = (static_cast<std::uint32_t>(sizeof header) + header.captured + kAlignment - 1) &
                       ~(kAlignment - 1);
        header.lost_before = lost_[i][packet.rnic];
        std::byte* const room = ring.reserve(header.bytes);
        ring.count(packet.rnic, room == nullptr);
        if (room == nullptr) {
            ++lost_[i][packet.rnic];
            continue;
        }
        lost_[i][packet.rnic] = 0;
        std::memcpy(room, &header, sizeof header);
        std::memcpy(room + sizeof header, packet.bytes.data(), header.captured);
        pending_[i] = reinterpret_cast<abi::CaptureRecord*>(room);
    }
}

}  // namespace urnic::dataplane
