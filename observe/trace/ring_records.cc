#include "observe/trace/ring_records.h"

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

bool add_packet(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns) {
    const abi::CaptureRecord& header = record.header;
    if (static_cast<std::size_t>(header.fate) >= std::size(abi::kPacketFates) ||
        header.drop >= std::size(abi::kPacketDrops)) {
        return false;
    }
    if (header.qpn == abi::kNoQp) {
        events.add(CapturedFrame{source.link, record.bytes, header.wire_bytes, time_ns, source.device,
                                 header.is_sent != 0, ""});
        return true;
    }
    wire::Packet packet;
    wire::parse_packet(source.link, record.bytes, header.wire_bytes, packet);
    if (!packet.has_transport) return true;
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
    return true;
}

}  // namespace

bool add_record(PacketTrace& events, const RecordSource& source, const CaptureRingReader::Record& record,
                std::uint64_t time_ns) {
    const std::uint32_t qpn = record.header.qpn;
    switch (record.header.kind) {
        case abi::CaptureKind::kPacket:
            return add_packet(events, source, record, time_ns);
        case abi::CaptureKind::kCompletion: {
            const auto completion = work_of<abi::CapturedCompletion>(record);
            if (completion && record.header.state == static_cast<std::uint8_t>(QpState::kErr)) {
                events.add_error_state(source.device, qpn, time_ns);
            }
            if (completion) events.add_completion(source.device, qpn, time_ns, *completion);
            return completion.has_value();
        }
        case abi::CaptureKind::kWqe: {
            const auto wqe = work_of<abi::CapturedWqe>(record);
            if (wqe) events.add_wqe(source.device, qpn, time_ns, *wqe);
            return wqe.has_value();
        }
        case abi::CaptureKind::kRate: {
            const auto rate = work_of<abi::CapturedRate>(record);
            if (!rate || static_cast<std::size_t>(rate->cause) >= std::size(abi::kRateCauses)) return false;
            events.add_rate(source.device, qpn, time_ns, *rate);
            return true;
        }
        case abi::CaptureKind::kTimer: {
            const auto timer = work_of<abi::CapturedTimer>(record);
            if (!timer || timer->timer >= std::size(abi::kTimerNames)) return false;
            events.add_timer(source.device, qpn, time_ns, *timer);
            return true;
        }
        case abi::CaptureKind::kPause: {
            const auto pause = work_of<abi::CapturedPause>(record);
            if (pause) events.add_pause(source.device, time_ns, *pause);
            return pause.has_value();
        }
    }
    return false;
}

}  // namespace urnic::trace
