// The notification point: a packet with a CE mark is answered with a congestion notification packet (CNP) to
// the QP that sent it (IBA annex A17.9.3; Zhu et al. 2015, section 3.1).
#pragma once

#include "rnic/qp/qp_common.h"

namespace urnic {

/// One connected QP's.
class NotificationPoint {
  public:
    /// A packet that the QP accepts has a CE mark. Counts it, and sends a CNP when the packet is data and the
    /// gap since the last CNP is over. Without room in the outbox none goes: the next mark asks again.
    void on_ce_mark(TimeNs now, const QpCommon& common, const wire::PacketView& packet, Outbox& outbox);
    /// The QP sends a NAK because of this packet, before which another is missing: a CNP goes with it where
    /// the settings say so.
    void on_sequence_nak(TimeNs now, const QpCommon& common, const wire::PacketView& packet, Outbox& outbox);

  private:
    void send_cnp(TimeNs now, const QpCommon& common, const wire::PacketView& packet, Outbox& outbox);
    [[nodiscard]] bool gap_is_over(TimeNs clock, const QpCommon& common, const wire::PacketView& packet);

    TimeNs last_ns_ = kNever;  // when the QP's last CNP went
};

/// A CNP came for a connected QP: its rate falls, or the CNP counts as ignored, and as dropped where its peer
/// cannot have sent it.
void handle_cnp(TimeNs now, const QpCommon& common, const wire::PacketView& packet, Outbox& outbox);

[[nodiscard]] inline bool has_ce_mark(const wire::PacketView& packet) {
    return (packet.traffic_class & wire::kEcnMask) == wire::kEcnCe;
}

}  // namespace urnic
