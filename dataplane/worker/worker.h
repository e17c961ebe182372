// A worker: one thread on one core that owns its QPs outright. The loop: mailbox, doorbells, receive bursts,
// timers, QPs with work to send, notifications; sleeps on an epoll when nothing happens.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi/queues.h"
#include "base/function_ref.h"
#include "dataplane/device/device.h"
#include "dataplane/device/multicast_table.h"
#include "dataplane/worker/slot_table.h"
#include "dataplane/worker/timer_wheel.h"
#include "rnic/qp/qp.h"

struct rte_mempool;

namespace urnic::fault {
class Plan;
}

namespace urnic::dataplane {

class ClientDoorbells;
class Steering;

/// A CQ with what its notifications need. Made and destroyed by the control thread. Every CQ that a QP of a
/// worker names is one of these.
struct NotifyingCq : CompletionQueue {
    using CompletionQueue::CompletionQueue;
    std::atomic<std::uint32_t>* wake_word = nullptr;  // of its client, abi::DaemonState::wake_words
    int channel_fd = -1;            // non-blocking write end of the channel's pipe; -1: no channel
    std::uint64_t user_handle = 0;  // the 8 bytes written to it
    std::atomic<std::uint32_t> completion_events{0};
    int async_fd = -1;  // the context's event socket, non-blocking
    std::atomic<std::uint32_t> async_events{0};
    std::atomic<bool> error_reported{false};
    bool ignores_overrun = false;
    bool stamps = false;  // a completion gets its own time, not that of the worker's round

    /// When an armed CQ's event may come (abi::ModifyCqRequest); both 0: at once. Written by the control
    /// thread.
    struct alignas(4) Moderation {
        std::uint16_t count = 0;
        std::uint16_t period_us = 0;
    };
    std::atomic<Moderation> moderation{Moderation{}};
    std::atomic<std::uint32_t> since_event{0};  // completions while armed, of all workers; only if moderated

    /// Each worker's own: notifications that wait for room in the channel, or for moderation.
    struct Waiting {
        NotifyingCq* next = nullptr;  // the worker's list of CQs with such notifications
        std::uint32_t owed = 0;
        TimeNs due = 0;  // when a held back event comes at the latest; 0: none is held back
    };
    std::array<Waiting, abi::kMaxWorkers> waiting{};
};

/// An SRQ with what its events need. Every SRQ that a QP of a worker names is one of these.
struct NotifyingSrq : SharedRecvQueue {
    using SharedRecvQueue::SharedRecvQueue;
    int async_fd = -1;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
};

/// Somebody who wants to hear of the events of a QP that several have.
struct QpListener {
    int async_fd = -1;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
    QpListener* next = nullptr;
};

/// A QP with what its worker and its events need. Stays at its address while a worker has it.
struct QpSlot {
    std::unique_ptr<Qp> qp;
    Device* device = nullptr;
    int async_fd = -1;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
    QpListener* listeners = nullptr;    // XRC target: instead of the three above; changed in Worker::call()
    ClientDoorbells* client = nullptr;  // on the QP's worker; none: it has nothing to send (XRC target)
    std::uint32_t doorbell_slot = 0;    // < abi::kDoorbellSlots, unique among the client's QPs on the worker
    std::uint16_t neighbour = wire::kNoNeighbour;          // that its path names; the control thread's
    std::unique_ptr<congestion::Settings> own_congestion;  // nullptr: those of the device; changed in call()
    bool blocks_own_multicast = false;                     // gets no copy of what it sends to a group itself

