// A link in virtual time with a rate, a delay, seeded loss and reordering, and the two QPs that it joins.
// Real frames, built, parsed and checked; no clock, so that a figure is the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "rnic/device/counters.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/rc/rc_qp.h"
#include "rnic/wire/frame.h"
#include "tests/support/ring_memory.h"

namespace urnic::recovery {

struct LinkSpec {
    double gbit_per_s = 100;
    TimeNs delay_ns = 2'000;
    // Of frames, in each direction:
    double loss = 0;
    double overtaken = 0;  // by kOvertakers others
};

/// How many frames of its size go by before one that is overtaken.
inline constexpr TimeNs kOvertakers = 5;

/// Frames that a RNIC has given to its link and that are not on it yet.
inline constexpr std::uint32_t kTxQueueFrames = 64;

struct Frame {
    std::array<std::byte, wire::kMaxFrameBytes> bytes;
    std::size_t length = 0;
    TimeNs sent_at = 0;     // its last bit left, or would have, had no frame overtaken it
    TimeNs arrives_at = 0;  // kNever: lost
    bool is_held = false;
};

/// One RNIC with one QP: its memory, its rings, and what it has on its way to the peer.
class End final : public Outbox, public FrameRetainer {
  public:
    static constexpr std::uint32_t kEntries = 256;
    static constexpr std::uint32_t kPd = 1;
    static constexpr std::size_t kBufferBytes = 1U << 20U;

    End(std::uint32_t qp_num, bool holds_early_packets, const LinkSpec& link, std::uint64_t seed);
    ~End() override;
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    void connect(const End& peer, std::uint32_t mtu_bytes, std::uint8_t timeout);
    void post(WrOpcode opcode, const End& peer, std::uint32_t length_bytes);
    /// Completions since the last call.
    [[nodiscard]] std::uint32_t poll();

    /// When something is to happen here: a frame of the peer's arrives, a timer fires, the link has room
    /// again for a QP that has more to send.
    [[nodiscard]] TimeNs next_event(const End& peer) const;
    void run(TimeNs now, End& peer);

    // Outbox, FrameRetainer
    [[nodiscard]] std::uint32_t room() const override;
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp& qp, AsyncEventType type) override;
    [[nodiscard]] void* retain(std::span<const std::byte>& payload) override;
    void release(void* frame) override;

    Counters counters;

  private:
    [[nodiscard]] std::byte* slot(std::uint32_t index);
    [[nodiscard]] Frame* take_frame();
    [[nodiscard]] bool happens(double probability);
    void deliver(TimeNs now, End& peer);

    LinkSpec link_;
    std::mt19937_64 random_;
    TimeNs now_ = 0;
    TimeNs link_free_at_ = 0;
    bool wants_room_ = false;
    std::deque<Frame*> on_link_;  // in the order of sent_at
    std::vector<std::unique_ptr<Frame>> frames_;
    std::vector<Frame*> free_;
    Frame* current_ = nullptr;  // the peer's frame that is being handled

    RingMemory sq_memory_, cq_memory_, buffer_;
    CompletionQueue cq_;
    KeyTable keys_;
    std::uint32_t key_ = 0;
    std::uint32_t posted_ = 0;
    std::uint32_t polled_ = 0;
    ReorderBufferPool pool_;
    std::unique_ptr<RcQp> qp_;
};

}  // namespace urnic::recovery
