#include "experiment/virtual_host.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "rnic/wire/frame.h"

namespace urnic::experiment {

namespace {

constexpr std::uint32_t kPd = 1;
// What payload points to; nobody looks.
constexpr std::array<std::byte, 4096> kNothing{};

}  // namespace

VirtualMemory::VirtualMemory() {
    MemoryRegion region;
    region.length_bytes = kBytes;
    region.space = this;
    region.pd = kPd;
    region.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;
    key_ = keys.add(region, 0x1234'5678);
    URNIC_CHECK(key_ != 0);
}

bool VirtualMemory::read(std::uint64_t /*va*/, std::byte* to, std::size_t length_bytes) {
    std::memset(to, 0, length_bytes);
    return true;
}

bool VirtualMemory::write(std::uint64_t /*va*/, const std::byte* /*from*/, std::size_t /*length_bytes*/) {
    return true;
}

VirtualHost::VirtualHost(HostWorld& world, const Options& options, CompletionListener& listener)
    : world_(world),
      options_(options),
      listener_(listener),
      cq_memory_(abi::cq_bytes(1, 1) / sizeof(Line) + 1),
      cq_(std::make_unique<CompletionQueue>(cq_memory_[0].bytes.data(), 1)),
      reorder_buffers_(*this, options.rnic.selective_repeat ? kHeldTables : 0) {}

VirtualHost::~VirtualHost() {
    for (const auto& each : qps_) {
        each->qp->leave_worker();
    }
}

VirtualHost::QpIndex VirtualHost::add_qp(std::uint32_t timer, std::uint32_t depth) {
    auto made = std::make_unique<HostQp>();
    const std::uint32_t stride = abi::send_stride(1, 0);
    made->entries = std::bit_ceil(depth);
    made->ring.resize(std::size_t{made->entries} * stride / sizeof(Line));
    made->timer = timer;
    QpConfig config;
    config.qp_num = qp_num(static_cast<QpIndex>(qps_.size()));
    config.pd = kPd;
    config.sq = SendQueue(made->ring[0].bytes.data(), made->entries, stride, 1, 0);
    config.send_cq = cq_.get();
    config.recv_cq = cq_.get();
    config.keys = &world_.memory.keys;
    config.counters = &counters;
    config.congestion = &options_.settings;
    config.reorder_buffers = options_.rnic.selective_repeat ? &reorder_buffers_ : nullptr;
    made->qp = std::make_unique<RcQp>(config);
    qps_.push_back(std::move(made));
    return static_cast<QpIndex>(qps_.size() - 1);
}

void VirtualHost::connect(QpIndex index, const VirtualHost& peer, QpIndex peer_qp, std::uint16_t port,
                          std::uint8_t sl) {
    HostQp& each = *qps_[index];
    each.port = port != 0 ? port : wire::udp_source_port(0, qp_num(index), qp_num(peer_qp));
    each.path = world_.network->path(options_.node, peer.options_.node, each.port, sl);
    current_ = &each;
    modify(each, peer_qp);
    current_ = nullptr;
}

void VirtualHost::modify(HostQp& each, QpIndex peer_qp) {
    const wire::Path& path = each.path.path;
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.access_flags = kAccessRemoteWrite | kAccessRemoteRead;
    int error = each.qp->modify(0, attr, path, *this);
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    for (attr.path_mtu = 1; mtu_bytes(attr.path_mtu) < options_.rnic.mtu_bytes;) {
        ++attr.path_mtu;
    }
    attr.dest_qp_num = qp_num(peer_qp);
    attr.max_dest_rd_atomic = kMaxRdAtomic;
    attr.av = each.path.address;
    error |= each.qp->modify(0, attr, path, *this);
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                kQpAttrMaxQpRdAtomic;
    attr.state = QpState::kRts;
    attr.max_rd_atomic = kMaxRdAtomic;
    attr.timeout = options_.rnic.timeout_code;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    error |= each.qp->modify(0, attr, path, *this);
    URNIC_CHECK(error == 0);
}

void VirtualHost::post(TimeNs now, QpIndex index, WrOpcode opcode, std::uint32_t length_bytes) {
    HostQp& each = *qps_[index];
    const std::size_t lines = each.ring.size() / each.entries;
    std::byte* const slot = each.ring[std::size_t{each.posted % each.entries} * lines].bytes.data();
    auto& wqe = *reinterpret_cast<abi::SendWqe*>(slot);
    wqe.opcode = static_cast<std::uint8_t>(opcode);
    wqe.num_sge = 1;
    wqe.flags = kSendSignaled;
    wqe.wr.rdma.remote_addr = 0;
    wqe.wr.rdma.rkey = world_.memory.key();
    *reinterpret_cast<abi::Sge*>(&wqe + 1) = {0, length_bytes, world_.memory.key()};
    wqe.seq.store(++each.posted, std::memory_order_release);
    make_ready(each);
    run(now);
}

void VirtualHost::make_ready(HostQp& each) {
    if (each.ready) {
        return;
    }
    each.ready = true;
    each.next = nullptr;
    ReadyQps& ready = ready_[each.path.lane];
    if (ready.first == nullptr) {
        ready.first = &each;
        ready_lanes_ |= 1U << each.path.lane;
    } else {
        ready.last->next = &each;
    }
    ready.last = &each;
}

void VirtualHost::receive(TimeNs now, VirtualPacket& packet) {
    const QpIndex index = index_of(packet.header.dest_qp);
    if (index >= qps_.size()) {
        ++counters.drop_unknown_qp;
        world_.network->give_back(packet);
        return;
    }
    now_ = now;
    HostQp& each = *qps_[index];
    wire::PacketView view;
    view.header = packet.header;
    view.payload = {kNothing.data(), packet.payload_bytes};
    world_.network->describe(packet, options_.node, view);
    world_.network->give_back(packet);
    current_ = &each;
    running_ = receiving_ = true;
    if (world_.watcher != nullptr) {
        world_.watcher->begin_receive(*each.qp, held_);
    }
    each.qp->handle_packet(now, view, *this);
    if (world_.watcher != nullptr) {
        world_.watcher->end_receive(now, options_.name, {*each.qp, view.header, view.payload.size()}, held_);
    }
    running_ = receiving_ = false;
    make_ready(each);
    run(now);
}

void VirtualHost::on_timer(TimeNs now, QpIndex index) {
    HostQp& each = *qps_[index];
    now_ = now;
    current_ = &each;
    running_ = true;
    each.qp->handle_timeout(now, *this);
    running_ = false;
    world_.timers.set(each.timer, std::max(each.qp->deadline(), now + 1));
    make_ready(each);
    run(now);
}

// Each QP in turn sends a packet, as long as its lane of the port takes one. What a QP does may call back: a
// completion posts the next request, a packet that leaves makes room. That is for the loop here to see.
void VirtualHost::run(TimeNs now) {
    if (running_) {
        return;
    }
    running_ = true;
    now_ = now;
    for (bool has_run = true; has_run;) {
        has_run = false;
        for (std::uint32_t lanes = ready_lanes_; lanes != 0; lanes &= lanes - 1) {
            has_run |= run_next(now, static_cast<std::uint8_t>(std::countr_zero(lanes)));
        }
    }
    running_ = false;
}

// Returns whether there was a QP, and room for it.
bool VirtualHost::run_next(TimeNs now, std::uint8_t lane) {
    ReadyQps& ready = ready_[lane];
    if (ready.first == nullptr || !world_.network->has_room(options_.node, lane)) {
        return false;
    }
    HostQp& each = *ready.first;
    ready.first = each.next;
    ready_lanes_ &= ready.first == nullptr ? ~(1U << lane) : ~0U;
    each.ready = false;
    current_ = &each;
    if (each.qp->progress(now, 1, *this)) {
        make_ready(each);
    }
    if (world_.watcher != nullptr) {
        world_.watcher->progressed(now, options_.name, *each.qp);
    }
    world_.timers.set(each.timer, std::max(each.qp->deadline(), now + 1));
    return true;
}

// One packet may wait behind the one that is being sent: a pause, missing credit and the QPs' turns then
// count at once. A CNP has a priority of its own.
std::uint32_t VirtualHost::room() const {
    return receiving_ || world_.network->has_room(options_.node, current_->path.lane) ? 1 : 0;
}

bool VirtualHost::transmit(const wire::Path& path, const wire::PacketHeader& header,
                           std::span<const MemoryPiece> pieces) {
    VirtualPacket& packet = world_.network->take();
    packet.header = header;
    packet.payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        packet.payload_bytes += piece.length_bytes;
    }
    packet.header.pad_count = static_cast<std::uint8_t>(-packet.payload_bytes & 3U);
    packet.from = options_.node;
    if (world_.watcher != nullptr) {
        world_.watcher->sent(now_, options_.name, {*current_->qp, packet.header, packet.payload_bytes});
    }
    world_.network->send(now_, path, current_->path.hash, packet);
    return true;
}

bool VirtualHost::complete(CompletionQueue& /*cq*/, const Completion& completion) {
    if (world_.watcher != nullptr) {
        world_.watcher->completed(now_, options_.name, *current_->qp, completion);
    }
    listener_.completed(now_, options_.node, completion);
    return true;
}

void VirtualHost::timer_expired(Qp& qp, const TimerExpiry& expiry) {
    if (world_.watcher != nullptr) {
        world_.watcher->timer_expired(now_, options_.name, qp, expiry);
    }
}

void* VirtualHost::retain(void* /*frame*/, std::span<const std::byte>& /*payload*/) {
    if (held_ == kMaxHeldFrames) {
        return nullptr;
    }
    ++held_;
    return this;
}

}  // namespace urnic::experiment
