// A packet that a port has dropped for its P_Key or Q_Key, for a trap of the port (IBA 14.2.5.1).
#pragma once

#include <cstdint>

#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::subnet {

struct KeyViolation {
    std::uint16_t trap_number = 0;  // kBadPkeyTrap or kBadQkeyTrap
    wire::mad::NoticeKeys details;
};

}  // namespace urnic::subnet
