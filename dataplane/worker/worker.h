// A worker: one thread on one core that owns its QPs outright. The loop: call_queue, doorbells, receive
// bursts, timers, QPs with work to send, notifications; sleeps on an epoll when nothing happens.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "abi/queues.h"
#include "base/function_ref.h"
#include "dataplane/device/device.h"
#include "dataplane/device/multicast_table.h"
#include "dataplane/worker/notifying_cq.h"
#include "dataplane/worker/qp_slot.h"
#include "dataplane/worker/worker_capture.h"
#include "rnic/qp/qp.h"

struct rte_mempool;

namespace urnic::fault {
class Plan;
}

namespace urnic::dataplane {

class ClientDoorbells;
struct LongRound;
class WorkerHandoff;

struct WorkerConfig {
    std::uint32_t index = 0;
    std::uint32_t num_workers = 1;
    int cpu = -1;           // pin to this CPU; -1: let the scheduler choose
    bool may_spin = false;  // the core is its own; otherwise start() publishes state->cores_shared
    abi::DaemonState* state = nullptr;
    std::vector<Device*> devices;           // Device::index is the place in this list
    WorkerHandoff* handoff = nullptr;       // shared by all workers
    rte_mempool* frames = nullptr;          // what packets are built in, see make_frame_pool()
    std::function<void()> on_thread_start;  // on the worker's thread, before the first round; may be empty
};

class Worker {
  public:
    /// The EAL must have been started. Everything the configuration points to outlives the worker.
    explicit Worker(const WorkerConfig& config);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// What QPs of this worker hold packets in that come early (QpConfig::reorder_buffers). Lives as long as
    /// the worker.
    [[nodiscard]] ReorderBufferPool& reorder_buffers();

    /// For the control thread: a round that took long and has not been asked for. Returns whether there is
    /// one.
    [[nodiscard]] bool take_long_round(LongRound& round);
    /// How many there were since the start.
    [[nodiscard]] std::uint64_t long_rounds() const;

    /// For the control thread: differs from before once the worker has begun another round of its loop. One
    /// that sleeps begins none until it is woken.
    [[nodiscard]] std::uint64_t last_round() const;

    /// For the control thread: whether anybody looks now.
    [[nodiscard]] bool is_observed() const;

    void start();
    /// Ends the loop and joins the thread.
    void stop();

    /// Runs `function` on the worker's thread between two rounds of its loop and returns when it has run;
    /// while the worker sleeps, is not started, or stopped, runs it right here. For the control thread alone.
    /// It must not allocate: a worker cannot report ENOMEM. While it runs the worker holds
    /// no pointer to a memory region, so an empty call() is also the barrier after KeyTable::remove(). It
    /// holds QPs until remove_qp() and CQs until release_cq().
    void call(FunctionRef function);

    // Inside call() only:

    /// Returns 0 or errno (ENOSPC, ENOMEM: the kernel watches no more descriptors for us).
    [[nodiscard]] int attach_client(ClientDoorbells& client);
    /// After its last QP was removed.
    void detach_client(ClientDoorbells& client);
    /// The QP number must belong to this worker: qp_num % num_workers == index.
    void add_qp(QpSlot& slot, QpTablePages& room);
    void remove_qp(QpSlot& slot);
    /// Before a CQ is destroyed, on every worker: forgets notifications that wait for room in its channel.
    void release_cq(NotifyingCq& cq);
    /// Executes the WQEs that were posted before this call, as far as that is possible without waiting, and
    /// sends frames that waited for a neighbour that has answered.
    void catch_up();
    /// Before the QP stops sending for good: takes in what has arrived, and sends what was posted before this
    /// call as far as a NIC would have by now, that is as far as send window, credits, rate, pauses and the
    /// port allow at this moment. It does not wait for an answer, and does not take longer than some
    /// thousands of packets (docs/adr/0022).
    void send_posted(QpSlot& slot);
    /// Somebody looks at the frames of this worker's devices from now on, or no longer; each who begins ends,
    /// too. While anybody looks, packets between RNICs of this daemon are complete frames with ICRC
    /// (docs/adr/0035), and all that were not have been handled when this returns. Whoever puts a port
    /// between the QPs and a device's port, or reads frames, calls this first, on every worker; swap_faults()
    /// and use_captures() do so by themselves.
    void begin_observation();
    void end_observation();
    /// The faults of the device with that index on this worker's queue; nullptr: none. The caller gets the
    /// plan that was in force before, which this worker does not use any more.
    void swap_faults(std::uint32_t device, std::shared_ptr<const fault::Plan>& plan);
    /// From now on packets go into these captures as well, which the caller keeps until the next call.
    void use_captures(const PacketCaptures& captures);
    /// Sends one packet that belongs to no QP of an application, as QP1 does; `bytes` are copied. Returns
    /// false if there is no room now.
    [[nodiscard]] bool transmit(std::uint32_t device, const wire::Path& path,
                                const wire::PacketHeader& header, std::span<const std::byte> bytes);
    /// Sends one complete frame.
    [[nodiscard]] bool transmit_frame(std::uint32_t device, std::span<const std::byte> bytes);
    /// Copies the addresses of the device with that index, which the control thread has changed.
    void refresh_addresses(std::uint32_t device);
    /// Whether frames go through the port of the device with that index; otherwise both directions drop them.
    void set_port(std::uint32_t device, bool up);
    /// Watches the descriptor that the port of that device has for this worker now.
    void watch_port(std::uint32_t device);
    /// The groups of the device with that index.
    [[nodiscard]] MulticastTable& multicast(std::uint32_t device);
    /// From now on these settings control the QP's rate, which starts at full rate.
    void use_congestion(QpSlot& slot, const congestion::Settings& settings);
    /// Qp::modify(). A change to ERR or RESET comes behind what was posted before (send_posted()).
    [[nodiscard]] int modify_qp(QpSlot& slot, const abi::QpAttr& attr, const wire::Path& path);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::dataplane
