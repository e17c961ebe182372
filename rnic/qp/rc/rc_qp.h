// A reliable-connection QP (IBA chapter 9.7): requester, completer and responder side by side, and the QP's
// states. An XRC initiator is one whose responder has nothing to do, an XRC target (IBA annex A14) one whose
// requester has nothing to do.
#pragma once

#include "rnic/qp/notification_point.h"
#include "rnic/qp/qp.h"
#include "rnic/qp/rc/rc_common.h"
#include "rnic/qp/rc/rc_completer.h"
#include "rnic/qp/rc/rc_requester.h"
#include "rnic/qp/rc/rc_responder.h"
#include "rnic/qp/rc/rc_send_state.h"

namespace urnic {

class RcQp : public Qp {
  public:
    /// `type`: kRc, kXrcSend or kXrcRecv.
    explicit RcQp(const QpConfig& config, QpType type = QpType::kRc);

    [[nodiscard]] int modify(TimeNs now, const abi::QpAttr& attr, const wire::Path& path,
                             Outbox& outbox) override;
    void query(abi::QpAttr& attr) const override;
    [[nodiscard]] QpPsns psns() const override;
    void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) override;
    void handle_timeout(TimeNs now, Outbox& outbox) override;
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) override;
    [[nodiscard]] TimeNs deadline() const override;
    [[nodiscard]] bool has_unsent() const override {
        return is_requester_active(common_.state) && requester_.has_unsent();
    }
    [[nodiscard]] std::uint32_t sends_taken() const override { return send_state_.window.tail_index(); }
    [[nodiscard]] Psn first_psn_of(std::uint32_t index) const override {
        return send_state_.window.at(index).first_psn;
    }
    void end_pause(TimeNs now) override { send_state_.restart_timers(now); }
    void leave_worker() override { clear_reorder_buffers(); }
    void forget_srq(const SharedRecvQueue& srq) override { responder_.forget_srq(srq); }
    [[nodiscard]] const wire::Path& path() const override { return common_.path; }
    [[nodiscard]] QpState state() const override { return common_.state; }

  protected:
    [[nodiscard]] const SendWindow& send_window() const { return send_state_.window; }
    /// When a timer of the requester expires; kNever: it waits for nothing.
    [[nodiscard]] TimeNs requester_deadline() const {
        return is_requester_active(common_.state) ? send_state_.deadline() : kNever;
    }
    /// Sends an acknowledgement or NAK that waits for progress() and has no response before it.
    void send_acknowledgement(Outbox& outbox);

  private:
    void enter_state(QpState next, TimeNs now, Outbox& outbox);
    void reset();
    void clear_reorder_buffers();
    [[nodiscard]] bool is_acceptable(const wire::PacketView& packet, const wire::OpcodeInfo& info) const;
    [[nodiscard]] bool progress_paced(TimeNs now, std::uint32_t max_packets, Outbox& outbox);
    [[nodiscard]] bool flush(Outbox& outbox);
    void after_call(Outbox& outbox);
    void report_drained(Outbox& outbox);

    RcCommon common_;
    RcSendState send_state_;
    RcRequester requester_;
    RcCompleter completer_;
    NotificationPoint notification_point_;
    RcResponder responder_;
    bool comm_established_ = false;
    bool drain_reported_ = false;
    bool requests_first_ = false;  // while paced: requests and responses take turns
};

// The daemon keeps 4,096 QPs and more; 8 KB each is the budget, with room for the worker's own bookkeeping.
static_assert(sizeof(RcQp) <= 7168);

}  // namespace urnic
