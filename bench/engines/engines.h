// Two RC engines joined by a loop-back wire, in one thread: everything the daemon does for a message but
// rings, doorbells and DPDK. Frames are built, parsed and checked as on a real wire, or packets are no
// frames, as within a worker (docs/adr/0035). What the benchmarks that need no second thread measure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "congestion/settings.h"
#include "rnic/device/message_histograms.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/frame_parser.h"
#include "rnic/wire/local_packet.h"
#include "tests/sim/sim_host.h"
#include "tests/support/ring_memory.h"

namespace urnic::bench {

/// Page-aligned.
using Memory = RingMemory;
[[nodiscard]] inline Memory zeroed_memory(std::size_t bytes) {
    return urnic::zeroed_memory(bytes, kPageBytes);
}

enum class PacketForm { kFrames, kLocal };

/// A host with one buffer that sends into a row of frames, which the peer then receives, with no wire
/// between: what is measured is what a worker does. Completions must be successes.
class Node final : public sim::SimHost {
  public:
    static constexpr std::uint32_t kFrames = 64;
    static constexpr std::size_t kBufferBytes = 65536;

    Node(sim::SimClock& clock, std::uint32_t qp_num, const sim::SimHost::Options& options, PacketForm form);

    [[nodiscard]] std::uint32_t room() const override { return kFrames - count_; }
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;

    /// One signaled request of the whole buffer's first bytes.
    void post(WrOpcode opcode, const Node& peer, std::uint32_t length_bytes);
    /// A receive of the whole buffer.
    void post_receive();
    /// Counts and takes the completions that are there.
    [[nodiscard]] std::uint32_t poll(bool recv);

    /// Frames that wait to be received.
    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::span<const std::byte> frame(std::uint32_t index) const {
        return {frames_[index].bytes, frames_[index].length};
    }
    void clear() { count_ = 0; }
    /// Parses and checks every frame and hands it to `peer`.
    void deliver_to(Node& peer);

  private:
    struct Frame {
        wire::LocalPacket local;  // where packets are no frames; `bytes` holds payload that is copied
        std::byte bytes[wire::kMaxFrameBytes];
        std::size_t length = 0;
    };
    void transmit_local(const wire::Path& path, const wire::PacketHeader& header,
                        std::span<const MemoryPiece> pieces);
    void deliver_local_to(Node& peer);

    PacketForm form_;
    std::vector<Frame> frames_ = std::vector<Frame>(kFrames);
    std::uint32_t count_ = 0;
    wire::FrameParser parser_;  // of frames
    wire::PacketView view_;     // of packets that are none
    sim::SimRegion& buffer_;
};

/// A requester and a responder.
class Engines {
  public:
    /// The settings outlive the engines; nullptr: without congestion control. `is_measured`: with histograms
    /// of messages.
    explicit Engines(const congestion::Settings* congestion = nullptr, PacketForm form = PacketForm::kFrames,
                     bool is_measured = false);

    /// Posts `batch` requests at once (at most 64), and ends when all have completed.
    void run(WrOpcode opcode, std::uint32_t length_bytes, std::uint32_t batch);

    [[nodiscard]] Node& requester() { return requester_; }
    [[nodiscard]] Node& responder() { return responder_; }
    [[nodiscard]] sim::SimClock& clock() { return clock_; }

  private:
    sim::SimClock clock_;
    std::array<MessageHistograms, 2> histograms_;
    Node requester_, responder_;
};

}  // namespace urnic::bench
