// When a worker asks the other end of a port's link to stop: too many frames wait for it there.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "rnic/device/pfc.h"

namespace urnic {

/// One worker's, for one port. The link's other end knows the port alone: it continues when no worker has too
/// much. Two workers that change their minds at the same moment may send in the wrong order; then the pause
/// is renewed, or runs out.
class PfcSender {
  public:
    static constexpr std::uint16_t kQuanta = 0xffff;

    enum class Wanted : std::uint8_t { kNothing, kPause, kResume };

    /// Both live longer. `askers`: bit w is set while worker w wants a pause, the port's.
    PfcSender(const PfcSettings& settings, std::atomic<std::uint32_t>& askers, std::uint32_t worker)
        : settings_(settings), askers_(askers), worker_bit_(1U << worker) {}

    /// So many frames wait now. What is wanted stays so until sent(), or until it has changed.
    [[nodiscard]] Wanted look(TimeNs now, std::uint32_t waiting_frames) {
        if (!is_pausing_ && waiting_frames > settings_.xoff_frames) {
            is_pausing_ = true;
            askers_.fetch_or(worker_bit_, std::memory_order_relaxed);
            wanted_ = Wanted::kPause;
        } else if (is_pausing_ && waiting_frames <= settings_.xon_frames) {
            is_pausing_ = false;
            const std::uint32_t before = askers_.fetch_and(~worker_bit_, std::memory_order_relaxed);
            wanted_ = before == worker_bit_ ? Wanted::kResume : Wanted::kNothing;
        } else if (is_pausing_ && now >= renew_at_) {
            wanted_ = Wanted::kPause;
        }
        return wanted_;
    }
    /// The frame is on its way. A pause runs out by itself: it is renewed when half of it is over.
    void sent(TimeNs now) {
        renew_at_ = now + settings_.duration_ns(kQuanta) / 2;
        wanted_ = Wanted::kNothing;
    }

  private:
    const PfcSettings& settings_;
    std::atomic<std::uint32_t>& askers_;
    std::uint32_t worker_bit_;
    bool is_pausing_ = false;
    Wanted wanted_ = Wanted::kNothing;
    TimeNs renew_at_ = 0;
};

}  // namespace urnic
