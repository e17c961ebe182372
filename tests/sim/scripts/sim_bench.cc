#include "tests/sim/scripts/sim_bench.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/sim/local_form.h"

namespace urnic::sim {

namespace {

Recovery& current_recovery() {
    static Recovery value = Recovery::kGoBackN;
    return value;
}

}  // namespace

void set_recovery(Recovery value) { current_recovery() = value; }
Recovery recovery() { return current_recovery(); }

class SimBench::HostRegion final : public conform::Region {
  public:
    explicit HostRegion(SimRegion& region) : region_(region) {}
    [[nodiscard]] std::uint64_t addr(std::size_t offset) const override { return region_.addr(offset); }
    [[nodiscard]] std::uint32_t key() const override { return region_.key(); }
    [[nodiscard]] std::size_t size() const override { return region_.size(); }
    void read(std::size_t offset, std::span<std::byte> to) override {
        std::memcpy(to.data(), region_.data() + offset, to.size());
    }
    void write(std::size_t offset, std::span<const std::byte> from) override {
        std::memcpy(region_.data() + offset, from.data(), from.size());
    }

  private:
    SimRegion& region_;
};

SimBench::SimBench() = default;
SimBench::~SimBench() = default;

void SimBench::create(const ConnectOptions& connect, const conform::QpOptions& qp,
                      std::span<const std::byte> data) {
    regions_.clear();
    peer_address_.reset();
    host_.reset();
    front_.reset();
    make_srqs(qp);
    options_ = connect;
    network_ = std::make_unique<SimNetwork>();
    network_->lose = [](const SentPacket& /*packet*/) { return true; };  // the script is the peer
    SimHost::Options options = host_options;
    options.send_entries = qp.send_entries;
    options.recv_entries = qp.recv_entries;
    options.cq_entries = qp.cq_entries;
    options.max_sge = qp.max_sge;
    options.max_inline = qp.max_inline;
    options.sq_sig_all = qp.sq_sig_all;
    options.pkeys = qp.pkeys;
    if (qp.type != QpType::kRc) {
        options.type = qp.type;
    }
    options.xrc_srqs = qp.type == QpType::kXrcRecv ? &srq_domain_ : nullptr;
    options.holds_early_packets |= is_selective();
    host_ = std::make_unique<SimHost>(*network_, "A", kQp, options);
    // Only its addresses are used; a table of keys of its own would take most of a script's time under ASan.
    options.keys = &host_->keys();
    peer_address_ = std::make_unique<SimHost>(*network_, "B", kPeerQp, options);
    memory_ = &host_->add_region(kMemoryBytes);
    regions_.push_back(std::make_unique<HostRegion>(*memory_));
    std::copy(data.begin(), data.end(), memory_->data());
    host_->to_init(connect.access);
}

void SimBench::make_srqs(const conform::QpOptions& qp) {
    constexpr std::uint32_t kFirstSrq = 0x00'0101;
    constexpr std::uint32_t kApart = 0x100;  // numbers that share a bucket
    for (const std::unique_ptr<SimSrq>& srq : srqs_) {
        srq_domain_.remove(srq->queue());
    }
    srqs_.clear();
    for (std::uint32_t i = 0; qp.type == QpType::kXrcRecv && i < kXrcSrqs; ++i) {
        srqs_.push_back(std::make_unique<SimSrq>(qp.recv_entries, 1, kFirstSrq + i * kApart, true));
        srq_domain_.add(srqs_.back()->queue());
    }
}

void SimBench::rtr() { host_->to_rtr(*peer_address_, options_, options_.psn_b); }

void SimBench::rts() {
    host_->to_rts(options_, options_.psn_a);
    host_->progress();
}

void SimBench::init() { host_->to_init(options_.access); }

int SimBench::modify(const abi::QpAttr& attr) {
    const int error = host_->modify(attr);
    host_->progress();
    return error;
}

bool SimBench::is_draining() {
    abi::QpAttr attr{};
    host_->qp().query(attr);
    return attr.sq_draining != 0;
}

std::optional<std::uint64_t> SimBench::counter(Counter Counters::*which) {
    return (host_->counters.*which).value();
}

conform::Region& SimBench::memory() { return *regions_.front(); }

conform::Region& SimBench::add_region(std::size_t bytes, std::uint32_t access) {
    regions_.push_back(std::make_unique<HostRegion>(host_->add_region(bytes, {.access = access})));
    return *regions_.back();
}

void SimBench::post(const std::vector<SendRequest>& requests) {
    for (const SendRequest& request : requests) {
        host_->post_send(request);
    }
    host_->progress();
}

void SimBench::post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
    host_->post_recv(wr_id, sge);
    // The provider rings the doorbell when it knows that nothing else would flush the receive.
    host_->progress();
}

void SimBench::post_srq_receive(std::size_t index, std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
    srqs_.at(index)->post(wr_id, sge);
}

std::vector<conform::SeenCompletion> SimBench::completions(bool recv, std::size_t /*hoped*/) {
    std::vector<conform::SeenCompletion> list;
    for (const abi::Cqe* cqe : host_->poll_raw(recv)) {
        list.push_back({cqe->wr_id, static_cast<WcStatus>(cqe->status), cqe->opcode, cqe->byte_len,
                        cqe->wc_flags, cqe->imm_or_rkey, cqe->wqe_index});
    }
    for (std::size_t i = 0; recv && i < srqs_.size(); ++i) {
        for (const abi::Cqe* cqe : srqs_[i]->poll()) {
            list.push_back({cqe->wr_id,
                            static_cast<WcStatus>(cqe->status),
                            cqe->opcode,
                            cqe->byte_len,
                            cqe->wc_flags,
                            cqe->imm_or_rkey,
                            {}});
        }
    }
    return list;
}

std::vector<AsyncEventType> SimBench::events(std::size_t /*hoped*/) {
    return std::exchange(host_->events, {});
}

wire::PathSpec SimBench::path() const {
    wire::PathSpec spec;
    spec.src_mac = peer_address_->mac();
    spec.dst_mac = host_->mac();
    spec.src_gid = peer_address_->gid();
    spec.dst_gid = host_->gid();
    return spec;
}

void SimBench::transmit(const std::vector<conform::FrameBytes>& burst) {
    for (const conform::FrameBytes& frame : burst) {
        // As the daemon does: the DestQP finds the QP, then the frame is checked.
        wire::PacketView view;
        if (wire::peek_dest_qp(frame) == kQp && wire::parse_frame(frame, view) == wire::ParseError::kNone &&
            wire::icrc_ok(view)) {
            overwrite_absent_fields(view.header);
            host_->deliver(view);
        }
    }
    host_->progress();
}

const conform::SeenFrame* SimBench::next(TimeNs until) {
    std::deque<SentPacket>& packets = network_->packets();
    while (packets.empty() && until > now()) {
        const TimeNs deadline = host_->qp().deadline();
        network_->run_until(deadline > until ? until : std::max(deadline, now()));
        if (deadline > until) {
            break;
        }
    }
    if (packets.empty()) {
        return nullptr;
    }
    front_ = conform::SeenFrame{packets.front().time, packets.front().frame};
    return &*front_;
}

conform::SeenFrame SimBench::take() {
    SentPacket packet = std::move(network_->packets().front());
    network_->packets().pop_front();
    return {packet.time, std::move(packet.frame)};
}

}  // namespace urnic::sim
