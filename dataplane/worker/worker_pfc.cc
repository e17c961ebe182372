// A worker and priority flow control (IEEE 802.1Qbb): what its links have paused waits, and it pauses them.
#include <array>

#include "dataplane/worker/worker_impl.h"
#include "rnic/wire/dissect/eth/pause_frame.h"

namespace urnic::dataplane {

void Worker::Impl::send_pfc(WorkerDevice& worker_device) {
    const PfcSender::Wanted wanted =
        worker_device.pfc_sender.look(now, worker_device.device_port.rx_waiting(config.index));
    if (wanted == PfcSender::Wanted::kNothing) [[likely]] {
        return;
    }
    const bool stop = wanted == PfcSender::Wanted::kPause;
    wire::Pfc pause;
    pause.class_enable = worker_device.device.pfc.tx_priorities;
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        const bool is_sent = (worker_device.device.pfc.tx_priorities >> index & 1U) != 0;
        pause.pause_quanta[index] = is_sent && stop ? PfcSender::kQuanta : std::uint16_t{0};
    }
    std::array<std::byte, wire::kPauseFrameBytes> frame;
    wire::build_pause_frame(worker_device.outbox.mac(), pause, frame);
    worker_device.outbox.make_room(now);
    if (!worker_device.outbox.transmit_frame(frame)) {
        return;  // there is no room: it is tried in the next round
    }
    // Before the received frames are handled.
    (void)worker_device.outbox.flush();
    worker_device.pfc_sender.sent(now);
    if (worker_device.is_captured) {
        const std::uint8_t priorities = worker_device.device.pfc.tx_priorities;
        capture.paused(worker_device.device.index, stop ? priorities : 0, stop ? 0 : priorities, true);
    }
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        if ((worker_device.device.pfc.tx_priorities >> index & 1U) != 0) {
            PfcCounters::Priority& counters = worker_device.device.pfc_counters.priorities[index];
            auto& sent = stop ? counters.tx_pause : counters.tx_resume;
            ++sent;
        }
    }
}

bool Worker::Impl::apply_pfc_state() {
    bool any = false;
    for (const auto& worker_device : worker_devices) {
        if (!worker_device->device.pfc_receiver.none() || worker_device->outbox.paused() != 0) [[unlikely]] {
            any |= apply_pfc_state(*worker_device);
        }
    }
    return any;
}

bool Worker::Impl::apply_pfc_state(WorkerDevice& worker_device) {
    if (config.index == 0) {
        worker_device.device.pfc_receiver.expire(now);
    }
    const std::uint8_t before = worker_device.outbox.paused();
    const std::uint8_t paused = worker_device.device.pfc_receiver.paused(now);
    worker_device.outbox.set_paused_priorities(paused);
    if (paused != before && worker_device.is_captured && config.index == 0) {
        capture.paused(worker_device.device.index, static_cast<std::uint8_t>(paused & ~before),
                       static_cast<std::uint8_t>(before & ~paused), false);
    }
    if (!worker_device.paused_qps.empty()) {
        worker_device.device.counters[config.index].xmit_wait_ns.add(
            static_cast<std::uint64_t>(now - worker_device.pfc_applied_at));
    }
    worker_device.pfc_applied_at = now;
    if ((before & ~paused) == 0 || worker_device.paused_qps.empty()) {
        return false;
    }
    // QPs whose priority is still paused come back to the list.
    worker_device.paused_qps.drain([this](QpSlot& slot) {
        slot.qp->end_pause(protocol_now);
        run_queue.push(slot);
    });
    return true;
}

}  // namespace urnic::dataplane
