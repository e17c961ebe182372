#include "ulp/ipoib/verbs/kernel_memberships.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace urnic::ipoib {

KernelMemberships::~KernelMemberships() {
    if (socket_ >= 0) {
        ::close(socket_);
    }
}

bool KernelMemberships::request(int option, const Gid& group) const {
    ipv6_mreq request{};
    std::copy(group.begin(), group.end(), reinterpret_cast<std::byte*>(&request.ipv6mr_multiaddr));
    request.ipv6mr_interface = interface_;
    return ::setsockopt(socket_, IPPROTO_IPV6, option, &request, sizeof request) == 0;
}

bool KernelMemberships::join(const Gid& group) {
    if (interface_ == 0) {
        return true;
    }
    if (socket_ < 0) {
        socket_ = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    }
    return socket_ >= 0 && (request(IPV6_JOIN_GROUP, group) || errno == ENODEV || errno == EADDRNOTAVAIL ||
                            errno == EADDRINUSE);
}

void KernelMemberships::leave(const Gid& group) {
    if (socket_ >= 0) {
        // It fails for a group that could not be joined, which is left then.
        static_cast<void>(request(IPV6_LEAVE_GROUP, group));
    }
}

}  // namespace urnic::ipoib
