#include "dataplane/worker/capture_writer.h"

#include <algorithm>
#include <cstring>

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kRecordAlignment = 8;

bool is_chosen(const PacketCapture& capture, const CaptureWriter::Packet& packet) {
    if ((capture.rnics >> packet.rnic & 1U) == 0) {
        return false;
    }
    if ((capture.filters & abi::kFilterOwnQp) != 0 && capture.qpn != packet.qpn) {
        return false;
    }
    if ((capture.filters & ~std::uint32_t{abi::kFilterOwnQp}) == 0) {
        return true;
    }
    if (packet.header == nullptr || packet.peer == nullptr) {
        return false;
    }
    const bool is_qp = capture.qpn == packet.qpn || capture.qpn == packet.header->dest_qp;
    return ((capture.filters & abi::kFilterQpn) == 0 || is_qp) &&
           ((capture.filters & abi::kFilterOpcode) == 0 || capture.opcode == packet.header->opcode) &&
           ((capture.filters & abi::kFilterPeer) == 0 || wire::same_gid(capture.peer, *packet.peer));
}

}  // namespace

void CaptureWriter::use(const PacketCaptures& captures) {
    // One that goes on may have another place.
    const auto lost_before = lost_;
    for (std::size_t i = 0; i < kMaxCaptures; ++i) {
        const auto found = std::find(captures_.begin(), captures_.end(), captures[i]);
        lost_[i] = captures[i] != nullptr && found != captures_.end()
                       ? lost_before[static_cast<std::size_t>(found - captures_.begin())]
                       : decltype(lost_)::value_type{};
    }
    captures_ = captures;
    rnics_ = 0;
    traced_rnics_ = 0;
    for (const PacketCapture* capture : captures_) {
        if (capture != nullptr) {
            rnics_ |= capture->rnics;
            traced_rnics_ |= capture->has_completions ? capture->rnics : 0;
        }
    }
}

void CaptureWriter::publish() {
    for (PacketCapture* capture : captures_) {
        if (capture != nullptr) {
            capture->rings[ring_].publish();
        }
    }
}

CaptureWriter::Records CaptureWriter::write(const Packet& packet, TimeNs time, bool is_sent, Fate fate) {
    abi::CaptureRecord header{};
    header.rnic = static_cast<std::uint16_t>(packet.rnic);
    header.fate = fate.fate;
    header.drop = fate.drop;
    header.time_ns = time;
    header.wire_bytes = packet.wire_bytes;
    header.qpn = packet.qpn;
    header.is_sent = is_sent ? 1 : 0;
    header.state = abi::kNoState;
    if (packet.qp != nullptr) {
        abi::QpAttr attr{};
        packet.qp->query(attr);
        header.state = static_cast<std::uint8_t>(packet.qp->state());
        header.expected_psn = attr.rq_psn;
        header.next_psn = attr.sq_psn;
    }
    Records records{};
    for (std::size_t i = 0; i < kMaxCaptures; ++i) {
        const PacketCapture* const capture = captures_[i];
        if (capture == nullptr || !is_chosen(*capture, packet)) {
            continue;
        }
        records[i] = append(
            i, header, packet.bytes.first(std::min<std::size_t>(packet.bytes.size(), capture->snap_bytes)));
    }
    return records;
}

void CaptureWriter::write_event(abi::CaptureKind kind, const EventOf& of, std::span<const std::byte> bytes) {
    abi::CaptureRecord header{};
    header.rnic = static_cast<std::uint16_t>(of.rnic);
    header.time_ns = of.time;
    header.qpn = of.qpn;
    header.state = of.state;
    header.kind = kind;
    for (std::size_t i = 0; i < kMaxCaptures; ++i) {
        const PacketCapture* const capture = captures_[i];
        if (capture == nullptr || !capture->has_completions || (capture->rnics >> of.rnic & 1U) == 0) {
            continue;
        }
        if ((capture->filters & abi::kFilterOwnQp) == 0 || capture->qpn == of.qpn) {
            (void)append(i, header, bytes);
        }
    }
}

abi::CaptureRecord* CaptureWriter::append(std::size_t index, abi::CaptureRecord& header,
                                          std::span<const std::byte> bytes) {
    CaptureRingWriter& ring = captures_[index]->rings[ring_];
    if (!ring.has_memory()) {
        return nullptr;
    }
    header.captured = static_cast<std::uint32_t>(bytes.size());
    header.bytes = (static_cast<std::uint32_t>(sizeof header) + header.captured + kRecordAlignment - 1) &
                   ~(kRecordAlignment - 1);
    std::uint32_t& lost = lost_[index][header.rnic];
    header.lost_before = lost;
    std::byte* const room = ring.reserve(header.bytes);
    ring.count(header.rnic, room == nullptr);
    if (room == nullptr) {
        ++lost;
        return nullptr;
    }
    lost = 0;
    std::memcpy(room, &header, sizeof header);
    std::memcpy(room + sizeof header, bytes.data(), bytes.size());
    return reinterpret_cast<abi::CaptureRecord*>(room);
}

}  // namespace urnic::dataplane
