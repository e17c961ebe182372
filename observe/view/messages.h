// The messages of a QP as a waterfall: when the worker took up each WQE, when its packets went, when it was
// acknowledged and when it completed.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "observe/view/event_log.h"

namespace urnic::view {

inline constexpr double kUnseen = std::numeric_limits<double>::quiet_NaN();

/// Times are in milliseconds since the trace's reference, or kUnseen.
struct Message {
    double fetched_ms = kUnseen;  // its WQE was taken up
    double first_ms = kUnseen;    // its first packet went
    double last_ms = kUnseen;     // the last one, those that went again aside
    double acknowledged_ms = kUnseen;
    double completed_ms = kUnseen;
    double bytes = 0;
    std::uint32_t opcode = 0;  // in EventLog::texts()
    std::uint32_t status = 0;  // of its completion, there
};

struct Messages {
    /// Traces of older releases and captures have no WQEs: a message begins with its first packet, and the
    /// acknowledgement is all that is known of its end.
    bool has_wqes = false;
    std::vector<Message> all;  // in the order of the send queue
};

[[nodiscard]] Messages messages_of(const Connection& connection);

}  // namespace urnic::view
