// From a record of a capture file to a frame that is traced.
#pragma once

#include <optional>

#include "cli/decode/capture_reader.h"
#include "observe/trace/packet_trace.h"

namespace urnic::cli {

/// nullopt: it is of no link that has packets of QPs. The frame is valid as long as the record.
[[nodiscard]] inline std::optional<trace::CapturedFrame> captured_frame(const decode::Record& record) {
    if (!record.link) return std::nullopt;
    return trace::CapturedFrame{*record.link,      record.bytes,
                                record.wire_bytes, record.time_ns,
                                record.interface,  record.direction == decode::Direction::kOutbound,
                                record.comment};
}

}  // namespace urnic::cli
