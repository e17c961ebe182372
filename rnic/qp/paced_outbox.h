// The outbox of a QP whose rate is limited: it has room when the pacer lets a packet go.
#pragma once

#include "rnic/qp/flow_rate.h"
#include "rnic/qp/outbox.h"

namespace urnic {

/// Lives for one call of the QP.
class PacedOutbox final : public Outbox {
  public:
    PacedOutbox(Outbox& outbox, FlowRate& rate, TimeNs now)
        : outbox_(outbox), rate_(rate), now_(now), clock_(outbox.clock(now)) {}

    [[nodiscard]] std::uint32_t room() const override { return rate_.may_send(clock_) ? outbox_.room() : 0; }
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override {
        return outbox_.complete(cq, completion);
    }
    void event(Qp& qp, AsyncEventType type) override { outbox_.event(qp, type); }
    void srq_event(SharedRecvQueue& srq, AsyncEventType type) override { outbox_.srq_event(srq, type); }
    void timer_expired(Qp& qp, const TimerExpiry& expiry) override { outbox_.timer_expired(qp, expiry); }
    [[nodiscard]] TimeNs clock(TimeNs /*now*/) const override { return clock_; }

    [[nodiscard]] bool has_sent() const { return has_sent_; }
    /// What a round of the QP answers when there is `more` to send: where the pacer keeps it back, the QP's
    /// deadline says when to continue, and it need not be called before.
    [[nodiscard]] bool finish_round(bool more);

  private:
    Outbox& outbox_;
    FlowRate& rate_;
    TimeNs now_;
    TimeNs clock_;
    bool has_sent_ = false;
};

}  // namespace urnic
