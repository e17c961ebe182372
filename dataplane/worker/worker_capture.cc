#include "dataplane/worker/worker_capture.h"

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
static_assert(std::size(kDropCounters) + abi::kMadDrops == std::size(abi::kPacketDrops));

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
    writer_.use(captures);
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

Fate WorkerCapture::fate_between(const Seen& before, const Seen& after) {
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
    (void)writer_.write(packet, received_at_, false, fate_between(before_, after));
    writer_.publish();
}

void WorkerCapture::sent(const Packet& packet, const Counters& counters) {
    settle();
    pending_ = writer_.write(packet, clock_.now(), true, {abi::PacketFate::kSent});
    pending_counters_ = &counters;
    retransmitted_before_ = counters.retrans_pkts.value();
}

void WorkerCapture::completed(std::uint32_t rnic, const Completion& completion) {
    settle();
    writer_.write_completion(rnic, completion, clock_.now());
    if (!is_receiving_) {
        writer_.publish();
    }
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
        writer_.publish();
    }
}

}  // namespace urnic::dataplane
