// Two RC engines joined by a loop-back wire, in one thread: everything the daemon does for a message but
// rings, doorbells and DPDK. Frames are built, parsed and checked as on a real wire, or packets are no
// frames, as within a worker (docs/adr/0035). What the benchmarks that need no second thread measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "congestion/settings.h"
#include "rnic/device/counters.h"
#include "rnic/device/message_histograms.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/rc/rc_qp.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/local_packet.h"
#include "tests/support/ring_memory.h"

namespace urnic::bench {

/// Page-aligned.
using Memory = RingMemory;
[[nodiscard]] inline Memory zeroed_memory(std::size_t bytes) {
    return urnic::zeroed_memory(bytes, kPageBytes);
}

enum class PacketForm { kFrames, kLocal };

/// Sends into a row of frames that the peer then receives. Completions must be successes.
class LoopOutbox final : public Outbox, public FrameRetainer {
  public:
    static constexpr std::uint32_t kFrames = 64;

    explicit LoopOutbox(PacketForm form = PacketForm::kFrames) : form_(form) {}
    [[nodiscard]] std::uint32_t room() const override { return kFrames - count_; }
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp&, AsyncEventType) override {}
    // Nothing is lost here, so nothing comes early.
    [[nodiscard]] void* retain(void*, std::span<const std::byte>&) override { return nullptr; }
    void release(void*) override {}

    /// Frames that wait to be received.
    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::span<const std::byte> frame(std::uint32_t index) const {
        return {frames_[index].bytes, frames_[index].length};
    }
    void clear() { count_ = 0; }
    /// Parses and checks every frame and hands it to `qp`.
    void deliver(Qp& qp, TimeNs now, Outbox& answers);

  private:
    struct Frame {
        wire::LocalPacket local;  // where packets are no frames; `bytes` holds payload that is copied
        std::byte bytes[wire::kMaxFrameBytes];
        std::size_t length = 0;
    };
    void transmit_local(const wire::Path& path, const wire::PacketHeader& header,
                        std::span<const MemoryPiece> pieces);
    void deliver_local(Qp& qp, TimeNs now, Outbox& answers);

    PacketForm form_;
    std::vector<Frame> frames_ = std::vector<Frame>(kFrames);
    std::uint32_t count_ = 0;
    wire::PacketView view_;
};

/// One QP with its rings and one registered buffer, and what a provider does with them.
class Node {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order in which they are made
  public:
    static constexpr std::uint32_t kEntries = 128;
    static constexpr std::uint32_t kPd = 1;
    static constexpr std::size_t kBufferBytes = 65536;

    /// `congestion`: what its QP goes by; nullptr: without congestion control. `is_measured`: its QP fills
    /// histograms of its messages.
    Node(std::uint32_t qp_num, LoopOutbox& outbox, const congestion::Settings* congestion, bool is_measured);

    void connect(std::uint32_t peer_qp);
    /// One signaled request of the whole buffer's first bytes.
    void post(WrOpcode opcode, const Node& peer, std::uint32_t length_bytes);
    /// A receive of the whole buffer.
    void post_receive();
    /// Counts and takes the completions that are there.
    [[nodiscard]] std::uint32_t poll();

    [[nodiscard]] Qp& qp() { return *qp_; }
    [[nodiscard]] LoopOutbox& outbox() { return outbox_; }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(buffer_.get()); }

  private:
    LoopOutbox& outbox_;
    Memory sq_memory_, rq_memory_, cq_memory_, buffer_;
    CompletionQueue cq_;
    ReorderBufferPool reorder_buffers_;
    KeyTable keys_;
    Counters counters_;
    MessageHistograms histograms_;
    std::uint32_t key_ = 0;
    std::uint32_t posted_ = 0;
    std::uint32_t receives_ = 0;
    std::uint32_t polled_ = 0;
    std::unique_ptr<RcQp> qp_;
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

  private:
    LoopOutbox from_requester_, from_responder_;
    Node requester_, responder_;
    TimeNs now_ = 0;
};

}  // namespace urnic::bench
