// What a diagnosis counts in one pass over the events of a QP.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/view/event_log.h"

namespace urnic::view {

struct ConnectionFacts {
    using Places = std::vector<std::size_t>;  // in the connection's events

    std::array<Places, kKinds> by_kind;
    std::map<std::string, Places> naks;   // for errors, by their code
    std::map<std::string, Places> drops;  // by counter
    Places sequence_naks;
    Places went_back;  // sequence NAKs behind which nearly all that was on its way went again
    Places sent_for_nak;
    Places sent_for_rnr;
    Places timeouts;
    Places errors;         // changes to ERR
    Places never_through;  // timeouts of requests that nothing ever acknowledged
    double begin_ms = 0;
    double end_ms = 0;
    double rnr_wait_ms = 0;
    std::size_t requests = 0;  // sent, without retransmissions
    std::size_t answers = 0;
    /// Bytes of payload in the largest request that was acknowledged, and in the smallest of never_through.
    double largest_through = -1;
    double smallest_stuck = -1;

    [[nodiscard]] const Places& of(Kind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
    /// Returns whether its requests are in the log; in captures of others they are a stream of their own.
    [[nodiscard]] bool has_requests() const { return requests != 0 || !of(Kind::kRetransmission).empty(); }
    [[nodiscard]] double span_ms() const { return end_ms - begin_ms; }

    ConnectionFacts(const EventLog& log, const Connection& connection);

  private:
    void on_request(const Event& event);
    void on_resend(const EventLog& log, const Event& event, std::size_t place);
    void on_answer(const EventLog& log, const Event& event, std::size_t place);
    void acknowledge(std::int64_t up_to);
    void end_of_nak();
    void end_of_events();

    struct Request {
        double bytes = 0;
        Places timeouts;
    };
    std::map<std::int64_t, Request> outstanding_;  // by psn_distance
    std::int64_t next_distance_ = 0;               // behind the last request sent
    double rnr_since_ms_ = -1;
    std::size_t nak_place_ = 0;
    std::int64_t nak_flight_ = 0;  // requests on their way when the last sequence NAK came; 0: none
    std::int64_t nak_resent_ = 0;
};

}  // namespace urnic::view
