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
    /// The longest frame of one buffer: the kernel puts it into one page, behind a headroom of its own.
    static constexpr std::uint32_t kMaxBufferBytes = 4096 - 256;

    /// In the interface's network namespace. `has_long_frames`: they may have several buffers, which the
    /// kernel must be able to (can_have_long_frames()). Throws SetupError.
    AfXdpQueue(const std::string& interface, std::uint32_t queue, bool has_long_frames, rte_mempool* frames,
               Counters& counters);
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
    /// Copies one frame out of its slots, which begin at `at`. Returns the number of slots.
    std::uint32_t take_frame(std::uint32_t at, rte_mbuf* frame);
    /// Copies a frame into slots of the transmit ring. Returns their number; 0: no room.
    std::uint32_t put_frame(const rte_mbuf& frame);

    rte_mempool* frames_;
    Counters& counters_;
    std::uint32_t max_frame_bytes_;
    std::byte* memory_ = nullptr;
    xsk_umem* umem_ = nullptr;
    xsk_socket* socket_ = nullptr;
    xsk_ring_prod fill_{};
    xsk_ring_cons done_{};
    xsk_ring_cons rx_{};
    xsk_ring_prod tx_{};
    std::array<std::uint64_t, kRing> free_{};  // chunks to send from
    std::uint32_t num_free_ = 0;
    Counter too_long_;          // received frames for which no buffer has room
    std::uint64_t missed_ = 0;  // returned by take_missed() so far
    bool must_kick_ = false;    // the kernel has not taken all that lies in the transmit ring
};

/// Returns whether this kernel's AF_XDP knows frames of several buffers (Linux 6.6).
[[nodiscard]] bool can_have_long_frames();

}  // namespace urnic::dataplane
