// A whole message through two RC engines joined by a loop-back wire, in one thread: everything the daemon
// does for it but rings, doorbells and DPDK. Frames are built, parsed and checked as on a real wire.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "rnic/base/check.h"
#include "rnic/device/counters.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/rc_qp.h"
#include "rnic/wire/frame.h"

namespace urnic {
namespace {

/// Sends into a row of frames that the peer then receives.
class LoopOutbox final : public Outbox {
  public:
    static constexpr std::uint32_t kFrames = 64;

    std::uint32_t room() const override { return kFrames - count_; }
    bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                  std::span<const MemoryPiece> pieces) override {
        Frame& frame = frames_[count_];
        frame.length = wire::build_frame(path, header, pieces, frame.bytes);
        count_ += frame.length != 0 ? 1U : 0U;
        return frame.length != 0;
    }
    bool complete(CompletionQueue& cq, const Completion& completion) override {
        URNIC_CHECK(completion.status == WcStatus::kSuccess);
        return cq.push(0, completion, 0);
    }
    void event(Qp&, AsyncEventType) override {}

    /// Hands every frame to `qp`. False: there was none.
    bool deliver(Qp& qp, TimeNs now, Outbox& answers) {
        const std::uint32_t count = count_;
        for (std::uint32_t i = 0; i < count; ++i) {
            URNIC_CHECK(wire::parse_frame({frames_[i].bytes, frames_[i].length}, view_) ==
                        wire::ParseError::kNone);
            URNIC_CHECK(wire::icrc_ok(view_));
            qp.handle_packet(now, view_, answers);
        }
        count_ = 0;
        return count != 0;
    }

  private:
    struct Frame {
        std::byte bytes[wire::kMaxFrameBytes];
        std::size_t length = 0;
    };
    std::vector<Frame> frames_ = std::vector<Frame>(kFrames);
    std::uint32_t count_ = 0;
    wire::PacketView view_;
};

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

std::unique_ptr<std::byte, Free> zeroed(std::size_t bytes) {
    bytes = abi::round_up(bytes, 4096);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    std::fill_n(memory, bytes, std::byte{0});
    return std::unique_ptr<std::byte, Free>(memory);
}

/// One QP with its rings and one registered buffer.
class Node {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order in which they are made
  public:
    static constexpr std::uint32_t kEntries = 128;
    static constexpr std::uint32_t kStride = abi::send_stride(1, 0);
    static constexpr std::uint32_t kPd = 1;
    static constexpr std::size_t kBufferBytes = 65536;

    explicit Node(std::uint32_t qp_num)
        : sq_memory_(zeroed(std::size_t{kEntries} * kStride)),
          cq_memory_(zeroed(abi::cq_bytes(1, kEntries))),
          buffer_(zeroed(kBufferBytes)),
          cq_(cq_memory_.get(), kEntries) {
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
        config.counters = &counters_;
        qp_ = std::make_unique<RcQp>(config);
    }

    void connect(std::uint32_t peer_qp, Outbox& outbox) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
        attr.state = QpState::kInit;
        attr.port_num = 1;
        attr.access_flags = kAccessRemoteWrite | kAccessRemoteRead;
        wire::PathSpec spec;
        spec.src_gid = spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
        const wire::Path path = wire::make_path(spec);
        int error = qp_->modify(0, attr, path, outbox);
        attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                    kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
        attr.state = QpState::kRtr;
        attr.path_mtu = 5;
        attr.dest_qp_num = peer_qp;
        attr.max_dest_rd_atomic = 16;
        std::copy(spec.dst_gid.begin(), spec.dst_gid.end(), attr.av.dgid);
        error |= qp_->modify(0, attr, path, outbox);
        attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                    kQpAttrMaxQpRdAtomic;
        attr.state = QpState::kRts;
        attr.max_rd_atomic = 16;
        error |= qp_->modify(0, attr, path, outbox);
        URNIC_CHECK(error == 0);
    }

    /// What a provider does in post_send: one signaled WRITE of the whole buffer's first bytes.
    void post_write(const Node& peer, std::uint32_t length_bytes) {
        std::byte* slot = sq_memory_.get() + std::size_t{posted_ % kEntries} * kStride;
        auto& wqe = *reinterpret_cast<abi::SendWqe*>(slot);
        wqe.opcode = static_cast<std::uint8_t>(WrOpcode::kWrite);
        wqe.num_sge = 1;
        wqe.flags = kSendSignaled;
        wqe.remote_addr = peer.address();
        wqe.rkey = peer.key_;
        *reinterpret_cast<abi::Sge*>(slot + sizeof wqe) = {address(), length_bytes, key_};
        wqe.seq.store(++posted_, std::memory_order_release);
    }

    /// What it does in poll_cq: counts and takes what is there.
    std::uint32_t poll() {
        const auto* ring =
            reinterpret_cast<const abi::Cqe*>(cq_memory_.get() + abi::cq_ring_offset(0, kEntries));
        const std::uint32_t before = polled_;
        while (ring[polled_ % kEntries].seq.load(std::memory_order_acquire) == polled_ + 1) {
            ++polled_;
        }
        reinterpret_cast<abi::CqHeader*>(cq_memory_.get())
            ->consumer[0]
            .index.store(polled_, std::memory_order_release);
        return polled_ - before;
    }

    [[nodiscard]] Qp& qp() { return *qp_; }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(buffer_.get()); }

  private:
    std::unique_ptr<std::byte, Free> sq_memory_, cq_memory_, buffer_;
    CompletionQueue cq_;
    KeyTable keys_;
    Counters counters_;
    std::uint32_t key_ = 0;
    std::uint32_t posted_ = 0;
    std::uint32_t polled_ = 0;
    std::unique_ptr<RcQp> qp_;
};

/// `range(0)` bytes a WRITE, `range(1)` WRITEs posted at once; a step ends with their completions.
void write_through_two_engines(benchmark::State& state) {
    const auto length = static_cast<std::uint32_t>(state.range(0));
    const auto batch = static_cast<std::uint32_t>(state.range(1));
    LoopOutbox from_requester;
    LoopOutbox from_responder;
    Node requester(10);
    Node responder(11);
    requester.connect(11, from_requester);
    responder.connect(10, from_responder);
    TimeNs now = 0;
    for ([[maybe_unused]] auto _ : state) {
        for (std::uint32_t i = 0; i < batch; ++i) {
            requester.post_write(responder, length);
        }
        std::uint32_t completed = 0;
        // Nothing is ever lost here: rounds without an end would be a defect of the engine or of this file.
        for (std::uint32_t round = 0; completed < batch; ++round) {
            URNIC_CHECK(round < 10'000);
            ++now;
            (void)requester.qp().progress(now, 64, from_requester);
            from_requester.deliver(responder.qp(), now, from_responder);
            (void)responder.qp().progress(now, 64, from_responder);
            from_responder.deliver(requester.qp(), now, from_requester);
            completed += requester.poll();
        }
    }
    state.SetItemsProcessed(state.iterations() * state.range(1));
    state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
}
BENCHMARK(write_through_two_engines)
    ->ArgNames({"bytes", "batch"})
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({64, 32})
    ->Args({4096, 1})
    ->Args({4096, 32})
    ->Args({65536, 4});

}  // namespace
}  // namespace urnic
