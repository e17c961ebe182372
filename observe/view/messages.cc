#include "observe/view/messages.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace urnic::view {

namespace {

constexpr double kNsInMs = 1e6;
constexpr double kUsInMs = 1e3;

/// Of any time that a file may have.
std::int64_t ns_of(double time_ms) {
    constexpr double kMostNs = 9e15;  // integers below are exact in a double
    return std::llround(std::clamp(time_ms * kNsInMs, -kMostNs, kMostNs));
}

/// From the events of one QP, in their order.
class Waterfall {
  public:
    void add(const Event& event);
    [[nodiscard]] std::vector<Message> take() { return std::move(messages_); }

  private:
    void fetch(const Event& event);
    void send(const Event& event);
    void acknowledge(const Event& event);
    void complete(const Event& event);

    std::vector<Message> messages_;
    std::vector<std::int64_t> first_psns_;                       // of each, as psn_distance
    std::size_t since_reset_ = 0;                                // the first whose PSNs ascend from there on
    std::unordered_map<std::uint32_t, std::size_t> by_index_;    // of the queue; from RESET on it begins anew
    std::unordered_map<std::int64_t, std::size_t> by_begin_ns_;  // of the first packet
};

void Waterfall::add(const Event& event) {
    if (event.side != Side::kRequester) return;
    switch (event.kind) {
        case Kind::kFetched:
            fetch(event);
            break;
        case Kind::kSent:
            send(event);
            break;
        case Kind::kMessage:
            acknowledge(event);
            break;
        case Kind::kCompletion:
            complete(event);
            break;
        default:
            break;
    }
}

void Waterfall::fetch(const Event& event) {
    Message message;
    message.fetched_ms = event.time_ms;
    message.bytes = event.value;
    message.opcode = event.text;
    if (!first_psns_.empty() && event.psn_distance < first_psns_.back()) since_reset_ = messages_.size();
    by_index_[event.wqe_index] = messages_.size();
    messages_.push_back(message);
    first_psns_.push_back(event.psn_distance);
}

/// A packet belongs to the newest WQE that begins with its PSN or before it: one that sends nothing has the
/// PSN of the message behind it.
void Waterfall::send(const Event& event) {
    const auto begin = first_psns_.begin() + static_cast<std::ptrdiff_t>(since_reset_);
    const auto behind = std::upper_bound(begin, first_psns_.end(), event.psn_distance);
    if (behind == begin) return;
    const auto place = static_cast<std::size_t>(behind - first_psns_.begin()) - 1;
    Message& message = messages_[place];
    if (std::isnan(message.first_ms)) {
        message.first_ms = event.time_ms;
        by_begin_ns_[ns_of(event.time_ms)] = place;
    }
    message.last_ms = event.time_ms;
}

/// The event says how long before it the first packet went.
void Waterfall::acknowledge(const Event& event) {
    const std::int64_t begin_ns = ns_of(event.time_ms - event.value / kUsInMs);
    for (const std::int64_t rounded_ns : {begin_ns, begin_ns - 1, begin_ns + 1}) {
        const auto found = by_begin_ns_.find(rounded_ns);
        if (found == by_begin_ns_.end()) continue;
        messages_[found->second].acknowledged_ms = event.time_ms;
        by_begin_ns_.erase(found);
        return;
    }
}

void Waterfall::complete(const Event& event) {
    const auto found = by_index_.find(event.wqe_index);
    if (found == by_index_.end()) return;
    messages_[found->second].completed_ms = event.time_ms;
    messages_[found->second].status = event.text;
    by_index_.erase(found);
}

}  // namespace

Messages messages_of(const Connection& connection) {
    Messages messages;
    messages.has_wqes = std::any_of(
        connection.events.begin(), connection.events.end(),
        [](const Event& event) { return event.kind == Kind::kFetched && event.side == Side::kRequester; });
    if (messages.has_wqes) {
        Waterfall waterfall;
        for (const Event& event : connection.events) waterfall.add(event);
        messages.all = waterfall.take();
        return messages;
    }
    for (const Event& event : connection.events) {
        if (event.kind != Kind::kMessage) continue;
        Message message;
        message.first_ms = event.time_ms - event.value / kUsInMs;
        message.acknowledged_ms = event.time_ms;
        message.opcode = event.text;
        messages.all.push_back(message);
    }
    return messages;
}

}  // namespace urnic::view
