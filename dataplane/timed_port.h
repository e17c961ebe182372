// A port that goes by the time of the worker's QPs (AttendedTime), which stands still while the worker is
// kept from running.
#pragma once

#include "dataplane/packet_io.h"
#include "rnic/base/time.h"

namespace urnic::dataplane {

class TimedPort : public PacketIo {
  public:
    /// False: on `queue` it is a port like others, and the rest is not for its worker.
    [[nodiscard]] virtual bool has_events(std::uint32_t queue) const = 0;
    /// It is now `qp_now`; said at the beginning of each of the worker's rounds.
    virtual void set_time(std::uint32_t queue, TimeNs qp_now) = 0;
    /// When rx_burst(queue) is to be called at the latest, whatever comes; kNever: not by itself.
    [[nodiscard]] virtual TimeNs next_event(std::uint32_t queue) const = 0;
};

}  // namespace urnic::dataplane