    // The worker's own, from add_qp() to remove_qp():
    struct Timer : TimerNode {
        QpSlot* slot = nullptr;
    } timer;
    QpSlot* next_queued = nullptr;  // run queue
    bool queued = false;
    QpSlot* next_held = nullptr;  // HeldQps
    bool held = false;
};

/// Memory that a worker may need to take in a QP: the control thread allocates, a worker never does. What is
/// left in it afterwards was not needed.
struct QpRoom {
    std::unique_ptr<SlotTable::Page> for_number = std::make_unique<SlotTable::Page>();
    std::unique_ptr<SlotTable::Page> for_doorbell = std::make_unique<SlotTable::Page>();
};

struct WorkerConfig {
    std::uint32_t index = 0;
    std::uint32_t num_workers = 1;
    int cpu = -1;           // pin to this CPU; -1: let the scheduler choose
    bool may_spin = false;  // the core is its own; otherwise start() publishes state->cores_shared
    abi::DaemonState* state = nullptr;
    std::vector<Device*> devices;   // Device::index is the place in this list
    Steering* steering = nullptr;   // shared by all workers
    rte_mempool* frames = nullptr;  // what packets are built in, see make_frame_pool()
};

class Worker {
  public:
    /// The EAL must have been started. Everything the configuration points to outlives the worker.
    explicit Worker(const WorkerConfig& config);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// What QPs of this worker hold packets in that come early (QpConfig::held_packets). Lives as long as the
    /// worker.
    [[nodiscard]] HeldPacketPool& held_packets();

    void start();
    /// Ends the loop and joins the thread.
    void stop();

    /// Runs `function` on the worker's thread between two rounds of its loop and returns when it has run;
    /// while the worker sleeps, is not started, or stopped, runs it right here. For the control thread alone.
    /// It must not allocate: there is nobody on a worker to answer ENOMEM to. While it runs the worker holds
    /// no pointer to a memory region, so an empty call() is also the barrier after KeyTable::remove(). It
    /// holds QPs until remove_qp() and CQs until release_cq().
    void call(FunctionRef function);

    // Inside call() only:

    /// Returns 0 or errno (ENOSPC, ENOMEM: the kernel watches no more descriptors for us).
    [[nodiscard]] int attach_client(ClientDoorbells& client);
    /// After its last QP was removed.
    void detach_client(ClientDoorbells& client);
    /// The QP number must belong to this worker: qp_num % num_workers == index.
    void add_qp(QpSlot& slot, QpRoom& room);
    void remove_qp(QpSlot& slot);
    /// Before a CQ is destroyed, on every worker: forgets notifications that wait for room in its channel.
    void release_cq(NotifyingCq& cq);
    /// Carries out what applications have posted before this call, as far as it goes without waiting, and
    /// sends what waited for a neighbour that has answered.
    void catch_up();
    /// Before the QP stops sending for good: takes in what has arrived, and sends what was posted before this
    /// call as far as a NIC would have by now, that is as far as send window, credits, rate, pauses and the
    /// port allow at this moment. It does not wait for an answer, and does not take longer than some
    /// thousands of packets (docs/adr/0022).
    void send_posted(QpSlot& slot);
    /// The faults of the device with that index on this worker's queue; nullptr: none. The caller gets the
    /// plan that was in force before, which nobody on this worker uses any more.
    void swap_faults(std::uint32_t device, std::shared_ptr<const fault::Plan>& plan);
    /// Sends one packet of no QP of an application, as QP1 does; `bytes` are copied. False: no room just now.
    [[nodiscard]] bool transmit(std::uint32_t device, const wire::Path& path,
                                const wire::PacketHeader& header, std::span<const std::byte> bytes);
    /// The same with a complete frame.
    [[nodiscard]] bool transmit_frame(std::uint32_t device, std::span<const std::byte> bytes);
    /// Takes over the addresses of the device with that index, which the control thread has changed.
    void refresh_addresses(std::uint32_t device);
    /// Whether frames go through the port of the device with that index; otherwise both directions drop them.
    void set_port(std::uint32_t device, bool up);
    /// Watches the descriptor that the port of that device has for this worker now.
    void watch_port(std::uint32_t device);
    /// The groups of the device with that index.
    [[nodiscard]] MulticastTable& multicast(std::uint32_t device);
    /// The QP goes by these settings from now on, at full rate to begin with.
    void use_congestion(QpSlot& slot, const congestion::Settings& settings);
    /// Qp::modify(). A change to ERR or RESET comes behind what was posted before (send_posted()).
    [[nodiscard]] int modify_qp(QpSlot& slot, const abi::QpAttr& attr, const wire::Path& path);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::dataplane
