#include "dataplane/worker/worker.h"

#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/worker/worker_impl.h"
#include "os/thread.h"
#include "rnic/wire/dissect/eth/pause_frame.h"

namespace urnic::dataplane {

namespace {

/// Packets of requests that one QP may send before it is the next one's turn.
constexpr std::uint32_t kPacketBudget = 32;
/// Packets sent, and QPs that ran, before the worker looks at its other sources again. As many packets as are
/// received in a round: between RNICs of one daemon a frame is then read while it still lies in the L2 cache.
constexpr std::uint32_t kPacketsPerRound = 32;
constexpr std::uint32_t kQpsPerRound = 64;
constexpr std::uint32_t kBurstsPerRound = 4;
/// Rounds for which timers wait until all that has arrived was looked at: as many as empty the deepest queue.
constexpr std::uint32_t kRoundsBeforeTimers = 64;
/// The shortest that the kernel grants.
constexpr std::uint64_t kTimeSliceNs = 100'000;
/// How soon a full completion channel is tried again.
constexpr TimeNs kChannelRetryNs = 1'000'000;
/// How often a worker looks whether a neighbour has answered, while frames wait for it.
constexpr TimeNs kNeighbourNs = 1'000'000;

}  // namespace

Worker::Impl::Impl(const WorkerConfig& worker_config)
    : config(worker_config),
      now(clock.now()),
      attended(now),
      qp_now(now),
      timers(now),
      notifier(config.index, !config.may_spin, clock),
      idle(config.index, config.may_spin, config.steering->wakes()),
      timed_ports(config.index) {
    URNIC_CHECK(config.state != nullptr && config.frames != nullptr);
    URNIC_CHECK(config.index < config.num_workers && config.num_workers == config.steering->num_workers());
    for (Device* device : config.devices) {
        URNIC_CHECK(device->index == lanes.size());
        lanes.push_back(std::make_unique<Lane>(config, *device, notifier, run_queue, held_frames, now));
        polled_ports = polled_ports || device->port->must_be_polled(config.index);
        lanes.back()->outbox.go_by_qp_time(timed_ports.add(device->port));
        const int fd = device->port->wait_fd(config.index);
        const int error = fd >= 0 ? idle.watch_level(fd) : 0;
        if (error != 0 && error != EEXIST) {
            throw std::system_error(error, std::generic_category(),
                                    "cannot watch the port of " + device->name);
        }
    }
}

void Worker::Impl::loop() {
    const std::lock_guard awake(idle.awake());
    while (!stopping.load(std::memory_order_relaxed)) {
        look_at_clock();
        bool busy = run_calls();
        busy |= scan_doorbells();
        busy |= receive();
        busy |= follow_pauses();
        busy |= expire_timers();
        busy |= run_qps();
        busy |= send_waiting();
        const bool flushed = flush_ports();
        notifier.flush(now);
        // Frames for a full port, and QPs that found no room: whoever makes room does not tell.
        const bool waiting = !flushed || !run_queue.empty();
        sleeps_until = wake_at();
        const bool slept = idle.after_round(busy      ? Idle::Round::kBusy
                                            : waiting ? Idle::Round::kBlocked
                                                      : Idle::Round::kIdle,
                                            now, sleeps_until);
        if (slept) {
            note_sleep();
        }
    }
}

void Worker::Impl::look_at_clock() {
    now = clock.now();
    qp_now = attended.advance(now);
    timed_ports.set_time(qp_now);
}

void Worker::Impl::note_sleep() { attended.slept(std::min(timers.next_event(), timed_ports.next_event())); }

bool Worker::Impl::run_calls() {
    bool any = false;
    while (const FunctionRef* function = mailbox.next()) {
        run_call(*function);
        mailbox.finish();
        any = true;
    }
    return any;
}

void Worker::Impl::run_call(FunctionRef function) {
    function();
    // The next call may destroy a CQ that this one put completions into.
    notifier.flush(now);
}

std::uint64_t Worker::Impl::sent_packets() const {
    const auto add = [](std::uint64_t sum, const auto& lane) { return sum + lane->outbox.sent_packets(); };
    return std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0}, add);
}

void Worker::Impl::run_call_asleep(FunctionRef function) {
    note_sleep();
    look_at_clock();
    const std::uint64_t sent_before = sent_packets();
    run_call(function);
    // What a worker sends to itself does not wake it.
    if (!flush_ports() || sent_packets() != sent_before || !run_queue.empty() || wake_at() < sleeps_until) {
        config.steering->wakes().wake(config.index);
    }
}

bool Worker::Impl::scan_doorbells() {
    bool any = false;
    clients.for_each(
        [&](ClientDoorbells& client) { any |= client.scan([this](QpSlot& slot) { run_queue.push(slot); }); });
    return any;
}

