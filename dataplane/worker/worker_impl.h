// A worker's own, for worker.cc (its loop) and worker_calls.cc (what happens in Worker::call()).
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
#include "dataplane/worker/client_doorbells.h"
#include "dataplane/worker/event_notifier.h"
#include "dataplane/worker/idle_strategy.h"
#include "dataplane/worker/mbuf_holder.h"
#include "dataplane/worker/paused_qps.h"
#include "dataplane/worker/run_queue.h"
#include "dataplane/worker/rx_path.h"
#include "dataplane/worker/stall_free_clock.h"
#include "dataplane/worker/tsc_clock.h"
#include "dataplane/worker/worker.h"
#include "dataplane/worker/worker_outbox.h"
#include "rnic/device/pause_sender.h"

namespace urnic::dataplane {

/// QPs of one worker that can hold early packets at the same time, in both directions.
inline constexpr std::uint32_t kHeldPacketTables = 64;

struct Worker::Impl {
    /// What the worker has for each device.
    struct Lane {
        Lane(const WorkerConfig& config, Device& of, Notifier& notifier, RunQueue& run_queue,
             HeldFrames& held_frames, const TimeNs& now)
            : device(of),
              device_port(*of.port),
              outbox(config.index, of, config.frames, notifier),
              receiver(config.index, of, *config.steering, outbox, run_queue, held_frames),
              faults(device_port, now),
              pause_sender(of.pfc, of.pause_askers, config.index) {}
        void use_port(PacketIo& port) {
            outbox.use_port(port);
            receiver.use_port(port);
        }
        Device& device;
        PacketIo& device_port;
        TxOutbox outbox;
        Receiver receiver;
        FaultPort faults;  // between them and device_port while `faulty`
        bool faulty = false;
        HeldQps held_qps;
        TimeNs pauses_seen = 0;  // when follow_pauses() last looked
        PauseSender pause_sender;
    };

    explicit Impl(const WorkerConfig& worker_config);

    void loop();
    void look_at_clock();
    /// What was between the last look at the clock and the next was sleep.
    void note_sleep();
    bool run_calls();
    bool scan_doorbells();
    bool receive();
    bool take_handed_over();
    /// Follows what the other ends of the links have paused. True: QPs go on.
    bool follow_pauses();
    [[nodiscard]] bool follow_pauses(Lane& lane);
    /// Tells the other end of the link to stop, or to go on, by what waits in the port.
    void ask_for_pauses(Lane& lane) const;
    bool expire_timers();
    /// True: some QP ran and had room to send.
    bool run_qps();
    /// One QP's turn. True: it had room to send.
    bool run_qp(QpSlot& slot);
    /// True: frames whose neighbours have become known were sent.
    bool send_waiting();
    bool flush_ports();
    [[nodiscard]] std::uint64_t sent_packets() const;
    /// When a packet held back by a fault wants to go on; takes ports with nothing left to do out of the way.
    TimeNs tend_faults();
    [[nodiscard]] TimeNs wake_at();
    void run_call(FunctionRef function);
    void run_call_asleep(FunctionRef function);  // on the control thread, which has idle.awake()
    /// Follows the QP's deadline. A timer that is armed too early stays: it looks again when it fires, so
    /// that a deadline which moves on with each packet costs nothing.
    void follow_deadline(QpSlot& slot);
    [[nodiscard]] Lane& lane(const QpSlot& slot) { return *lanes[slot.device->index]; }

    WorkerConfig config;
    TscClock clock;
    TimeNs now;
    AttendedTime attended;
    TimeNs qp_now;  // what QPs and their timers are told
    TimerWheel timers;
    HeldFrames held_frames;
    HeldPacketPool held_packets{held_frames, kHeldPacketTables};
    RunQueue run_queue;
    Notifier notifier;
    Idle idle;
    Mailbox mailbox;
    std::vector<std::unique_ptr<Lane>> lanes;  // by Device::index
    ClientList clients;
    bool polled_ports = false;
    TimedPorts timed_ports;  // of the lanes'
    std::uint32_t faulty_lanes = 0;
    std::uint32_t undrained_rounds = 0;  // in a row: frames were left for the next round
    TimeNs sleeps_until = 0;             // if it sleeps
    std::atomic<bool> stopping{false};
    std::thread thread;
};

}  // namespace urnic::dataplane
