#include "dataplane/worker/capture_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kRecordAlignment = 8;
constexpr std::size_t kHeaderBytes = 128;  // --snaplen 128, and of each trace

/// Headers are copied in line: a call of memcpy() with a length that is not known takes as long again.
void copy_bytes(std::byte* to, std::span<const std::byte> from) {
    if (from.size() != kHeaderBytes) {
        std::memcpy(to, from.data(), from.size());
        return;
    }
    std::memcpy(to, from.data(), kHeaderBytes);
}

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
    if (packet.header == nullptr) {
        return false;
    }
    const bool is_qp = capture.qpn == packet.qpn || capture.qpn == packet.header->dest_qp;
    return ((capture.filters & abi::kFilterQpn) == 0 || is_qp) &&
           ((capture.filters & abi::kFilterOpcode) == 0 || capture.opcode == packet.header->opcode) &&
           ((capture.filters & abi::kFilterPeer) == 0 ||
            (packet.peer != nullptr && wire::same_gid(capture.peer, *packet.peer)));
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
    places_ = 0;
    rnics_ = 0;
    traced_rnics_ = 0;
    asks_for_peers_ = false;
    for (std::size_t place = 0; place < kMaxCaptures; ++place) {
        if (const PacketCapture* const capture = captures_[place]; capture != nullptr) {
            places_ |= 1U << place;
            rnics_ |= capture->rnics;
            traced_rnics_ |= capture->has_completions ? capture->rnics : 0;
            asks_for_peers_ |= (capture->filters & abi::kFilterPeer) != 0;
        }
    }
}

void CaptureWriter::publish() {
    for (std::uint32_t left = places_; left != 0; left &= left - 1) {
        captures_[static_cast<std::size_t>(std::countr_zero(left))]->rings[ring_].publish();
    }
}

void CaptureWriter::write(const Packet& packet, TimeNs time, bool is_sent, Fate fate, Records& records) {
    Content content{abi::CaptureKind::kPacket, packet.rnic, packet.qpn, time, abi::kNoState,
                    packet.wire_bytes,         is_sent,     fate};
    if (packet.qp != nullptr) {
        content.state = static_cast<std::uint8_t>(packet.qp->state());
        content.psns = packet.qp->psns();
    }
    records.places = 0;
    for (std::uint32_t left = places_; left != 0; left &= left - 1) {
        const auto place = static_cast<std::size_t>(std::countr_zero(left));
        if (const PacketCapture& capture = *captures_[place]; is_chosen(capture, packet)) {
            const std::size_t length = std::min<std::size_t>(packet.bytes.size(), capture.snap_bytes);
            if (abi::CaptureRecord* const record = append(place, content, packet.bytes.first(length))) {
                records.places |= 1U << place;
                records.of[place] = record;
            }
        }
    }
}

void CaptureWriter::write_event(abi::CaptureKind kind, const EventOf& of, std::span<const std::byte> bytes) {
    const Content content{kind, of.rnic, of.qpn, of.time, of.state};
    for (std::uint32_t left = places_; left != 0; left &= left - 1) {
        const auto place = static_cast<std::size_t>(std::countr_zero(left));
        const PacketCapture& capture = *captures_[place];
        if (!capture.has_completions || (capture.rnics >> of.rnic & 1U) == 0) {
            continue;
        }
        // A pause is of the RNIC, and holds up each of its QPs.
        if ((capture.filters & abi::kFilterOwnQp) == 0 || capture.qpn == of.qpn ||
            kind == abi::CaptureKind::kPause) {
            (void)append(place, content, bytes);
        }
    }
}

// The record is written field by field where it stays: to make it elsewhere and copy it would load words
// whose parts have not left the store buffer.
abi::CaptureRecord* CaptureWriter::append(std::size_t place, const Content& content,
                                          std::span<const std::byte> bytes) {
    CaptureRingWriter& ring = captures_[place]->rings[ring_];
    if (!ring.has_memory()) {
        return nullptr;
    }
    const auto captured = static_cast<std::uint32_t>(bytes.size());
    const std::uint32_t length =
        (static_cast<std::uint32_t>(sizeof(abi::CaptureRecord)) + captured + kRecordAlignment - 1) &
        ~(kRecordAlignment - 1);
    std::uint32_t& lost = lost_[place][content.rnic];
    std::byte* const room = ring.reserve(length);
    ring.count(content.rnic, room == nullptr);
    if (room == nullptr) {
        ++lost;
        return nullptr;
    }
    auto& record = *reinterpret_cast<abi::CaptureRecord*>(room);
    record.bytes = length;
    record.rnic = static_cast<std::uint16_t>(content.rnic);
    record.fate = content.fate.fate;
    record.drop = content.fate.drop;
    record.time_ns = content.time;
    record.wire_bytes = content.wire_bytes;
    record.captured = captured;
    record.qpn = content.qpn;
    record.lost_before = lost;
    record.expected_psn = content.psns.rq_psn;
    record.next_psn = content.psns.sq_psn;
    record.is_sent = content.is_sent ? 1 : 0;
    record.state = content.state;
    record.kind = content.kind;
    lost = 0;
    copy_bytes(room + sizeof record, bytes);
    return &record;
}

}  // namespace urnic::dataplane
