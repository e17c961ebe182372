// Packets of the same worker's QPs that came without being frames (docs/adr/0035).
#include <rte_cycles.h>

#include "dataplane/port/frame_sender.h"
#include "dataplane/worker/qp_slot.h"
#include "dataplane/worker/rx_path.h"

namespace urnic::dataplane {

namespace {

/// Returns whether payload that is referred to may be read, until the next loop boundary: its sender has not
/// got it back by an error, and it lies in a region that is registered under the same key. The control thread
/// unmaps no memory before every worker has passed a loop boundary without the key (KeyTable::remove()).
bool may_read_payload(const LocalFrame& local) {
    const wire::LocalPacket& packet = local.packet;
    if (packet.key == 0) {
        return true;
    }
    const MemoryRegion* const region = local.keys->find(packet.key);
    if (local.sender->local_epoch != local.local_epoch || region == nullptr || region->direct == nullptr) {
        return false;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(region->direct);
    const auto payload = reinterpret_cast<std::uintptr_t>(packet.payload);
    return payload >= begin && payload - begin <= region->length_bytes &&
           packet.payload_bytes <= region->length_bytes - (payload - begin);
}

}  // namespace

QpSlot* RxPath::receiver_of_local(const rte_mbuf& frame) {
    const LocalFrame& local = local_frame(frame);
    const wire::LocalPacket& packet = local.packet;
    wire::view_first(packet, view_);
    if (!is_for_us(view_)) {
        counters_.drop_not_for_us.add(packet.packets);
        return nullptr;
    }
    QpSlot* const slot = qps_.find(view_.header.dest_qp);
    if (slot == nullptr) {
        counters_.drop_unknown_qp.add(packet.packets);
        return nullptr;
    }
    if (slot->peer_qp_num != QpSlot::kAnySender && !may_be_from(frame, slot->peer_qp_num)) [[unlikely]] {
        counters_.drop_wrong_sender.add(packet.packets);
        return nullptr;
    }
    if (!may_read_payload(local)) [[unlikely]] {
        counters_.drop_local_payload.add(packet.packets);
        return nullptr;
    }
    return slot;
}

void RxPath::enter_local(const QpSlot& receiver, const LocalFrame& local) {
    std::uint64_t ticks = 0;
    const auto look = [&ticks] { return ticks != 0 ? ticks : ticks = rte_rdtsc(); };
    if (local.packet.key != 0) {
        ProgramShare& sender = *local.sender->share;
        copies_.begin(sender, local.packet.payload_bytes, local.packet.packets, look);
        rounds_.enter(*receiver.share, sender, look);
    } else {
        copies_.end(look);
        rounds_.enter(*receiver.share, look);
    }
}

void RxPath::dispatch_local(rte_mbuf& frame, TimeNs now, TimeNs protocol_now) {
    const LocalFrame& local = local_frame(frame);
    const wire::LocalPacket& packet = local.packet;
    counters_.rcvd_pkts.add(packet.packets);
    counters_.rcvd_local_pkts.add(packet.packets);
    counters_.rcvd_bytes.add(packet.frame_bytes);
    QpSlot* const slot = receiver_of_local(frame);
    if (slot == nullptr) [[unlikely]] {
        copies_.end(rte_rdtsc);
        return;
    }
    enter_local(*slot, local);
    Outbox& effects = outbox_.begin_call(*slot, now);
    view_.frame = &frame;
    slot->qp->handle_packet(protocol_now, view_, effects);
    for (std::uint32_t index = 1; index < packet.packets; ++index) {
        wire::view_next(packet, index, view_);
        slot->qp->handle_packet(protocol_now, view_, effects);
    }
    run_queue_.push(*slot);
}

}  // namespace urnic::dataplane
