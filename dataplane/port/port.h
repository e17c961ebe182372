// A port as the workers see it: bursts of mbufs in, bursts of mbufs out. Queue q belongs to worker q alone.
#pragma once

#include <cstdint>
#include <span>

#include "rnic/wire/packet_view.h"

struct rte_mbuf;

namespace urnic::dataplane {

class Port {
  public:
    virtual ~Port() = default;
    /// Up to `count` received frames, owned by the caller from now on.
    virtual std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) = 0;
    /// Sends complete frames, the in-process switch others, too (dataplane/wire/local_frame.h). Returns how
    /// many were taken, from the front; the caller keeps the others.
    virtual std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) = 0;
    /// From now on frames to these Ethernet groups are received, too; a port may receive others besides.
    /// Called by the control thread, while workers receive and send.
    virtual void set_multicast(std::span<const wire::Mac> groups) = 0;
    /// The same of InfiniBand, by the LIDs of the groups.
    virtual void set_multicast_lids(std::span<const std::uint16_t> /*lids*/) {}
    /// On the worker of `queue`: an operator takes the link down, or up again.
    virtual void set_link(std::uint32_t /*queue*/, bool /*up*/) {}
    /// The RNIC on this port has another MAC from now on. Called by the control thread, as above.
    virtual void set_mac(const wire::Mac& /*mac*/) {}
    /// Number of frames that wait for rx_burst(queue); 0 where the port cannot count them.
    [[nodiscard]] virtual std::uint32_t rx_waiting(std::uint32_t /*queue*/) { return 0; }
    /// Number of those that this queue's worker sent itself: what is no frame (dataplane/wire/local_frame.h)
    /// is among them.
    [[nodiscard]] virtual std::uint32_t local_waiting(std::uint32_t /*queue*/) { return 0; }
    /// Number of frames that were lost before rx_burst(), or that the device dropped as damaged; 0 where the
    /// port cannot count them. Called by the control thread.
    [[nodiscard]] virtual std::uint64_t rx_missed() { return 0; }
    /// A file descriptor that becomes readable when rx_burst(queue) may have something, or -1 when there is
    /// none.
    [[nodiscard]] virtual int wait_fd(std::uint32_t queue) const = 0;
    /// Returns whether an idle worker must poll `queue`: neither a descriptor nor the sender (as the
    /// in-process wire does) tells it of frames.
    [[nodiscard]] virtual bool must_be_polled(std::uint32_t /*queue*/) const { return false; }
};

}  // namespace urnic::dataplane
