// An RC QP (or XRC initiator) that fills histograms of its messages. It looks at what a call did to the send
// window, from outside: a QP that is not measured has no instruction of this (docs/adr/0029).
#pragma once

#include <array>
#include <cstdint>

#include "rnic/qp/limits.h"
#include "rnic/qp/rc/imitating_rc_qp.h"

namespace urnic {

class MeasuredRcQp final : public ImitatingRcQp {
  public:
    /// `config` has histograms.
    explicit MeasuredRcQp(const QpConfig& config, QpType type = QpType::kRc) : ImitatingRcQp(config, type) {}

    void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) override;
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) override;

  private:
    void count_messages(std::uint32_t index, std::uint32_t number, TimeNs time);

    std::array<TimeNs, kMaxInFlightWqes> begun_at_ns_{};  // as SendWindow keeps its WQEs
};

static_assert(sizeof(MeasuredRcQp) <= 8192);

}  // namespace urnic
