// A packet socket (packet(7)): frames come in by a ring that the kernel fills, and go out by sendmmsg.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/port/kernel/kernel_queue.h"
#include "os/unique_fd.h"
#include "rnic/device/counters.h"

struct rte_mempool;

namespace urnic::dataplane {

class AfPacketQueue final : public KernelQueue {
  public:
    enum class Use : std::uint8_t { kBoth, kSend };
    /// Binds to the interface with that index in the caller's network namespace. Received into `frames`.
    /// Throws SetupError.
    AfPacketQueue(Use use, int interface, rte_mempool* frames, Counters& counters);
    ~AfPacketQueue() override;
    AfPacketQueue(const AfPacketQueue&) = delete;
    AfPacketQueue& operator=(const AfPacketQueue&) = delete;

    /// Shares what comes in with the other queues of the interface, by DestQP: the queue that joins first is
    /// worker 0's. `group`: 0 makes one, else the answer of the first. Throws SetupError.
    [[nodiscard]] std::uint16_t share(std::uint16_t group);

    std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) override;
    [[nodiscard]] std::uint32_t waiting() override;
    [[nodiscard]] std::uint64_t take_missed() override;
    [[nodiscard]] int fd() const override { return socket_.get(); }

  private:
    static constexpr std::uint16_t kBurst = 32;

    [[nodiscard]] std::byte* slot(std::uint32_t index) const;
    [[nodiscard]] bool copy_out(const std::byte* slot, rte_mbuf& frame);
    void make_ring();
    void unmap();

    UniqueFd socket_;
    rte_mempool* frames_;
    Counters& counters_;
    std::byte* ring_ = nullptr;  // none: it only sends
    std::uint32_t next_ = 0;     // slot
    std::array<mmsghdr, kBurst> messages_{};
    std::array<iovec, kBurst> pieces_{};
};

}  // namespace urnic::dataplane
