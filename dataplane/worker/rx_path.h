// From a port's receive burst to the QPs: parse, check, hand off, look up.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/device/device.h"
#include "dataplane/device/multicast_table.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/wire/local_frame.h"
#include "dataplane/worker/copy_charge.h"
#include "dataplane/worker/qp_table.h"
#include "dataplane/worker/round_watch.h"
#include "dataplane/worker/run_queue.h"
#include "dataplane/worker/worker_capture.h"
#include "dataplane/worker/worker_outbox.h"
#include "rnic/wire/frame_parser.h"

namespace urnic::dataplane {

/// The receive side of one device on one worker. Every frame that does not reach a QP is counted.
class RxPath {
  public:
    static constexpr std::uint16_t kBurst = 32;

    RxPath(std::uint32_t worker, Device& device, WorkerHandoff& handoff, WorkerOutbox& outbox,
           RunQueue& run_queue, RoundWatch& rounds);

    /// From now on packets come through `port`: the device's own or one that stacks on it.
    void use_port(Port& port) { port_ = &port; }
    /// Follows the addresses of the device.
    void refresh_addresses();
    /// While the port is down, received frames are dropped.
    void set_port_up(bool up) {
        port_up_ = up;
        choose_dispatch();
    }
    /// From now on `capture` is told of received frames; nullptr: nobody is.
    void use_capture(WorkerCapture* capture) {
        capture_ = capture;
        choose_dispatch();
    }
    /// Takes one burst from the port. Returns the number of frames, which handle() is to get.
    [[nodiscard]] std::uint16_t take(std::span<rte_mbuf*, kBurst> frames);
    /// QPs that got packets are put on the run queue, so that the ACKs for a burst are coalesced. `now` is
    /// the clock's time, `protocol_now` that of StallFreeClock, both of after take(): what a packet makes
    /// wait must not have begun before it came.
    void handle(std::span<rte_mbuf*> frames, TimeNs now, TimeNs protocol_now);
    /// Handles a frame that another worker received.
    void on_handoff(rte_mbuf* frame, TimeNs now, TimeNs protocol_now);

    /// Wakes the other workers: a pause ended sooner than they know.
    void wake_others();

    [[nodiscard]] QpTable& qps() { return qps_; }
    [[nodiscard]] MulticastTable& multicast() { return multicast_; }

  private:
    void choose_dispatch() { dispatches_roce_ = port_up_ && !device_.is_infiniband() && capture_ == nullptr; }
    void dispatch(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    /// Packets that are not in the form of frames (docs/adr/0035): the checks are those of dispatch(), but
    /// for what only bytes on a wire can suffer.
    void dispatch_local(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    /// Whose they are; nullptr: they were dropped and counted. Fills view_ with the first of them.
    [[nodiscard]] QpSlot* receiver_of_local(const rte_mbuf& frame);
    /// Their time is that of whose memory they are copied from, and whose QP they are for.
    void enter_local(const QpSlot& receiver, const LocalFrame& local);
    void dispatch_infiniband(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    /// Of the packet in view_.
    void report_key_violation(std::uint16_t trap_number);
    // While dispatches_roce_ is false.
    void receive_other(std::span<rte_mbuf*> frames, TimeNs now, TimeNs protocol_now);
    void dispatch_other(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    void dispatch_captured(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    void dispatch_uncaptured(rte_mbuf& frame, TimeNs now, TimeNs protocol_now);
    void wake_handoff_targets();
    [[nodiscard]] bool is_for_us(const wire::PacketView& view) const;
    /// Returns whether the device has that GID on an interface with that VLAN.
    [[nodiscard]] bool has_gid(const wire::Gid& gid, std::uint16_t vlan) const;
    [[nodiscard]] bool has_vlan(std::uint16_t vlan) const;
    void dispatch_neighbour(std::span<const std::byte> frame);
    void dispatch_non_roce(const rte_mbuf& frame, wire::ParseError error, TimeNs now);
    void dispatch_mac_control(const rte_mbuf& frame, TimeNs now);
    void dispatch_to_qp(QpSlot& slot, const wire::PacketView& view, TimeNs now, TimeNs protocol_now);
    void dispatch_mad(const wire::PacketView& view);
    void dispatch_multicast(rte_mbuf& frame, const wire::PacketView& view, TimeNs now, TimeNs protocol_now);
    /// Hands the frame off to those other workers, which have members of its group.
    void replicate_to_workers(rte_mbuf& frame, std::uint32_t workers);
    /// Returns whether another worker owns the QP: the frame was handed off, or dropped.
    [[nodiscard]] bool steer(rte_mbuf* frame);

    std::uint32_t worker_;
    Device& device_;
    Port* port_;
    Counters& counters_;
    WorkerHandoff& handoff_;
    WorkerOutbox& outbox_;
    RunQueue& run_queue_;
    RoundWatch& rounds_;
    CopyCharge copies_;
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
    WorkerCapture* capture_ = nullptr;
    bool dispatches_roce_ = true;        // the port is up and Ethernet's, and nobody captures
    wire::FrameParser parser_;           // of RoCE frames
    wire::PacketView view_;              // of packets in other forms
    std::uint32_t handoff_targets_ = 0;  // bit mask of workers that got frames of this burst
};

}  // namespace urnic::dataplane
