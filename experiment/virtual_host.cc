#include "experiment/virtual_host.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::experiment {

namespace {

// Preamble, start of frame, FCS and the gap between frames.
constexpr std::uint32_t kEthernetOverheadBytes = 24;
constexpr std::uint32_t kPd = 1;
// What payload points to; nobody looks.
constexpr std::array<std::byte, 4096> kNothing{};

wire::Gid gid_of(netsim::NodeIndex node) {
    const std::uint32_t number = node + 1;
    return {0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0xff,
            0xff,
            198,
            18,
            static_cast<std::uint8_t>(number >> 8U),
            static_cast<std::uint8_t>(number)};
}

netsim::NodeIndex node_of(const wire::Path& path) {
    const std::uint8_t* const to = path.bytes.data() + path.l3_offset + wire::kIpv4Destination;
    return (std::uint32_t{to[2]} << 8U | to[3]) - 1;
}

}  // namespace

VirtualPacket& PacketPool::take() {
    if (free_.empty()) {
        free_.push_back(&packets_.emplace_back());
        free_.reserve(packets_.size());
    }
    VirtualPacket& packet = *free_.back();
    free_.pop_back();
    return packet;
}

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
      gid_(gid_of(options.node)),
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

void VirtualHost::connect(QpIndex index, const VirtualHost& peer, QpIndex peer_qp, std::uint16_t port) {
    HostQp& each = *qps_[index];
    each.port = port != 0 ? port : wire::udp_source_port(0, qp_num(index), qp_num(peer_qp));
    wire::PathSpec spec;
    spec.src_gid = gid_;
    spec.dst_gid = peer.gid_;
    spec.traffic_class = static_cast<std::uint8_t>(options_.rnic.priority << 5U | wire::kEct0);
    spec.udp_src_port = each.port;
    netsim::FlowKey key;
    key.source = gid_;
    key.destination = peer.gid_;
    key.source_port = each.port;
    key.destination_port = wire::kRocev2UdpPort;
    each.hash = netsim::flow_hash(key);
    current_ = &each;
    modify(each, peer, peer_qp, wire::make_path(spec));
    current_ = nullptr;
}

void VirtualHost::modify(HostQp& each, const VirtualHost& peer, QpIndex peer_qp, const wire::Path& path) {
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
    std::copy(peer.gid_.begin(), peer.gid_.end(), attr.av.dgid);
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
    if (first_ready_ == nullptr) {
        first_ready_ = &each;
    } else {
        last_ready_->next = &each;
    }
    last_ready_ = &each;
}

void VirtualHost::receive(TimeNs now, VirtualPacket& packet) {
    const QpIndex index = index_of(packet.header.dest_qp);
    if (index >= qps_.size()) {
        ++counters.drop_unknown_qp;
        world_.packets.give_back(packet);
        return;
    }
    now_ = now;
    HostQp& each = *qps_[index];
    wire::PacketView view;
    view.header = packet.header;
    view.payload = {kNothing.data(), packet.payload_bytes};
    view.src_gid = gid_of(packet.from);
    view.dst_gid = gid_;
    view.traffic_class = packet.traffic_class | (packet.marked ? wire::kEcnCe : 0);
    world_.packets.give_back(packet);
    current_ = &each;
    running_ = receiving_ = true;
    each.qp->handle_packet(now, view, *this);
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

// Each QP in turn sends a packet, as long as the port takes one. What a QP does may call back: a completion
// posts the next request, a packet that leaves makes room. That is for the loop here to see.
void VirtualHost::run(TimeNs now) {
    if (running_) {
        return;
    }
    running_ = true;
    now_ = now;
    while (first_ready_ != nullptr && room() != 0) {
        HostQp& each = *first_ready_;
        first_ready_ = each.next;
        each.ready = false;
        current_ = &each;
        if (each.qp->progress(now, 1, *this)) {
            make_ready(each);
        }
        world_.timers.set(each.timer, std::max(each.qp->deadline(), now + 1));
    }
    running_ = false;
}

// One packet may wait behind the one that is being sent: a pause and the QPs' turns then count at once. A CNP
// has a priority of its own.
std::uint32_t VirtualHost::room() const {
    return receiving_ || world_.fabric->waiting_bytes(options_.node, options_.rnic.priority) == 0 ? 1 : 0;
}

bool VirtualHost::transmit(const wire::Path& path, const wire::PacketHeader& header,
                           std::span<const MemoryPiece> pieces) {
    VirtualPacket& packet = world_.packets.take();
    packet.header = header;
    packet.payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        packet.payload_bytes += piece.length_bytes;
    }
    packet.header.pad_count = static_cast<std::uint8_t>(-packet.payload_bytes & 3U);
    packet.from = options_.node;
    packet.to = node_of(path);
    packet.hash = current_->hash;
    packet.traffic_class = path.bytes[path.l3_offset + wire::kIpv4Tos];
    packet.priority = packet.traffic_class >> 5U;
    packet.ecn_capable = (packet.traffic_class & wire::kEcnMask) != 0;
    packet.marked = false;
    packet.bytes = static_cast<std::uint32_t>(path.length + wire::opcode_info(header.opcode).header_bytes +
                                              packet.payload_bytes + packet.header.pad_count +
                                              wire::kIcrcBytes + kEthernetOverheadBytes);
    world_.fabric->send(now_, options_.node, packet);
    return true;
}

bool VirtualHost::complete(CompletionQueue& /*cq*/, const Completion& completion) {
    listener_.completed(now_, options_.node, completion);
    return true;
}

void* VirtualHost::retain(void* /*frame*/, std::span<const std::byte>& /*payload*/) {
    if (held_ == kMaxHeldFrames) {
        return nullptr;
    }
    ++held_;
    return this;
}

}  // namespace urnic::experiment
