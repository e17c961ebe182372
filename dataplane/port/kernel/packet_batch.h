// What a packet socket sends by one sendmmsg(): a message for each frame, or one for a run of frames that the
// kernel can cut apart again (UDP segmentation offload).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/wire/segmentation.h"

struct rte_mbuf;

namespace urnic::dataplane {

class PacketBatch {
  public:
    static constexpr std::uint16_t kMaxFrames = 64;

    PacketBatch() = default;
    PacketBatch(const PacketBatch&) = delete;
    PacketBatch& operator=(const PacketBatch&) = delete;

    /// Makes messages of at most kMaxFrames frames, which stay the caller's; only frames of at most
    /// `max_segment_frame_bytes` come into runs.
    void fill(std::span<rte_mbuf* const> frames, std::size_t max_segment_frame_bytes);
    [[nodiscard]] std::span<mmsghdr> messages() { return {messages_.data(), count_}; }
    /// Number of frames in the first messages.
    [[nodiscard]] std::uint16_t frames_in(std::size_t messages) const;

  private:
    static constexpr std::size_t kMaxRuns = kMaxFrames / 2;

    void add_message(std::span<rte_mbuf* const> frames);
    void add_piece(const void* data, std::size_t length);

    wire::SegmentRun run_;
    std::size_t count_ = 0;
    std::size_t num_pieces_ = 0;
    std::size_t num_runs_ = 0;
    std::array<mmsghdr, kMaxFrames> messages_{};
    std::array<std::uint16_t, kMaxFrames> frames_{};  // of each message
    // Each message begins with its header for the kernel, and a run has headers of its own.
    std::array<iovec, std::size_t{2} * kMaxFrames + kMaxRuns> pieces_{};
    struct Run {
        std::array<std::byte, wire::kVnetHeaderBytes> vnet_header;
        std::array<std::byte, wire::UdpFront::kMaxBytes> front;
    };
    std::array<Run, kMaxRuns> runs_{};
};

}  // namespace urnic::dataplane
