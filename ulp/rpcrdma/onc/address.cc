#include "ulp/rpcrdma/onc/address.h"

#include <netinet/in.h>

#include <cstring>
#include <memory>

namespace urnic::rpcrdma::onc {

int resolve(const char* host, const char* port, std::vector<SocketAddress>& out) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
    // IPv6's wildcard takes connections over IPv4 as well, but needs IPv6.
    hints.ai_family = host == nullptr ? AF_INET : AF_UNSPEC;
    addrinfo* list = nullptr;
    const int error = getaddrinfo(host, port, &hints, &list);
    if (error != 0) {
        return error;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
        SocketAddress address;
        if (entry->ai_addrlen <= sizeof address.storage) {
            std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
            address.octets = entry->ai_addrlen;
            out.push_back(address);
        }
    }
    return out.empty() ? EAI_NONAME : 0;
}

socklen_t address_octets(const sockaddr_storage& address) {
    return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

const char* network_id(const sockaddr_storage& address) {
    return address.ss_family == AF_INET6 ? "rdma6" : "rdma";
}

unsigned short port_of(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET6) {
        return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
    }
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace urnic::rpcrdma::onc
