// What the control thread has a worker do, inside Worker::call().
#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "dataplane/worker/worker_impl.h"

namespace urnic::dataplane {

namespace {

/// Rounds that one resize of a CQ may take from the others.
constexpr int kCatchUpRounds = 8;
/// Rounds in which one QP may send what was posted before it stops: of 32 packets each, 8 times the send
/// window.
constexpr int kPostedRounds = 64;

bool stops_sending(const abi::QpAttr& attr) {
    return (attr.mask & kQpAttrState) != 0 && (attr.state == QpState::kErr || attr.state == QpState::kReset);
}

}  // namespace

int Worker::attach_client(ClientDoorbells& client) {
    const int error = impl_->idle.watch_edges(client.wake_fd());
    if (error == 0) {
        impl_->clients.add(client);
    }
    return error;
}

void Worker::detach_client(ClientDoorbells& client) {
    impl_->clients.remove(client);
    impl_->idle.unwatch(client.wake_fd());
}

void Worker::add_qp(QpSlot& slot, QpRoom& room) {
    Impl& impl = *impl_;
    const std::uint32_t qp_num = slot.qp->qp_num();
    URNIC_CHECK(impl.config.steering->worker_of(qp_num) == impl.config.index);
    URNIC_CHECK(slot.doorbell_slot < abi::kDoorbellSlots);
    slot.timer.slot = &slot;
    impl.lane(slot).receiver.qps().set(qp_num, slot, room.for_number);
    if (slot.client != nullptr) {
        slot.client->set(slot.doorbell_slot, slot, room.for_doorbell);
    }
}

void Worker::remove_qp(QpSlot& slot) {
    Impl& impl = *impl_;
    impl.lane(slot).receiver.qps().clear(slot.qp->qp_num());
    if (slot.client != nullptr) {
        slot.client->clear(slot.doorbell_slot);
    }
    impl.run_queue.remove(slot);
    impl.lane(slot).held_qps.remove(slot);
    impl.timers.cancel(slot.timer);
    slot.qp->leave_worker();
}

HeldPacketPool& Worker::held_packets() { return impl_->held_packets; }

void Worker::release_cq(NotifyingCq& cq) { impl_->notifier.release(cq); }

bool Worker::transmit(std::uint32_t device, const wire::Path& path, const wire::PacketHeader& header,
                      std::span<const std::byte> bytes) {
    TxOutbox& outbox = impl_->lanes.at(device)->outbox;
    outbox.make_room(impl_->now);
    // Only read, though a piece of memory can be written as well.
    const MemoryPiece piece{const_cast<std::byte*>(bytes.data()), nullptr, 0,
                            static_cast<std::uint32_t>(bytes.size())};
    return outbox.room() != 0 && !outbox.holds(path) && outbox.transmit(path, header, {&piece, 1});
}

bool Worker::transmit_frame(std::uint32_t device, std::span<const std::byte> bytes) {
    TxOutbox& outbox = impl_->lanes.at(device)->outbox;
    outbox.make_room(impl_->now);
    // ARP and neighbour discovery; the frames of a priority are all paused, whoever sends them.
    const std::uint32_t priority = wire::priority_of(reinterpret_cast<const std::uint8_t*>(bytes.data()));
    return (outbox.paused() >> priority & 1U) == 0 && outbox.transmit_frame(bytes);
}

void Worker::refresh_addresses(std::uint32_t device) {
    Impl::Lane& lane = *impl_->lanes.at(device);
    lane.outbox.use_mac(impl_->config.devices[device]->mac);
    lane.receiver.refresh_addresses();
}

void Worker::set_port(std::uint32_t device, bool up) {
    Impl::Lane& lane = *impl_->lanes.at(device);
    lane.outbox.set_port_up(up);
    lane.receiver.set_port_up(up);
    if (!up && impl_->config.index == 0) {
        ++lane.device.counters[0].link_downed;
    }
    if (!up && impl_->config.index == 0 && lane.device.pauses.clear(impl_->now)) {
        lane.receiver.wake_others();
    }
}

void Worker::watch_port(std::uint32_t device) {
    const int fd = impl_->lanes.at(device)->device_port.wait_fd(impl_->config.index);
    const int error = fd >= 0 ? impl_->idle.watch_level(fd) : 0;
    if (error != 0 && error != EEXIST) {
        // No descriptor is left for it, or no memory: it is still looked at now and then.
        impl_->polled_ports = true;
    }
}

MulticastTable& Worker::multicast(std::uint32_t device) {
    return impl_->lanes.at(device)->receiver.multicast();
}

void Worker::catch_up() {
    (void)impl_->scan_doorbells();
    for (int round = 0; round < kCatchUpRounds && !impl_->run_queue.empty(); ++round) {
        (void)impl_->run_qps();
        (void)impl_->flush_ports();
    }
    if (impl_->send_waiting()) {
        (void)impl_->flush_ports();
    }
}

void Worker::send_posted(QpSlot& slot) {
    Impl& impl = *impl_;
    for (int round = 0; round < kPostedRounds; ++round) {
        const std::uint64_t sent_before = impl.sent_packets();
        (void)impl.scan_doorbells();
        const bool received = impl.receive();
        (void)impl.run_qp(slot);
        // Those that answer it may be on this worker, too.
        (void)impl.run_qps();
        (void)impl.flush_ports();
        const bool has_more = slot.qp->has_unsent() || impl.undrained_rounds != 0;
        if (!has_more || (!received && impl.sent_packets() == sent_before)) {
            return;
        }
    }
}

void Worker::swap_faults(std::uint32_t device, std::shared_ptr<const fault::Plan>& plan) {
    Impl::Lane& lane = *impl_->lanes.at(device);
    if (plan == nullptr && !lane.faulty) {
        return;
    }
    lane.faults.swap_plan(plan);
    if (!lane.faulty) {
        lane.use_port(lane.faults);
        lane.faulty = true;
        ++impl_->faulty_lanes;
    }
}

void Worker::use_congestion(QpSlot& slot, const congestion::Settings& settings) {
    Impl& impl = *impl_;
    slot.qp->use_congestion_settings(impl.now, &settings);
    impl.run_queue.push(slot);
    impl.follow_deadline(slot);
}

int Worker::modify_qp(QpSlot& slot, const abi::QpAttr& attr, const wire::Path& path) {
    Impl& impl = *impl_;
    if (stops_sending(attr)) {
        send_posted(slot);
    }
    TxOutbox& outbox = impl.lane(slot).outbox;
    outbox.begin(slot, impl.now);
    const int error = slot.qp->modify(impl.qp_now, attr, path, outbox);
    // Until it may send it has nothing to do by itself.
    if (slot.qp->state() > QpState::kRtr) {
        impl.run_queue.push(slot);
    }
    impl.follow_deadline(slot);
    return error;
}

}  // namespace urnic::dataplane
