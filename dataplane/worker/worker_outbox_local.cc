// Packets for a QP of the same worker that are sent without being frames (docs/adr/0035).
#include <algorithm>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/frame_sender.h"
#include "dataplane/wire/local_frame.h"
#include "dataplane/worker/worker_outbox.h"
#include "rnic/wire/crc/copy_payload.h"

namespace urnic::dataplane {

namespace {

/// Returns whether the receiver may copy the payload from where it is. That of several pieces is gathered,
/// and what is not mapped, belongs to the WQE or was found by a window's key does not stay as it is.
bool may_be_referred_to(std::span<const MemoryPiece> pieces) {
    return pieces.size() == 1 && pieces[0].direct != nullptr && pieces[0].key != 0 &&
           pieces[0].length_bytes >= wire::kLeastReferredBytes;
}

/// Returns whether all of them could be read, into `room_bytes`.
bool copy_pieces(std::span<const MemoryPiece> pieces, std::byte* to, std::uint32_t room_bytes,
                 std::uint32_t& copied_bytes) {
    copied_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        if (piece.length_bytes > room_bytes - copied_bytes) {
            return false;
        }
        if (piece.direct != nullptr) {
            wire::copy_payload(to + copied_bytes, piece.direct, piece.length_bytes);
        } else if (piece.length_bytes != 0 &&
                   (piece.space == nullptr ||
                    !piece.space->read(piece.va, to + copied_bytes, piece.length_bytes))) {
            return false;
        }
        copied_bytes += piece.length_bytes;
    }
    return true;
}

}  // namespace

bool WorkerOutbox::extend_last(const wire::Path& path, const wire::PacketHeader& header,
                               const MemoryPiece& piece) {
    const std::uint32_t before = last_local_->packet.frame_bytes;
    if (!wire::extend_local(last_local_->packet, path, header, piece)) {
        return false;
    }
    ++counters_.sent_pkts;
    counters_.sent_bytes.add(last_local_->packet.frame_bytes - before);
    return true;
}

bool WorkerOutbox::transmit_local(const wire::Path& path, const wire::PacketHeader& header,
                                  std::span<const MemoryPiece> pieces) {
    const bool is_referred_to = may_be_referred_to(pieces);
    if (is_referred_to && last_local_ != nullptr && extend_last(path, header, pieces[0])) {
        return true;
    }
    rte_mbuf* const frame = spare_[spares_ - 1];
    LocalFrame& local = local_frame(*frame);
    std::uint32_t payload_bytes = 0;
    std::uint32_t copied_bytes = 0;
    if (is_referred_to) {
        local.packet.payload = pieces[0].direct;
        local.packet.key = pieces[0].key;
        payload_bytes = pieces[0].length_bytes;
    } else {
        std::byte* const copy = rte_pktmbuf_mtod_offset(frame, std::byte*, kLocalPayloadOffset);
        if (!copy_pieces(pieces, copy, kFrameRoomBytes - kLocalPayloadOffset, copied_bytes)) {
            return false;
        }
        local.packet.payload = copy;
        local.packet.key = 0;
        payload_bytes = copied_bytes;
    }
    wire::make_local(path, header, payload_bytes, local.packet);
    local.sender = slot_;
    local.local_epoch = slot_->local_epoch;
    local.keys = &keys_;
    frame->ol_flags |= kLocalFrameFlag;
    set_sender(*frame, sender_qp_num_);
    frame->data_len = static_cast<std::uint16_t>(kLocalPayloadOffset + copied_bytes);
    frame->pkt_len = frame->data_len;
    --spares_;
    frames_[built_++] = frame;
    ++counters_.sent_pkts;
    counters_.sent_bytes.add(local.packet.frame_bytes);
    last_local_ = is_referred_to ? &local : nullptr;
    return true;
}

namespace {

bool is_local_of(const rte_mbuf& frame, const QpSlot* of) {
    return is_local(frame) && (of == nullptr || local_frame(frame).sender == of);
}

}  // namespace

std::uint32_t WorkerOutbox::num_local(const QpSlot* of) const {
    return static_cast<std::uint32_t>(
        std::count_if(frames_.begin() + first_, frames_.begin() + built_,
                      [of](const rte_mbuf* frame) { return is_local_of(*frame, of); }));
}

void WorkerOutbox::drop_local(const QpSlot* of) {
    last_local_ = nullptr;
    std::uint32_t kept = first_;
    for (std::uint32_t i = first_; i < built_; ++i) {
        if (is_local_of(*frames_[i], of)) {
            counters_.drop_tx_full.add(packets_in(*frames_[i]));
            free_frames({&frames_[i], 1});
        } else {
            frames_[kept++] = frames_[i];
        }
    }
    built_ = kept;
}

}  // namespace urnic::dataplane
