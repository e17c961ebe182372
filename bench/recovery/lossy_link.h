// A link in virtual time with a rate, a delay, seeded loss and reordering, between two hosts of one QP each.
// Real frames, built, parsed and checked; no clock, so that a figure is the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "rnic/wire/frame.h"
#include "tests/sim/sim_host.h"

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

class LossyLink final : public sim::SimWire {
  public:
    LossyLink(const LinkSpec& spec, std::uint64_t seed);

    /// Lets both hosts handle what has come and what is due, and send.
    void run();
    /// Goes to the time when something is to happen: a frame arrives, a timer fires, the link has room again
    /// for a QP that has more to send. At least a nanosecond passes.
    void advance();

    // SimWire; two hosts
    [[nodiscard]] TimeNs now() const override { return now_; }
    void attach(sim::SimHost& host) override;
    [[nodiscard]] bool transmit(sim::SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] std::uint32_t room(const sim::SimHost& from) const override;

  private:
    struct Frame {
        std::array<std::byte, wire::kMaxFrameBytes> bytes;
        std::size_t length = 0;
        TimeNs sent_at = 0;     // its last bit left, or would have, had no frame overtaken it
        TimeNs arrives_at = 0;  // kNever: lost
    };
    /// A host and what it sends.
    struct End {
        sim::SimHost* host = nullptr;
        std::mt19937_64 random;
        TimeNs link_free_at = 0;
        bool wants_room = false;
        std::deque<std::unique_ptr<Frame>> on_link;  // in the order of sent_at
    };
    [[nodiscard]] std::size_t index_of(const sim::SimHost& host) const {
        return ends_[0].host == &host ? 0 : 1;
    }
    void deliver(End& from, sim::SimHost& to);
    [[nodiscard]] TimeNs next_event(const End& end) const;
    [[nodiscard]] std::unique_ptr<Frame> take_frame();

    LinkSpec spec_;
    TimeNs now_ = 0;
    std::array<End, 2> ends_;
    std::vector<std::unique_ptr<Frame>> free_;
};

}  // namespace urnic::recovery
