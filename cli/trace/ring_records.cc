#include "cli/trace/ring_records.h"

#include <cstring>
#include <iterator>
#include <optional>

namespace urnic::trace {

namespace {

template <class Content>
std::optional<Content> work_of(const CaptureRingReader::Record& record) {
    Content content{};
    if (record.bytes.size() != sizeof content) return std::nullopt;
    std::memcpy(&content, record.bytes.data(), sizeof content);
    return content;
}

void add_packet(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns) {
    const abi::CaptureRecord& header = record.header;
    if (header.qpn == abi::kNoQp || static_cast<std::size_t>(header.fate) >= std::size(abi::kPacketFates) ||
        header.drop >= std::size(abi::kPacketDrops)) {
        return;
    }
    wire::Packet packet;
    wire::parse_packet(source.link, record.bytes, header.wire_bytes, packet);
    if (!packet.has_transport) return;
    NotedPacket noted;
    noted.time_ns = time_ns;
    noted.device = source.device;
    noted.qpn = header.qpn;
    noted.is_sent = header.is_sent != 0;
    noted.fate = {header.fate, header.drop};
    if (header.state != abi::kNoState) noted.state = QpState{header.state};
    noted.next_psn = header.next_psn;
    noted.header = packet.transport;
    noted.payload_bytes = packet.payload_bytes;
    events.add(noted);
}

}  // namespace

void add_record(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns) {
    const std::uint32_t qpn = record.header.qpn;
    if (record.header.kind == abi::CaptureKind::kCompletion) {
        if (const auto completion = work_of<abi::CapturedCompletion>(record)) {
            events.add_completion(source.device, qpn, time_ns, *completion);
        }
    } else if (record.header.kind == abi::CaptureKind::kWqe) {
        if (const auto wqe = work_of<abi::CapturedWqe>(record)) {
            events.add_wqe(source.device, qpn, time_ns, *wqe);
        }
    } else {
        add_packet(events, source, record, time_ns);
    }
}

}  // namespace urnic::trace
