// The C interface of the server.
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include "ulp/rpcrdma/onc/rdma_server.h"

namespace {

using urnic::rpcrdma::onc::RdmaServer;
using urnic::rpcrdma::onc::resolve;
using urnic::rpcrdma::onc::SocketAddress;
using urnic::rpcrdma::onc::Transport;

SVCXPRT* create_transport(const char* host, const char* port, const rpcrdma_options* options) {
    std::vector<SocketAddress> addresses;
    if (port == nullptr || resolve(host, port, addresses) != 0) {
        errno = EINVAL;
        return nullptr;
    }
    int error = 0;
    for (const SocketAddress& address : addresses) {
        auto server = std::make_unique<RdmaServer>();
        error = server->listen(address, options);
        if (error == 0) {
            return server.release()->listener().handle();
        }
    }
    errno = error;
    return nullptr;
}

}  // namespace

SVCXPRT* svc_rdma_create(const char* host, const char* port, const rpcrdma_options* options) {
    try {
        return create_transport(host, port, options);
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
        return nullptr;
    }
}

int svc_rdma_run(SVCXPRT* transport, unsigned threads) {
    Transport* const self = Transport::of(transport);
    return self == nullptr ? EINVAL : self->server().run(threads);
}

void svc_rdma_exit(SVCXPRT* transport) {
    if (Transport* const self = Transport::of(transport)) {
        self->server().queue().stop_waiting();
    }
}

rpcrdma_server* svc_rdma_server(SVCXPRT* transport) {
    Transport* const self = Transport::of(transport);
    return self == nullptr ? nullptr : self->server().server();
}
