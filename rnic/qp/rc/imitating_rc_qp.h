// An RC QP (or XRC) that acknowledges and keeps time as another RNIC does, where the specification leaves a
// choice (rnic/device/rnic_profile.h). It does so from outside: other QPs have no instruction of this.
#pragma once

#include "rnic/qp/rc/rc_qp.h"

namespace urnic {

class ImitatingRcQp : public RcQp {
  public:
    explicit ImitatingRcQp(const QpConfig& config, QpType type = QpType::kRc) : RcQp(config, type) {}

    void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) override;
    [[nodiscard]] TimeNs deadline() const override;
};

}  // namespace urnic
