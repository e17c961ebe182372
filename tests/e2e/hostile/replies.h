// What a lying daemon makes of a reply of the real one: bytes, length, descriptors, how often it comes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "abi/control.h"
#include "os/unique_fd.h"

namespace urnic::e2e {

using Random = std::mt19937_64;

/// A number below `limit`, which is more than 0.
inline std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }

/// One datagram of the control socket.
struct Message {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;

    /// Returns whether there was one: false at the end of the connection.
    bool receive(int socket);
    bool send(int socket) const;
};

/// Changes the reply in one of many ways. Returns how often it is to be sent: 0 to 2.
int lie(Message& reply, Random& random);

/// A descriptor of a kind that nobody asked for.
UniqueFd other_kind(Random& random);

}  // namespace urnic::e2e
