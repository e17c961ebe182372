#include "dataplane/worker/rx_path.h"

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/handoff/frame_inbox.h"
#include "dataplane/handoff/key_violation_inbox.h"
#include "dataplane/handoff/mad_inbox.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/frame_sender.h"
#include "dataplane/wire/local_frame.h"
#include "rnic/neighbour/membership_message.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/dissect/eth/pause_frame.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint16_t kVlanMask = 0xfff;
constexpr std::uint32_t kPausesWorker = 0;  // that owns Device::pfc_receiver

}  // namespace

RxPath::RxPath(std::uint32_t worker, Device& device, WorkerHandoff& handoff, WorkerOutbox& outbox,
               RunQueue& run_queue, RoundWatch& rounds)
    : worker_(worker),
      device_(device),
      port_(device.port),
      counters_(device.counters[worker]),
      handoff_(handoff),
      outbox_(outbox),
      run_queue_(run_queue),
      rounds_(rounds),
      copies_(rte_get_tsc_hz()),
      qps_(handoff.num_workers()) {
    set_port_up(true);
    refresh_addresses();
}

void RxPath::refresh_addresses() {
    num_gids_ = 0;
    for (std::size_t i = 0; i < device_.gids.size(); ++i) {
        if (device_.gids[i] != wire::Gid{}) {
            gids_[num_gids_++] = {device_.gids[i], device_.gid_vlans[i]};
        }
    }
    mac_ = device_.mac;
}

std::uint16_t RxPath::take(std::span<rte_mbuf*, kBurst> frames) {
    return port_->rx_burst(worker_, frames.data(), kBurst);
}

void RxPath::handle(std::span<rte_mbuf*> frames, TimeNs now, TimeNs protocol_now) {
    if (!dispatches_roce_) [[unlikely]] {
        receive_other(frames, now, protocol_now);
        return;
    }
    std::uint32_t kept = 0;
    for (rte_mbuf* const frame : frames) {
        if (handoff_.num_workers() > 1 && !is_local(*frame) && steer(frame)) {
            continue;
        }
        frames[kept++] = frame;
    }
    wake_handoff_targets();
    for (std::uint32_t i = 0; i < kept; ++i) {
        if (i + 1 < kept) {
            rte_prefetch0(rte_pktmbuf_mtod(frames[i + 1], const void*));
        }
        dispatch(*frames[i], now, protocol_now);
    }
    copies_.end(rte_rdtsc);
    free_frames(frames.first(kept));
}

void RxPath::wake_handoff_targets() {
    for (std::uint32_t owner = 0; handoff_targets_ != 0; ++owner, handoff_targets_ >>= 1U) {
        if ((handoff_targets_ & 1U) != 0) {
            handoff_.wakeup().wake(owner);
        }
    }
}

bool RxPath::steer(rte_mbuf* frame) {
    // A frame that is not RoCEv2 has no QP (~0u): it is counted here. One worker owns the pause state.
    const std::uint32_t qp_num = wire::peek_dest_qp(frame_bytes(frame));
    const std::uint32_t owner = qp_num != ~0U                              ? handoff_.worker_of(qp_num)
                                : wire::is_mac_control(frame_bytes(frame)) ? kPausesWorker
                                                                           : worker_;
    if (owner == worker_) {
        return false;
    }
    if (!handoff_.enqueue(worker_, owner, {frame, device_.index})) {
        ++counters_.drop_steering_full;
        free_frames({&frame, 1});
        return true;
    }
    handoff_targets_ |= 1U << owner;
    return true;
}

void RxPath::on_handoff(rte_mbuf* frame, TimeNs now, TimeNs protocol_now) {
    if (dispatches_roce_) [[likely]] {
        dispatch(*frame, now, protocol_now);
    } else {
        dispatch_other(*frame, now, protocol_now);
    }
    free_frames({&frame, 1});
}

bool RxPath::has_gid(const wire::Gid& gid, std::uint16_t vlan) const {
    return std::any_of(gids_.begin(), gids_.begin() + num_gids_,
                       [&](const OwnGid& own) { return wire::same_gid(own.gid, gid) && own.vlan == vlan; });
}

bool RxPath::has_vlan(std::uint16_t vlan) const {
    return std::any_of(gids_.begin(), gids_.begin() + num_gids_,
                       [&](const OwnGid& own) { return own.vlan == vlan; });
}

