#include "ulp/rpcrdma/onc/rdma_server.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace urnic::rpcrdma::onc {

namespace {

void take_call(void* context, rpcrdma_request* request) { static_cast<CallQueue*>(context)->push(request); }

}  // namespace

int RdmaServer::listen(const SocketAddress& address, const rpcrdma_options* options) {
    const int error = listener_.create(network_id(address.storage));
    if (error != 0) {
        return error;
    }
    queue_.set_descriptors(listener_.read_end(), listener_.write_end());
    // One thread is enough to put Calls into the queue.
    const int failed = rpcrdma_listen(address.get(), options, 1, take_call, &queue_, &server_);
    return failed != 0 ? failed : note_address();
}

int RdmaServer::note_address() {
    sockaddr_storage address{};
    const int error = rpcrdma_server_address(server_, &address);
    if (error != 0) {
        return error;
    }
    SVCXPRT* const handle = listener_.handle();
    handle->xp_port = port_of(address);
    const socklen_t octets = address_octets(address);
    if (handle->xp_ltaddr.buf != nullptr && handle->xp_ltaddr.maxlen >= octets) {
        std::memcpy(handle->xp_ltaddr.buf, &address, octets);
        handle->xp_ltaddr.len = octets;
    }
    return 0;
}

RdmaServer::~RdmaServer() {
    // Requests end before the server does.
    queue_.close();
    listener_.end_call();
    replies_.clear();
    if (server_ != nullptr) {
        rpcrdma_server_stop(server_);
    }
}

void RdmaServer::serve_calls() {
    Transport transport(*this);
    if (transport.create(listener_.handle()->xp_netid) != 0) {
        return;
    }
    // libtirpc polls it in svc_run(), where nothing ever comes.
    while (rpcrdma_request* const request = queue_.wait()) {
        transport.serve(request);
    }
}

int RdmaServer::run(unsigned threads) {
    if (threads == 0) {
        return EINVAL;
    }
    if (!queue_.begin_waiting()) {
        return EBUSY;
    }
    int error = 0;
    std::vector<std::thread> others;
    try {
        others.reserve(threads - 1);
        while (others.size() < threads - 1) {
            others.emplace_back([this] { serve_calls(); });
        }
    } catch (const std::system_error& failed) {
        error = failed.code().value();
        queue_.stop_waiting();
    }
    serve_calls();
    for (std::thread& other : others) {
        other.join();
    }
    queue_.end_waiting();
    return error;
}

}  // namespace urnic::rpcrdma::onc
