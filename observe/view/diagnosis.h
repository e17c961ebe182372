// What a log of events says about a QP, in sentences, with the events that show it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "observe/view/event_log.h"

namespace urnic::view {

enum class Severity : std::uint8_t { kNote, kWarning, kError };

struct Finding {
    const char* id = "";  // "rnr_waits": the same in every version
    Severity severity = Severity::kNote;
    std::string sentence;
    /// Places in the connection's events, at most kMostEvidence; the first of them is where to look.
    std::vector<std::size_t> evidence;
    std::size_t count = 0;  // of what the evidence shows
};
inline constexpr std::size_t kMostEvidence = 200;

/// The worst first. `peer` is the other end if the log has it: it settles what one end cannot see.
[[nodiscard]] std::vector<Finding> diagnose(const EventLog& log, const Connection& connection,
                                            const Connection* peer);

}  // namespace urnic::view
