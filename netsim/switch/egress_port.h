// The sending side of one switch port: a queue for each priority, the choice of the next packet, and what the
// neighbour has paused.
#pragma once

#include <array>
#include <cstdint>

#include "base/fraction.h"
#include "netsim/switch/switched_packet.h"

namespace urnic::netsim {

/// A pause quantum (IEEE 802.3 annex 31B).
inline constexpr std::uint64_t kQuantumBits = 512;

class EgressPort {
  public:
    struct Options {
        BitsPerSecond rate = 0;  // not 0
        /// Shares of the priorities that are served in turns, in what strict ones leave; 0: strict, the
        /// highest number first.
        std::array<std::uint32_t, kPriorities> weights{};
    };

    explicit EgressPort(const Options& options);

    void push(SwitchedPacket& packet);
    /// Takes the packet that goes next at `now`; nullptr: none may.
    [[nodiscard]] SwitchedPacket* pop(TimeNs now);
    /// Takes the oldest packet of a priority, paused or not; nullptr: there is none.
    [[nodiscard]] SwitchedPacket* take(std::uint8_t priority);

    /// A packet of that size is on the wire from `now` until the time that is returned.
    TimeNs send(TimeNs now, std::uint32_t bytes);
    [[nodiscard]] bool busy(TimeNs now) const { return now < busy_until_; }

    /// A pause frame came for the priority; 0 quanta end the pause. A packet that is being sent continues.
    void pause(TimeNs now, std::uint8_t priority, std::uint16_t quanta);
    void resume(std::uint8_t priority) {
        queues_[priority].paused_until = queues_[priority].paused_since = 0;
    }
    [[nodiscard]] bool is_paused(TimeNs now, std::uint8_t priority) const {
        return now < queues_[priority].paused_until;
    }
    /// When packets of the priority will have been kept back by a pause without a break for that long;
    /// kNever: they will not, as things are.
    [[nodiscard]] TimeNs paused_for(std::uint8_t priority, TimeNs duration) const;

    [[nodiscard]] std::uint64_t bytes(std::uint8_t priority) const { return queues_[priority].bytes; }
    /// When a packet that waits can go, as things are; kNever: none waits.
    [[nodiscard]] TimeNs deadline() const;
    [[nodiscard]] TimeNs duration_of(std::uint64_t bits) const;

  private:
    struct Queue {
        SwitchedPacket* head = nullptr;
        SwitchedPacket* tail = nullptr;
        std::uint64_t bytes = 0;
        TimeNs paused_until = 0;
        TimeNs paused_since = 0;
        std::int64_t credit = 0;  // bytes that it may send in its turn
    };
    [[nodiscard]] bool ready(TimeNs now, std::uint32_t priority) const {
        return queues_[priority].head != nullptr && queues_[priority].paused_until <= now;
    }
    [[nodiscard]] bool strict(std::uint32_t priority) const { return options_.weights[priority] == 0; }
    [[nodiscard]] SwitchedPacket* pop_weighted(TimeNs now);

    Options options_;
    std::array<Queue, kPriorities> queues_{};
    std::uint32_t turn_ = 0;
    TimeNs busy_until_ = 0;
    std::uint32_t part_ps_ = 0;  // of a nanosecond, that busy_until_ leaves out
};

}  // namespace urnic::netsim
