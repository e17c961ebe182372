// SMInfo of a subnet manager that decides itself who has the subnet (IBA 14.2.5.13, 14.4).
#pragma once

#include "rnic/subnet/smp.h"
#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::subnet {

/// SMInfo:SMState.
enum SmState : std::uint8_t { kSmNotActive = 0, kSmDiscovering = 1, kSmStandby = 2, kSmMaster = 3 };

/// `mad` came to QP0 of the manager's port. Returns whether it was Get or Set of SMInfo, which are responses
/// then. A Set, by which managers hand a subnet over, changes nothing and hears that its value is none for
/// this state.
[[nodiscard]] bool answer_sm_info(MadRef mad, const wire::mad::SmInfo& own);

}  // namespace urnic::subnet