bool RxPath::is_for_us(const wire::PacketView& view) const {
    const std::uint16_t vlan = view.vlan_tci & kVlanMask;
    if (wire::is_multicast(view.dst_mac)) [[unlikely]] {
        return wire::is_multicast(view.dst_gid) && has_vlan(vlan) &&
               wire::same_mac(view.dst_mac, wire::multicast_mac(view.dst_gid)) &&
               multicast_.find(view.dst_gid) != nullptr;
    }
    return wire::same_mac(view.dst_mac, mac_) && has_gid(view.dst_gid, vlan);
}

void RxPath::dispatch_to_qp(QpSlot& slot, const wire::PacketView& view, TimeNs now, TimeNs protocol_now) {
    rounds_.enter(*slot.share, rte_rdtsc);
    Outbox& effects = outbox_.begin_call(slot, now);
    slot.qp->handle_packet(protocol_now, view, effects);
    run_queue_.push(slot);
}

// Each member gets the packet and checks P_Key and Q_Key for itself (IBA 10.5.2.2). One worker gets all
// multicast frames of a device (WorkerHandoff::worker_of()) and hands them off to the others.
void RxPath::dispatch_multicast(rte_mbuf& frame, const wire::PacketView& view, TimeNs now,
                                TimeNs protocol_now) {
    const GroupOnWorker& group = *multicast_.find(view.dst_gid);
    if (worker_ == handoff_.worker_of(wire::kMulticastQp)) {
        replicate_to_workers(frame, group.workers & ~(1U << worker_));
    }
    const bool is_own = has_gid(view.src_gid, view.vlan_tci & kVlanMask);
    for (const GroupMember* member = group.members; member != nullptr; member = member->next) {
        QpSlot& slot = *member->slot;
        const bool is_sender = is_own && view.header.deth.src_qp == slot.qp->qp_num();
        if (!(is_sender && slot.block_self_multicast_loopback)) {
            dispatch_to_qp(slot, view, now, protocol_now);
        }
    }
}

// One worker gets all frames for QP1 of a device (WorkerHandoff::worker_of()).
void RxPath::dispatch_mad(const wire::PacketView& view) {
    ReceivedMad mad;
    if (!take_mad(view, device_.pkeys, counters_, mad)) {
        return;
    }
    if (device_.mads->push(mad)) {
        ++counters_.rcvd_mads;
    } else {
        ++counters_.drop_mad_full;
    }
}

void RxPath::replicate_to_workers(rte_mbuf& frame, std::uint32_t workers) {
    for (std::uint32_t to = 0; workers != 0; ++to, workers >>= 1U) {
        if ((workers & 1U) == 0) {
            continue;
        }
        rte_mbuf* copy = &frame;
        rte_mbuf_refcnt_update(copy, 1);
        if (handoff_.enqueue(worker_, to, {copy, device_.index})) {
            handoff_.wakeup().wake(to);
        } else {
            ++counters_.drop_steering_full;
            free_frames({&copy, 1});
        }
    }
}

void RxPath::wake_others() {
    for (std::uint32_t other = 0; other < handoff_.num_workers(); ++other) {
        if (other != worker_) {
            handoff_.wakeup().wake(other);
        }
    }
}

// From the other end of the link: bridges do not forward such frames (IEEE 802.1Q 8.6.3). Where a multicast
// frame is sent to its sender, too, our own come back.
void RxPath::dispatch_mac_control(const rte_mbuf& frame, TimeNs now) {
    wire::Pfc pause;
    wire::Mac source{};
    const std::span<const std::byte> bytes = frame_bytes(&frame);
    std::memcpy(source.data(), bytes.data() + source.size(), source.size());
    if (wire::same_mac(source, mac_)) {
        return;
    }
    if (!wire::parse_pause_frame(bytes, pause)) {
        ++counters_.drop_malformed;
        ++device_.pfc_counters.rx_malformed;
        return;
    }
    if (device_.pfc_receiver.receive(now, pause)) {
        wake_others();
    }
}

// A port may receive frames for another station, too: they are no reply to us.
void RxPath::dispatch_neighbour(std::span<const std::byte> frame) {
    wire::Mac destination{};
    std::memcpy(destination.data(), frame.data(), destination.size());
    if (!wire::is_multicast(destination) && !wire::same_mac(destination, mac_)) {
        ++counters_.drop_not_for_us;
    } else if (device_.neighbour_inbox->push(frame)) {
        ++counters_.rcvd_neighbour_msgs;
    } else {
        ++counters_.drop_neighbour_msgs;
    }
}

