#include "bench/engines/engines.h"

#include "base/check.h"
#include "rnic/wire/crc/copy_payload.h"

namespace urnic::bench {

namespace {

sim::SimHost::Options host_options(const congestion::Settings* congestion, MessageHistograms* histograms) {
    return {.send_entries = 128,
            .recv_entries = 128,
            .cq_entries = 128,
            .max_sge = 1,
            .max_inline = 0,
            .holds_early_packets = true,
            .congestion = congestion,
            .histograms = histograms};
}

}  // namespace

Node::Node(sim::SimClock& clock, std::uint32_t qp_num, const sim::SimHost::Options& options, PacketForm form)
    : SimHost(clock, {}, qp_num, options),
      form_(form),
      buffer_(add_region(kBufferBytes, {.alignment = kPageBytes})) {
    held_frames.limit = 0;  // nothing is lost here, so nothing comes early
}

bool Node::transmit(const wire::Path& path, const wire::PacketHeader& header,
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
void Node::transmit_local(const wire::Path& path, const wire::PacketHeader& header,
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

bool Node::complete(CompletionQueue& cq, const Completion& completion) {
    URNIC_CHECK(completion.status == WcStatus::kSuccess);
    return cq.push(0, completion, 0);
}

void Node::deliver_to(Node& peer) {
    if (form_ == PacketForm::kLocal) {
        deliver_local_to(peer);
        return;
    }
    const std::uint32_t count = count_;
    const TimeNs time = now();
    for (std::uint32_t i = 0; i < count; ++i) {
        URNIC_CHECK(parser_.parse(frame(i)) == wire::ParseError::kNone);
        URNIC_CHECK(wire::icrc_ok(parser_.view()));
        peer.qp().handle_packet(time, parser_.view(), peer);
    }
    count_ = 0;
}

void Node::deliver_local_to(Node& peer) {
    const std::uint32_t count = count_;
    const TimeNs time = now();
    for (std::uint32_t i = 0; i < count; ++i) {
        const wire::LocalPacket& packet = frames_[i].local;
        wire::view_first(packet, view_);
        peer.qp().handle_packet(time, view_, peer);
        for (std::uint32_t index = 1; index < packet.packets; ++index) {
            wire::view_next(packet, index, view_);
            peer.qp().handle_packet(time, view_, peer);
        }
    }
    count_ = 0;
}

void Node::post(WrOpcode opcode, const Node& peer, std::uint32_t length_bytes) {
    abi::SendWqe& wqe = send_ring().slot(send_ring().posted());
    wqe.opcode = static_cast<std::uint8_t>(opcode);
    wqe.num_sge = 1;
    wqe.flags = kSendSignaled;
    // Of WRITE and READ, too: their operands are the first two.
    wqe.wr.atomic = {.remote_addr = peer.buffer_.addr(),
                     .rkey = peer.buffer_.key(),
                     .reserved = 0,
                     .compare_add = 1,
                     .swap = 0};
    *reinterpret_cast<abi::Sge*>(&wqe + 1) = buffer_.sge(0, length_bytes);
    send_ring().publish();
}

void Node::post_receive() {
    abi::RecvWqe& wqe = recv_ring().slot(recv_ring().posted());
    wqe.num_sge = 1;
    *reinterpret_cast<abi::Sge*>(&wqe + 1) = buffer_.sge(0, kBufferBytes);
    recv_ring().publish();
}

std::uint32_t Node::poll(bool recv) {
    std::uint32_t taken = 0;
    while (cq(recv).poll() != nullptr) {
        ++taken;
    }
    return taken;
}

Engines::Engines(const congestion::Settings* congestion, PacketForm form, bool is_measured)
    : requester_(clock_, 10, host_options(congestion, is_measured ? &histograms_[0] : nullptr), form),
      responder_(clock_, 11, host_options(congestion, is_measured ? &histograms_[1] : nullptr), form) {
    connect(requester_, responder_,
            {.mtu = 4096,
             .psn_a = 0,
             .psn_b = 0,
             .timeout = 0,
             .retry_cnt = 0,
             .rnr_retry = 0,
             .min_rnr_timer = 0});
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
        ++clock_.time;
        (void)requester_.progress_once();
        requester_.deliver_to(responder_);
        (void)responder_.progress_once();
        responder_.deliver_to(requester_);
        completed += requester_.poll(false);
        received += responder_.poll(true);
    }
}

}  // namespace urnic::bench
