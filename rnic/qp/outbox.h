// Where a QP's effects go. The caller owns it; a QP never keeps a reference after a call returns.
#pragma once

#include <cstdint>
#include <span>

#include "abi/verbs_values.h"
#include "base/time.h"
#include "rnic/mem/memory.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/wire/packet_view.h"
#include "rnic/wire/priority.h"

namespace urnic {

class Qp;
class SharedRecvQueue;

class Outbox {
  public:
    virtual ~Outbox() = default;

    /// Packets that transmit() takes now. A QP never sends more; it is called again when there is room.
    [[nodiscard]] virtual std::uint32_t room() const = 0;

    /// Sends one packet; the payload is read from `pieces` before the call returns. False: a piece could not
    /// be read (its process is gone or unmapped it) and nothing was sent.
    [[nodiscard]] virtual bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                        std::span<const MemoryPiece> pieces) = 0;

    /// Appends a completion. False: the CQ overran; the QP goes to ERR, the CQ's owner is told by the outbox.
    [[nodiscard]] virtual bool complete(CompletionQueue& cq, const Completion& completion) = 0;

    /// Raises an affiliated asynchronous event.
    virtual void event(Qp& qp, AsyncEventType type) = 0;
    /// The same of an SRQ. Hosts that have no SRQs need not.
    virtual void srq_event(SharedRecvQueue& /*srq*/, AsyncEventType /*type*/) {}

    /// The wire's time when the QP's is `now`: rates are measured by it. They are the same where a QP's time
    /// never stands still.
    [[nodiscard]] virtual TimeNs clock(TimeNs now) const { return now; }

    /// True: the other end of the link has paused the path's priority (IEEE 802.1Qbb), and no packet goes by
    /// it now. A QP that keeps something back for that has nothing to do until Qp::end_pause().
    [[nodiscard]] bool holds(const wire::Path& path) {
        if (paused_ == 0) [[likely]] {
            return false;
        }
        const bool held = (paused_ >> wire::priority_of(path) & 1U) != 0;
        has_held_ |= held;
        return held;
    }
    /// Bit n: priority n is paused.
    [[nodiscard]] std::uint8_t paused() const { return paused_; }
    /// holds() was true since forget_held().
    [[nodiscard]] bool has_held() const { return has_held_; }

  protected:
    void set_paused(std::uint8_t priorities) { paused_ = priorities; }
    void forget_held() { has_held_ = false; }

  private:
    std::uint8_t paused_ = 0;
    bool has_held_ = false;
};

}  // namespace urnic
