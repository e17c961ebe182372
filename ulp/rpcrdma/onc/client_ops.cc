#include "ulp/rpcrdma/onc/client_ops.h"

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "ulp/rpcrdma/onc/client_error.h"
#include "ulp/rpcrdma/onc/rdma_client.h"

namespace urnic::rpcrdma::onc {

namespace {

RdmaClient& client_of(CLIENT* handle) { return *static_cast<RdmaClient*>(handle->cl_private); }

clnt_stat ops_call(CLIENT* handle, rpcproc_t procedure, xdrproc_t encode, void* arguments, xdrproc_t decode,
                   void* results, timeval timeout) {
    try {
        return client_of(handle).call({.procedure = procedure,
                                       .encode = encode,
                                       .arguments = arguments,
                                       .decode = decode,
                                       .results = results},
                                      timeout);
    } catch (const std::bad_alloc&) {
        return RPC_SYSTEMERROR;
    }
}

void ops_abort(CLIENT* /*handle*/) {}

void ops_geterr(CLIENT* handle, rpc_err* error) { *error = client_of(handle).last_error(); }

bool_t ops_freeres(CLIENT* /*handle*/, xdrproc_t decode, void* results) {
    XDR freeing{};
    freeing.x_op = XDR_FREE;
    return decode(&freeing, results);
}

void ops_destroy(CLIENT* handle) { delete &client_of(handle); }

bool_t ops_control(CLIENT* handle, u_int request, void* info) {
    return client_of(handle).control(request, info) ? TRUE : FALSE;
}

/// Tries each address; the error is that of the last one.
rpcrdma_client* connect_one_of(const std::vector<SocketAddress>& addresses, const rpcrdma_options* options,
                               SocketAddress& connected, int& error) {
    rpcrdma_client* connection = nullptr;
    for (const SocketAddress& address : addresses) {
        error = rpcrdma_connect(address.get(), options, &connection);
        if (error == 0) {
            connected = address;
            return connection;
        }
    }
    return nullptr;
}

std::uint64_t max_message_octets(const rpcrdma_options* options) {
    rpcrdma_options defaults{};
    rpcrdma_options_init(&defaults);
    // The caller's may be of an earlier version of the header, and shorter.
    constexpr std::size_t kEnd =
        offsetof(rpcrdma_options, max_message_octets) + sizeof defaults.max_message_octets;
    return options != nullptr && options->size >= kEnd ? options->max_message_octets
                                                       : defaults.max_message_octets;
}

CLIENT* create_client(const char* host, const char* port, rpcprog_t program, rpcvers_t version,
                      const rpcrdma_options* options) {
    std::vector<SocketAddress> addresses;
    if (host == nullptr || port == nullptr || resolve(host, port, addresses) != 0) {
        set_create_error(RPC_UNKNOWNHOST, 0);
        return nullptr;
    }
    SocketAddress server;
    int error = 0;
    rpcrdma_client* const connection = connect_one_of(addresses, options, server, error);
    if (connection == nullptr) {
        set_create_error(RPC_SYSTEMERROR, error);
        return nullptr;
    }
    auto* const client =
        new (std::nothrow) RdmaClient(connection, server, program, version, max_message_octets(options));
    if (client == nullptr) {
        rpcrdma_disconnect(connection);
        set_create_error(RPC_SYSTEMERROR, ENOMEM);
        return nullptr;
    }
    return client->handle();
}

}  // namespace

ClientOps* client_ops() {
    static ClientOps ops = {ops_call, ops_abort, ops_geterr, ops_freeres, ops_destroy, ops_control};
    return &ops;
}

}  // namespace urnic::rpcrdma::onc

CLIENT* clnt_rdma_create(const char* host, const char* port, rpcprog_t program, rpcvers_t version,
                         const rpcrdma_options* options) {
    try {
        return urnic::rpcrdma::onc::create_client(host, port, program, version, options);
    } catch (const std::bad_alloc&) {
        urnic::rpcrdma::onc::set_create_error(RPC_SYSTEMERROR, ENOMEM);
        return nullptr;
    }
}

rpcrdma_client* clnt_rdma_connection(CLIENT* client) {
    using namespace urnic::rpcrdma::onc;
    return client != nullptr && client->cl_ops == client_ops()
               ? static_cast<RdmaClient*>(client->cl_private)->connection()
               : nullptr;
}
