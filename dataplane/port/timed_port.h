// A port that goes by the time of the worker's QPs (AttendedTime), which stands still while the worker is
// kept from running.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dataplane/port/port.h"

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

/// Those of one worker.
class TimedPorts {
  public:
    explicit TimedPorts(std::uint32_t queue) : queue_(queue) {}

    /// False: the port is none of these. It lives longer than this.
    bool add(PacketIo* port) {
        auto* const timed = dynamic_cast<TimedPort*>(port);
        if (timed == nullptr || !timed->has_events(queue_)) {
            return false;
        }
        ports_.push_back(timed);
        return true;
    }
    void set_time(TimeNs qp_now) {
        for (TimedPort* port : ports_) {
            port->set_time(queue_, qp_now);
        }
    }
    /// When the first of them wants to be looked at.
    [[nodiscard]] TimeNs next_event() const {
        TimeNs at = kNever;
        for (const TimedPort* port : ports_) {
            at = std::min(at, port->next_event(queue_));
        }
        return at;
    }

  private:
    std::uint32_t queue_;
    std::vector<TimedPort*> ports_;
};

}  // namespace urnic::dataplane
