// A timer as a descriptor: readable once its time has come.
#pragma once

#include "base/time.h"
#include "os/unique_fd.h"

namespace urnic {

class TimerFd {
  public:
    /// Set to nothing. Throws std::system_error.
    TimerFd();

    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Goes off once, at that time of clock_now(); kNever: not at all.
    void set_at(TimeNs when);
    /// Goes off once, after that time; 0: not at all.
    void set_after(TimeNs delay_ns);
    /// Goes off again and again, first after that time, which is not 0.
    void set_every(TimeNs period_ns);
    /// Returns whether it has still to go off.
    [[nodiscard]] bool is_set() const;
    /// The descriptor is not readable any more until the timer goes off again.
    void acknowledge() const;

  private:
    UniqueFd fd_;
};

}  // namespace urnic