void RxPath::dispatch_non_roce(const rte_mbuf& frame, wire::ParseError error, TimeNs now) {
    if (frame.data_len != 0 && wire::is_group_frame(frame_bytes(&frame).data())) {
        ++counters_.rcvd_multicast_pkts;
    }
    if (error == wire::ParseError::kNotRoce && wire::is_mac_control(frame_bytes(&frame))) {
        dispatch_mac_control(frame, now);
        return;
    }
    if (error == wire::ParseError::kNotRoce && device_.neighbour_inbox != nullptr &&
        net::is_neighbour_frame(frame_bytes(&frame))) {
        dispatch_neighbour(frame_bytes(&frame));
        return;
    }
    if (error == wire::ParseError::kNotRoce && device_.query_inbox != nullptr &&
        net::is_membership_query(frame_bytes(&frame))) {
        // Without room it is lost: queriers ask again.
        (void)device_.query_inbox->push(frame_bytes(&frame));
        return;
    }
    auto& dropped = error == wire::ParseError::kNotRoce ? counters_.drop_not_roce : counters_.drop_malformed;
    ++dropped;
}

// The switch has handed it to the worker of its QP.
void RxPath::dispatch_infiniband(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes.add(frame.pkt_len);
    view_.frame = &frame;
    switch (frame.nb_segs == 1 ? wire::parse_ib_frame(frame_bytes(&frame), view_)
                               : wire::ParseError::kMalformed) {
        case wire::ParseError::kNone:
            break;
        case wire::ParseError::kNotRoce:
            ++counters_.drop_not_roce;
            return;
        case wire::ParseError::kBadIcrc:
            ++counters_.rx_icrc_encapsulated;
            return;
        default:  // a bad VCRC is one of the errors that PortRcvErrors counts (IBA 16.1.3.5)
            ++counters_.drop_malformed;
            return;
    }
    if (wire::is_multicast_lid(view_.dlid)) [[unlikely]] {
        ++counters_.rcvd_multicast_pkts;
        if (view_.has_grh && view_.header.dest_qp == wire::kMulticastQp &&
            wire::is_multicast(view_.dst_gid) && multicast_.find(view_.dst_gid) != nullptr) {
            dispatch_multicast(frame, view_, now, protocol_now);
        } else {
            ++counters_.drop_not_for_us;
        }
        return;
    }
    // A packet without a GRH is for the LID alone (IBA 9.6.1.2.3).
    if (!device_.subnet.has_lid(view_.dlid) || (view_.has_grh && !has_gid(view_.dst_gid, 0))) {
        ++counters_.drop_not_for_us;
        return;
    }
    QpSlot* const slot = qps_.find(view_.header.dest_qp);
    if (slot == nullptr) {
        ++counters_.drop_unknown_qp;
        return;
    }
    if (slot->peer_qp_num != QpSlot::kAnySender && !may_be_from(frame, slot->peer_qp_num)) {
        ++counters_.drop_wrong_sender;
        return;
    }
    dispatch_to_qp(*slot, view_, now, protocol_now);
}

void RxPath::receive_other(std::span<rte_mbuf*> frames, TimeNs now, TimeNs protocol_now) {
    // The switch hands native InfiniBand to the workers of its QPs.
    const bool steers = handoff_.num_workers() > 1 && port_up_ && !device_.is_infiniband();
    std::size_t kept = 0;
    for (rte_mbuf* const frame : frames) {
        if (!steers || is_local(*frame) || !steer(frame)) {
            frames[kept++] = frame;
        }
    }
    for (std::size_t i = 0; i < kept; ++i) {
        if (i + 1 < kept) {
            rte_prefetch0(rte_pktmbuf_mtod(frames[i + 1], const void*));
        }
        dispatch_other(*frames[i], now, protocol_now);
    }
    copies_.end(rte_rdtsc);
    wake_handoff_targets();
    free_frames(frames.first(kept));
}

void RxPath::dispatch_other(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    if (capture_ != nullptr) {
        dispatch_captured(frame, now, protocol_now);
    } else {
        dispatch_uncaptured(frame, now, protocol_now);
    }
}

