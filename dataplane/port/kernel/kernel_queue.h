// One worker's end of a network interface of the kernel.
#pragma once

#include <cstdint>

struct rte_mbuf;

namespace urnic::dataplane {

/// Made and destroyed by the control thread, used by one worker in between.
class KernelQueue {
  public:
    virtual ~KernelQueue() = default;
    /// As Port::rx_burst() and tx_burst().
    virtual std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) = 0;
    virtual std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) = 0;
    /// As Port::rx_waiting().
    [[nodiscard]] virtual std::uint32_t waiting() = 0;
    /// As Port::rx_missed(), since it was called last. For the control thread.
    [[nodiscard]] virtual std::uint64_t take_missed() = 0;
    /// Readable while there is something to receive.
    [[nodiscard]] virtual int fd() const = 0;
    /// The interface's MTU, now. By the control thread, while the worker sends.
    virtual void set_mtu(std::uint32_t /*mtu_bytes*/) {}
};

}  // namespace urnic::dataplane
