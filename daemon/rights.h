// What the daemon keeps of the rights that it was started with, once its ports are open.
#pragma once

#include <functional>
#include <optional>

#include "base/function_ref.h"
#include "daemon/config/config.h"
#include "os/credentials.h"

namespace urnic::daemon {

/// What the configured ports need while they are served: to open an interface again that went away, and to
/// have the kernel ask for neighbours. What they need to be opened at the start is more.
/// `is_locking_unlimited`: RLIMIT_MEMLOCK does not bound the memory of an AF_XDP socket.
[[nodiscard]] CapabilitySet needed_capabilities(const Config& config, bool is_locking_unlimited);
/// Takes that limit away. Returns whether there is none then.
[[nodiscard]] bool lift_locked_memory_limit();

/// The user that the daemon is to become; nullopt: it stays who it is. Throws StartError: there is no such
/// user, or the daemon may not become another one.
[[nodiscard]] std::optional<Account> account_of(const DaemonConfig& config);

/// The threads that there are: each function runs another one on all of a kind, one after the other.
struct Threads {
    std::function<void(FunctionRef)> that_open;  // sockets of ports: the control thread among them
    std::function<void(FunctionRef)> others;
};

/// For good: the process becomes that user, the threads that open sockets keep `kept` at most of its
/// capabilities, and the others none; what they execute would get none. The log says what is left. Throws
/// SetupError.
void give_up_rights(CapabilitySet kept, const std::optional<Account>& account, const Threads& threads);

}  // namespace urnic::daemon
