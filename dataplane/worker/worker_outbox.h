// A worker's outbox for the QPs of one device: packets become frames in the device's port, completions go to
// CQs, events to the application.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/device/device.h"
#include "dataplane/worker/event_notifier.h"
#include "dataplane/worker/unresolved_frames.h"
#include "dataplane/worker/worker_capture.h"
#include "rnic/device/gsi.h"
#include "rnic/qp/outbox.h"

struct rte_mempool;

namespace urnic::dataplane {

struct LocalFrame;

/// A QP reaches it through begin_call() alone, which says whose effects come and when.
class WorkerOutbox final : private Outbox {
  public:
    /// Frames that wait for the port. The batch is sent when the worker flushes, or when it is full.
    static constexpr std::uint32_t kMaxFrames = 64;

    WorkerOutbox(std::uint32_t worker, std::uint32_t num_workers, Device& device, rte_mempool* frames,
                 EventNotifier& notifier);
    ~WorkerOutbox() override;
    WorkerOutbox(const WorkerOutbox&) = delete;
    WorkerOutbox& operator=(const WorkerOutbox&) = delete;

    /// From now on packets go through `port`: the device's own or one that stacks on it.
    void use_port(Port& port) { port_ = &port; }
    /// Whether rates are measured in protocol time instead of the clock's, as a TimedPort does.
    void use_protocol_time(bool use) { use_protocol_time_ = use; }
    /// The device has another MAC now.
    void use_mac(const wire::Mac& mac) { mac_ = mac; }
    [[nodiscard]] const wire::Mac& mac() const { return mac_; }
    /// Bit n: nothing of priority n is sent until the next call of this function.
    void set_paused_priorities(std::uint8_t priorities) { set_paused(priorities); }
    /// From now on `capture` is told of what goes out; nullptr: nobody is.
    void use_capture(WorkerCapture* capture) {
        capture_ = capture;
        is_plain_ = capture_ == nullptr && !udp_checksum_enabled_;
    }
    /// While the port is down, frames are dropped instead of sent.
    void set_port_up(bool up) { port_up_ = up; }
    using Outbox::defer_if_paused;
    using Outbox::has_deferred;
    using Outbox::paused;

    /// The outbox for calls into this QP at this time, until the next begin_call() or make_room(). Makes room
    /// as far as it can.
    [[nodiscard]] Outbox& begin_call(QpSlot& slot, TimeNs now) {
        begin(slot, now);
        return *this;
    }
    /// Before transmit() and transmit_frame() of a packet that belongs to no QP of an application.
    void make_room(TimeNs now);
    /// Gives the port what it takes. Returns whether nothing is left.
    bool flush();
    /// Whether packets may go out as something else than frames (docs/adr/0035): the port is an in-process
    /// switch, and nobody looks.
    void set_offload(bool enabled) {
        offload_enabled_ = enabled;
        last_local_ = nullptr;
    }
    /// How many buffers with such packets of that QP wait for the port; nullptr: of all QPs.
    [[nodiscard]] std::uint32_t num_local(const QpSlot* of) const;
    /// Drops these, as if the wire had lost them.
    void drop_local(const QpSlot* of);

    /// Returns whether frames wait for their neighbours' MACs: send_resolved() is to be called again soon.
    [[nodiscard]] bool has_waiting() const { return unresolved_.size() != 0; }
    /// Sends those whose neighbour is known by now, and drops those that have waited too long.
    void send_resolved(TimeNs now);

    /// Since the worker's start.
    [[nodiscard]] std::uint64_t sent_packets() const { return counters_.sent_pkts.value(); }

    [[nodiscard]] std::uint32_t room() const override;
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    /// Sends a complete frame; its bytes are copied. Returns false if there is no room.
    [[nodiscard]] bool transmit_frame(std::span<const std::byte> bytes);
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp& qp, AsyncEventType type) override;
    void srq_event(SharedRecvQueue& srq, AsyncEventType type) override;
    void timer_expired(Qp& qp, const TimerExpiry& expiry) override;
    [[nodiscard]] TimeNs clock(TimeNs now) const override { return use_protocol_time_ ? now : now_; }

  private:
    void begin(QpSlot& slot, TimeNs now);
    void refill();
    /// What a packet needs that is built, unless is_plain_.
    void finish_packet(const wire::Path& path, const wire::PacketHeader& header, std::span<std::byte> bytes);
    [[nodiscard]] bool transmit_local(const wire::Path& path, const wire::PacketHeader& header,
                                      std::span<const MemoryPiece> pieces);
    /// Returns whether a QP with this number is this worker's; the bits beyond 24 do not count.
    [[nodiscard]] bool is_own_qp(std::uint32_t qp_num) const {
        return num_workers_ == 1 || (qp_num & 0xff'ffffU) % num_workers_ == worker_;
    }
    /// Adds the packet to the one before it, if that is possible.
    [[nodiscard]] bool extend_last(const wire::Path& path, const wire::PacketHeader& header,
                                   const MemoryPiece& piece);
    /// Sends the spare buffer that was filled.
    void enqueue_frame(rte_mbuf* frame, std::size_t length);
    /// Keeps the frame until the MAC of the neighbour is known.
    void hold_for_neighbour(rte_mbuf* frame, std::uint16_t neighbour);
    /// Adds it to those that go out.
    void append(rte_mbuf* frame);

    std::uint32_t worker_;
    Port* port_;
    bool port_up_ = true;
    Counters& counters_;
    const NeighbourMacs& neighbours_;
    wire::Mac mac_;
    std::uint32_t rnic_;  // Device::index
    bool udp_checksum_enabled_;
    bool is_plain_;  // packets need neither a UDP checksum nor to be captured
    WorkerCapture* capture_ = nullptr;
    bool offload_enabled_ = false;
    std::uint32_t num_workers_;
    const KeyTable& keys_;
    rte_mempool* pool_;
    EventNotifier& notifier_;
    QpSlot* slot_ = nullptr;
    std::uint32_t sender_qp_num_ = kGsiQp;
    TimeNs now_ = 0;
    bool use_protocol_time_ = false;
    LocalFrame* last_local_ = nullptr;  // sent in this call of the QP; nullptr: another packet was
    // Built frames, the oldest at first_; packets of one QP never overtake each other.
    std::uint32_t first_ = 0;
    std::uint32_t built_ = 0;
    std::array<rte_mbuf*, kMaxFrames> frames_{};
    UnresolvedFrames unresolved_;
    // Empty buffers, taken from the pool in bulk.
    std::uint32_t spares_ = 0;
    std::array<rte_mbuf*, kMaxFrames> spare_{};
};

}  // namespace urnic::dataplane