void RxPath::dispatch_uncaptured(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    if (!port_up_) {
        counters_.drop_port_down.add(packets_in(frame));
    } else if (device_.is_infiniband()) {
        const std::uint64_t bad_pkeys = counters_.drop_pkey.value();
        const std::uint64_t bad_qkeys = counters_.drop_qkey.value();
        dispatch_infiniband(frame, now, protocol_now);
        // The engines know nothing of traps: what they have counted tells.
        if (counters_.drop_pkey.value() != bad_pkeys) [[unlikely]] {
            report_key_violation(wire::mad::kBadPkeyTrap);
        } else if (counters_.drop_qkey.value() != bad_qkeys) [[unlikely]] {
            report_key_violation(wire::mad::kBadQkeyTrap);
        }
    } else {
        dispatch(frame, now, protocol_now);
    }
}

void RxPath::report_key_violation(std::uint16_t trap_number) {
    KeyViolationInbox* const inbox = device_.key_violations.load(std::memory_order_acquire);
    if (inbox == nullptr || !inbox->is_wanted()) {
        return;
    }
    inbox->push(subnet::key_violation_of(trap_number, view_));
}

void RxPath::dispatch_captured(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    WorkerCapture& capture = *capture_;
    parser_.forget();
    const std::uint64_t unparsed_before = counters_.drop_malformed.value() + counters_.drop_not_roce.value();
    // Who keeps the frame refers to it, and so do the workers that a multicast frame goes to.
    const bool is_group =
        !device_.is_infiniband() && frame.data_len != 0 && wire::is_group_frame(frame_bytes(&frame).data());
    const auto references = [&] { return is_group ? 0U : std::uint32_t{rte_mbuf_refcnt_read(&frame)}; };
    capture.begin_receive(now, counters_, references());
    dispatch_uncaptured(frame, now, protocol_now);
    const bool is_roce = device_.is_infiniband() || parser_.view().l3.data() != nullptr;
    const bool is_parsed =
        is_roce && port_up_ &&
        counters_.drop_malformed.value() + counters_.drop_not_roce.value() == unparsed_before;
    WorkerCapture::Packet packet;
    packet.rnic = device_.index;
    packet.bytes = frame_bytes(&frame);
    packet.wire_bytes = frame.pkt_len;
    if (is_parsed) {
        const wire::PacketView& view = device_.is_infiniband() ? view_ : parser_.view();
        QpSlot* const slot = qps_.find(view.header.dest_qp);
        packet.header = &view.header;
        packet.peer = &view.src_gid;
        packet.qpn = view.header.dest_qp;
        packet.qp = slot != nullptr ? slot->qp.get() : nullptr;
        if (slot != nullptr) {
            capture.look_at(device_.index, *slot);
        }
    }
    capture.end_receive(packet, counters_, references());
}

void RxPath::dispatch(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    if (is_local(frame)) {
        dispatch_local(frame, now, protocol_now);
        return;
    }
    copies_.end(rte_rdtsc);
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes.add(frame.pkt_len);
    if (frame.nb_segs != 1) {
        ++counters_.drop_malformed;
        return;
    }
    parser_.set_frame(&frame);
    const wire::ParseError error = parser_.parse(frame_bytes(&frame));
    const wire::PacketView& view = parser_.view();
    if (error != wire::ParseError::kNone) {
        dispatch_non_roce(frame, error, now);
        return;
    }
    const bool is_multicast = wire::is_multicast(view.dst_mac);
    if (is_multicast) [[unlikely]] {
        ++counters_.rcvd_multicast_pkts;
    }
    if (!is_for_us(view)) {
        ++counters_.drop_not_for_us;
        return;
    }
    if (!wire::icrc_ok(view)) {
        ++counters_.rx_icrc_encapsulated;
        return;
    }
    if (is_multicast && view.header.dest_qp == wire::kMulticastQp) [[unlikely]] {
        dispatch_multicast(frame, view, now, protocol_now);
        return;
    }
    if (view.header.dest_qp == kGsiQp && device_.mads != nullptr && !is_multicast) [[unlikely]] {
        dispatch_mad(view);
        return;
    }
    QpSlot* const slot = is_multicast ? nullptr : qps_.find(view.header.dest_qp);
    if (slot == nullptr) {
        ++counters_.drop_unknown_qp;
        if (view.header.opcode == wire::kCnp) {
            ++counters_.rp_cnp_ignored;
        }
        return;
    }
    if (slot->peer_qp_num != QpSlot::kAnySender && !may_be_from(frame, slot->peer_qp_num)) [[unlikely]] {
        ++counters_.drop_wrong_sender;
        return;
    }
    dispatch_to_qp(*slot, view, now, protocol_now);
}

}  // namespace urnic::dataplane
