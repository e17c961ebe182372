// Security modules of Linux that may refuse what a process has the rights to: AppArmor and SELinux.
#pragma once

#include <string>
#include <string_view>

namespace urnic {

/// As whom a module sees this process (/proc/self/attr/current): "urnicd (enforce)" of AppArmor,
/// "system_u:system_r:container_t:s0:c1,c2" of SELinux. Empty: there is no module.
[[nodiscard]] std::string confinement_label();

/// What to do about `error`, a message, where it is of a call that was refused and the label says that a
/// module may have done that. Empty otherwise.
[[nodiscard]] std::string confinement_hint(std::string_view label, std::string_view error);

}  // namespace urnic
