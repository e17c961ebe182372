// Who is at the other end of a connection, as the kernel says.
#pragma once

#include <sys/types.h>

#include "os/unique_fd.h"

namespace urnic::daemon {

struct Peer {
    pid_t pid = 0;
    uid_t uid = 0;
    UniqueFd pidfd;
};

}  // namespace urnic::daemon
