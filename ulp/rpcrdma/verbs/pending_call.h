/// A Call of the program's from its start to its end.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/engine/rpc_message.h"
#include "ulp/rpcrdma/include/urnic/rpcrdma.h"
#include "ulp/rpcrdma/verbs/waiter.h"

namespace urnic::rpcrdma {

/// An RpcMessage of the C structure, with its items.
struct GivenMessage {
    /// EINVAL: items beyond the stream, out of order, or too many.
    [[nodiscard]] int set(const rpcrdma_message& message);
    RpcMessage message;
    std::array<Item, kMaxItems> items;
};

struct PendingCall : Waiter {
    /// EINVAL, with the text of last_error().
    [[nodiscard]] int set(const struct rpcrdma_call& call, std::int64_t now_ns);
    [[nodiscard]] bool is_synchronous() const { return done == nullptr; }

    CallRequest request;
    GivenMessage given;
    std::array<std::span<std::byte>, kMaxWriteChunks> results;
    Completion completion;
    /// Not 0: an errno value in place of the completion's.
    int error = 0;
    /// Of a call without a waiting caller.
    rpcrdma_done done = nullptr;
    void* context = nullptr;
};

/// How a call ended, as an errno value with the text of last_error(); 0: with a Reply.
[[nodiscard]] int error_of(const PendingCall& call);
/// Fills the C structure; its memory is released by rpcrdma_reply_release().
void fill_reply(const PendingCall& call, rpcrdma_reply& reply);

}  // namespace urnic::rpcrdma
