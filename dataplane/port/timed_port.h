// A port that uses protocol time (StallFreeClock), which stands still while the worker is kept from running.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dataplane/port/port.h"

namespace urnic::dataplane {

class TimedPort : public Port {
  public:
    /// Returns whether it uses protocol time on `queue`; if not, the functions below are not called for it.
    [[nodiscard]] virtual bool has_events(std::uint32_t queue) const = 0;
    /// Called at the beginning of each of the worker's rounds.
    virtual void set_time(std::uint32_t queue, TimeNs protocol_now) = 0;
    /// When rx_burst(queue) must be called at the latest; kNever if no time is due.
    [[nodiscard]] virtual TimeNs next_event(std::uint32_t queue) const = 0;
};

/// Those of one worker.
class TimedPorts {
  public:
    explicit TimedPorts(std::uint32_t queue) : queue_(queue) {}

    /// Returns whether the port uses protocol time. It lives longer than this.
    bool add(Port* port) {
        auto* const timed = dynamic_cast<TimedPort*>(port);
        if (timed == nullptr || !timed->has_events(queue_)) {
            return false;
        }
        ports_.push_back(timed);
        return true;
    }
    void set_time(TimeNs protocol_now) {
        for (TimedPort* port : ports_) {
            port->set_time(queue_, protocol_now);
        }
    }
    /// The earliest of their next_event().
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
