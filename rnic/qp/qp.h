// A queue pair as its worker sees it, whatever its transport service.
#pragma once

#include <cstdint>

#include "abi/control.h"
#include "base/psn.h"
#include "base/time.h"
#include "rnic/device/address_handles.h"
#include "rnic/device/counters.h"
#include "rnic/device/pkey_table.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/flow_rate.h"
#include "rnic/qp/outbox.h"
#include "rnic/qp/reorder_buffer.h"
#include "rnic/queue/completion_queue.h"
#include "rnic/queue/shared_recv_queue.h"
#include "rnic/queue/work_queue.h"
#include "rnic/wire/packet_view.h"

namespace urnic {

namespace congestion {
class CnpGaps;
}
struct MessageHistograms;

/// What a QP is made of; everything outlives it.
struct QpConfig {
    std::uint32_t qp_num = 0;
    std::uint32_t pd = 0;
    bool sq_sig_all = false;
    SendQueue sq;
    RecvQueue rq;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* recv_cq = nullptr;     // the CQs of an XRC target QP are those of the SRQs
    SharedRecvQueue* srq = nullptr;         // instead of rq
    const XrcSrqTable* xrc_srqs = nullptr;  // of an XRC target QP's domain
    KeyTable* keys = nullptr;
    const AddressHandles* handles = nullptr;  // UD
    Counters* counters = nullptr;             // of the device on the QP's worker
    /// Of the QP's worker: packets that come early are held, and only what is missing is sent again.
    /// nullptr: go-back-N in both directions.
    ReorderBufferPool* reorder_buffers = nullptr;
    /// RC, UC and XRC: how fast the QP may send, and whether it answers marks; nullptr: as fast as it can,
    /// and no.
    const congestion::Settings* congestion = nullptr;
    congestion::CnpGaps* cnp_gaps = nullptr;  // the device's; nullptr: each QP has a gap of its own
    /// RC: a SEND with Invalidate of a key that may not be invalidated gets a NAK, not an ACK.
    bool nak_failed_invalidation = false;
    /// MigReq of what it sends but CNPs. 1 while a path does not migrate (IBA 9.2.1); some NICs send 0.
    bool sends_mig_req = true;
    /// RC and XRC: each request that asks for an acknowledgement gets one of its own, where one answers a
    /// burst otherwise (IBA 9.7.5.1.2 leaves the choice). This and the next are for ImitatingRcQp and
    /// MeasuredRcQp.
    bool acks_each_request = false;
    /// Timers of a requester expire at multiples of this, none before its time; 0: when their time has come.
    TimeNs timer_tick_ns = 0;
    std::uint32_t port_mtu_bytes = 4096;  // largest payload of a UD packet
    bool is_infiniband = false;           // of what link layer the port is: only UD QPs ask
    const PkeyTable* pkeys = &kDefaultPkeys;
    std::uint16_t pkey = wire::kDefaultPkey;  // the QP's: the entry that modify_qp() has named last
    /// Of the device on the QP's worker; nullptr: nobody asks. MeasuredRcQp and MeasuredUnreliableQp alone
    /// know it.
    MessageHistograms* histograms = nullptr;
};

/// The next PSNs, as query_qp answers them: of a half that is not active, what modify_qp() was told last.
struct QpPsns {
    std::uint32_t rq_psn;  // that the responder expects
    std::uint32_t sq_psn;  // of the requester's next new request
};

/// Owned by one worker; every call is made on that worker's thread. Pure: no clock, no allocation, no system
/// call.
class Qp {
  public:
    explicit Qp(const QpConfig& config) : config_(config), flow_(config.congestion) {}
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;
    virtual ~Qp() = default;

    /// modify_qp: checks the transition and the attributes against the table (IBA 11.2.5.2, tables 91-92),
    /// then applies them. `path` is resolved from attr.av by the caller and is looked at only with kQpAttrAv.
    /// Returns 0 or errno (EINVAL: transition, missing, forbidden or out-of-range attribute, a free
    /// entry of the P_Key table). A change to ERR
    /// flushes through `outbox`.
    [[nodiscard]] virtual int modify(TimeNs now, const abi::QpAttr& attr, const wire::Path& path,
                                     Outbox& outbox) = 0;
    /// Fills every attribute.
    virtual void query(abi::QpAttr& attr) const = 0;
    [[nodiscard]] virtual QpPsns psns() const = 0;

    /// A packet for this QP, parsed and with a good ICRC, DestQP checked. Answers are only noted: after a
    /// burst of packets the caller calls progress(), which sends one acknowledgement for all of them. A CNP
    /// alone goes out at once.
    virtual void handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) = 0;
    /// The time deadline() has come; progress() is called after it.
    virtual void handle_timeout(TimeNs now, Outbox& outbox) = 0;
    /// Sends what is due: acknowledgements and responses first, then up to `max_packets` of requests from the
    /// send queue. Returns whether max_packets or the outbox's room stopped it: then call again soon.
    /// While Outbox::defer_if_paused() the QP's path nothing is sent, and that is no reason to be called
    /// again. Called after handle_packet(), handle_timeout(), modify(), end_pause(), and whenever the QP's
    /// doorbell rang. In ERR it flushes what was posted since. A receive queue has no doorbell of its own: a
    /// provider that posts a receive to a QP which it knows to be neither in RTR nor in RTS rings the send
    /// doorbell, so that the flush happens at once; else it happens at the next call.
    [[nodiscard]] virtual bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) = 0;
    /// When handle_timeout() wants to be called; kNever if not at all.
    [[nodiscard]] virtual TimeNs deadline() const = 0;
    /// A pause for which the QP kept something back may be over; progress() is called after it.
    virtual void end_pause(TimeNs /*now*/) {}

    /// Whether something that was posted was not sent once, and may still: it waits for the send window,
    /// credits, the rate, a pause or its turn.
    [[nodiscard]] virtual bool has_unsent() const { return false; }

    /// WQEs that were taken out of the send queue since RESET: the index of the next one.
    [[nodiscard]] virtual std::uint32_t sends_taken() const { return 0; }
    /// The first PSN of the WQE `index`, which was taken lately; of one that sends nothing the next one's.
    [[nodiscard]] virtual Psn first_psn_of(std::uint32_t /*index*/) const { return {}; }

    /// An SRQ of the QP's XRC domain ends: lets go of a receive taken from it.
    virtual void forget_srq(const SharedRecvQueue& /*srq*/) {}
    /// Lets go of what it holds of its worker's, on that worker, before the QP leaves it.
    virtual void leave_worker() {}

    /// Its rate. After FlowRate::settings_changed() progress() is called.
    [[nodiscard]] FlowRate& flow() { return flow_; }
    [[nodiscard]] const FlowRate& flow() const { return flow_; }
    /// From now on these settings hold; they may be the same ones with other contents.
    void use_congestion_settings(TimeNs clock, const congestion::Settings* settings) {
        config_.congestion = settings;
        flow_.settings_changed(clock, settings);
    }

    /// Where it sends; of a QP that sends datagrams, and before RTR, without bytes.
    [[nodiscard]] virtual const wire::Path& path() const = 0;
    [[nodiscard]] virtual QpState state() const = 0;
    [[nodiscard]] std::uint32_t qp_num() const { return config_.qp_num; }
    [[nodiscard]] const QpConfig& config() const { return config_; }

  protected:
    QpConfig config_;
    FlowRate flow_;
};

}  // namespace urnic
