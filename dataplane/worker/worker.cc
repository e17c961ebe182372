#include "dataplane/worker/worker.h"

#include <pthread.h>
#include <rte_cycles.h>
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

namespace urnic::dataplane {

namespace {

/// Packets of requests that one QP may send before the next one runs.
constexpr std::uint32_t kPacketBudget = 32;
/// Packets sent, and QPs that ran, before the worker polls its other sources again. As many packets as are
/// received in a round: between RNICs of one daemon a frame is then read while it is still in the L2 cache.
constexpr std::uint32_t kPacketsPerRound = 32;
constexpr std::uint32_t kQpsPerRound = 64;
constexpr std::uint32_t kBurstsPerRound = 4;
/// Rounds that the control thread does in a sleeping worker's stead after a call, before it wakes it.
constexpr int kRoundsAsleep = 4;
/// Rounds for which timers wait until all received frames were handled: as many as empty the deepest queue.
constexpr std::uint32_t kRoundsBeforeTimers = 64;
/// The shortest that the kernel grants.
constexpr std::uint64_t kTimeSliceNs = 100'000;
/// How often a worker reads whether a neighbour was resolved, while frames wait for it.
constexpr TimeNs kNeighbourNs = 1'000'000;

/// How long a program runs before another one's turn, when there is one: as long as one QP's packets of 4 KB
/// take, or some tens of small ones.
constexpr TimeNs kTurnNs = 4'000;
/// What one QP is charged at most for a run: in it the kernel may have given the CPU to others.
constexpr TimeNs kMostChargedNs = 200'000;

std::int64_t ticks(TimeNs duration) {
    return static_cast<std::int64_t>(rte_get_tsc_hz() / 1'000'000 * duration / 1'000);
}

/// Gives its thread its own cache of packet buffers. Not having one is slower, not wrong.
class DpdkThread {
  public:
    DpdkThread() {
        const std::scoped_lock lock(mutex_);
        registered_ = rte_thread_register() == 0;
    }
    ~DpdkThread() {
        if (registered_) {
            const std::scoped_lock lock(mutex_);
            rte_thread_unregister();
        }
    }
    DpdkThread(const DpdkThread&) = delete;
    DpdkThread& operator=(const DpdkThread&) = delete;

  private:
    /// One worker may end while another begins. The library has a lock for that, which the thread sanitizer
    /// does not see.
    static inline std::mutex mutex_;
    bool registered_;
};

}  // namespace

Worker::Impl::Impl(const WorkerConfig& worker_config)
    : config(worker_config),
      now(clock.now()),
      stall_free_clock(now),
      protocol_now(now),
      timers(now),
      run_queue(ticks(kTurnNs)),
      rounds(rte_get_tsc_hz()),
      most_charged_ticks(ticks(kMostChargedNs)),
      notifier(config.index, !config.may_spin, clock),
      idle(config.index, config.may_spin, config.handoff->wakeup()),
      timed_ports(config.index),
      capture(config.index, clock) {
    URNIC_CHECK(config.state != nullptr && config.frames != nullptr);
    URNIC_CHECK(config.index < config.num_workers && config.num_workers == config.handoff->num_workers());
    for (Device* device : config.devices) {
        URNIC_CHECK(device->index == worker_devices.size());
        worker_devices.push_back(
            std::make_unique<WorkerDevice>(config, *device, notifier, run_queue, rounds, now));
        has_polled_ports = has_polled_ports || device->port->must_be_polled(config.index);
        worker_devices.back()->outbox.use_protocol_time(timed_ports.add(device->port));
        const int fd = device->port->wait_fd(config.index);
        const int error = fd >= 0 ? idle.watch_level(fd) : 0;
        if (error != 0 && error != EEXIST) {
            throw std::system_error(error, std::generic_category(),
                                    "cannot watch the port of " + device->name);
        }
    }
    apply_offload();
}

void Worker::Impl::loop() {
    const std::lock_guard awake(idle.awake());
    while (!stopping.load(std::memory_order_relaxed)) {
        read_clock();
        rounds.begin(rte_rdtsc());
        bool busy = run_calls();
        busy |= scan_doorbells();
        busy |= receive();
        busy |= apply_pfc_state();
        busy |= expire_timers();
        bool flushed = false;
        if (attended_devices == 0) [[likely]] {
            busy |= run_qps();
            busy |= send_resolved();
            flushed = flush_ports();
        } else {
            busy |= run_watched_qps();
            busy |= send_resolved();
            flushed = flush_ports();
            attend_to_devices();
        }
        notifier.flush(now);
        // Frames for a full port, and QPs that found no room: no event tells when there is room.
        const bool waiting = !flushed || !run_queue.empty();
        rounds.end(rte_rdtsc());
        sleeps_until = wake_at();
        const bool slept = idle.after_round(busy      ? IdleStrategy::Round::kBusy
                                            : waiting ? IdleStrategy::Round::kBlocked
                                                      : IdleStrategy::Round::kIdle,
                                            now, sleeps_until);
        if (slept) {
            note_sleep();
        }
    }
}

void Worker::Impl::read_clock() {
    now = clock.now();
    protocol_now = stall_free_clock.advance(now);
    timed_ports.set_time(protocol_now);
}

void Worker::Impl::note_sleep() {
    stall_free_clock.slept(std::min(timers.next_event(), timed_ports.next_event()));
}

bool Worker::Impl::run_calls() {
    bool any = false;
    while (const FunctionRef* function = call_queue.next()) {
        run_call(*function);
        call_queue.finish();
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
    const auto add = [](std::uint64_t sum, const auto& worker_device) {
        return sum + worker_device->outbox.sent_packets();
    };
    return std::accumulate(worker_devices.begin(), worker_devices.end(), std::uint64_t{0}, add);
}

void Worker::Impl::run_call_asleep(FunctionRef function) {
    note_sleep();
    read_clock();
    const std::uint64_t sent_before = sent_packets();
    run_call(function);
    bool is_flushed = flush_ports();
    // What a worker sends to itself does not wake it, and a QP that was modified has a turn. Waking the
    // thread for that would cost more than doing it.
    bool is_busy = sent_packets() != sent_before || !run_queue.empty();
    for (int round = 0; is_busy && round < kRoundsAsleep; ++round) {
        is_busy = receive();
        is_busy |= run_all_qps();
        is_busy |= send_resolved();
        is_flushed = flush_ports();
        notifier.flush(now);
    }
    capture.settle();
    if (is_busy || !is_flushed || !run_queue.empty() || wake_at() < sleeps_until) {
        config.handoff->wakeup().wake(config.index);
    }
}

bool Worker::Impl::scan_doorbells() {
    // Who rings after this round finds that the worker sleeps.
    return idle.is_about_to_sleep()
               ? scan_all_doorbells()
               : doorbells.scan_some(now, [this](QpSlot& slot) { run_queue.push(slot); });
}

bool Worker::Impl::scan_all_doorbells() {
    return doorbells.scan_all(now, [this](QpSlot& slot) { run_queue.push(slot); });
}

bool Worker::Impl::receive() {
    bool any = config.num_workers > 1 && receive_handed_over();
    bool drained = true;
    std::array<rte_mbuf*, RxPath::kBurst> frames;
    for (const auto& worker_device : worker_devices) {
        if (worker_device->device.pfc.tx_priorities != 0) [[unlikely]]
            send_pfc(*worker_device);
        std::uint16_t got = RxPath::kBurst;
        for (std::uint32_t left = kBurstsPerRound; left != 0 && got == RxPath::kBurst; --left) {
            got = worker_device->rx_path.take(frames);
            if (got == 0) break;
            read_clock();
            worker_device->rx_path.handle({frames.data(), got}, now, protocol_now);
            any = true;
        }
        drained &= got != RxPath::kBurst;
    }
    undrained_rounds = drained ? 0 : undrained_rounds + 1;
    return any;
}

bool Worker::Impl::receive_handed_over() {
    std::array<HandoffFrame, RxPath::kBurst> frames;
    const std::uint32_t count = config.handoff->dequeue(config.index, frames.data(), RxPath::kBurst);
    if (count != 0) read_clock();
    for (std::uint32_t i = 0; i < count; ++i) {
        worker_devices[frames[i].device]->rx_path.on_handoff(frames[i].frame, now, protocol_now);
    }
    return count != 0;
}

bool Worker::Impl::expire_timers() {
    // The frame that a timer waits for may be among those that are left for the next round.
    const bool must_wait = undrained_rounds % kRoundsBeforeTimers != 0;
    if (!timers.due(protocol_now) || must_wait) {
        return false;
    }
    bool any = false;
    timers.advance(protocol_now, [this, &any](TimerNode& node) {
        QpSlot& slot = *static_cast<QpSlot::Timer&>(node).slot;
        if (slot.qp->deadline() > protocol_now) {
            arm_timer(slot);
            return;
        }
        rounds.enter(*slot.share, rte_rdtsc);
        Outbox& effects = worker_device(slot).outbox.begin_call(slot, now);
        slot.qp->handle_timeout(protocol_now, effects);
        run_queue.push(slot);
        any = true;
    });
    return any;
}

template <class Turn>
bool Worker::Impl::run_qps_by(Turn turn) {
    bool any = false;
    std::uint64_t packets = 0;
    for (std::uint32_t left = std::min(run_queue.size(), kQpsPerRound);
         left != 0 && packets < kPacketsPerRound; --left) {
        QpSlot& slot = run_queue.pop();
        const std::uint64_t sent_before = worker_device(slot).outbox.sent_packets();
        any |= turn(slot);
        packets += worker_device(slot).outbox.sent_packets() - sent_before;
    }
    return any;
}

bool Worker::Impl::run_qps() {
    return run_qps_by([this](QpSlot& slot) { return run_turn(slot); });
}

// What a QP has taken out of its send queue may wait: no packet and no completion tells of it.
bool Worker::Impl::run_watched_qps() {
    return run_qps_by([this](QpSlot& slot) {
        const bool had_room = run_turn(slot);
        if (worker_device(slot).is_captured) {
            capture.look_at(slot.device->index, slot);
        }
        return had_room;
    });
}

bool Worker::Impl::run_turn(QpSlot& slot) {
    if (!run_queue.do_others_wait(slot)) {
        RunQueue::forgive(slot);
        return run_qp(slot);
    }
    const std::uint64_t begin = rte_rdtsc();
    const bool had_room = run_qp(slot);
    run_queue.charge(std::min(static_cast<std::int64_t>(rte_rdtsc() - begin), most_charged_ticks));
    return had_room;
}

bool Worker::Impl::run_qp(QpSlot& slot) {
    rounds.enter(*slot.share, rte_rdtsc);
    WorkerOutbox& outbox = worker_device(slot).outbox;
    Outbox& effects = outbox.begin_call(slot, now);
    const bool has_room = outbox.room() != 0;
    if (slot.qp->progress(protocol_now, kPacketBudget, effects)) {
        run_queue.push(slot);
    } else if (outbox.has_deferred()) [[unlikely]] {
        worker_device(slot).paused_qps.push(slot);
    }
    arm_timer(slot);
    return has_room;
}

// A worker receives what it sends to itself in its next round: it must not sleep after it has sent a frame.
bool Worker::Impl::send_resolved() {
    bool any = false;
    for (const auto& worker_device : worker_devices) {
        if (worker_device->outbox.has_waiting()) [[unlikely]] {
            const std::uint64_t sent_before = worker_device->outbox.sent_packets();
            worker_device->outbox.send_resolved(now);
            any |= worker_device->outbox.sent_packets() != sent_before;
        }
    }
    return any;
}

bool Worker::Impl::flush_ports() {
    bool all = true;
    for (const auto& worker_device : worker_devices) {
        all &= worker_device->outbox.flush();
    }
    return all;
}

void Worker::Impl::attend_to_devices() {
    capture.settle();
    remove_drained_injectors();
}

void Worker::Impl::remove_drained_injectors() {
    for (const auto& worker_device : worker_devices) {
        if (worker_device->is_faulty && worker_device->fault_injector.drained()) {
            worker_device->use_port(worker_device->device_port);
            worker_device->is_faulty = false;
            --attended_devices;
            end_observation();
        }
    }
}

TimeNs Worker::Impl::wake_at() const {
    TimeNs at = stall_free_clock.to_clock(std::min(timers.next_event(), timed_ports.next_event()));
    at = std::min(at, notifier.next_due());
    for (const auto& worker_device : worker_devices) {
        at = worker_device->outbox.has_waiting() ? std::min(at, now + kNeighbourNs) : at;
        if (worker_device->is_faulty) [[unlikely]] {
            at = std::min(at, worker_device->fault_injector.next_event());
        }
        if (!worker_device->paused_qps.empty()) [[unlikely]] {
            // No pause any more: another worker, whose clock is ahead, has ended it.
            const TimeNs end = worker_device->device.pfc_receiver.first_end(now);
            at = std::min(at, end == kNever ? now : end);
        }
    }
    return has_polled_ports ? std::min(at, now + IdleStrategy::kPolledPortNs) : at;
}

void Worker::Impl::arm_timer(QpSlot& slot) {
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
        const DpdkThread dpdk_thread;
        if (impl.config.on_thread_start) {
            impl.config.on_thread_start();
        }
        impl.loop();
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
    impl.config.handoff->wakeup().wake(impl.config.index);
    impl.thread.join();
}

bool Worker::take_long_round(LongRound& round) { return impl_->rounds.take(round); }
std::uint64_t Worker::last_round() const { return impl_->rounds.last_round(); }
std::uint64_t Worker::long_rounds() const { return impl_->rounds.long_rounds(); }

void Worker::call(FunctionRef function) {
    Impl& impl = *impl_;
    // Waking it and waiting for it would take several times as long as most functions do.
    if (const std::unique_lock asleep(impl.idle.awake(), std::try_to_lock); asleep.owns_lock()) {
        impl.run_call_asleep(function);
        return;
    }
    impl.call_queue.call(function, [&impl] { impl.config.handoff->wakeup().wake(impl.config.index); });
}

}  // namespace urnic::dataplane