bool Worker::Impl::receive() {
    bool any = config.num_workers > 1 && take_handed_over();
    bool drained = true;
    for (const auto& lane : lanes) {
        if (lane->device.pfc.sent != 0) [[unlikely]] {
            ask_for_pauses(*lane);
        }
        std::uint16_t got = Receiver::kBurst;
        for (std::uint32_t left = kBurstsPerRound; left != 0 && got == Receiver::kBurst; --left) {
            got = lane->receiver.poll(now, qp_now);
            any |= got != 0;
        }
        drained &= got != Receiver::kBurst;
    }
    undrained_rounds = drained ? 0 : undrained_rounds + 1;
    return any;
}

bool Worker::Impl::take_handed_over() {
    std::array<Handover, Receiver::kBurst> frames;
    const std::uint32_t count = config.steering->take(config.index, frames.data(), Receiver::kBurst);
    for (std::uint32_t i = 0; i < count; ++i) {
        lanes[frames[i].device]->receiver.take_over(frames[i].frame, now, qp_now);
    }
    return count != 0;
}

void Worker::Impl::ask_for_pauses(Lane& lane) const {
    const PauseSender::Wanted wanted = lane.pause_sender.look(now, lane.device_port.rx_waiting(config.index));
    if (wanted == PauseSender::Wanted::kNothing) [[likely]] {
        return;
    }
    const bool stop = wanted == PauseSender::Wanted::kPause;
    wire::Pfc pause;
    pause.class_enable = lane.device.pfc.sent;
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        const bool is_sent = (lane.device.pfc.sent >> index & 1U) != 0;
        pause.pause_quanta[index] = is_sent && stop ? PauseSender::kQuanta : std::uint16_t{0};
    }
    std::array<std::byte, wire::kPauseFrameBytes> frame;
    wire::build_pause_frame(lane.outbox.mac(), pause, frame);
    lane.outbox.make_room(now);
    if (!lane.outbox.transmit_frame(frame)) {
        return;  // there is no room: in the next round
    }
    // Before the frames that wait are looked at.
    (void)lane.outbox.flush();
    lane.pause_sender.sent(now);
    for (std::uint32_t index = 0; index < wire::kPriorities; ++index) {
        if ((lane.device.pfc.sent >> index & 1U) != 0) {
            PfcCounters::Priority& counters = lane.device.pfc_counters.priorities[index];
            ++(stop ? counters.tx_pause : counters.tx_resume);
        }
    }
}

bool Worker::Impl::follow_pauses() {
    bool any = false;
    for (const auto& lane : lanes) {
        if (!lane->device.pauses.none() || lane->outbox.paused() != 0) [[unlikely]] {
            any |= follow_pauses(*lane);
        }
    }
    return any;
}

bool Worker::Impl::follow_pauses(Lane& lane) {
    if (config.index == 0) {
        lane.device.pauses.expire(now);
    }
    const std::uint8_t before = lane.outbox.paused();
    const std::uint8_t paused = lane.device.pauses.paused(now);
    lane.outbox.hold_priorities(paused);
    if (!lane.held_qps.empty()) {
        lane.device.counters[config.index].xmit_wait_ns.add(
            static_cast<std::uint64_t>(now - lane.pauses_seen));
    }
    lane.pauses_seen = now;
    if ((before & ~paused) == 0 || lane.held_qps.empty()) {
        return false;
    }
    // Those whose priority is paused still come back.
    lane.held_qps.take_all([this](QpSlot& slot) {
        slot.qp->end_pause(qp_now);
        run_queue.push(slot);
    });
    return true;
}

bool Worker::Impl::expire_timers() {
    // What a timer waits for may be among the frames that are left for the next round.
    const bool must_wait = undrained_rounds % kRoundsBeforeTimers != 0;
    if (!timers.due(qp_now) || must_wait) {
        return false;
    }
    bool any = false;
    timers.advance(qp_now, [this, &any](TimerNode& node) {
        QpSlot& slot = *static_cast<QpSlot::Timer&>(node).slot;
        if (slot.qp->deadline() > qp_now) {
            follow_deadline(slot);
            return;
        }
        lane(slot).outbox.begin(slot, now);
        slot.qp->handle_timeout(qp_now, lane(slot).outbox);
        run_queue.push(slot);
        any = true;
    });
    return any;
}

bool Worker::Impl::run_qps() {
    bool any = false;
    std::uint64_t packets = 0;
    for (std::uint32_t left = std::min(run_queue.size(), kQpsPerRound);
         left != 0 && packets < kPacketsPerRound; --left) {
        QpSlot& slot = run_queue.pop();
        const std::uint64_t sent_before = lane(slot).outbox.sent_packets();
        any |= run_qp(slot);
        packets += lane(slot).outbox.sent_packets() - sent_before;
    }
    return any;
}

