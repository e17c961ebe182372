// A packet socket (packet(7)): frames come in by a ring that the kernel fills, and go out by sendmmsg.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/port/kernel/kernel_queue.h"
#include "dataplane/port/kernel/packet_batch.h"
#include "dataplane/port/kernel/segmentation_offload.h"
#include "os/unique_fd.h"
#include "rnic/device/counters.h"
#include "rnic/wire/segmentation.h"

struct rte_mempool;

namespace urnic::dataplane {

class AfPacketQueue final : public KernelQueue {
  public:
    enum class Use : std::uint8_t { kBoth, kSend };
    /// Binds to the interface with that index in the caller's network namespace. Received into `frames`.
    /// `segmentation` says whether frames leave together; it is changed when the kernel does not take them
    /// so. Throws SetupError.
    AfPacketQueue(Use use, int interface, rte_mempool* frames, Counters& counters,
                  std::atomic<SegmentationOffload>& segmentation);
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
    void set_mtu(std::uint32_t mtu_bytes) override { mtu_bytes_.store(mtu_bytes, std::memory_order_relaxed); }

  private:
    static constexpr std::uint16_t kBurst = 32;

    [[nodiscard]] std::byte* slot(std::uint32_t index) const;
    [[nodiscard]] bool has_filled(std::uint32_t index) const;
    [[nodiscard]] bool copy_out(const std::byte* slot, rte_mbuf& frame);
    /// Receives from slots that have a frame each, at most `count`, and up to one that has not. Returns the
    /// number of frames; `emptied` slots are done with, none where there are no buffers.
    [[nodiscard]] std::uint16_t receive_single(rte_mbuf** frames, std::uint16_t count,
                                               std::uint32_t& emptied);
    /// Cuts the frame of the next slot into segments_, of which none may be left. Returns whether the slot is
    /// done with; if not, there are no buffers.
    [[nodiscard]] bool cut();
    [[nodiscard]] bool read_payload(const std::byte* slot, const wire::SegmentedFrame& whole,
                                    std::size_t tag_bytes);
    void discard_copy(const std::byte* slot) const;
    [[nodiscard]] std::uint16_t take_segments(rte_mbuf** frames, std::uint16_t count);
    void give_back_slot();
    void make_ring();
    void unmap();

    UniqueFd socket_;
    rte_mempool* frames_;
    Counters& counters_;
    std::atomic<SegmentationOffload>& segmentation_;
    std::atomic<std::uint32_t> mtu_bytes_{0};
    std::byte* ring_ = nullptr;  // none: it only sends
    std::uint32_t next_ = 0;     // slot
    // Of the slots from next_ on, those that waiting() has looked at, and how many frames they have.
    std::uint32_t counted_slots_ = 0;
    std::uint32_t counted_frames_ = 0;
    // Segments of the frame that was cut last, those that are still to be taken.
    std::array<rte_mbuf*, wire::kMaxSegmentsReceived> segments_{};
    std::uint32_t next_segment_ = 0;
    std::uint32_t num_segments_ = 0;
    std::array<iovec, 2 + wire::kMaxSegmentsReceived> payloads_{};
    Counter cut_off_;                 // segments for which the socket had no room
    std::uint64_t cut_off_told_ = 0;  // the control thread's
    PacketBatch batch_;
};

}  // namespace urnic::dataplane
