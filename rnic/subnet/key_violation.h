// A packet that a port has dropped for its P_Key or Q_Key, for a trap of the port (IBA 14.2.5.1).
#pragma once

#include <cstdint>

#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/packet_view.h"

namespace urnic::subnet {

struct KeyViolation {
    std::uint16_t trap_number = 0;  // kBadPkeyTrap, kBadQkeyTrap or kSwitchBadPkeyTrap
    wire::mad::NoticeKeys details;
    std::uint8_t switch_port = 0;  // of kSwitchBadPkeyTrap: where it was dropped
};

/// What such a packet says of itself.
[[nodiscard]] KeyViolation key_violation_of(std::uint16_t trap_number, const wire::PacketView& packet);

}  // namespace urnic::subnet
