#include "ulp/rpcrdma/verbs/pending_call.h"

#include <algorithm>
#include <cerrno>

#include "ulp/rpcrdma/verbs/error.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::size_t kLeastMessage = 8;  // XID and msg_type

static_assert(kMaxItems == RPCRDMA_MAX_ITEMS && kMaxWriteChunks == RPCRDMA_MAX_RESULTS);

int error_of_remote(const ErrorBody& error) {
    switch (error.code) {
        case ErrorCode::kWriteResource:
            return fail(EMSGSIZE, "result %u needs %u octets", error.first, error.second);
        case ErrorCode::kReplyResource:
            return fail(EMSGSIZE, "the Reply needs %u octets: raise max_reply_octets", error.first);
        case ErrorCode::kSegments:
            return fail(EMSGSIZE, "the server takes chunks of at most %u segments", error.first);
        case ErrorCode::kReadChunks:
            return fail(EMSGSIZE, "the server takes at most %u Read chunks", error.first);
        case ErrorCode::kWriteChunks:
            return fail(EMSGSIZE, "the server takes at most %u Write chunks", error.first);
        default:
            return fail(EPROTO, "the server answered with the transport error %u",
                        static_cast<unsigned>(error.code));
    }
}

}  // namespace

int GivenMessage::set(const rpcrdma_message& given) {
    const bool has_items = given.item_count != 0;
    if (given.stream == nullptr || given.stream_octets < kLeastMessage ||
        given.item_count > RPCRDMA_MAX_ITEMS || (has_items && given.items == nullptr)) {
        return fail(EINVAL, "a message has a stream of 8 octets or more, and at most %d items",
                    RPCRDMA_MAX_ITEMS);
    }
    for (std::uint32_t i = 0; i < given.item_count; ++i) {
        const rpcrdma_item& item = given.items[i];
        if (item.data == nullptr && item.octets != 0) return fail(EINVAL, "item %u has no data", i);
        items[i] = {item.at, {static_cast<const std::byte*>(item.data), item.octets}};
    }
    message.stream = {static_cast<const std::byte*>(given.stream), given.stream_octets};
    message.items = std::span(items).first(given.item_count);
    if (!message.is_valid()) {
        return fail(EINVAL, "items belong at words of the stream, in order");
    }
    return 0;
}

int PendingCall::set(const struct rpcrdma_call& call, std::int64_t now_ns) {
    const int message_error = given.set(call.message);
    if (message_error != 0) return message_error;
    if (call.result_count > RPCRDMA_MAX_RESULTS || (call.result_count != 0 && call.results == nullptr)) {
        return fail(EINVAL, "a call has at most %d results", RPCRDMA_MAX_RESULTS);
    }
    for (std::uint32_t i = 0; i < call.result_count; ++i) {
        if (call.results[i].iov_base == nullptr || call.results[i].iov_len == 0) {
            return fail(EINVAL, "result %u has no memory", i);
        }
        results[i] = {static_cast<std::byte*>(call.results[i].iov_base), call.results[i].iov_len};
    }
    request.message = given.message;
    for (std::size_t i = 0; i < sizeof(request.xid); ++i) {
        request.xid = request.xid << 8U | std::to_integer<std::uint32_t>(request.message.stream[i]);
    }
    request.results = std::span(results).first(call.result_count);
    request.max_reply_octets = call.max_reply_octets;
    request.deadline_ns = call.timeout_ms == 0 ? 0 : now_ns + std::int64_t{call.timeout_ms} * 1'000'000;
    request.token = reinterpret_cast<std::uint64_t>(this);
    deadline_ns = request.deadline_ns;
    return 0;
}

int error_of(const PendingCall& call) {
    switch (call.error) {
        case 0:
            break;
        case ECANCELED:
            return fail(ECANCELED, "the client was disconnected by the program");
        case ETIMEDOUT:
            return fail(ETIMEDOUT, "no Reply came in time");
        default:
            return fail(call.error, "the connection was lost, and cannot be made again");
    }
    switch (call.completion.status) {
        case CallStatus::kReplied:
            return 0;
        case CallStatus::kTimedOut:
            return fail(ETIMEDOUT, "no Reply came in time");
        case CallStatus::kDisconnected:
            return fail(ECONNRESET, "the connection was lost; the call may have been executed");
        case CallStatus::kVersionRefused:
            return fail(EPROTONOSUPPORT, "the server serves none of the versions in options.versions");
        case CallStatus::kBadReply:
            return fail(EPROTO, "the chunk lists of the Reply are not those of the Call");
        case CallStatus::kRemoteError:
            return error_of_remote(call.completion.error);
        case CallStatus::kTooLarge:
            return fail(
                EMSGSIZE,
                "the message is too large: raise options.max_message_octets, or send less calls at once");
        case CallStatus::kNoMemory:
            return fail(ENOMEM, "no memory can be registered: raise ulimit -l, or lower options.credits");
        case CallStatus::kBackwardRefused:
            return fail(EOPNOTSUPP, "the client takes no backward calls of this form");
        case CallStatus::kDuplicateXid:
            return fail(EEXIST, "a call with this XID is outstanding");
    }
    return EPROTO;
}

void fill_reply(const PendingCall& call, rpcrdma_reply& reply) {
    reply = {};
    const Completion& completion = call.completion;
    if (call.error == 0 && completion.status == CallStatus::kReplied) {
        reply.stream = completion.reply.octets.data();
        reply.stream_octets = completion.reply_octets;
        reply.held = completion.reply.octets.data();
        std::copy(completion.result_octets.begin(), completion.result_octets.end(), reply.result_octets);
    }
    if (call.error == 0 && completion.status == CallStatus::kRemoteError) {
        reply.error_code = static_cast<std::uint32_t>(completion.error.code);
        reply.error_first = completion.error.first;
        reply.error_second = completion.error.second;
    }
}

}  // namespace urnic::rpcrdma
