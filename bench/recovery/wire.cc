#include "bench/recovery/wire.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::recovery {

namespace {

constexpr std::uint32_t kStride = abi::send_stride(1, 0);
// Preamble, start of frame, FCS and gap between frames.
constexpr std::size_t kEthernetOverheadBytes = 24;

}  // namespace

End::End(std::uint32_t qp_num, bool holds_early_packets, const LinkSpec& link, std::uint64_t seed)
    : link_(link),
      random_(seed),
      sq_memory_(zeroed_memory(std::size_t{kEntries} * kStride, kPageBytes)),
      cq_memory_(zeroed_memory(abi::cq_bytes(1, kEntries), kPageBytes)),
      buffer_(zeroed_memory(kBufferBytes, kPageBytes)),
      cq_(cq_memory_.get(), kEntries),
      pool_(*this, 2) {
    MemoryRegion region;
    region.iova = region.va = reinterpret_cast<std::uint64_t>(buffer_.get());
    region.length_bytes = kBufferBytes;
    region.direct = buffer_.get();
    region.pd = kPd;
    region.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;
    key_ = keys_.add(region, 0x1234'5678);
    QpConfig config;
    config.qp_num = qp_num;
    config.pd = kPd;
    config.sq = SendQueue(sq_memory_.get(), kEntries, kStride, 1, 0);
    config.send_cq = &cq_;
    config.recv_cq = &cq_;
    config.keys = &keys_;
    config.counters = &counters;
    config.reorder_buffers = holds_early_packets ? &pool_ : nullptr;
    qp_ = std::make_unique<RcQp>(config);
}

End::~End() { qp_->leave_worker(); }

void End::connect(const End& peer, std::uint32_t mtu_bytes, std::uint8_t timeout) {
    wire::PathSpec spec;
    spec.src_gid = spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    const wire::Path path = wire::make_path(spec);
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.access_flags = kAccessRemoteWrite | kAccessRemoteRead;
    int error = qp_->modify(0, attr, path, *this);
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    for (attr.path_mtu = 1; urnic::mtu_bytes(attr.path_mtu) < mtu_bytes;) {
        ++attr.path_mtu;
    }
    attr.dest_qp_num = peer.qp_->qp_num();
    attr.max_dest_rd_atomic = kMaxRdAtomic;
    std::copy(spec.dst_gid.begin(), spec.dst_gid.end(), attr.av.dgid);
    error |= qp_->modify(0, attr, path, *this);
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                kQpAttrMaxQpRdAtomic;
    attr.state = QpState::kRts;
    attr.max_rd_atomic = kMaxRdAtomic;
    attr.timeout = timeout;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    error |= qp_->modify(0, attr, path, *this);
    URNIC_CHECK(error == 0);
}

std::byte* End::slot(std::uint32_t index) {
    return sq_memory_.get() + std::size_t{index % kEntries} * kStride;
}

void End::post(WrOpcode opcode, const End& peer, std::uint32_t length_bytes) {
    auto& wqe = *reinterpret_cast<abi::SendWqe*>(slot(posted_));
    wqe.opcode = static_cast<std::uint8_t>(opcode);
    wqe.num_sge = 1;
    wqe.flags = kSendSignaled;
    wqe.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(peer.buffer_.get());
    wqe.wr.rdma.rkey = peer.key_;
    *reinterpret_cast<abi::Sge*>(&wqe + 1) = {reinterpret_cast<std::uint64_t>(buffer_.get()), length_bytes,
                                              key_};
    wqe.seq.store(++posted_, std::memory_order_release);
}

std::uint32_t End::poll() {
    const auto* ring = reinterpret_cast<const abi::Cqe*>(cq_memory_.get() + abi::cq_ring_offset(0, kEntries));
    const std::uint32_t before = polled_;
    while (ring[polled_ % kEntries].seq.load(std::memory_order_acquire) == polled_ + 1) {
        ++polled_;
    }
    reinterpret_cast<abi::CqHeader*>(cq_memory_.get())
        ->consumer[0]
        .index.store(polled_, std::memory_order_release);
    return polled_ - before;
}

TimeNs End::next_event(const End& peer) const {
    TimeNs next = qp_->deadline();
    const auto arriving = std::find_if(peer.on_link_.begin(), peer.on_link_.end(),
                                       [](const Frame* frame) { return frame->arrives_at != kNever; });
    if (arriving != peer.on_link_.end()) {
        next = std::min(next, (*arriving)->arrives_at);
    }
    if (wants_room_ && link_free_at_ > now_) {
        next = std::min(next, now_ + (link_free_at_ - now_) / 2);
    }
    return next;
}

void End::deliver(TimeNs now, End& peer) {
    while (!peer.on_link_.empty() && peer.on_link_.front()->sent_at + link_.delay_ns <= now) {
        current_ = peer.on_link_.front();
        peer.on_link_.pop_front();
        if (current_->arrives_at != kNever) {
            wire::PacketView view;
            URNIC_CHECK(wire::parse_frame({current_->bytes.data(), current_->length}, view) ==
                        wire::ParseError::kNone);
            URNIC_CHECK(wire::icrc_ok(view));
            qp_->handle_packet(now, view, *this);
        }
        if (!current_->is_held) {
            peer.free_.push_back(current_);
        }
    }
}

void End::run(TimeNs now, End& peer) {
    now_ = now;
    deliver(now, peer);
    if (qp_->deadline() <= now) {
        qp_->handle_timeout(now, *this);
    }
    wants_room_ = qp_->progress(now, kTxQueueFrames, *this);
}

std::uint32_t End::room() const {
    const auto waiting = std::count_if(on_link_.rbegin(), on_link_.rend(),
                                       [this](const Frame* frame) { return frame->sent_at > now_; });
    return waiting >= kTxQueueFrames ? 0 : kTxQueueFrames - static_cast<std::uint32_t>(waiting);
}

Frame* End::take_frame() {
    if (free_.empty()) {
        frames_.push_back(std::make_unique<Frame>());
        return frames_.back().get();
    }
    Frame* const frame = free_.back();
    free_.pop_back();
    return frame;
}

bool End::happens(double probability) {
    // Nothing is drawn for what cannot happen, so that each kind of fault has its figures whatever else there
    // is.
    return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

bool End::transmit(const wire::Path& path, const wire::PacketHeader& header,
                   std::span<const MemoryPiece> pieces) {
    Frame* const frame = take_frame();
    frame->length = wire::build_frame(path, header, pieces, frame->bytes);
    URNIC_CHECK(frame->length != 0);
    const double bits = static_cast<double>(frame->length + kEthernetOverheadBytes) * 8;
    const auto duration = static_cast<TimeNs>(bits / link_.gbit_per_s);
    link_free_at_ = std::max(link_free_at_, now_) + duration;
    frame->sent_at = link_free_at_ + (happens(link_.overtaken) ? kOvertakers * duration : 0);
    frame->arrives_at = happens(link_.loss) ? kNever : frame->sent_at + link_.delay_ns;
    frame->is_held = false;
    const auto later =
        std::upper_bound(on_link_.begin(), on_link_.end(), frame->sent_at,
                         [](TimeNs time, const Frame* other) { return time < other->sent_at; });
    on_link_.insert(later, frame);
    return true;
}

bool End::complete(CompletionQueue& cq, const Completion& completion) {
    URNIC_CHECK(completion.status == WcStatus::kSuccess);
    return cq.push(0, completion, 0);
}

void End::event(Qp& /*qp*/, AsyncEventType type) { URNIC_CHECK(type == AsyncEventType::kCommEst); }

void* End::retain(std::span<const std::byte>& /*payload*/) {
    current_->is_held = true;
    return current_;
}

// A held frame does not go back to the sender's pool, which it left: it is kept here for this end's own use.
void End::release(void* frame) { free_.push_back(static_cast<Frame*>(frame)); }

}  // namespace urnic::recovery
