// One end of a connection of a random walk: an application that posts, polls and now and then misbehaves, and
// its QP.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/sim_device.h"
#include "tests/sim/walk/operation_maker.h"
#include "tests/sim/walk/oracle.h"
#include "tests/sim/walk/plan.h"

namespace urnic::sim {

/// What the ends agree on when they connect; drawn anew for each connection. Arrays: one value for each end.
struct ConnectionOptions {
    std::uint8_t path_mtu = 3;
    std::uint8_t timeout = 10;
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t min_rnr_timer = 1;
    std::array<std::uint32_t, 2> psn{};              // first that the end sends
    std::array<std::uint8_t, 2> max_rd_atomic{};     // of the end as requester: the other's destination depth
    std::array<std::uint32_t, 2> receive_bytes{};    // room of each of the end's receives
    std::array<std::uint32_t, 2> receive_entries{};  // of the end's, posted at most
    std::array<TimeNs, 2> rts_at{};                  // until then the end stays in RTR
};

class Endpoint;

/// What went wrong on purpose.
struct TroubleStats {
    std::uint64_t revoked = 0;  // keys that were in use
    std::uint64_t lost = 0;     // completions that found their CQ full
    std::uint64_t gave_up = 0;  // RETRY_EXC_ERR whose earliest time was known
    void add(const TroubleStats& other) {
        revoked += other.revoked;
        lost += other.lost;
        gave_up += other.gave_up;
    }
};

/// What all parts of a walk have in common.
struct WalkShared {
    const WalkPlan& plan;
    Network& network;
    Random random;
    std::uint32_t messages_left = 0;  // to post
    std::vector<Endpoint*> endpoints;
    std::string failure;  // what went wrong first
    TroubleStats trouble;

    [[nodiscard]] Endpoint* find(std::uint32_t qp_num) const;
};

/// A device with what all its applications share.
struct WalkDevice {
    WalkDevice(Network& network, const SimDevice::Options& options, std::uint64_t seed, const WalkPlan& plan,
               std::span<std::byte> source_bytes);

    SimDevice device;
    std::deque<CompletionRing> cqs;
    Region source;
    RingMemory counter_memory;
    Region counter_region;
    SharedCounter counter;
};

class Endpoint {
  public:
    /// `side`: 0 or 1, its place in ConnectionOptions.
    Endpoint(WalkShared& shared, WalkDevice& home, std::uint32_t side, std::string name);
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    void set_peer(Endpoint& peer);
    /// Creates the QP if there is none. Both ends do that before either connects.
    void prepare();
    /// Brings the QP to RTR and, if it is time, to RTS.
    void open(const ConnectionOptions& options);
    /// One moment of the application. Returns whether it did something.
    bool act();
    /// The connection is broken: one moment of taking the QP down. True once it is destroyed or in RESET.
    [[nodiscard]] bool close();
    [[nodiscard]] bool is_closed() const { return qp_ == nullptr || state() == QpState::kReset; }
    /// Both ends are closed: what the peer asked of this one is compared with its memory.
    void settle();
    [[nodiscard]] SimDevice& device() { return home_.device; }

    /// What the RNIC tells, at the moment when it does.
    void completed(const Completion& completion, bool is_lost);
    void raised(AsyncEventType type);

    [[nodiscard]] bool is_broken() const { return is_broken_; }
    /// All that this end asked for has completed.
    [[nodiscard]] bool drained() const { return outgoing().drained(); }
    [[nodiscard]] const SimQp* qp() const { return qp_; }
    /// What the peer asks of this end.
    [[nodiscard]] Oracle& incoming() { return incoming_; }
    /// At the end of a walk: compares memory, takes the QP to ERR and sees that every receive is flushed.
    void check_end();

  private:
    static constexpr std::uint32_t kMaxReceivePieces = 3;
    struct PostedReceive {
        std::uint64_t wr_id = 0;
        std::array<Piece, kMaxReceivePieces> pieces{};
        std::uint32_t num_pieces = 0;
    };
    struct Pushed {
        std::uint64_t wr_id;
        std::uint32_t wqe_index;
        WcStatus status;
    };

    /// A key of this end that was taken away while in use, until the next connection.
    enum class Revoked : std::uint8_t { kNothing, kArea, kLanding, kReceives };

    void fail(const std::string& what);
    void note(const std::string& what);
    [[nodiscard]] Oracle& outgoing() { return peer_->incoming_; }
    [[nodiscard]] const Oracle& outgoing() const { return peer_->incoming_; }
    [[nodiscard]] Random& random() { return shared_.random; }
    [[nodiscard]] QpState state() const { return qp_->qp().state(); }

    void poll();
    void polled(const abi::Cqe& cqe);
    void completed_receive(const Completion& completion);
    void modify(const abi::QpAttr& attr, const SimDevice* peer = nullptr);
    void to_state(QpState state);
    void to_init();
    void to_rtr();
    void to_rts();
    void post_receives();
    void post_receive();
    void post_sends();
    void post_send(bool is_last);
    void stop_and_go();
    void check_progress();
    void make_trouble();
    void revoke();
    [[nodiscard]] Region& revoked_region();
    void spoil_revoked(Operation& operation) const;
    void check_frozen();
    void register_again();
    void lost(const Completion& completion);
    [[nodiscard]] std::uint64_t refusals() const;
    void begin_patience();
    void check_patience(WcStatus status);
    void check_all_flushed();
    void drop_qp();
    [[nodiscard]] bool answers() const;
    [[nodiscard]] AllowedErrors allowed_errors() const;
    [[nodiscard]] std::uint32_t send_room() const {
        return qp_->send_ring().entries() - (qp_->send_ring().posted() - send_done_);
    }

    WalkShared& shared_;
    WalkDevice& home_;
    std::uint32_t side_;
    std::string name_;
    Endpoint* peer_ = nullptr;
    CompletionRing* send_cq_;
    CompletionRing* recv_cq_;

    // Memory that the peer's operations act on, and that this end's bring data to.
    MemoryWindow window_{WindowType::kType1, 1};
    std::uint32_t window_key_ = 0;
    RingMemory area_memory_;
    RingMemory words_memory_;
    RingMemory landing_memory_;
    RingMemory receive_memory_;
    Region area_;
    Region words_;
    Region landing_;
    Region receive_region_;
    Oracle incoming_;
    std::unique_ptr<OperationMaker> maker_;

    ConnectionOptions options_;
    SimQp* qp_ = nullptr;
    std::uint32_t peer_qp_num_ = 0;
    bool sq_sig_all_ = false;
    std::uint32_t send_done_ = 0;  // WQEs that polled completions gave back
    std::uint32_t recv_done_ = 0;
    std::deque<PostedReceive> receives_;
    std::array<std::deque<Pushed>, 2> pushed_;  // completions made and not polled: send, receive
    std::uint64_t next_receive_id_ = 1ULL << 40U;
    std::uint32_t laziness_per_mille_ = 0;  // moments at which no receive is posted
    TimeNs last_progress_ = 0;
    std::uint32_t peer_rq_psn_ = 0;  // when last_progress_ was looked at
    TimeNs patient_since_ = 0;       // the requester made progress, or had nothing to wait for
    std::uint64_t refusals_before_ = 0;
    Revoked revoked_ = Revoked::kNothing;
    std::vector<std::byte> frozen_;  // the memory when its key was revoked
    bool lost_completion_ = false;
    bool is_broken_ = false;
    bool moved_to_error_ = false;  // by its application
    bool receive_failed_ = false;
    bool did_something_ = false;
    std::uint32_t close_step_ = 0;
};

}  // namespace urnic::sim
