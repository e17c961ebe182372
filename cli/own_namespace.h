// Namespaces of this process's own, as root or without.
#pragma once

#include <string_view>

namespace urnic::cli {

/// Whom this process is in the user namespace that it may need.
enum class UserInside { kSame, kRoot };

/// This process leaves its namespace of `kind` (CLONE_NEWNS, CLONE_NEWNET) for one of its own, where it has
/// all rights: at once, or in a user namespace. It has one thread. Throws LaunchError, which says that `what`
/// needs it, where the kernel lets it have none.
void enter_own_namespace(int kind, std::string_view what, UserInside user);

}  // namespace urnic::cli
