// The functions that the control thread calls on a worker inside Worker::call().
#include <rte_cycles.h>

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
constexpr std::uint32_t kQpNumMask = 0xff'ffff;

bool stops_sending(const abi::QpAttr& attr) {
    return (attr.mask & kQpAttrState) != 0 && (attr.state == QpState::kErr || attr.state == QpState::kReset);
}

}  // namespace

int Worker::attach_client(ClientDoorbells& client) { return impl_->idle.watch_edges(client.wake_fd()); }

void Worker::detach_client(ClientDoorbells& client) {
    URNIC_CHECK(client.num_qps() == 0);
    impl_->run_queue.remove(client.share());
    impl_->idle.unwatch(client.wake_fd());
}

void Worker::add_qp(QpSlot& slot, QpTablePages& room) {
    Impl& impl = *impl_;
    const std::uint32_t qp_num = slot.qp->qp_num();
    URNIC_CHECK(impl.config.handoff->worker_of(qp_num) == impl.config.index);
    URNIC_CHECK(slot.doorbell_slot < abi::kDoorbellSlots);
    slot.timer.slot = &slot;
    slot.share = slot.client != nullptr ? &slot.client->share() : &impl.run_queue.nobodys_share();
    impl.worker_device(slot).rx_path.qps().set(qp_num, slot, room.qp_table_page);
    if (slot.client != nullptr) {
        const bool is_first = slot.client->num_qps() == 0;
        slot.client->set(slot.doorbell_slot, slot, room.doorbell_page);
        if (is_first) {
            impl.doorbells.add(*slot.client);
        }
    }
}

void Worker::remove_qp(QpSlot& slot) {
    Impl& impl = *impl_;
    impl.settle_local(&slot);
    impl.worker_device(slot).rx_path.qps().clear(slot.qp->qp_num());
    if (slot.client != nullptr) {
        const bool had_qps = slot.client->num_qps() != 0;
        slot.client->clear(slot.doorbell_slot);
        if (had_qps && slot.client->num_qps() == 0) {
            impl.doorbells.remove(*slot.client);
        }
    }
    impl.run_queue.remove(slot);
    impl.worker_device(slot).paused_qps.remove(slot);
    impl.timers.cancel(slot.timer);
    slot.qp->leave_worker();
}

ReorderBufferPool& Worker::reorder_buffers() { return impl_->reorder_buffers; }

void Worker::release_cq(NotifyingCq& cq) { impl_->notifier.release(cq); }

bool Worker::transmit(std::uint32_t device, const wire::Path& path, const wire::PacketHeader& header,
                      std::span<const std::byte> bytes) {
    WorkerOutbox& outbox = impl_->worker_devices.at(device)->outbox;
    outbox.make_room(impl_->now);
    // Only read, though a piece of memory can be written as well.
    const MemoryPiece piece{const_cast<std::byte*>(bytes.data()), nullptr, 0,
                            static_cast<std::uint32_t>(bytes.size())};
    return outbox.room() != 0 && !outbox.defer_if_paused(path) && outbox.transmit(path, header, {&piece, 1});
}

bool Worker::transmit_frame(std::uint32_t device, std::span<const std::byte> bytes) {
    WorkerOutbox& outbox = impl_->worker_devices.at(device)->outbox;
    outbox.make_room(impl_->now);
    // ARP and neighbour discovery: a pause of a priority is for all frames, those without a QP, too.
    const std::uint32_t priority = wire::priority_of(reinterpret_cast<const std::uint8_t*>(bytes.data()));
    return (outbox.paused() >> priority & 1U) == 0 && outbox.transmit_frame(bytes);
}

void Worker::refresh_addresses(std::uint32_t device) {
    Impl::WorkerDevice& worker_device = *impl_->worker_devices.at(device);
    worker_device.outbox.use_mac(impl_->config.devices[device]->mac);
    worker_device.rx_path.refresh_addresses();
}

void Worker::set_port(std::uint32_t device, bool up) {
    Impl::WorkerDevice& worker_device = *impl_->worker_devices.at(device);
    worker_device.outbox.set_port_up(up);
    worker_device.rx_path.set_port_up(up);
    worker_device.device_port.set_link(impl_->config.index, up);
    if (!up && impl_->config.index == 0) {
        ++worker_device.device.counters[0].link_downed;
    }
    if (!up && impl_->config.index == 0 && worker_device.device.pfc_receiver.clear(impl_->now)) {
        worker_device.rx_path.wake_others();
    }
}

void Worker::watch_port(std::uint32_t device) {
    const int fd = impl_->worker_devices.at(device)->device_port.wait_fd(impl_->config.index);
    const int error = fd >= 0 ? impl_->idle.watch_level(fd) : 0;
    if (error != 0 && error != EEXIST) {
        // No descriptor or no memory is left for it: the port is polled instead.
        impl_->has_polled_ports = true;
    }
}

