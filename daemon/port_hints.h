// Why DPDK has no device for a port, as far as the machine tells, and the command that mends it.
#pragma once

#include <string>

#include "daemon/config/config.h"
#include "os/credentials.h"

namespace urnic::daemon {

/// For a port of kind kPci, kVdev or kMemif that could not be opened: a sentence without a full stop.
[[nodiscard]] std::string port_hint(const RnicConfig& rnic);

/// The socket of a memif server that was killed: DPDK's driver does not bind to a name that is taken. Before
/// the EAL starts. Sockets that somebody accepts connections on, and files that are none, stay.
void remove_stale_memif_socket(const RnicConfig& rnic);

/// Makes the socket of a memif server that user's, as one that he had made himself. Throws SetupError.
void give_memif_socket(const RnicConfig& rnic, const Account& owner);

}  // namespace urnic::daemon
