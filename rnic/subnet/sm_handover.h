// The built-in subnet manager gives the subnet to a program that manages one, too (IBA 14.4.1). Pure: time is
// an argument, SMPs leave by the function that each call is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/time.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::subnet {

class SmHandover {
  public:
    /// Other managers are asked for their state so often, one after the other.
    static constexpr TimeNs kPollNs = 500'000'000;
    /// Who has taken the subnet says so in PortInfo:MasterSMLID of its ports in this time; else it is ours
    /// again.
    static constexpr TimeNs kTakeoverNs = 30'000'000'000;

    using Send = std::function<void(const MadPacket&)>;

    /// `others`: LIDs of the ports that say IsSM, without ours; nobody, once the subnet is another's.
    void advance(std::span<const std::uint16_t> others, TimeNs now, const Send& send);
    /// A response that came to QP0; `own`: our SMInfo. Returns whether it was one to a request from here.
    bool take(const MadPacket& packet, const wire::mad::SmInfo& own, TimeNs now, const Send& send);
    /// Another manager has the subnet, or is about to.
    [[nodiscard]] bool has_given() const { return step_ == Step::kGiven; }
    [[nodiscard]] TimeNs next_event() const { return next_; }

  private:
    enum class Step : std::uint8_t { kAsks, kHandsOver, kGiven };

    void request(std::uint8_t method, std::uint32_t modifier, const wire::mad::SmInfo& own, const Send& send);

    Step step_ = Step::kAsks;
    TimeNs next_ = kNever;  // kNever: there are no others
    std::size_t turn_ = 0;
    std::uint16_t asked_ = 0;  // LID
    /// Of what was asked last. The upper half is 0: no agent of a program has such
    /// (daemon/subnet/mad_file.h).
    std::uint32_t transaction_id_ = 0;
    bool is_waiting_ = false;  // for its answer
};

}  // namespace urnic::subnet
