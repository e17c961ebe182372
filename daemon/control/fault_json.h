// Faults as JSON: events as RNIC testers write them, and the list of those in force.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_writer.h"
#include "rnic/fault/plan.h"
#include "rnic/fault/rule.h"

namespace urnic::daemon {

/// Why a text is no list of events, ready to be shown: "FILE:LINE:COLUMN: what" or "FILE: event 2: what; what
/// is allowed".
struct FaultError {
    std::string message;
};

/// A list of events ([{"qpn": 17, "psn": 4, "type": "drop", "iter": 1}, ...]), an object with such a list as
/// "data-pkt-events", or one such object below "traffic". `source` is only used in messages.
[[nodiscard]] std::variant<std::vector<fault::Rule>, FaultError> parse_faults(std::string_view text,
                                                                              const std::string& source);
[[nodiscard]] std::variant<std::vector<fault::Rule>, FaultError> read_faults(const std::string& file);

/// {"faults": [{"id": 1, "type": "drop", ..., "seen": 10, "hits": 1, "missed": 0}, ...]}: what was set, with
/// the names it is set by, and the counts.
[[nodiscard]] std::string faults_json(const std::vector<std::shared_ptr<fault::ActiveRule>>& rules);
/// Writes the member "faults" of it.
void write_faults(JsonWriter& json, const std::vector<std::shared_ptr<fault::ActiveRule>>& rules);

}  // namespace urnic::daemon
