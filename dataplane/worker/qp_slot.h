// A QP on its worker: the protocol engine, the recipients of its events, its doorbell, and its links in the
// worker's lists.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "congestion/settings.h"
#include "dataplane/device/device.h"
#include "dataplane/worker/slot_table.h"
#include "dataplane/worker/timer_wheel.h"
#include "os/event_socket.h"
#include "rnic/qp/captured_work.h"
#include "rnic/qp/qp.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

class ClientDoorbells;
struct ProgramShare;

/// One of several applications that get the events of the same QP.
struct QpEventSubscriber {
    EventSocket async;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
    QpEventSubscriber* next = nullptr;
};

/// Stays at its address while a worker has it.
struct QpSlot {
    std::unique_ptr<Qp> qp;
    Device* device = nullptr;
    EventSocket async;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
    QpEventSubscriber* subscribers =
        nullptr;                        // XRC target: instead of the three above; changed in Worker::call()
    ClientDoorbells* client = nullptr;  // on the QP's worker; nullptr: it has nothing to send (XRC target)
    std::uint32_t doorbell_slot = 0;    // < abi::kDoorbellSlots, unique among the client's QPs on the worker
    std::uint16_t neighbour = wire::kNoNeighbour;          // of its path; the control thread's
    std::unique_ptr<congestion::Settings> own_congestion;  // nullptr: those of the device; changed in call()
    bool block_self_multicast_loopback = false;            // IBV_QP_CREATE_BLOCK_SELF_MCAST_LB

    /// Connected QPs: the peer's number, whom alone packets of this daemon are taken from. Else, and before
    /// RTR: kAnySender. Changed in call().
    static constexpr std::uint32_t kAnySender = ~0U;
    std::uint32_t peer_qp_num = kAnySender;

    // The worker's own, from add_qp() to remove_qp():
    /// Changes when the application may have the memory of requests back that were not acknowledged.
    std::uint32_t local_epoch = 0;
    struct Timer : TimerNode {
        QpSlot* slot = nullptr;
    } timer;
    ProgramShare* share = nullptr;  // RunQueue: whose turn the QP runs in
    QpSlot* next_queued = nullptr;
    bool is_queued = false;
    QpSlot* next_paused = nullptr;  // PausedQps
    bool is_paused = false;
    /// WQEs that left the QP's queues, as far as a trace has seen (WorkerCapture::look_at()).
    struct SeenWqes {
        std::uint32_t sends = 0;
        std::uint32_t receives = 0;
    } seen_wqes;
    RateWatch seen_rate;  // the same
};

/// Pages that a worker may need to take in a QP: the control thread allocates, a worker never does. Pages
/// that are left here afterwards were not needed.
struct QpTablePages {
    std::unique_ptr<SlotTable::Page> qp_table_page = std::make_unique<SlotTable::Page>();
    std::unique_ptr<SlotTable::Page> doorbell_page = std::make_unique<SlotTable::Page>();
};

}  // namespace urnic::dataplane
