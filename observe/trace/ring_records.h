// From records of a live capture (abi/capture.h) to the events of QPs, without a capture file between them.
#pragma once

#include <cstdint>
#include <string>

#include "observe/trace/packet_trace.h"
#include "rnic/device/capture_ring_reader.h"
#include "rnic/wire/dissect/packet.h"

namespace urnic::trace {

/// The RNIC whose records they are.
struct RecordSource {
    std::string device;
    wire::LinkLayer link = wire::LinkLayer::kEthernet;
};

/// Any record of abi::CaptureKind; of a packet of no QP here that it passed. `time_ns`: of
/// the record, in the time of the trace. false: it makes no sense, and is left out.
bool add_record(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns);

}  // namespace urnic::trace
