#include "tests/sim/sim_host.h"

#include <cstring>
#include <ostream>

#include "base/check.h"
#include "tests/support/make_qp.h"

namespace urnic::sim {

void PrintTo(const Done& done, std::ostream* os) {
    *os << "{wr_id " << done.wr_id << ", status " << static_cast<int>(done.status) << "}";
}

SimHost::SimHost(SimWire& wire, std::string name, std::uint32_t qp_num, const Options& options)
    : reorder_buffers(held_frames, options.reorder_buffers == nullptr && options.holds_early_packets ? 2 : 0),
      wire_(wire),
      name_(std::move(name)),
      options_(options),
      send_ring_(options.send_entries, options.max_sge, options.max_inline),
      recv_ring_(options.recv_entries, options.max_sge) {
    if (options_.keys == nullptr) {
        own_keys_ = std::make_unique<KeyTable>();
        options_.keys = own_keys_.get();
    }
    for (CompletionRing** ring : {&options_.send_cq, &options_.recv_cq}) {
        if (*ring == nullptr) {
            *ring = &own_cqs_.emplace_back(options.cq_entries);
        }
    }
    const auto number = static_cast<std::uint8_t>(options.address != 0 ? options.address : qp_num);
    gid_ = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, number};
    if (options.ipv6) {
        gid_ = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number};
    }
    mac_ = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(qp_num)};
    QpConfig config;
    config.qp_num = qp_num;
    config.pd = 1;
    config.sq_sig_all = options.sq_sig_all;
    config.sq = send_ring_.queue();
    config.rq = recv_ring_.queue();
    config.send_cq = &cq(false).queue();
    config.recv_cq = &cq(true).queue();
    config.keys = &keys();
    config.srq = options.srq;
    config.xrc_srqs = options.xrc_srqs;
    if (options.srq != nullptr) {
        config.rq = RecvQueue();
    }
    config.counters = options.counters != nullptr ? options.counters : &counters;
    config.handles = options.type == QpType::kUd ? &handles() : nullptr;
    config.port_mtu_bytes = options.port_mtu;
    std::copy(options.pkeys.begin(), options.pkeys.end(), pkeys_.entries.begin());
    config.pkeys = &pkeys_;
    config.congestion = options.congestion;
    config.cnp_gaps = options.cnp_gaps;
    config.histograms = options.histograms;
    config.nak_failed_invalidation = options.nak_failed_invalidation;
    config.sends_mig_req = options.sends_mig_req;
    config.acks_each_request = options.acks_each_request;
    config.timer_tick_ns = options.timer_tick_ns;
    config.reorder_buffers = options.reorder_buffers != nullptr ? options.reorder_buffers
                             : options.holds_early_packets      ? &reorder_buffers
                                                                : nullptr;
    qp_ = make_qp(options.type, config);
    wire_.add(*this);
}

SimHost::~SimHost() = default;

SimRegion& SimHost::add_region(std::size_t size_bytes, const SimRegion::Options& options) {
    const auto number = static_cast<std::uint32_t>(regions_.size() + 1);
    return regions_.emplace_back(keys(), size_bytes, number * 0x01234567U + qp_->qp_num(), options);
}

AddressHandles& SimHost::handles() {
    if (options_.handles == nullptr) {
        handles_ = std::make_unique<AddressHandles>();
        options_.handles = handles_.get();
    }
    return *options_.handles;
}

std::uint32_t SimHost::address(const SimHost& peer, std::uint32_t pd) {
    wire::PathSpec spec;
    spec.src_mac = mac_;
    spec.dst_mac = peer.mac();
    spec.src_gid = gid_;
    spec.dst_gid = peer.gid();
    return handles().add({.pd = pd, .path = wire::make_path(spec)});
}

std::vector<abi::Cqe*> SimHost::poll_raw(bool recv) {
    std::vector<abi::Cqe*> result;
    for (abi::Cqe* cqe = cq(recv).poll(); cqe != nullptr; cqe = cq(recv).poll()) {
        URNIC_CHECK(cqe->is_recv == (recv ? 1 : 0));
        result.push_back(cqe);
    }
    return result;
}

namespace {

std::vector<Done> summary(const std::vector<abi::Cqe*>& entries) {
    std::vector<Done> result;
    for (const abi::Cqe* cqe : entries) {
        result.push_back({cqe->wr_id, static_cast<WcStatus>(cqe->status)});
    }
    return result;
}

}  // namespace

std::vector<Done> SimHost::poll_send() { return summary(poll_raw(false)); }
std::vector<Done> SimHost::poll_recv() { return summary(poll_raw(true)); }

