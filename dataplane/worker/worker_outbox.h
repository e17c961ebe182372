// A worker's outbox for the QPs of one device: packets become frames in the device's port, completions go to
// CQs, events to the application.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/device/device.h"
#include "dataplane/worker/event_notifier.h"
#include "dataplane/worker/unresolved_frames.h"
#include "rnic/qp/outbox.h"

struct rte_mempool;

namespace urnic::dataplane {

class TxOutbox final : public Outbox {
  public:
    /// Frames that wait for the port. The batch goes out when the worker flushes, or when it is full.
    static constexpr std::uint32_t kMaxFrames = 64;

    TxOutbox(std::uint32_t worker, Device& device, rte_mempool* frames, Notifier& notifier);
    ~TxOutbox() override;
    TxOutbox(const TxOutbox&) = delete;
    TxOutbox& operator=(const TxOutbox&) = delete;

    /// From now on packets go through `port`: the device's own or one that stacks on it.
    void use_port(PacketIo& port) { port_ = &port; }
    /// True: the port has the QPs' time, and so rates are measured by it (TimedPort).
    void go_by_qp_time(bool does) { by_qp_time_ = does; }
    /// The device has another MAC now.
    void use_mac(const wire::Mac& mac) { mac_ = mac; }
    [[nodiscard]] const wire::Mac& mac() const { return mac_; }
    /// Bit n: nothing of priority n is to be sent, until this is said again.
    void hold_priorities(std::uint8_t priorities) { set_paused(priorities); }
    /// Down: what goes out is dropped.
    void set_port_up(bool up) { port_up_ = up; }
    /// Before calls into a QP: whose effects come now, and when. Makes room as far as it can.
    void begin(QpSlot& slot, TimeNs now);
    /// For a packet that is no QP's.
    void make_room(TimeNs now);
    /// Gives the port what it takes. True: nothing is left.
    bool flush();

    /// Frames wait for their neighbours' MACs: send_known() is wanted again soon.
    [[nodiscard]] bool waits() const { return waiting_.size() != 0; }
    /// Sends those whose neighbour is known by now, and drops those that have waited too long.
    void send_known(TimeNs now);

    /// Since the worker's start.
    [[nodiscard]] std::uint64_t sent_packets() const { return counters_.sent_pkts.value(); }

    [[nodiscard]] std::uint32_t room() const override;
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    /// A complete frame; its bytes are copied. False: no room.
    [[nodiscard]] bool transmit_frame(std::span<const std::byte> bytes);
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp& qp, AsyncEventType type) override;
    void srq_event(SharedRecvQueue& srq, AsyncEventType type) override;
    [[nodiscard]] TimeNs clock(TimeNs now) const override { return by_qp_time_ ? now : now_; }

  private:
    void refill();
    void keep(rte_mbuf* frame, std::size_t length);
    void wait(rte_mbuf* frame, std::uint16_t neighbour);
    /// Among those that go out.
    void append(rte_mbuf* frame);

    std::uint32_t worker_;
    PacketIo* port_;
    bool port_up_ = true;
    Counters& counters_;
    const NeighbourMacs& neighbours_;
    wire::Mac mac_;
    bool makes_udp_checksum_;
    rte_mempool* pool_;
    Notifier& notifier_;
    QpSlot* slot_ = nullptr;
    TimeNs now_ = 0;
    bool by_qp_time_ = false;
    // Built frames, the oldest at first_; packets of one QP never overtake each other.
    std::uint32_t first_ = 0;
    std::uint32_t built_ = 0;
    std::array<rte_mbuf*, kMaxFrames> frames_{};
    WaitingFrames waiting_;
    // Empty buffers, taken from the pool in bulk.
    std::uint32_t spares_ = 0;
    std::array<rte_mbuf*, kMaxFrames> spare_{};
};

}  // namespace urnic::dataplane
