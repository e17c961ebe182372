// An AF_XDP socket on one queue of an interface.
#pragma once

#include <xdp/xsk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/port/kernel/kernel_queue.h"
#include "rnic/device/counters.h"

struct rte_mempool;

namespace urnic::dataplane {

class AfXdpQueue final : public KernelQueue {
  public:
    /// The longest frame: the kernel puts each into one page, behind a headroom of its own.
    static constexpr std::uint32_t kMaxFrameBytes = 4096 - 256;

    /// In the interface's network namespace. Throws SetupError.
    AfXdpQueue(const std::string& interface, std::uint32_t queue, rte_mempool* frames, Counters& counters);
    ~AfXdpQueue() override;
    AfXdpQueue(const AfXdpQueue&) = delete;
    AfXdpQueue& operator=(const AfXdpQueue&) = delete;

    std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) override;
    [[nodiscard]] std::uint32_t waiting() override;
    [[nodiscard]] std::uint64_t take_missed() override;
    [[nodiscard]] int fd() const override { return xsk_socket__fd(socket_); }

  private:
    static constexpr std::uint32_t kChunkBytes = 4096;
    static constexpr std::uint32_t kRing = 2048;  // of each ring, and half of the chunks

    void reclaim();
    void kick();
    void give_back(const std::uint64_t* chunks, std::uint32_t count);

    rte_mempool* frames_;
    Counters& counters_;
    std::byte* memory_ = nullptr;
    xsk_umem* umem_ = nullptr;
    xsk_socket* socket_ = nullptr;
    xsk_ring_prod fill_{};
    xsk_ring_cons done_{};
    xsk_ring_cons rx_{};
    xsk_ring_prod tx_{};
    std::array<std::uint64_t, kRing> free_{};  // chunks to send from
    std::uint32_t num_free_ = 0;
    std::uint64_t missed_ = 0;  // returned by take_missed() so far
    bool must_kick_ = false;    // the kernel has not taken all that lies in the transmit ring
};

}  // namespace urnic::dataplane