int SimHost::modify(const abi::QpAttr& attr) {
    wire::PathSpec spec;
    if (options_.path) {
        spec = *options_.path;
    } else {
        spec.src_mac = mac_;
        spec.src_gid = gid_;
        std::memcpy(spec.dst_gid.data(), attr.av.dgid, spec.dst_gid.size());
    }
    return modify(attr, spec);
}

int SimHost::modify(const abi::QpAttr& attr, const wire::PathSpec& path) {
    const int error = qp_->modify(now(), attr, wire::make_path(path), *this);
    if (error == 0 && (attr.mask & kQpAttrState) != 0 && attr.state == QpState::kReset) {
        send_ring_.restart();
        recv_ring_.restart();
    }
    return error;
}

int SimHost::to_state(QpState state) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = state;
    return modify(attr);
}

void SimHost::to_init(std::uint32_t access, std::uint32_t qkey) {
    const bool is_ud = options_.type == QpType::kUd;
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | (is_ud ? kQpAttrQkey : kQpAttrAccessFlags);
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.pkey_index = options_.pkey_index;
    attr.access_flags = access;
    attr.qkey = qkey;
    URNIC_CHECK(modify(attr) == 0);
}

void SimHost::to_rtr(const SimHost& peer, const ConnectOptions& options, std::uint32_t rq_psn) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.mask |=
        options_.type == QpType::kUd ? 0U : kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
    const bool answers = options_.type == QpType::kRc || options_.type == QpType::kXrcRecv;
    attr.mask |= answers ? kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer : 0U;
    attr.state = QpState::kRtr;
    std::memcpy(attr.av.dgid, peer.gid().data(), peer.gid().size());
    attr.av.is_global = 1;
    attr.av.port_num = 1;
    for (attr.path_mtu = 1; mtu_bytes(attr.path_mtu) < options.mtu;) {
        ++attr.path_mtu;
    }
    attr.dest_qp_num = peer.qp().qp_num();
    attr.rq_psn = rq_psn;
    attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
    attr.min_rnr_timer = options.min_rnr_timer;
    URNIC_CHECK(modify(attr) == 0);
}

void SimHost::to_rts(const ConnectOptions& options, std::uint32_t sq_psn) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrSqPsn;
    const bool asks = options_.type == QpType::kRc || options_.type == QpType::kXrcSend;
    attr.mask |= asks ? kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMaxQpRdAtomic : 0U;
    attr.mask |= options_.type == QpType::kXrcRecv ? kQpAttrTimeout : 0U;
    attr.state = QpState::kRts;
    attr.timeout = options.timeout;
    attr.retry_cnt = options.retry_cnt;
    attr.rnr_retry = options.rnr_retry;
    attr.sq_psn = sq_psn;
    attr.max_rd_atomic = options.max_rd_atomic;
    URNIC_CHECK(modify(attr) == 0);
}

void SimHost::deliver(const wire::PacketView& view) { qp_->handle_packet(now(), view, *this); }

bool SimHost::progress_once() {
    sent_since_ = 0;
    return qp_->progress(now(), packets_per_progress, *this);
}

void SimHost::progress() {
    while (progress_once()) {
    }
}

bool SimHost::transmit(const wire::Path& path, const wire::PacketHeader& header,
                       std::span<const MemoryPiece> pieces) {
    const bool sent = wire_.transmit(*this, path, header, pieces);
    sent_since_ += sent && sent_since_ < room_ ? 1 : 0;
    return sent;
}

bool SimHost::complete(CompletionQueue& cq, const Completion& completion) {
    solicited += completion.solicited ? 1 : 0;
    const bool pushed = cq.push(0, completion, now());
    if (options_.listener != nullptr) {
        options_.listener->completed(completion.qp_num, completion, !pushed);
    }
    return pushed;
}

void SimHost::event(Qp& qp, AsyncEventType type) {
    events.push_back(type);
    if (options_.listener != nullptr) {
        options_.listener->raised(qp.qp_num(), type);
    }
}

void SimHost::srq_event(SharedRecvQueue& /*srq*/, AsyncEventType type) { srq_events.push_back(type); }

void connect(SimHost& a, SimHost& b, const ConnectOptions& options) {
    a.to_init(options.access, options.qkey);
    b.to_init(options.access, options.qkey);
    a.to_rtr(b, options, options.psn_b);
    b.to_rtr(a, options, options.psn_a);
    a.to_rts(options, options.psn_a);
    b.to_rts(options, options.psn_b);
}

}  // namespace urnic::sim