bool Worker::Impl::run_qp(QpSlot& slot) {
    TxOutbox& outbox = lane(slot).outbox;
    outbox.begin(slot, now);
    const bool has_room = outbox.room() != 0;
    if (slot.qp->progress(qp_now, kPacketBudget, outbox)) {
        run_queue.push(slot);
    } else if (outbox.has_held()) [[unlikely]] {
        lane(slot).held_qps.push(slot);
    }
    follow_deadline(slot);
    return has_room;
}

// What a worker sends to itself it finds in its next round: one that sends anything must not sleep after it.
bool Worker::Impl::send_waiting() {
    bool any = false;
    for (const auto& lane : lanes) {
        if (lane->outbox.waits()) [[unlikely]] {
            const std::uint64_t sent_before = lane->outbox.sent_packets();
            lane->outbox.send_known(now);
            any |= lane->outbox.sent_packets() != sent_before;
        }
    }
    return any;
}

bool Worker::Impl::flush_ports() {
    bool all = true;
    for (const auto& lane : lanes) {
        all &= lane->outbox.flush();
    }
    return all;
}

TimeNs Worker::Impl::tend_faults() {
    TimeNs at = kNever;
    for (const auto& lane : lanes) {
        if (lane->faulty && lane->faults.drained()) {
            lane->use_port(lane->device_port);
            lane->faulty = false;
            --faulty_lanes;
        }
        at = lane->faulty ? std::min(at, lane->faults.next_event()) : at;
    }
    return at;
}

TimeNs Worker::Impl::wake_at() {
    TimeNs at = attended.on_clock(std::min(timers.next_event(), timed_ports.next_event()));
    if (faulty_lanes != 0) [[unlikely]] {
        at = std::min(at, tend_faults());
    }
    at = notifier.retry_wanted() ? std::min(at, now + kChannelRetryNs) : at;
    at = std::min(at, notifier.next_due());
    for (const auto& lane : lanes) {
        at = lane->outbox.waits() ? std::min(at, now + kNeighbourNs) : at;
        if (!lane->held_qps.empty()) [[unlikely]] {
            // None any more: another worker's clock is ahead, and it has written the pause off.
            const TimeNs end = lane->device.pauses.first_end(now);
            at = std::min(at, end == kNever ? now : end);
        }
    }
    return polled_ports ? std::min(at, now + Idle::kPolledPortNs) : at;
}

void Worker::Impl::follow_deadline(QpSlot& slot) {
    const TimeNs deadline = slot.qp->deadline();
    if (deadline < slot.timer.expires) {
        timers.arm(slot.timer, deadline);
    }
}

Worker::Worker(const WorkerConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Worker::~Worker() { stop(); }

void Worker::start() {
    Impl& impl = *impl_;
    URNIC_CHECK(!impl.thread.joinable());
    if (!impl.config.may_spin) {
        impl.config.state->cores_shared.store(1);
    }
    impl.stopping.store(false);
    impl.thread = start_thread([&impl] {
        ask_for_time_slice(kTimeSliceNs);
        prctl(PR_SET_TIMERSLACK, 1UL);  // RNR timers go down to 10 us, the usual slack is 50
        // Gives the thread its own cache of packet buffers. Not having one is slower, not wrong.
        const bool registered = rte_thread_register() == 0;
        impl.loop();
        if (registered) {
            rte_thread_unregister();
        }
    });
    const std::string number = std::to_string(impl.config.index);
    const pthread_t handle = impl.thread.native_handle();
    (void)pthread_setname_np(handle, ("urnic-worker" + number).c_str());
    const int error = impl.config.cpu >= 0 ? pin_thread(handle, impl.config.cpu) : 0;
    if (error != 0) {
        stop();
        throw std::system_error(error, std::generic_category(),
                                "cannot run worker " + number + " on CPU " + std::to_string(impl.config.cpu) +
                                    " ('workers'; nproc and lscpu tell which there are)");
    }
}

void Worker::stop() {
    Impl& impl = *impl_;
    if (!impl.thread.joinable()) {
        return;
    }
    impl.stopping.store(true);
    impl.config.steering->wakes().wake(impl.config.index);
    impl.thread.join();
}

void Worker::call(FunctionRef function) {
    Impl& impl = *impl_;
    // Waking it and waiting for it would take several times as long as most functions do.
    if (const std::unique_lock asleep(impl.idle.awake(), std::try_to_lock); asleep.owns_lock()) {
        impl.run_call_asleep(function);
        return;
    }
    impl.mailbox.call(function, [&impl] { impl.config.steering->wakes().wake(impl.config.index); });
}

}  // namespace urnic::dataplane
