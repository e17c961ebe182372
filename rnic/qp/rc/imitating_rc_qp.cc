#include "rnic/qp/rc/imitating_rc_qp.h"

#include <algorithm>

namespace urnic {

namespace {

// The first tick that is not before `time`.
TimeNs tick_from(TimeNs time, TimeNs tick_ns) {
    return tick_ns == 0 || time > kNever - tick_ns ? time : (time + tick_ns - 1) / tick_ns * tick_ns;
}

}  // namespace

void ImitatingRcQp::handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    RcQp::handle_packet(now, packet, outbox);
    if (config_.acks_each_request) {
        send_acknowledgement(outbox);
    }
}

// Its rate has timers of its own, which no tick holds up.
TimeNs ImitatingRcQp::deadline() const {
    return std::min(tick_from(requester_deadline(), config_.timer_tick_ns), flow_.deadline());
}

}  // namespace urnic
