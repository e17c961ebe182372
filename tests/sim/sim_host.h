// The QP host of tests, fuzz targets and benches: one QP with rings in plain memory, what its application and
// its provider would do to them, and what a worker does with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rnic/qp/qp.h"
#include "rnic/wire/frame.h"
#include "tests/sim/copied_frames.h"
#include "tests/sim/rings.h"
#include "tests/sim/sim_memory.h"
#include "tests/sim/sim_wire.h"

namespace urnic::sim {

using conform::ConnectOptions;
using conform::kQkey;

/// What a completion said, without what every test would have to ignore.
struct Done {
    std::uint64_t wr_id = 0;
    WcStatus status = WcStatus::kSuccess;
    bool operator==(const Done&) const = default;
};
void PrintTo(const Done& done, std::ostream* os);

/// What an application learns of its QP, at the moment when it happens.
class HostListener {
  public:
    virtual ~HostListener() = default;
    /// `is_lost`: the CQ is full.
    virtual void completed(std::uint32_t qp_num, const Completion& completion, bool is_lost) = 0;
    virtual void raised(std::uint32_t qp_num, AsyncEventType type) = 0;
};

class SimHost : public Outbox {
  public:
    struct Options {
        std::uint32_t send_entries = 256;
        std::uint32_t recv_entries = 256;
        std::uint32_t cq_entries = 4096;
        std::uint32_t max_sge = 16;
        std::uint32_t max_inline = 256;
        bool sq_sig_all = false;
        std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};  // of its port
        std::uint16_t pkey_index = 0;                          // of its QP
        /// Holds packets that come early; without it the QP goes back N (QpConfig::reorder_buffers).
        bool holds_early_packets = false;
        bool nak_failed_invalidation = false;  // as in QpConfig
        bool sends_mig_req = true;             // the same
        bool acks_each_request = false;        // the same
        TimeNs timer_tick_ns = 0;              // the same
        QpType type = QpType::kRc;
        std::uint32_t port_mtu = 4096;
        bool ipv6 = false;
        /// What QPs of one process or RNIC share, instead of the host's own.
        SharedRecvQueue* srq = nullptr;
        const XrcSrqTable* xrc_srqs = nullptr;
        CompletionRing* send_cq = nullptr;
        CompletionRing* recv_cq = nullptr;
        KeyTable* keys = nullptr;
        AddressHandles* handles = nullptr;
        Counters* counters = nullptr;
        ReorderBufferPool* reorder_buffers = nullptr;  // whatever holds_early_packets says
        HostListener* listener = nullptr;
        const congestion::Settings* congestion = nullptr;
        congestion::CnpGaps* cnp_gaps = nullptr;
        MessageHistograms* histograms = nullptr;  // as in QpConfig
        std::uint8_t address = 0;                 // last byte of its GID; 0: the QP number
        /// How it addresses its peer, in place of its own addresses and those of the peer.
        std::optional<wire::PathSpec> path = {};
    };

    SimHost(SimWire& wire, std::string name, std::uint32_t qp_num, const Options& options);
    ~SimHost() override;
    SimHost(const SimHost&) = delete;
    SimHost& operator=(const SimHost&) = delete;

    // --- The application
    // ------------------------------------------------------------------------------------
    SimRegion& add_region(std::size_t size_bytes, const SimRegion::Options& options = {});
    void post_send(const SendRequest& request) { send_ring_.post(request, options_.type); }
    void post_recv(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) { recv_ring_.post(wr_id, sge); }
    /// Creates an address handle for packets to that host; its key.
    [[nodiscard]] std::uint32_t address(const SimHost& peer, std::uint32_t pd = 1);
    /// All completions since the last call.
    std::vector<abi::Cqe*> poll_raw(bool recv);
    std::vector<Done> poll_send();
    std::vector<Done> poll_recv();
    /// For applications that lie.
    [[nodiscard]] SendRing& send_ring() { return send_ring_; }
    [[nodiscard]] RecvRing& recv_ring() { return recv_ring_; }
    [[nodiscard]] const SendRing& send_ring() const { return send_ring_; }
    [[nodiscard]] const RecvRing& recv_ring() const { return recv_ring_; }

    // --- modify_qp
    // ------------------------------------------------------------------------------------------
    [[nodiscard]] int modify(const abi::QpAttr& attr);
    [[nodiscard]] int modify(const abi::QpAttr& attr, const wire::PathSpec& path);
    [[nodiscard]] int to_state(QpState state);
    void to_init(std::uint32_t access = kAllAccess, std::uint32_t qkey = 0);
    void to_rtr(const SimHost& peer, const ConnectOptions& options, std::uint32_t rq_psn);
    void to_rts(const ConnectOptions& options, std::uint32_t sq_psn);

    // --- The worker
    // -----------------------------------------------------------------------------------------
    void deliver(const wire::PacketView& view);
    /// One call of Qp::progress(). Returns whether there is more to do.
    bool progress_once();
    /// Until there is nothing left to do.
    void progress();

    // Outbox
    [[nodiscard]] std::uint32_t room() const override {
        return std::min(room_ - sent_since_, wire_.room(*this));
    }
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;
    void event(Qp& qp, AsyncEventType type) override;
    void timer_expired(Qp& /*qp*/, const TimerExpiry& expiry) override { wire_.timer_expired(*this, expiry); }
    void srq_event(SharedRecvQueue& srq, AsyncEventType type) override;

    /// Packets that fit between two rounds of the worker.
    void set_room(std::uint32_t packets) { room_ = packets; }

    /// Its own, or those of the options.
    [[nodiscard]] KeyTable& keys() { return *options_.keys; }
    [[nodiscard]] AddressHandles& handles();
    [[nodiscard]] CompletionRing& cq(bool recv) { return recv ? *options_.recv_cq : *options_.send_cq; }
    [[nodiscard]] Qp& qp() { return *qp_; }
    [[nodiscard]] const Qp& qp() const { return *qp_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const wire::Gid& gid() const { return gid_; }
    [[nodiscard]] const wire::Mac& mac() const { return mac_; }

    CopiedFrames held_frames;
    ReorderBufferPool reorder_buffers;
    Counters counters;
    std::vector<AsyncEventType> events;
    std::vector<AsyncEventType> srq_events;
    std::uint32_t solicited = 0;  // completions that a CQ armed for solicited ones tells about
    std::uint32_t packets_per_progress = 64;

  protected:
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] TimeNs now() const { return wire_.now(); }

  private:
    SimWire& wire_;
    std::string name_;
    Options options_;
    PkeyTable pkeys_;
    wire::Gid gid_{};
    wire::Mac mac_{};
    std::uint32_t room_ = 4096;
    std::uint32_t sent_since_ = 0;
    // Of 18 MB and 12 MB, for those that use them: ASan writes an eighth of that when they are made.
    std::unique_ptr<KeyTable> own_keys_;
    std::unique_ptr<AddressHandles> handles_;
    std::deque<CompletionRing> own_cqs_;
    SendRing send_ring_;
    RecvRing recv_ring_;
    std::unique_ptr<Qp> qp_;
    std::deque<SimRegion> regions_;
};

/// Connects A and B, both in RTS.
void connect(SimHost& a, SimHost& b, const ConnectOptions& options = {});

}  // namespace urnic::sim
