#include "dataplane/worker/worker_outbox.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/frame_sender.h"
#include "dataplane/wire/local_frame.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/multicast.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kRefillFrames = WorkerOutbox::kMaxFrames / 2;

}  // namespace

WorkerOutbox::WorkerOutbox(std::uint32_t worker, std::uint32_t num_workers, Device& device,
                           rte_mempool* frames, EventNotifier& notifier)
    : worker_(worker),
      port_(device.port),
      counters_(device.counters[worker]),
      neighbours_(device.neighbour_macs),
      mac_(device.mac),
      rnic_(device.index),
      udp_checksum_enabled_(device.udp_checksum_enabled),
      is_plain_(!device.udp_checksum_enabled),
      num_workers_(num_workers),
      keys_(device.keys),
      pool_(frames),
      notifier_(notifier) {}

WorkerOutbox::~WorkerOutbox() {
    free_frames({frames_.data() + first_, built_ - first_});
    free_frames({spare_.data(), spares_});
    unresolved_.remove_if([](const UnresolvedFrames::Frame& frame) {
        rte_pktmbuf_free(frame.mbuf);
        return true;
    });
}

void WorkerOutbox::begin(QpSlot& slot, TimeNs now) {
    slot_ = &slot;
    clear_deferred();
    make_room(now);
    sender_qp_num_ = slot.qp->qp_num();
}

void WorkerOutbox::make_room(TimeNs now) {
    now_ = now;
    sender_qp_num_ = kGsiQp;
    last_local_ = nullptr;
    if (built_ >= kMaxFrames / 2) {
        flush();
    }
    if (spares_ < kRefillFrames) {
        refill();
    }
}

void WorkerOutbox::refill() {
    if (alloc_frames(pool_, {spare_.data() + spares_, kRefillFrames})) {
        spares_ += kRefillFrames;
    } else {
        ++counters_.drop_no_mbuf;  // no frame is lost: room() is 0 and the QP sends later
    }
}

bool WorkerOutbox::flush() {
    last_local_ = nullptr;
    if (!port_up_) [[unlikely]] {
        std::uint64_t packets = 0;
        for (std::uint32_t i = first_; i < built_; ++i) {
            packets += packets_in(*frames_[i]);
        }
        counters_.drop_port_down.add(packets);
        counters_.xmit_discard_port_down.add(packets);
        free_frames({frames_.data() + first_, built_ - first_});
        first_ = built_;
    }
    if (first_ < built_) {
        first_ +=
            port_->tx_burst(worker_, frames_.data() + first_, static_cast<std::uint16_t>(built_ - first_));
    }
    if (first_ == built_) {
        first_ = 0;
        built_ = 0;
        return true;
    }
    if (first_ != 0) {
        std::copy(frames_.begin() + first_, frames_.begin() + built_, frames_.begin());
        built_ -= first_;
        first_ = 0;
    }
    return false;
}

std::uint32_t WorkerOutbox::room() const { return std::min(kMaxFrames - built_, spares_); }

bool WorkerOutbox::transmit(const wire::Path& path, const wire::PacketHeader& header,
                            std::span<const MemoryPiece> pieces) {
    URNIC_CHECK(room() != 0);
    if (offload_enabled_) {
        if (is_own_qp(header.dest_qp) && wire::can_be_local(path, header)) {
            return transmit_local(path, header, pieces);
        }
        last_local_ = nullptr;
    }
    wire::Mac neighbour{};
    const bool has_neighbour = path.neighbour != wire::kNoNeighbour;
    const bool must_wait = has_neighbour && (!neighbours_.find(path.neighbour, neighbour) ||
                                             (has_waiting() && unresolved_.has(path.neighbour)));
    rte_mbuf* const frame = spare_[spares_ - 1];
    auto* const bytes = rte_pktmbuf_mtod(frame, std::byte*);
    const std::size_t length = wire::build_frame(path, header, pieces, {bytes, kFrameRoomBytes});
    if (length == 0) {
        return false;
    }
    if (has_neighbour) {
        wire::set_macs({bytes, length}, mac_, neighbour);
    }
    if (!is_plain_) [[unlikely]] {
        finish_packet(path, header, {bytes, length});
    }
    set_sender(*frame, sender_qp_num_);
    if (must_wait) [[unlikely]] {
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        --spares_;
        hold_for_neighbour(frame, path.neighbour);
        return true;
    }
    enqueue_frame(frame, length);
    return true;
}

