// From a port's receive burst to the QPs: parse, check, steer, look up.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/device/device.h"
#include "dataplane/device/multicast_table.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/worker/mbuf_holder.h"
#include "dataplane/worker/qp_table.h"
#include "dataplane/worker/run_queue.h"
#include "dataplane/worker/worker_outbox.h"

namespace urnic::dataplane {

/// The receive side of one device on one worker. Every frame that does not reach a QP is counted.
class Receiver {
  public:
    static constexpr std::uint16_t kBurst = 32;

    Receiver(std::uint32_t worker, Device& device, Steering& steering, TxOutbox& outbox, RunQueue& run_queue,
             HeldFrames& held_frames);

    /// From now on packets come through `port`: the device's own or one that stacks on it.
    void use_port(PacketIo& port) { port_ = &port; }
    /// Follows the addresses of the device.
    void refresh_addresses();
    /// Down: what comes in is dropped.
    void set_port_up(bool up) { port_up_ = up; }
    /// Takes one burst from the port. QPs that got packets are put on the run queue, so that each sends once
    /// what the burst asks of it (acknowledgements coalesce). `now` is the clock's, `qp_now` the QPs' time.
    /// Returns the number of frames.
    std::uint16_t poll(TimeNs now, TimeNs qp_now);
    /// A frame that another worker received.
    void take_over(rte_mbuf* frame, TimeNs now, TimeNs qp_now);

    /// A pause ended sooner than the other workers know.
    void wake_others();

    [[nodiscard]] QpTable& qps() { return qps_; }
    [[nodiscard]] MulticastTable& multicast() { return multicast_; }

  private:
    void deliver(rte_mbuf& frame, TimeNs now, TimeNs qp_now);
    [[nodiscard]] bool is_for_us(const wire::PacketView& view) const;
    /// A packet for that GID comes with the VLAN of its interface.
    [[nodiscard]] bool has_gid(const wire::Gid& gid, std::uint16_t vlan) const;
    [[nodiscard]] bool has_vlan(std::uint16_t vlan) const;
    void deliver_neighbour(std::span<const std::byte> frame);
    void deliver_other(const rte_mbuf& frame, wire::ParseError error, TimeNs now);
    void deliver_mac_control(const rte_mbuf& frame, TimeNs now);
    void give(QpSlot& slot, rte_mbuf& frame, const wire::PacketView& view, TimeNs now, TimeNs qp_now);
    void deliver_mad(const wire::PacketView& view);
    void deliver_multicast(rte_mbuf& frame, const wire::PacketView& view, TimeNs now, TimeNs qp_now);
    /// Gives the frame to the other workers that have members of the group.
    void spread(rte_mbuf& frame, std::uint32_t workers);
    /// True: the frame was given away (or dropped).
    [[nodiscard]] bool steer(rte_mbuf* frame);

    std::uint32_t worker_;
    Device& device_;
    PacketIo* port_;
    Counters& counters_;
    Steering& steering_;
    TxOutbox& outbox_;
    RunQueue& run_queue_;
    HeldFrames& held_frames_;
    QpTable qps_;
    MulticastTable multicast_;
    struct OwnGid {
        wire::Gid gid{};
        std::uint16_t vlan = 0;
    };
    std::array<OwnGid, Device::kGidTableLength> gids_{};  // the device's, without the free entries
    std::uint32_t num_gids_ = 0;
    wire::Mac mac_{};
    bool port_up_ = true;
    wire::PacketView view_;        // of the frame at hand; parse_frame() fills all of it
    std::uint32_t handed_to_ = 0;  // bit mask of workers that got frames of this burst
};

}  // namespace urnic::dataplane
