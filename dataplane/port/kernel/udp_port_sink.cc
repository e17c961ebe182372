#include "dataplane/port/kernel/udp_port_sink.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/port/kernel/classic_bpf.h"
#include "os/setup_error.h"
#include "rnic/wire/frame.h"

namespace urnic::dataplane {

namespace {

/// Empty: the family is switched off, or the port taken.
UniqueFd bound_socket(int family, bool takes_segments) {
    UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd && errno == EAFNOSUPPORT) {
        return {};
    }
    std::vector<sock_filter> filter = reject_all_filter();
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    const int yes = 1;
    sockaddr_in6 address6{};
    address6.sin6_family = AF_INET6;
    address6.sin6_port = htons(wire::kRocev2UdpPort);
    sockaddr_in address4{};
    address4.sin_family = AF_INET;
    address4.sin_port = htons(wire::kRocev2UdpPort);
    const bool is_ipv6 = family == AF_INET6;
    const auto* const address =
        is_ipv6 ? reinterpret_cast<const sockaddr*>(&address6) : reinterpret_cast<const sockaddr*>(&address4);
    const socklen_t length = is_ipv6 ? sizeof address6 : sizeof address4;
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
        (!is_ipv6 || ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) == 0) &&
        ::bind(fd.get(), address, length) == 0) {
        if (takes_segments) {
            (void)::setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &yes, sizeof yes);
        }
        return fd;
    }
    if (fd && (errno == EADDRINUSE || errno == EADDRNOTAVAIL)) {
        return {};
    }
    throw SetupError("cannot keep the kernel from answering UDP port 4791: " +
                     std::string(std::strerror(errno)));
}

}  // namespace

UdpPortSink UdpPortSink::open(bool takes_segments) {
    UdpPortSink sink;
    for (const int family : {AF_INET, AF_INET6}) {
        if (UniqueFd fd = bound_socket(family, takes_segments)) {
            sink.sockets_.push_back(std::move(fd));
        }
    }
    return sink;
}

}  // namespace urnic::dataplane
