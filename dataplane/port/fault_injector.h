// Stacks on any other port of one worker and drops, corrupts, marks, delays, duplicates or reorders frames
// according to a plan.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "dataplane/port/port.h"
#include "rnic/fault/plan.h"

namespace urnic::dataplane {

/// One worker's. While it has no plan and holds nothing, the worker uses the port below without it.
class FaultInjector final : public Port {
  public:
    /// Packets held back or copied at once, in each direction; what comes when all are taken is dropped, or
    /// not copied, and counted in its rule.
    static constexpr std::uint32_t kMaxHeld = 512;

    /// `now`: the worker's time, read for each burst.
    FaultInjector(Port& below, const TimeNs& now);
    ~FaultInjector() override;
    FaultInjector(const FaultInjector&) = delete;
    FaultInjector& operator=(const FaultInjector&) = delete;

    /// Swaps the plan in; nullptr: no faults. The caller gets the old one in `plan`. What is held stays until
    /// its time. Allocates: not on the packet path.
    void swap_plan(std::shared_ptr<const fault::Plan>& plan);
    /// Returns whether it has no plan and holds no packet.
    [[nodiscard]] bool drained() const;
    /// When the next held packet is due; 0: at once, kNever: none is held.
    [[nodiscard]] TimeNs next_event() const;

    /// Also sends what is due, so that held packets go out when the RNIC itself sends nothing.
    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    void set_multicast(std::span<const wire::Mac> groups) override { below_.set_multicast(groups); }
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override { return below_.wait_fd(queue); }
    [[nodiscard]] bool must_be_polled(std::uint32_t queue) const override {
        return below_.must_be_polled(queue);
    }

  private:
    static constexpr std::uint16_t kBurst = 32;

    struct Held {
        TimeNs due = 0;
        std::uint32_t behind = 0;  // later packets to the same QP that must go by; 0: only the time counts
        std::uint32_t dest_qp = 0;
        rte_mbuf* frame = nullptr;
    };

    /// Frames to pass on, in order. A burst is only taken while there is less than a burst in here, so that
    /// it holds at most one, another with its copies, and all that was held.
    class ReadyQueue {
      public:
        [[nodiscard]] std::uint32_t size() const { return end_ - begin_; }
        void push(rte_mbuf* frame);
        std::uint16_t pop(rte_mbuf** frames, std::uint16_t count);
        /// The oldest frames that lie side by side, for pop_front().
        [[nodiscard]] std::span<rte_mbuf*> front();
        void pop_front(std::uint32_t count) { begin_ += count; }

      private:
        static constexpr std::uint32_t kRoom = 1024;
        static_assert(kRoom >= 3 * kBurst + kMaxHeld);

        std::uint32_t begin_ = 0;  // both count on for ever
        std::uint32_t end_ = 0;
        std::array<rte_mbuf*, kRoom> frames_{};
    };

    /// One direction.
    struct Side {
        explicit Side(fault::Direction d) : direction(d) {}
        fault::Direction direction;
        std::vector<Held> held;        // by due time
        std::uint32_t reordering = 0;  // of them with `behind`
        ReadyQueue ready;
    };

    void process(Side& side, rte_mbuf* frame) const;
    static void hold(Side& side, const Held& held, fault::ActiveRule& rule);
    void copy(Side& side, const fault::Verdict& verdict, const rte_mbuf& frame) const;
    /// Passes a packet on, and behind it those that waited for it.
    static void pass(Side& side, rte_mbuf* frame, std::uint32_t dest_qp);
    void release_due(Side& side) const;
    /// Gives the port below what it takes.
    void send_ready(std::uint32_t queue);

    Port& below_;
    const TimeNs& now_;
    std::shared_ptr<const fault::Plan> plan_;
    Side tx_{fault::Direction::kTx};
    Side rx_{fault::Direction::kRx};
};

}  // namespace urnic::dataplane
