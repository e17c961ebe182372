// The RC responder: carries out the peer's requests in PSN order (IBA 9.7.4, 9.7.5, 9.9.3).
#pragma once

#include <cstdint>

#include "rnic/qp/notification_point.h"
#include "rnic/qp/rc/atomic_replay_cache.h"
#include "rnic/qp/rc/rc_common.h"
#include "rnic/qp/rc/request_gap.h"
#include "rnic/qp/rc/response_queue.h"
#include "rnic/qp/recv_wqe.h"
#include "rnic/qp/reorder_buffer.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

class RcResponder {
  public:
    RcResponder(RcCommon& common, NotificationPoint& notification_point)
        : common_(common),
          notification_point_(notification_point),
          early_requests_(common.config.reorder_buffers),
          responses_(common),
          srq_(common.config.srq),
          pd_(common.config.pd) {}

    /// As new, with the first PSN to expect.
    void reset(Psn first_psn);
    void handle_request(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                        Outbox& outbox);
    /// Sends what is owed, up to `max_packets`, responses by `data` and acknowledgements by `outbox`.
    /// Returns whether there is more.
    [[nodiscard]] bool progress(std::uint32_t max_packets, Outbox& outbox, Outbox& data);
    /// The same in ERR: only when a NAK is owed, or the ACK of a SEND whose invalidation failed, with the
    /// responses before it.
    [[nodiscard]] bool progress_in_error(std::uint32_t max_packets, Outbox& outbox);
    /// Forgets what is owed (the QP was taken to ERR from outside).
    void drop_responses() { responses_.reset(); }
    /// Completes what is left of the receive queue with WR_FLUSH_ERR, at most `most`. Returns
    /// whether there may be more.
    bool flush(std::uint32_t most, Outbox& outbox);
    /// Lets go of requests that came before their turn.
    void clear_reorder_buffer() { early_requests_.clear(); }
    /// XRC target: `srq` ends. A message that fills a receive of it cannot go on.
    void forget_srq(const SharedRecvQueue& srq) { receive_.in_use = receive_.in_use && receive_.srq != &srq; }

    [[nodiscard]] Psn expected_psn() const { return expected_psn_; }

  private:
    enum class Message : std::uint8_t { kNone, kSend, kWrite };
    /// Why a request is refused: what goes back, what a receive WQE in use completes with, and the event when
    /// there is none (IBA table 58, class C; kRemoteOperationalError class A).
    struct Refusal {
        std::uint8_t syndrome;
        WcStatus receive_status;
        AsyncEventType event;
    };
    static const Refusal kInvalidRequest;
    static const Refusal kAccessError;

    // rc_responder_gap.cc: a request is missing.
    void handle_out_of_sequence(TimeNs now, const wire::PacketView& packet, Outbox& outbox);
    void report_gap(TimeNs now, const wire::PacketView& packet, Outbox& outbox);
    void drain_reorder_buffer(Outbox& outbox);
    void on_gap_filled(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                       Outbox& outbox);
    void expect_go_back_n(Psn filled);
    void on_repeated_request(Psn psn, bool ack_req);
    /// Acknowledgements are of what lies before this.
    [[nodiscard]] Psn acknowledged_end() const {
        return gap_.is_repeating(expected_psn_) ? gap_.repeated_end : expected_psn_;
    }
    void execute(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox);
    void handle_duplicate(const wire::PacketView& packet, const wire::OpcodeInfo& info);
    [[nodiscard]] bool find_srq(const wire::PacketHeader& header);
    /// Who asks, when the request in hand names an R_Key.
    [[nodiscard]] KeyUser key_user() const { return {pd_, common_.config.qp_num}; }
    [[nodiscard]] bool sequence_ok(const wire::PacketView& packet, const wire::OpcodeInfo& info) const;
    void handle_send(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox);
    void handle_write(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox);
    void handle_read(const wire::PacketView& packet, Outbox& outbox);
    void handle_atomic(const wire::PacketView& packet, Outbox& outbox);
    // rc_responder_placement.cc
    void handle_atomic_write(const wire::PacketView& packet, Outbox& outbox);
    void handle_flush(const wire::PacketView& packet, Outbox& outbox);
    void answer_without_data();
    [[nodiscard]] [[gnu::always_inline]] inline bool begin_write(const wire::Reth& reth,
                                                                 const wire::OpcodeInfo& info,
                                                                 Outbox& outbox);
    [[nodiscard]] bool consume_recv_wqe(Outbox& outbox);
    void complete_receive(const wire::PacketView& packet, const wire::OpcodeInfo& info, WcOpcode opcode,
                          std::uint32_t byte_len, Outbox& outbox);
    void finish_packet(const wire::PacketView& packet, const wire::OpcodeInfo& info);
    void fail_receive(WcStatus status, std::uint8_t syndrome, Outbox& outbox);
    void refuse(const Refusal& refusal, Outbox& outbox);
    void fail_invalidation(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox);
    [[nodiscard]] std::uint8_t credits();

    RcCommon& common_;
    NotificationPoint& notification_point_;
    Psn expected_psn_;
    std::uint32_t msn_ = 0;
    bool final_ack_pending_ = false;  // in ERR: the ACK of the last message is still to be sent
    RequestGap gap_;
    Message message_ = Message::kNone;
    std::uint32_t received_bytes_ = 0;  // SEND: so far; WRITE: of the whole message
    std::uint32_t write_left_bytes_ = 0;
    std::uint32_t write_rkey_ = 0;
    std::uint64_t write_va_ = 0;
    std::uint32_t receives_seen_ = 0;  // receive WQEs up to this index were seen posted
    ReorderBuffer early_requests_;     // empty unless gap_.is_open()
    ResponseQueue responses_;
    AtomicReplayCache replay_cache_;
    // Of the request in hand: the SRQ that it may take a receive from, and the PD that its R_Key has to
    // belong to.
    SharedRecvQueue* srq_;
    std::uint32_t pd_;
    std::uint32_t message_srq_ = 0;  // XRC: the SRQ that the message in progress names
    RecvWqe receive_;                // what the message in progress fills
};

}  // namespace urnic
