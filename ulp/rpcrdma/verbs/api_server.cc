// The C interface: servers, requests, backward calls.
#include <cerrno>
#include <memory>
#include <utility>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"
#include "ulp/rpcrdma/verbs/arguments.h"
#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/pool.h"
#include "ulp/rpcrdma/verbs/request.h"
#include "ulp/rpcrdma/verbs/server.h"

struct rpcrdma_server {
    std::unique_ptr<urnic::rpcrdma::Server> server;
};

namespace urnic::rpcrdma {
namespace {

Transport& transport_of(rpcrdma_connection* connection) { return *static_cast<Transport*>(connection); }

}  // namespace

void deliver_request(std::shared_ptr<Transport> transport, const IncomingCall& call,
                     const sockaddr_storage& peer, rpcrdma_handler handler, void* context) {
    auto* const request = new rpcrdma_request{std::move(transport), call, peer};
    if (handler == nullptr) {
        rpcrdma_request_drop(request);
    } else {
        handler(context, request);
    }
}

}  // namespace urnic::rpcrdma

using urnic::rpcrdma::PendingCall;
using urnic::rpcrdma::Server;

int rpcrdma_listen(const sockaddr* address, const rpcrdma_options* options, uint32_t threads,
                   rpcrdma_handler handler, void* context, rpcrdma_server** server) {
    rpcrdma_options checked;
    sockaddr_storage where;
    int error = handler == nullptr ? urnic::rpcrdma::fail(EINVAL, "a server has to have a handler")
                                   : urnic::rpcrdma::copy_address(address, where);
    if (error == 0) error = urnic::rpcrdma::check_options(options, checked);
    std::unique_ptr<Server> made;
    if (error == 0) error = Server::listen(where, checked, threads, handler, context, made);
    if (error == 0) *server = new rpcrdma_server{std::move(made)};
    return error;
}

int rpcrdma_server_address(rpcrdma_server* server, sockaddr_storage* address) {
    server->server->address(*address);
    return 0;
}

void rpcrdma_server_stop(rpcrdma_server* server) { delete server; }

int rpcrdma_server_statistics(rpcrdma_server* server, rpcrdma_statistics* statistics) {
    rpcrdma_statistics all{};
    server->server->statistics(all);
    return urnic::rpcrdma::copy_statistics(all, statistics);
}

// --- requests

const void* rpcrdma_request_stream(const rpcrdma_request* request, size_t* octets) {
    *octets = request->call.call_octets;
    return request->call.call.octets.data();
}

uint32_t rpcrdma_request_result_count(const rpcrdma_request* request) { return request->call.write_chunks; }

uint32_t rpcrdma_request_version(const rpcrdma_request* request) { return request->call.version; }

rpcrdma_connection* rpcrdma_request_connection(const rpcrdma_request* request) {
    return request->transport.get();
}

void rpcrdma_request_peer(const rpcrdma_request* request, sockaddr_storage* address) {
    *address = request->peer;
}

int rpcrdma_reply_to(rpcrdma_request* request, const rpcrdma_message* message, rpcrdma_sent sent,
                     void* context) {
    urnic::rpcrdma::GivenMessage given;
    int error = given.set(*message);
    if (error == 0) {
        error = request->transport->reply(request->call, given.message, sent, context);
        delete request;
        return error;
    }
    rpcrdma_request_drop(request);
    if (sent != nullptr) sent(context);
    return error;
}

void rpcrdma_request_drop(rpcrdma_request* request) {
    request->transport->drop(request->call.id);
    urnic::rpcrdma::Pool::instance().free(request->call.call.octets.data());
    delete request;
}

// --- backward calls

void rpcrdma_connection_hold(rpcrdma_connection* connection) {
    urnic::rpcrdma::transport_of(connection).hold();
}

void rpcrdma_connection_release(rpcrdma_connection* connection) {
    urnic::rpcrdma::transport_of(connection).release();
}

int rpcrdma_call_back(rpcrdma_connection* connection, const struct rpcrdma_call* call, rpcrdma_reply* reply) {
    PendingCall pending;
    *reply = {};
    const int error = pending.set(*call, urnic::rpcrdma::now_ns());
    if (error != 0) return error;
    urnic::rpcrdma::transport_of(connection).call(pending);
    urnic::rpcrdma::fill_reply(pending, *reply);
    return urnic::rpcrdma::error_of(pending);
}
