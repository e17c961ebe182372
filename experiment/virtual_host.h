// A host in virtual time: its RNIC with real QPs (rnic/qp), between the work requests of flows and a port of
// the network. No memory is copied; keys, addresses and lengths are checked as ever.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "experiment/config.h"
#include "experiment/virtual_network.h"
#include "netsim/network/timer_heap.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/qp_watcher.h"
#include "rnic/qp/rc/rc_qp.h"

namespace urnic::experiment {

/// Memory of every host alike: any address below its size is there, and what is written is forgotten.
class VirtualMemory final : public AddressSpace {
  public:
    static constexpr std::uint64_t kBytes = 1U << 30U;
    VirtualMemory();
    [[nodiscard]] bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) override;
    [[nodiscard]] bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) override;
    [[nodiscard]] std::uint32_t key() const { return key_; }

    KeyTable keys;

  private:
    std::uint32_t key_;
};

/// What hosts have in common.
struct HostWorld {
    VirtualNetwork* network = nullptr;
    VirtualMemory memory;
    netsim::TimerHeap timers;
    QpWatcher* watcher = nullptr;  // nullptr: nobody wants to know
};

class CompletionListener {
  public:
    virtual ~CompletionListener() = default;
    virtual void completed(TimeNs now, netsim::NodeIndex host, const Completion& completion) = 0;
};

class VirtualHost final : public Outbox, public FrameRetainer {
  public:
    using QpIndex = std::uint32_t;
    struct Options {
        netsim::NodeIndex node = 0;
        std::string name;
        RnicConfig rnic;
        congestion::Settings settings;
    };
    VirtualHost(HostWorld& world, const Options& options, CompletionListener& listener);
    ~VirtualHost() override;
    VirtualHost(const VirtualHost&) = delete;
    VirtualHost& operator=(const VirtualHost&) = delete;

    /// `timer` is the QP's own in the world's heap. Send queues hold `depth` work requests.
    [[nodiscard]] QpIndex add_qp(std::uint32_t timer, std::uint32_t depth);
    /// `port` 0: as the RNIC chooses it.
    void connect(QpIndex qp, const VirtualHost& peer, QpIndex peer_qp, std::uint16_t port, std::uint8_t sl);
    void post(TimeNs now, QpIndex qp, WrOpcode opcode, std::uint32_t length_bytes);

    void receive(TimeNs now, VirtualPacket& packet);
    /// The port takes another packet.
    void room(TimeNs now) { run(now); }
    /// The QP's timer is due.
    void on_timer(TimeNs now, QpIndex qp);

    [[nodiscard]] netsim::NodeIndex node() const { return options_.node; }
    [[nodiscard]] const std::string& name() const { return options_.name; }
    [[nodiscard]] const VirtualPath& path(QpIndex index) const { return qps_[index]->path; }
    [[nodiscard]] const Qp& qp(QpIndex index) const { return *qps_[index]->qp; }
    [[nodiscard]] static std::uint32_t qp_num(QpIndex index) { return kFirstQpNum + index; }
    [[nodiscard]] static QpIndex index_of(std::uint32_t qp_num) { return qp_num - kFirstQpNum; }
    [[nodiscard]] std::uint16_t udp_source_port(QpIndex index) const { return qps_[index]->port; }

    // Outbox, FrameRetainer
    [[nodiscard]] std::uint32_t room() const override;
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp& /*qp*/, AsyncEventType /*type*/) override {}
    void timer_expired(Qp& qp, const TimerExpiry& expiry) override;
    [[nodiscard]] void* retain(void* frame, std::span<const std::byte>& payload) override;
    void release(void* /*frame*/) override { --held_; }

    Counters counters;

  private:
    static constexpr std::uint32_t kFirstQpNum = 0x11;
    static constexpr std::uint32_t kHeldTables = 16;
    static constexpr std::uint32_t kMaxHeldFrames = 16'384;
    struct alignas(64) Line {
        std::array<std::byte, 64> bytes;
    };
    struct HostQp {
        std::unique_ptr<RcQp> qp;
        std::vector<Line> ring;
        std::uint32_t entries = 0;
        std::uint32_t posted = 0;
        std::uint32_t timer = 0;
        VirtualPath path;
        std::uint16_t port = 0;
        bool ready = false;
        HostQp* next = nullptr;  // that is ready
    };
    // QPs of one lane that may have something to send, in turns.
    struct ReadyQps {
        HostQp* first = nullptr;
        HostQp* last = nullptr;
    };

    void modify(HostQp& each, QpIndex peer_qp);
    void make_ready(HostQp& each);
    void run(TimeNs now);
    [[nodiscard]] bool run_next(TimeNs now, std::uint8_t lane);

    HostWorld& world_;
    Options options_;
    CompletionListener& listener_;
    std::vector<Line> cq_memory_;
    std::unique_ptr<CompletionQueue> cq_;
    ReorderBufferPool reorder_buffers_;
    std::uint32_t held_ = 0;
    std::vector<std::unique_ptr<HostQp>> qps_;
    std::array<ReadyQps, kPortLanes> ready_{};
    std::uint32_t ready_lanes_ = 0;  // bit n: lane n has some
    TimeNs now_ = 0;
    HostQp* current_ = nullptr;
    bool running_ = false;
    bool receiving_ = false;
};

}  // namespace urnic::experiment
