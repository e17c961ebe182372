// An unreliable-connection QP (IBA chapter 9.8.2).
#pragma once

#include "rnic/qp/notification_point.h"
#include "rnic/qp/unreliable/uc_responder.h"
#include "rnic/qp/unreliable/unreliable_qp.h"

namespace urnic {

class UcQp : public UnreliableQp {
  public:
    explicit UcQp(const QpConfig& config);

    [[nodiscard]] QpPsns psns() const override;
    void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) override;

  private:
    void reset_responder(Psn first_psn) override;
    RecvWqe* current_recv_wqe() override { return &responder_.receive(); }

    UcResponder responder_;
    bool comm_established_ = false;
    NotificationPoint notification_point_;
};

}  // namespace urnic
