#include "dataplane/worker.h"

#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>

#include "dataplane/attended_time.h"
#include "dataplane/doorbell_scan.h"
#include "dataplane/fault_port.h"
#include "dataplane/frame_pool.h"
#include "dataplane/held_frames.h"
#include "dataplane/idle.h"
#include "dataplane/mailbox.h"
#include "dataplane/notifier.h"
#include "dataplane/receiver.h"
#include "dataplane/run_queue.h"
#include "dataplane/steering.h"
#include "dataplane/timed_port.h"
#include "dataplane/tsc_clock.h"
#include "dataplane/tx_outbox.h"
#include "rnic/base/check.h"

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
/// QPs of one worker that can hold early packets at the same time, in both directions.
constexpr std::uint32_t kHeldPacketTables = 64;
/// Rounds that one resize of a CQ may take from the others.
constexpr int kCatchUpRounds = 8;
/// How soon a full completion channel is tried again.
constexpr TimeNs kChannelRetryNs = 1'000'000;
/// How often a worker looks whether a neighbour has answered, while frames wait for it.
constexpr TimeNs kNeighbourNs = 1'000'000;

}  // namespace

struct Worker::Impl {
    /// What the worker has for each device.
    struct Lane {
        Lane(const WorkerConfig& config, Device& device, Notifier& notifier, RunQueue& run_queue,
             HeldFrames& held_frames, const TimeNs& now)
            : device_port(*device.port),
              outbox(config.index, device, config.frames, notifier),
              receiver(config.index, device, *config.steering, outbox, run_queue, held_frames),
              faults(device_port, now) {}
        void use_port(PacketIo& port) {
            outbox.use_port(port);
            receiver.use_port(port);
        }
        PacketIo& device_port;
        TxOutbox outbox;
        Receiver receiver;
        FaultPort faults;  // between them and device_port while `faulty`
        bool faulty = false;
    };

    explicit Impl(const WorkerConfig& worker_config);

    void loop();
    bool run_calls();
    bool scan_doorbells();
    bool receive();
    bool take_handed_over();
    bool expire_timers();
    /// True: some QP ran and had room to send.
    bool run_qps();
    /// True: frames whose neighbours have become known were sent.
    bool send_waiting();
    bool flush_ports();
    /// When a packet held back by a fault wants to go on; takes ports with nothing left to do out of the way.
    TimeNs tend_faults();
    [[nodiscard]] TimeNs wake_at();
    void run_call(FunctionRef function);
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
    std::atomic<bool> stopping{false};
    std::thread thread;
};

Worker::Impl::Impl(const WorkerConfig& worker_config)
    : config(worker_config),
      now(clock.now()),
      attended(now),
      qp_now(now),
      timers(now),
      notifier(config.index, clock),
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
    while (!stopping.load(std::memory_order_relaxed)) {
        now = clock.now();
        qp_now = attended.advance(now);
        timed_ports.set_time(qp_now);
        bool busy = run_calls();
        busy |= scan_doorbells();
        busy |= receive();
        busy |= expire_timers();
        busy |= run_qps();
        busy |= send_waiting();
        const bool flushed = flush_ports();
        notifier.flush(now);
        // Frames for a full port, and QPs that found no room: whoever makes room does not tell.
        const bool waiting = !flushed || !run_queue.empty();
        const bool slept = idle.after_round(busy      ? Idle::Round::kBusy
                                            : waiting ? Idle::Round::kBlocked
                                                      : Idle::Round::kIdle,
                                            now, wake_at());
        if (slept) {
            attended.slept(std::min(timers.next_event(), timed_ports.next_event()));
        }
    }
}

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
        TxOutbox& outbox = lane(slot).outbox;
        outbox.begin(slot, now);
        any |= outbox.room() != 0;
        const std::uint64_t sent_before = outbox.sent_packets();
        if (slot.qp->progress(qp_now, kPacketBudget, outbox)) {
            run_queue.push(slot);
        }
        packets += outbox.sent_packets() - sent_before;
        follow_deadline(slot);
    }
    return any;
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
    // Signals are for the thread that runs the daemon; a channel whose reader is gone raises SIGPIPE here.
    sigset_t all{};
    sigset_t before{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    impl.thread = std::thread([&impl] {
        prctl(PR_SET_TIMERSLACK, 1UL);  // RNR timers go down to 10 us, the usual slack is 50
        // Gives the thread its own cache of packet buffers. Not having one is slower, not wrong.
        const bool registered = rte_thread_register() == 0;
        impl.loop();
        if (registered) {
            rte_thread_unregister();
        }
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const std::string name = "urnic-worker" + std::to_string(impl.config.index);
    (void)pthread_setname_np(impl.thread.native_handle(), name.c_str());
    if (impl.config.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<unsigned>(impl.config.cpu), &set);
        const int error = pthread_setaffinity_np(impl.thread.native_handle(), sizeof(set), &set);
        if (error != 0) {
            stop();
            throw std::system_error(error, std::generic_category(),
                                    "cannot run worker " + std::to_string(impl.config.index) + " on CPU " +
                                        std::to_string(impl.config.cpu));
        }
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
    if (!impl.thread.joinable()) {
        impl.now = impl.clock.now();
        impl.qp_now = impl.attended.advance(impl.now);
        impl.run_call(function);
        return;
    }
    impl.mailbox.call(function, [&impl] { impl.config.steering->wakes().wake(impl.config.index); });
}

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
    return outbox.room() != 0 && outbox.transmit(path, header, {&piece, 1});
}

bool Worker::transmit_frame(std::uint32_t device, std::span<const std::byte> bytes) {
    TxOutbox& outbox = impl_->lanes.at(device)->outbox;
    outbox.make_room(impl_->now);
    return outbox.transmit_frame(bytes);
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
    TxOutbox& outbox = impl.lane(slot).outbox;
    outbox.begin(slot, impl.now);
    const int error = slot.qp->modify(impl.qp_now, attr, path, outbox);
    impl.run_queue.push(slot);
    impl.follow_deadline(slot);
    return error;
}

}  // namespace urnic::dataplane