void WorkerOutbox::finish_packet(const wire::Path& path, const wire::PacketHeader& header,
                                 std::span<std::byte> bytes) {
    if (udp_checksum_enabled_) {
        wire::set_udp_checksum(path, bytes);
    }
    if (capture_ != nullptr) {
        wire::Gid peer;
        const bool has_peer = capture_->asks_for_peers();
        if (has_peer) {
            peer = peer_of(path);
        }
        // Behind make_room() the slot of the call before may be freed.
        const bool has_qp = sender_qp_num_ != kGsiQp;
        const Qp* const qp = has_qp ? slot_->qp.get() : nullptr;
        // A WQE and its first packet are of one moment: to read the clock takes as long as what is between.
        const TimeNs now = has_qp ? capture_->look_at(rnic_, *slot_) : 0;
        capture_->sent({rnic_, bytes, static_cast<std::uint32_t>(bytes.size()), &header,
                        has_peer ? &peer : nullptr, sender_qp_num_, qp},
                       counters_, now);
    }
}

bool WorkerOutbox::transmit_frame(std::span<const std::byte> bytes) {
    if (room() == 0 || bytes.size() > kFrameRoomBytes) {
        return false;
    }
    rte_mbuf* const frame = spare_[spares_ - 1];
    std::memcpy(rte_pktmbuf_mtod(frame, std::byte*), bytes.data(), bytes.size());
    if (capture_ != nullptr) {
        WorkerCapture::Packet packet;
        packet.rnic = rnic_;
        packet.bytes = bytes;
        packet.wire_bytes = static_cast<std::uint32_t>(bytes.size());
        capture_->sent(packet, counters_);
    }
    enqueue_frame(frame, bytes.size());
    return true;
}

void WorkerOutbox::enqueue_frame(rte_mbuf* frame, std::size_t length) {
    frame->data_len = static_cast<std::uint16_t>(length);
    frame->pkt_len = static_cast<std::uint32_t>(length);
    --spares_;
    append(frame);
}

void WorkerOutbox::append(rte_mbuf* frame) {
    frames_[built_++] = frame;
    ++counters_.sent_pkts;
    counters_.sent_bytes.add(frame->data_len);
    if (wire::is_group_frame(rte_pktmbuf_mtod(frame, const std::byte*))) [[unlikely]] {
        ++counters_.sent_multicast_pkts;
    }
}

void WorkerOutbox::hold_for_neighbour(rte_mbuf* frame, std::uint16_t neighbour) {
    if (rte_mbuf* const evicted = unresolved_.add({frame, neighbour, now_}); evicted != nullptr) {
        rte_pktmbuf_free(evicted);
        ++counters_.drop_no_neighbour;
    }
}

void WorkerOutbox::send_resolved(TimeNs now) {
    unresolved_.remove_if([&](const UnresolvedFrames::Frame& frame) {
        wire::Mac mac{};
        if (neighbours_.find(frame.neighbour, mac)) {
            auto* const bytes = rte_pktmbuf_mtod(frame.mbuf, std::byte*);
            const std::uint32_t priority = wire::priority_of(reinterpret_cast<const std::uint8_t*>(bytes));
            if (built_ == kMaxFrames || (paused() >> priority & 1U) != 0) {
                return false;
            }
            wire::set_macs({bytes, frame.mbuf->data_len}, mac_, mac);
            append(frame.mbuf);
            return true;
        }
        if (now - frame.since < UnresolvedFrames::kTimeoutNs) {
            return false;
        }
        rte_pktmbuf_free(frame.mbuf);
        ++counters_.drop_no_neighbour;
        return true;
    });
}

bool WorkerOutbox::complete(CompletionQueue& cq, const Completion& completion) {
    if (completion.status != WcStatus::kSuccess) [[unlikely]] {
        ++slot_->local_epoch;
    }
    auto& notifying = static_cast<NotifyingCq&>(cq);
    const bool taken = notifier_.complete(notifying, completion, now_);
    if (!taken) {
        ++counters_.cq_overrun;
    } else if (capture_ != nullptr) [[unlikely]] {
        capture_->look_at(rnic_, *slot_);
        capture_->completed(rnic_, *slot_->qp, completion);
    }
    return taken || notifying.ignore_overrun;
}

void WorkerOutbox::timer_expired(Qp& qp, const TimerExpiry& expiry) {
    if (capture_ != nullptr) {
        capture_->timer_expired(rnic_, qp, expiry);
    }
}

void WorkerOutbox::event(Qp& qp, AsyncEventType type) {
    URNIC_CHECK(slot_ != nullptr && slot_->qp.get() == &qp);
    notifier_.event(*slot_, type);
}

void WorkerOutbox::srq_event(SharedRecvQueue& srq, AsyncEventType type) {
    EventNotifier::srq_event(static_cast<NotifyingSrq&>(srq), type);
}

}  // namespace urnic::dataplane
