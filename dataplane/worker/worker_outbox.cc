#include "dataplane/worker/worker_outbox.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/multicast.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kRefillFrames = TxOutbox::kMaxFrames / 2;

}  // namespace

TxOutbox::TxOutbox(std::uint32_t worker, Device& device, rte_mempool* frames, Notifier& notifier)
    : worker_(worker),
      port_(device.port),
      counters_(device.counters[worker]),
      neighbours_(device.neighbour_macs),
      mac_(device.mac),
      makes_udp_checksum_(device.makes_udp_checksum),
      pool_(frames),
      notifier_(notifier) {}

TxOutbox::~TxOutbox() {
    free_frames({frames_.data() + first_, built_ - first_});
    free_frames({spare_.data(), spares_});
    waiting_.remove_if([](const WaitingFrames::Frame& frame) {
        rte_pktmbuf_free(frame.mbuf);
        return true;
    });
}

void TxOutbox::begin(QpSlot& slot, TimeNs now) {
    slot_ = &slot;
    forget_held();
    make_room(now);
}

void TxOutbox::make_room(TimeNs now) {
    now_ = now;
    if (built_ >= kMaxFrames / 2) {
        flush();
    }
    if (spares_ < kRefillFrames) {
        refill();
    }
}

void TxOutbox::refill() {
    if (alloc_frames(pool_, {spare_.data() + spares_, kRefillFrames})) {
        spares_ += kRefillFrames;
    } else {
        ++counters_.drop_no_mbuf;  // nothing is lost: room() says so and the QP sends later
    }
}

bool TxOutbox::flush() {
    if (!port_up_) [[unlikely]] {
        counters_.drop_port_down.add(built_ - first_);
        counters_.xmit_discard_port_down.add(built_ - first_);
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

std::uint32_t TxOutbox::room() const { return std::min(kMaxFrames - built_, spares_); }

bool TxOutbox::transmit(const wire::Path& path, const wire::PacketHeader& header,
                        std::span<const MemoryPiece> pieces) {
    URNIC_CHECK(room() != 0);
    wire::Mac neighbour{};
    const bool has_neighbour = path.neighbour != wire::kNoNeighbour;
    const bool must_wait = has_neighbour && (!neighbours_.find(path.neighbour, neighbour) ||
                                             (waits() && waiting_.has(path.neighbour)));
    rte_mbuf* const frame = spare_[spares_ - 1];
    auto* const bytes = rte_pktmbuf_mtod(frame, std::byte*);
    const std::size_t length = wire::build_frame(path, header, pieces, {bytes, kFrameRoomBytes});
    if (length == 0) {
        return false;
    }
    if (has_neighbour) {
        wire::set_macs({bytes, length}, mac_, neighbour);
    }
    if (makes_udp_checksum_) [[unlikely]] {
        wire::set_udp_checksum(path, {bytes, length});
    }
    if (must_wait) [[unlikely]] {
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        --spares_;
        wait(frame, path.neighbour);
        return true;
    }
    keep(frame, length);
    return true;
}

bool TxOutbox::transmit_frame(std::span<const std::byte> bytes) {
    if (room() == 0 || bytes.size() > kFrameRoomBytes) {
        return false;
    }
    rte_mbuf* const frame = spare_[spares_ - 1];
    std::memcpy(rte_pktmbuf_mtod(frame, std::byte*), bytes.data(), bytes.size());
    keep(frame, bytes.size());
    return true;
}

void TxOutbox::keep(rte_mbuf* frame, std::size_t length) {
    frame->data_len = static_cast<std::uint16_t>(length);
    frame->pkt_len = static_cast<std::uint32_t>(length);
    --spares_;
    append(frame);
}

void TxOutbox::append(rte_mbuf* frame) {
    frames_[built_++] = frame;
    ++counters_.sent_pkts;
    counters_.sent_bytes.add(frame->data_len);
    if (wire::is_group_frame(rte_pktmbuf_mtod(frame, const std::byte*))) [[unlikely]] {
        ++counters_.sent_multicast_pkts;
    }
}

void TxOutbox::wait(rte_mbuf* frame, std::uint16_t neighbour) {
    if (rte_mbuf* const gone = waiting_.add({frame, neighbour, now_}); gone != nullptr) {
        rte_pktmbuf_free(gone);
        ++counters_.drop_no_neighbour;
    }
}

void TxOutbox::send_known(TimeNs now) {
    waiting_.remove_if([&](const WaitingFrames::Frame& frame) {
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
        if (now - frame.since < WaitingFrames::kPatienceNs) {
            return false;
        }
        rte_pktmbuf_free(frame.mbuf);
        ++counters_.drop_no_neighbour;
        return true;
    });
}

bool TxOutbox::complete(CompletionQueue& cq, const Completion& completion) {
    auto& told = static_cast<NotifyingCq&>(cq);
    const bool taken = notifier_.complete(told, completion, now_);
    if (!taken) {
        ++counters_.cq_overrun;
    }
    return taken || told.ignores_overrun;
}

void TxOutbox::event(Qp& qp, AsyncEventType type) {
    URNIC_CHECK(slot_ != nullptr && slot_->qp.get() == &qp);
    notifier_.event(*slot_, type);
}

void TxOutbox::srq_event(SharedRecvQueue& srq, AsyncEventType type) {
    Notifier::srq_event(static_cast<NotifyingSrq&>(srq), type);
}

}  // namespace urnic::dataplane
