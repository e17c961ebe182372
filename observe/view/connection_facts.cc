#include "observe/view/connection_facts.h"

#include <algorithm>

namespace urnic::view {

namespace {

constexpr const char* kSequenceError = "PSN sequence error";
/// Fewer on their way say nothing of whether all of them went again.
constexpr std::int64_t kLeastFlight = 4;

}  // namespace

ConnectionFacts::ConnectionFacts(const EventLog& log, const Connection& connection) {
    bool is_first = true;
    for (std::size_t place = 0; place < connection.events.size(); ++place) {
        const Event& event = connection.events[place];
        begin_ms = is_first ? event.time_ms : std::min(begin_ms, event.time_ms);
        end_ms = is_first ? event.time_ms : std::max(end_ms, event.time_ms);
        is_first = false;
        by_kind[static_cast<std::size_t>(event.kind)].push_back(place);
        switch (event.kind) {
            case Kind::kSent:
            case Kind::kRetransmission:
                on_request(event);
                break;
            case Kind::kResend:
                on_resend(log, event, place);
                break;
            case Kind::kResponse:
                answers += event.side == Side::kRequester ? 1 : 0;
                break;
            case Kind::kAck:
            case Kind::kNak:
            case Kind::kRnrNak:
                on_answer(log, event, place);
                break;
            case Kind::kDropped:
                drops[log.text_of(event)].push_back(place);
                break;
            case Kind::kState:
                if (log.text_of(event) == "ERR") errors.push_back(place);
                break;
            default:
                break;
        }
    }
    end_of_events();
}

void ConnectionFacts::on_request(const Event& event) {
    if (rnr_since_ms_ >= 0) {
        rnr_wait_ms += std::max(event.time_ms - rnr_since_ms_, 0.0);
        rnr_since_ms_ = -1;
    }
    if (event.kind == Kind::kRetransmission) return;
    ++requests;
    outstanding_[event.psn_distance].bytes = event.value;
    next_distance_ = std::max(next_distance_, event.psn_distance + 1);
}

void ConnectionFacts::on_resend(const EventLog& log, const Event& event, std::size_t place) {
    const std::string& cause = log.text_of(event);
    if (cause == "nak") {
        sent_for_nak.push_back(place);
        ++nak_resent_;
    } else if (cause == "rnr_nak") {
        sent_for_rnr.push_back(place);
    } else {
        timeouts.push_back(place);
        const auto request = outstanding_.find(event.psn_distance);
        if (request != outstanding_.end()) request->second.timeouts.push_back(place);
    }
}

void ConnectionFacts::on_answer(const EventLog& log, const Event& event, std::size_t place) {
    if (event.kind == Kind::kAck) {
        end_of_nak();
        acknowledge(event.psn_distance);
        return;
    }
    // A NAK acknowledges what is before it (IBA 9.7.5.1.1).
    acknowledge(event.psn_distance - 1);
    if (event.kind == Kind::kRnrNak) {
        if (rnr_since_ms_ < 0) rnr_since_ms_ = event.time_ms;
    } else if (log.text_of(event) == kSequenceError) {
        end_of_nak();
        sequence_naks.push_back(place);
        nak_place_ = place;
        nak_flight_ = next_distance_ - event.psn_distance;
        nak_resent_ = 0;
    } else {
        naks[log.text_of(event)].push_back(place);
    }
}

void ConnectionFacts::acknowledge(std::int64_t up_to) {
    const auto end = outstanding_.upper_bound(up_to);
    for (auto request = outstanding_.begin(); request != end; ++request) {
        largest_through = std::max(largest_through, request->second.bytes);
    }
    outstanding_.erase(outstanding_.begin(), end);
}

void ConnectionFacts::end_of_nak() {
    constexpr std::int64_t kTenths = 10;
    constexpr std::int64_t kNearlyAll = 8;
    if (nak_flight_ >= kLeastFlight && nak_resent_ * kTenths >= nak_flight_ * kNearlyAll) {
        went_back.push_back(nak_place_);
    }
    nak_flight_ = 0;
}

void ConnectionFacts::end_of_events() {
    end_of_nak();
    if (rnr_since_ms_ >= 0) rnr_wait_ms += std::max(end_ms - rnr_since_ms_, 0.0);
    for (const auto& [distance, request] : outstanding_) {
        if (request.timeouts.empty()) continue;
        never_through.insert(never_through.end(), request.timeouts.begin(), request.timeouts.end());
        smallest_stuck = smallest_stuck < 0 ? request.bytes : std::min(smallest_stuck, request.bytes);
    }
    std::sort(never_through.begin(), never_through.end());
}

}  // namespace urnic::view
