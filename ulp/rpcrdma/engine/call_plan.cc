#include "ulp/rpcrdma/engine/call_plan.h"

#include <algorithm>

#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {

namespace {

constexpr std::size_t kReadSegmentOctets = 24;     // 1, position, segment
constexpr std::size_t kOneSegmentWriteChunk = 28;  // 1, count, segment
constexpr std::size_t kOneSegmentReplyChunk = 24;  // count, segment; the word in front is in every header

std::uint64_t result_octets(const CallRequest& call) {
    std::uint64_t total = 0;
    for (const std::span<std::byte>& result : call.results) {
        total += xdr_padded(result.size());
    }
    return total;
}

std::size_t chunked_items(const RpcMessage& message) {
    return static_cast<std::size_t>(std::count_if(message.items.begin(), message.items.end(),
                                                  [](const Item& item) { return !item.data.empty(); }));
}

/// The room of the Reply: sets write_chunks and reply_chunk_octets; returns octets of its lists in the Call's
/// header.
std::size_t plan_reply(const CallRequest& call, const PlanLimits& limits, CallPlan& plan) {
    const std::size_t header = least_message_header(limits.version);
    std::uint64_t reply = call.max_reply_octets + result_octets(call);
    std::size_t reply_header = header;
    std::size_t lists = 0;
    // What fits behind the header costs no chunk.
    if (reply_header + reply > limits.receive_limit && !call.results.empty() && limits.has_write_chunks) {
        plan.write_chunks = true;
        reply = call.max_reply_octets;
        lists = call.results.size() * kOneSegmentWriteChunk;
        reply_header += lists;
    }
    if (reply_header + reply > limits.receive_limit || limits.least_reply_chunk != 0) {
        plan.reply_chunk_octets = std::max(reply, limits.least_reply_chunk);
        lists += kOneSegmentReplyChunk;
    }
    return lists;
}

}  // namespace

bool RpcMessage::is_valid() const {
    if (items.size() > kMaxItems || stream.size() < 8) {
        return false;
    }
    std::size_t before = 0;
    for (const Item& item : items) {
        if (item.at < before || item.at > stream.size() || item.at % 4 != 0) {
            return false;
        }
        before = item.at;
    }
    return true;
}

CallPlan plan_call(const CallRequest& call, const PlanLimits& limits) {
    CallPlan plan;
    const std::size_t header = least_message_header(limits.version) + plan_reply(call, limits, plan);
    if (header + call.message.full_octets() <= limits.send_limit) {
        return plan;
    }
    const std::size_t chunks = limits.has_read_chunks ? chunked_items(call.message) : 0;
    plan.items_in_chunks = chunks != 0;
    const bool fits = header + chunks * kReadSegmentOctets + call.message.stream.size() <= limits.send_limit;
    plan.form = plan.items_in_chunks && fits ? CallPlan::Form::kReduced : CallPlan::Form::kPositionZero;
    return plan;
}

std::uint64_t item_position(const RpcMessage& message, std::size_t index) {
    std::uint64_t position = message.items[index].at;
    for (std::size_t i = 0; i < index; ++i) {
        position += xdr_padded(message.items[i].data.size());
    }
    return position;
}

}  // namespace urnic::rpcrdma
