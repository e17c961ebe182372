#include "bench/engines/engines.h"

#include <algorithm>

#include "base/check.h"
#include "rnic/qp/rc/measured_rc_qp.h"
#include "rnic/wire/crc/copy_payload.h"

namespace urnic::bench {

namespace {

constexpr std::uint32_t kSendStride = abi::send_stride(1, 0);
constexpr std::uint32_t kRecvStride = abi::recv_stride(1);
constexpr std::uint32_t kAccess =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

}  // namespace

bool LoopOutbox::transmit(const wire::Path& path, const wire::PacketHeader& header,
                          std::span<const MemoryPiece> pieces) {
    if (form_ == PacketForm::kLocal) {
        transmit_local(path, header, pieces);
        return true;
    }
    Frame& frame = frames_[count_];
    frame.length = wire::build_frame(path, header, pieces, frame.bytes);
    count_ += frame.length != 0 ? 1U : 0U;
    return frame.length != 0;
}

/// As WorkerOutbox does it. All memory here is mapped.
void LoopOutbox::transmit_local(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) {
    const bool is_referred_to =
        pieces.size() == 1 && pieces[0].key != 0 && pieces[0].length_bytes >= wire::kLeastReferredBytes;
    if (is_referred_to && count_ != 0 && frames_[count_ - 1].local.key != 0 &&
        wire::extend_local(frames_[count_ - 1].local, path, header, pieces[0])) {
        return;
    }
    Frame& frame = frames_[count_++];
    std::uint32_t payload_bytes = 0;
    if (is_referred_to) {
        frame.local.payload = pieces[0].direct;
        frame.local.key = pieces[0].key;
        payload_bytes = pieces[0].length_bytes;
    } else {
        for (const MemoryPiece& piece : pieces) {
            wire::copy_payload(frame.bytes + payload_bytes, piece.direct, piece.length_bytes);
            payload_bytes += piece.length_bytes;
        }
        frame.local.payload = frame.bytes;
        frame.local.key = 0;
    }
    wire::make_local(path, header, payload_bytes, frame.local);
}

bool LoopOutbox::complete(CompletionQueue& cq, const Completion& completion) {
    URNIC_CHECK(completion.status == WcStatus::kSuccess);
    return cq.push(0, completion, 0);
}

void LoopOutbox::deliver(Qp& qp, TimeNs now, Outbox& answers) {
    if (form_ == PacketForm::kLocal) {
        deliver_local(qp, now, answers);
        return;
    }
    const std::uint32_t count = count_;
    for (std::uint32_t i = 0; i < count; ++i) {
        URNIC_CHECK(wire::parse_frame(frame(i), view_) == wire::ParseError::kNone);
        URNIC_CHECK(wire::icrc_ok(view_));
        qp.handle_packet(now, view_, answers);
    }
    count_ = 0;
}

void LoopOutbox::deliver_local(Qp& qp, TimeNs now, Outbox& answers) {
    const std::uint32_t count = count_;
    for (std::uint32_t i = 0; i < count; ++i) {
        const wire::LocalPacket& packet = frames_[i].local;
        wire::view_first(packet, view_);
        qp.handle_packet(now, view_, answers);
        for (std::uint32_t index = 1; index < packet.packets; ++index) {
            wire::view_next(packet, index, view_);
            qp.handle_packet(now, view_, answers);
        }
    }
    count_ = 0;
}

Node::Node(std::uint32_t qp_num, LoopOutbox& outbox, const congestion::Settings* congestion, bool is_measured)
    : outbox_(outbox),
      sq_memory_(zeroed_memory(std::size_t{kEntries} * kSendStride)),
      rq_memory_(zeroed_memory(std::size_t{kEntries} * kRecvStride)),
      cq_memory_(zeroed_memory(abi::cq_bytes(1, kEntries))),
      buffer_(zeroed_memory(kBufferBytes)),
      cq_(cq_memory_.get(), kEntries),
      reorder_buffers_(outbox, 2) {
    MemoryRegion region;
    region.iova = region.va = address();
    region.length_bytes = kBufferBytes;
    region.direct = buffer_.get();
    region.pd = kPd;
    region.access = kAccess;
    key_ = keys_.add(region, 0x1234'5678);
    QpConfig config;
    config.qp_num = qp_num;
    config.pd = kPd;
    config.sq = SendQueue(sq_memory_.get(), kEntries, kSendStride, 1, 0);
    config.rq = RecvQueue(rq_memory_.get(), kEntries, kRecvStride, 1);
    config.send_cq = &cq_;
    config.recv_cq = &cq_;
    config.keys = &keys_;
    config.counters = &counters_;
    config.reorder_buffers = &reorder_buffers_;
    config.congestion = congestion;
    config.histograms = &histograms_;
    qp_ = is_measured ? std::make_unique<MeasuredRcQp>(config) : std::make_unique<RcQp>(config);
}

void Node::connect(std::uint32_t peer_qp) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.access_flags = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    wire::PathSpec spec;
    spec.src_gid = spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    const wire::Path path = wire::make_path(spec);
    int error = qp_->modify(0, attr, path, outbox_);
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    attr.path_mtu = 5;
    attr.dest_qp_num = peer_qp;
    attr.max_dest_rd_atomic = 16;
    std::copy(spec.dst_gid.begin(), spec.dst_gid.end(), attr.av.dgid);
    error |= qp_->modify(0, attr, path, outbox_);
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                kQpAttrMaxQpRdAtomic;
    attr.state = QpState::kRts;
    attr.max_rd_atomic = 16;
    error |= qp_->modify(0, attr, path, outbox_);
    URNIC_CHECK(error == 0);
}

void Node::post(WrOpcode opcode, const Node& peer, std::uint32_t length_bytes) {
    std::byte* slot = sq_memory_.get() + std::size_t{posted_ % kEntries} * kSendStride;
    auto& wqe = *reinterpret_cast<abi::SendWqe*>(slot);
    wqe.opcode = static_cast<std::uint8_t>(opcode);
    wqe.num_sge = 1;
    wqe.flags = kSendSignaled;
    // Of WRITE and READ, too: their operands are the first two.
    wqe.wr.atomic = {
        .remote_addr = peer.address(), .rkey = peer.key_, .reserved = 0, .compare_add = 1, .swap = 0};
    *reinterpret_cast<abi::Sge*>(slot + sizeof wqe) = {address(), length_bytes, key_};
    wqe.seq.store(++posted_, std::memory_order_release);
}

void Node::post_receive() {
    std::byte* slot = rq_memory_.get() + std::size_t{receives_ % kEntries} * kRecvStride;
    auto& wqe = *reinterpret_cast<abi::RecvWqe*>(slot);
    wqe.num_sge = 1;
    *reinterpret_cast<abi::Sge*>(slot + sizeof wqe) = {address(), kBufferBytes, key_};
    wqe.seq.store(++receives_, std::memory_order_release);
}

std::uint32_t Node::poll() {
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

Engines::Engines(const congestion::Settings* congestion, PacketForm form, bool is_measured)
    : from_requester_(form),
      from_responder_(form),
      requester_(10, from_requester_, congestion, is_measured),
      responder_(11, from_responder_, congestion, is_measured) {
    requester_.connect(responder_.qp().qp_num());
    responder_.connect(requester_.qp().qp_num());
}

void Engines::run(WrOpcode opcode, std::uint32_t length_bytes, std::uint32_t batch) {
    const bool takes_receives = opcode == WrOpcode::kSend;
    for (std::uint32_t i = 0; i < batch; ++i) {
        if (takes_receives) {
            responder_.post_receive();
        }
        requester_.post(opcode, responder_, length_bytes);
    }
    std::uint32_t completed = 0;
    std::uint32_t received = 0;
    // Nothing is ever lost here: rounds without an end would be a defect of the engine or of this file.
    for (std::uint32_t round = 0; completed < batch || (takes_receives && received < batch); ++round) {
        URNIC_CHECK(round < 10'000);
        ++now_;
        (void)requester_.qp().progress(now_, 64, from_requester_);
        from_requester_.deliver(responder_.qp(), now_, from_responder_);
        (void)responder_.qp().progress(now_, 64, from_responder_);
        from_responder_.deliver(requester_.qp(), now_, from_requester_);
        completed += requester_.poll();
        received += responder_.poll();
    }
}

}  // namespace urnic::bench
