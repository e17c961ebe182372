// What simulated hosts are joined to.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/time.h"
#include "rnic/wire/frame.h"

namespace urnic::sim {

class SimHost;

/// Has the time, and takes what hosts send; hands them what comes (SimHost::deliver) and lets them work
/// (SimHost::progress). A network, or the RNIC that has the hosts' QPs.
class SimWire {
  public:
    virtual ~SimWire() = default;

    [[nodiscard]] virtual TimeNs now() const = 0;
    virtual void add(SimHost& /*host*/) {}
    /// As Outbox::transmit().
    [[nodiscard]] virtual bool transmit(SimHost& from, const wire::Path& path,
                                        const wire::PacketHeader& header,
                                        std::span<const MemoryPiece> pieces) = 0;
    /// As Outbox::timer_expired().
    virtual void timer_expired(SimHost& /*host*/, const TimerExpiry& /*expiry*/) {}
    /// Packets that `from` may give it now.
    [[nodiscard]] virtual std::uint32_t room(const SimHost& /*from*/) const {
        return std::numeric_limits<std::uint32_t>::max();
    }
};

/// The time alone, for hosts that send nothing or override SimHost::transmit().
class SimClock final : public SimWire {
  public:
    [[nodiscard]] TimeNs now() const override { return time; }
    [[nodiscard]] bool transmit(SimHost& /*from*/, const wire::Path& /*path*/,
                                const wire::PacketHeader& /*header*/,
                                std::span<const MemoryPiece> /*pieces*/) override {
        return false;
    }

    TimeNs time = 0;
};

}  // namespace urnic::sim
