// A port as the workers see it: bursts of mbufs in, bursts of mbufs out. Queue q belongs to worker q alone.
#pragma once

#include <cstdint>
#include <span>

#include "rnic/wire/packet_view.h"

struct rte_mbuf;

namespace urnic::dataplane {

class PacketIo {
  public:
    virtual ~PacketIo() = default;
    /// Up to `count` received frames, owned by the caller from now on.
    virtual std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) = 0;
    /// Hands over complete frames; returns how many were taken (from the front), the rest stays the caller's.
    virtual std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) = 0;
    /// From now on frames for these Ethernet groups come in, too; a port may let others through besides. For
    /// the control thread, while workers receive and send.
    virtual void set_multicast(std::span<const wire::Mac> groups) = 0;
    /// The RNIC on this port has another MAC from now on. For the control thread, as above.
    virtual void set_mac(const wire::Mac& /*mac*/) {}
    /// Frames that rx_burst(queue) would find now, as far as the port can tell; 0: it cannot.
    [[nodiscard]] virtual std::uint32_t rx_waiting(std::uint32_t /*queue*/) { return 0; }
    /// Frames that were lost, or refused by the device as damaged, before rx_burst() could have them; 0 where
    /// the port does not know. For the control thread.
    [[nodiscard]] virtual std::uint64_t rx_missed() { return 0; }
    /// A file descriptor that becomes readable when rx_burst(queue) may have something, or -1 when there is
    /// none.
    [[nodiscard]] virtual int wait_fd(std::uint32_t queue) const = 0;
    /// True: neither a descriptor nor the sender (as the in-process wire does) tells of frames on `queue`, so
    /// that a worker with nothing to do must still look now and then.
    [[nodiscard]] virtual bool must_be_polled(std::uint32_t /*queue*/) const { return false; }
};

}  // namespace urnic::dataplane
