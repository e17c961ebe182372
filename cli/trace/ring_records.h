// From records of a live capture (abi/capture.h) to the events of QPs, without a capture file between them.
#pragma once

#include <cstdint>
#include <string>

#include "cli/trace/packet_trace.h"
#include "rnic/device/capture_ring_reader.h"
#include "rnic/wire/dissect/packet.h"

namespace urnic::trace {

/// The RNIC whose records they are.
struct RecordSource {
    std::string device;
    wire::LinkLayer link = wire::LinkLayer::kEthernet;
};

/// What became of a packet of a QP, a WQE or a completion. A packet of no QP's is left out, and so is what
/// makes no sense. `time_ns`: of the record, in the time of the trace.
void add_record(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns);

}  // namespace urnic::trace