MulticastTable& Worker::multicast(std::uint32_t device) {
    return impl_->worker_devices.at(device)->rx_path.multicast();
}

void Worker::catch_up() {
    (void)impl_->scan_all_doorbells();
    for (int round = 0; round < kCatchUpRounds && !impl_->run_queue.empty(); ++round) {
        (void)impl_->run_all_qps();
        (void)impl_->flush_ports();
    }
    if (impl_->send_resolved()) {
        (void)impl_->flush_ports();
    }
}

void Worker::send_posted(QpSlot& slot) {
    Impl& impl = *impl_;
    for (int round = 0; round < kPostedRounds; ++round) {
        const std::uint64_t sent_before = impl.sent_packets();
        if (slot.client != nullptr) {
            (void)slot.client->scan([&impl](QpSlot& rung) { impl.run_queue.push(rung); });
        }
        const bool received = impl.receive();
        (void)impl.run_qp(slot);
        // The QPs that respond to it may be on this worker, too.
        (void)impl.run_all_qps();
        (void)impl.flush_ports();
        const bool has_more = slot.qp->has_unsent() || impl.undrained_rounds != 0;
        if (!has_more || (!received && impl.sent_packets() == sent_before)) {
            return;
        }
    }
}

void Worker::begin_observation() { impl_->begin_observation(); }

void Worker::end_observation() { impl_->end_observation(); }

bool Worker::is_observed() const { return impl_->observers.load(std::memory_order_relaxed) != 0; }

void Worker::swap_faults(std::uint32_t device, std::shared_ptr<const fault::Plan>& plan) {
    Impl::WorkerDevice& worker_device = *impl_->worker_devices.at(device);
    if (plan == nullptr && !worker_device.is_faulty) {
        return;
    }
    if (!worker_device.is_faulty) {
        impl_->begin_observation();
    }
    worker_device.fault_injector.swap_plan(plan);
    if (!worker_device.is_faulty) {
        worker_device.use_port(worker_device.fault_injector);
        worker_device.is_faulty = true;
        ++impl_->attended_devices;
    }
    // A worker that has nothing to do does not come round to it.
    impl_->remove_drained_injectors();
}

void Worker::use_captures(const PacketCaptures& captures) {
    Impl& impl = *impl_;
    impl.capture.use(captures);
    for (const auto& worker_device : impl.worker_devices) {
        const bool is_captured = impl.capture.is_capturing(worker_device->device.index);
        const bool was_captured = worker_device->is_captured;
        // Frames are what is captured: what is on its way in another form is handled before.
        if (is_captured && !was_captured) {
            impl.begin_observation();
        }
        if (is_captured) {
            worker_device->rx_path.qps().for_each([](QpSlot& slot) { WorkerCapture::begin_look(slot); });
        }
        impl.attended_devices += static_cast<std::uint32_t>(is_captured);
        impl.attended_devices -= static_cast<std::uint32_t>(was_captured);
        worker_device->is_captured = is_captured;
        worker_device->outbox.use_capture(is_captured ? &impl.capture : nullptr);
        worker_device->rx_path.use_capture(is_captured ? &impl.capture : nullptr);
        if (was_captured && !is_captured) {
            impl.end_observation();
        }
    }
}

void Worker::use_congestion(QpSlot& slot, const congestion::Settings& settings) {
    Impl& impl = *impl_;
    slot.qp->use_congestion_settings(impl.now, &settings);
    impl.run_queue.push(slot);
    impl.arm_timer(slot);
}

int Worker::modify_qp(QpSlot& slot, const abi::QpAttr& attr, const wire::Path& path) {
    Impl& impl = *impl_;
    if (stops_sending(attr)) {
        send_posted(slot);
        // The completions that follow give the application its memory back.
        impl.settle_local(&slot);
    }
    impl.rounds.enter(*slot.share, rte_rdtsc);
    WorkerOutbox& outbox = impl.worker_device(slot).outbox;
    const int error = slot.qp->modify(impl.protocol_now, attr, path, outbox.begin_call(slot, impl.now));
    if (error == 0 && (attr.mask & kQpAttrDestQpn) != 0) {
        slot.peer_qp_num = attr.dest_qp_num & kQpNumMask;
    } else if (slot.qp->state() == QpState::kReset) {
        slot.peer_qp_num = QpSlot::kAnySender;
        slot.seen_wqes = {};
    }
    // Before RTS it sends nothing by itself.
    if (slot.qp->state() > QpState::kRtr) {
        impl.run_queue.push(slot);
    }
    impl.arm_timer(slot);
    return error;
}

}  // namespace urnic::dataplane
