// The operations of the control socket: one table for each kind of object, in the file of its handlers.
//
// A handler answers 0 or an errno value, or throws std::bad_alloc, which is answered with ENOMEM; it leaves
// nothing behind when it fails. One of a request that takes long returns kUnfinished after each step.
#pragma once

#include <cstddef>
#include <span>

#include "abi/control.h"
#include "daemon/ipc/message.h"

namespace urnic::daemon {

struct ClientState;

struct Operation {
    abi::Op op;
    std::size_t length;   // of the request, exactly
    std::size_t num_fds;  // that come with it, exactly
    int (*handler)(ClientState& client, Request& message, Reply& reply);
};
using Operations = std::span<const Operation>;

/// Calls a handler with the message as the type that it takes.
template <auto Handler>
struct HandlerCall;
template <typename T, int (*Handler)(ClientState&, const T&, Reply&)>
struct HandlerCall<Handler> {
    static constexpr std::size_t kLength = sizeof(T);
    static int call(ClientState& client, Request& message, Reply& reply) {
        return Handler(client, message.as<T>(), reply);
    }
};
/// A handler that takes descriptors, too.
template <typename T, int (*Handler)(ClientState&, const T&, Request&, Reply&)>
struct HandlerCall<Handler> {
    static constexpr std::size_t kLength = sizeof(T);
    static int call(ClientState& client, Request& message, Reply& reply) {
        return Handler(client, message.as<T>(), message, reply);
    }
};

template <auto Handler>
constexpr Operation operation(abi::Op op, std::size_t num_fds = 0) {
    return {op, HandlerCall<Handler>::kLength, num_fds, HandlerCall<Handler>::call};
}

[[nodiscard]] Operations device_operations();
[[nodiscard]] Operations ah_operations();
[[nodiscard]] Operations cq_operations();
[[nodiscard]] Operations qp_operations();
[[nodiscard]] Operations mcast_operations();
[[nodiscard]] Operations mr_operations();
[[nodiscard]] Operations dm_operations();
[[nodiscard]] Operations mw_operations();
[[nodiscard]] Operations srq_operations();
[[nodiscard]] Operations xrc_operations();
[[nodiscard]] Operations import_operations();
[[nodiscard]] Operations cm_operations();

}  // namespace urnic::daemon
