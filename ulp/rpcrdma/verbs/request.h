/// A Call that arrived, as the program has it.
#pragma once

#include <sys/socket.h>

#include <memory>

#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace urnic::rpcrdma {

class Transport;

/// Makes the request and gives it to the handler; without one it is dropped.
void deliver_request(std::shared_ptr<Transport> transport, const IncomingCall& call,
                     const sockaddr_storage& peer, rpcrdma_handler handler, void* context);

}  // namespace urnic::rpcrdma

struct rpcrdma_request {
    std::shared_ptr<urnic::rpcrdma::Transport> transport;
    urnic::rpcrdma::IncomingCall call;
    sockaddr_storage peer;
};
