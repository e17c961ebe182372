// The state of a worker, for worker.cc (its loop) and worker_calls.cc (what happens in Worker::call()).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/handoff/call_queue.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/port/fault_injector.h"
#include "dataplane/port/timed_port.h"
#include "dataplane/worker/doorbell_scan.h"
#include "dataplane/worker/event_notifier.h"
#include "dataplane/worker/idle_strategy.h"
#include "dataplane/worker/mbuf_holder.h"
#include "dataplane/worker/paused_qps.h"
#include "dataplane/worker/round_watch.h"
#include "dataplane/worker/run_queue.h"
#include "dataplane/worker/rx_path.h"
#include "dataplane/worker/stall_free_clock.h"
#include "dataplane/worker/tsc_clock.h"
#include "dataplane/worker/worker.h"
#include "dataplane/worker/worker_capture.h"
#include "dataplane/worker/worker_outbox.h"
#include "rnic/device/pfc_sender.h"

namespace urnic::dataplane {

/// QPs of one worker that can hold early packets at the same time, in both directions.
inline constexpr std::uint32_t kReorderBuffers = 64;

struct Worker::Impl {
    /// What the worker has for each device.
    struct WorkerDevice {
        WorkerDevice(const WorkerConfig& config, Device& of, EventNotifier& notifier, RunQueue& run_queue,
                     RoundWatch& rounds, const TimeNs& now)
            : device(of),
              device_port(*of.port),
              outbox(config.index, config.num_workers, of, config.frames, notifier),
              rx_path(config.index, of, *config.handoff, outbox, run_queue, rounds),
              fault_injector(device_port, now),
              pfc_sender(of.pfc, of.pausing_workers, config.index) {}
        void use_port(Port& port) {
            outbox.use_port(port);
            rx_path.use_port(port);
        }
        Device& device;
        Port& device_port;
        WorkerOutbox outbox;
        RxPath rx_path;
        FaultInjector fault_injector;  // between them and device_port while `is_faulty`
        bool is_faulty = false;
        bool is_captured = false;
        PausedQps paused_qps;
        TimeNs pfc_applied_at = 0;  // time of the last apply_pfc_state()
        PfcSender pfc_sender;
    };

    explicit Impl(const WorkerConfig& worker_config);

    void loop();
    void read_clock();
    /// The time between the last read_clock() and the next was sleep.
    void note_sleep();
    bool run_calls();
    /// Those of some clients; of all before it sleeps.
    bool scan_doorbells();
    bool scan_all_doorbells();
    bool receive();
    bool receive_handed_over();
    /// Applies what the other ends of the links have paused or resumed. Returns whether QPs continue.
    bool apply_pfc_state();
    [[nodiscard]] bool apply_pfc_state(WorkerDevice& worker_device);
    /// Sends a pause frame when what waits in the port has crossed a threshold.
    void send_pfc(WorkerDevice& worker_device);
    bool expire_timers();
    /// Returns whether some QP ran and had room to send.
    bool run_qps();
    /// The same, with a look at each QP of a captured device behind its turn.
    bool run_watched_qps();
    /// Whichever is wanted. The loop asks once for this and for attend_to_devices().
    bool run_all_qps() { return attended_devices == 0 ? run_qps() : run_watched_qps(); }
    template <class Turn>
    bool run_qps_by(Turn turn);
    /// The same for the QP that was popped last, at the expense of its program and user.
    bool run_turn(QpSlot& slot);
    /// One QP's turn. Returns whether it had room to send.
    bool run_qp(QpSlot& slot);
    /// Sends frames whose neighbours have become known. Returns whether there were any.
    bool send_resolved();
    bool flush_ports();
    /// Handles all packets on the way from this worker to itself that are no frames (docs/adr/0035). Between
    /// rounds. Those that a full port keeps back are lost, but for packets of other QPs than `of`; nullptr:
    /// of all.
    void settle_local(const QpSlot* of);
    /// Buffers with such packets that wait for a port, of that QP or of all; and those that have left.
    [[nodiscard]] std::uint32_t local_held(const QpSlot* of) const;
    [[nodiscard]] std::uint32_t local_sent() const;
    void begin_observation();
    void end_observation();
    void apply_offload();
    [[nodiscard]] std::uint64_t sent_packets() const;
    /// At the end of a round, while devices want it.
    void attend_to_devices();
    /// Takes fault injectors that have no plan and hold no packet out of the path.
    void remove_drained_injectors();
    /// When the worker must run again at the latest.
    [[nodiscard]] TimeNs wake_at() const;
    void run_call(FunctionRef function);
    void run_call_asleep(FunctionRef function);  // on the control thread, which has idle.awake()
    /// Arms the QP's timer for its deadline. A timer that is armed too early stays: when it fires the
    /// deadline is read again, so that a deadline which moves on with each packet costs nothing.
    void arm_timer(QpSlot& slot);
    [[nodiscard]] WorkerDevice& worker_device(const QpSlot& slot) {
        return *worker_devices[slot.device->index];
    }

    WorkerConfig config;
    TscClock clock;
    TimeNs now;
    StallFreeClock stall_free_clock;
    TimeNs protocol_now;  // that QPs and their timers use
    TimerWheel timers;
    MbufHolder mbuf_holder;
    ReorderBufferPool reorder_buffers{mbuf_holder, kReorderBuffers};
    RunQueue run_queue;
    RoundWatch rounds;
    std::int64_t most_charged_ticks;
    EventNotifier notifier;
    IdleStrategy idle;
    CallQueue call_queue;
    std::vector<std::unique_ptr<WorkerDevice>> worker_devices;  // by Device::index
    DoorbellScan doorbells;
    bool has_polled_ports = false;
    TimedPorts timed_ports;  // of the devices
    WorkerCapture capture;
    std::uint32_t attended_devices = 0;       // those with a fault injector in the path, and those captured
    std::atomic<std::uint32_t> observers{0};  // changed on this worker alone; those devices are among them
    std::uint32_t undrained_rounds = 0;       // in a row: frames were left for the next round
    TimeNs sleeps_until = 0;                  // while it sleeps
    std::atomic<bool> stopping{false};
    std::thread thread;
};

}  // namespace urnic::dataplane
