#include "tests/e2e/rpcrdma_rpcgen/connect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/file_service/service.h"

namespace urnic::e2e {

namespace {

sockaddr_in ipv4_of(const Address& address) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.port)));
    inet_pton(AF_INET, address.host.c_str(), &ipv4.sin_addr);
    return ipv4;
}

}  // namespace

void Address::set_transport(const std::string& name) {
    is_rdma = name.starts_with("rdma");
    version = name == "rdma1" ? 1 : 2;
}

rpcrdma_options options_of(const Address& address) {
    rpcrdma_options options{};
    rpcrdma_options_init(&options);
    options.versions = 1U << address.version;
    options.max_message_octets = kMostMessageOctets;
    return options;
}

void add_ddp_items() {
    const auto items = file_service::ddp_items(kLeastDdpOctets, kMostDdpOctets, true);
    if (rpcrdma_onc_ddp(items.data(), items.size()) != 0) {
        std::abort();
    }
}

namespace {

CLIENT* connect_to(const Address& address, rpcprog_t program, rpcvers_t version) {
    if (address.is_rdma) {
        const rpcrdma_options options = options_of(address);
        return clnt_rdma_create(address.host.c_str(), address.port.c_str(), program, version, &options);
    }
    sockaddr_in server = ipv4_of(address);
    int descriptor = RPC_ANYSOCK;
    return clnttcp_create(&server, program, version, &descriptor, 0, 0);
}

}  // namespace

CLIENT* make_client(const Address& address, rpcprog_t program, rpcvers_t version) {
    CLIENT* const client = connect_to(address, program, version);
    // Longer than the 25 s of rpcgen's stubs: machines may be busy.
    timeval timeout{.tv_sec = 200, .tv_usec = 0};
    if (client != nullptr) {
        clnt_control(client, CLSET_TIMEOUT, &timeout);
    }
    return client;
}

SVCXPRT* make_transport(const Address& address) {
    if (address.is_rdma) {
        const rpcrdma_options options = options_of(address);
        return svc_rdma_create(address.host.c_str(), address.port.c_str(), &options);
    }
    const sockaddr_in own = ipv4_of(address);
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(descriptor, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
        listen(descriptor, 64) != 0) {
        return nullptr;
    }
    SVCXPRT* const transport = svctcp_create(descriptor, 0, 0);
    if (transport != nullptr && transport->xp_port == static_cast<u_short>(-1)) {
        sockaddr_in bound{};
        socklen_t octets = sizeof bound;
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &octets);
        transport->xp_port = ntohs(bound.sin_port);
    }
    return transport;
}

}  // namespace urnic::e2e
