// Where a QP's effects go. The caller owns it; a QP never keeps a reference after a call returns.
#pragma once

#include <cstdint>
#include <span>

#include "abi/verbs_values.h"
#include "base/time.h"
#include "rnic/mem/address_space.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/wire/packet_view.h"
#include "rnic/wire/priority.h"

namespace urnic {

class Qp;
class SharedRecvQueue;

/// The timers of a requester, each of which sends something again when it expires.
enum class RcTimer : std::uint8_t {
    kAck,    // local ACK timeout: go back N, and a retry is used up (IBA 9.9.2.1.1)
    kRnr,    // the wait that an RNR NAK asked for is over (IBA 9.7.5.2.8)
    kProbe,  // something is overdue: what is missing alone (ProbeTimer)
};
struct TimerExpiry {
    RcTimer timer;
    std::uint8_t retries;      // used up before; of probes, which take none, those of the ACK timeout
    std::uint8_t retry_limit;  // retry_cnt or rnr_retry of modify_qp
};

class Outbox {
  public:
    virtual ~Outbox() = default;

    /// Packets that transmit() takes now. A QP never sends more; it is called again when there is room.
    [[nodiscard]] virtual std::uint32_t room() const = 0;

    /// Sends one packet; the payload is read from `pieces` before the call returns. Returns whether
    /// it was sent; not if a piece could not be read (its process has ended or unmapped it).
    [[nodiscard]] virtual bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                        std::span<const MemoryPiece> pieces) = 0;

    /// Appends a completion. Returns whether the CQ had room; if not, the QP goes to ERR and the outbox
    /// reports the overrun to the CQ's owner.
    [[nodiscard]] virtual bool complete(CompletionQueue& cq, const Completion& completion) = 0;

    /// Raises an affiliated asynchronous event.
    virtual void event(Qp& qp, AsyncEventType type) = 0;
    /// The same of an SRQ. Hosts that have no SRQs need not.
    virtual void srq_event(SharedRecvQueue& /*srq*/, AsyncEventType /*type*/) {}

    /// A timer of the QP's requester has expired; what follows from that comes afterwards. For traces.
    virtual void timer_expired(Qp& /*qp*/, const TimerExpiry& /*expiry*/) {}

    /// The wire's time when the QP's is `now`: rates are measured by it. They are the same where a QP's time
    /// never stands still.
    [[nodiscard]] virtual TimeNs clock(TimeNs now) const { return now; }

    /// Returns whether the other end of the link has paused the path's priority (IEEE 802.1Qbb). If so, the
    /// QP defers what it has for the path until Qp::end_pause(), and the outbox notes that.
    [[nodiscard]] bool defer_if_paused(const wire::Path& path) {
        if (paused_ == 0) [[likely]] {
            return false;
        }
        const bool held = (paused_ >> wire::priority_of(path) & 1U) != 0;
        has_deferred_ |= held;
        return held;
    }
    /// Bit n: priority n is paused.
    [[nodiscard]] std::uint8_t paused() const { return paused_; }
    /// defer_if_paused() was true since clear_deferred().
    [[nodiscard]] bool has_deferred() const { return has_deferred_; }

  protected:
    void set_paused(std::uint8_t priorities) { paused_ = priorities; }
    void clear_deferred() { has_deferred_ = false; }

  private:
    std::uint8_t paused_ = 0;
    bool has_deferred_ = false;
};

}  // namespace urnic
