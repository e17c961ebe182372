// A message of several segments on its way to one receiver, which repeats what is not acknowledged in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/time.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/subnet/rmpp.h"

namespace urnic::subnet {

class RmppTransfer {
  public:
    /// Segments are sent again when no ACK comes for so long, and so many times.
    static constexpr TimeNs kAckNs = 500'000'000;
    static constexpr std::uint32_t kAckRetries = 7;

    using Send = std::function<void(const MadPacket&)>;

    /// `first`: where the message goes, with the header of its MADs. `message`: as RmppSender takes it.
    RmppTransfer(const MadPacket& first, std::span<const std::byte> message, TimeNs now);

    /// Returns whether an ACK, STOP or ABORT is about this message: from where it goes, of the same class and
    /// transaction ID.
    [[nodiscard]] bool is_of(const MadPacket& control) const;
    /// Sends the segments that the window allows.
    void pump(const Send& send);
    /// An ACK, STOP or ABORT of this message. Returns whether the message continues.
    [[nodiscard]] bool on_control(const MadPacket& control, TimeNs now, const Send& send);
    /// Repeats what is not acknowledged, where it is time. Returns whether the message continues.
    [[nodiscard]] bool advance(TimeNs now, const Send& send);
    /// When advance() has something to do.
    [[nodiscard]] TimeNs next_event() const { return deadline_; }

  private:
    MadPacket first_;
    RmppSender sender_;
    std::uint32_t retries_left_ = kAckRetries;
    TimeNs deadline_;  // of the next ACK
};

}  // namespace urnic::subnet
