// The requester of UC and UD (IBA 9.8.2, 9.8.3): packets go out in order, nothing comes back, and a WQE
// has completed when its last packet was sent.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "rnic/qp/qp_common.h"
#include "rnic/qp/wr_opcodes.h"

namespace urnic {

class UnreliableRequester {
  public:
    /// `service`: wire::kServiceUc or wire::kServiceUd.
    UnreliableRequester(QpCommon& common, wire::Service service) : common_(common), service_(service) {
        header_.mig_req = common.config.sends_mig_req;
    }

    /// As new.
    void reset();
    void set_psn(Psn first_psn) { psn_ = first_psn; }

    /// Sends up to `max_packets`. Returns whether there is more that could go now. An error of a WQE takes
    /// the QP to SQE: the receive queue continues (IBA 10.3.1.6).
    [[nodiscard]] bool progress(std::uint32_t max_packets, Outbox& outbox);
    /// Completes what is left of the send queue with WR_FLUSH_ERR, at most `most`. Returns whether there may
    /// be more.
    bool flush(std::uint32_t most, Outbox& outbox);
    /// No message is half sent (IBA 10.3.1.5: SQ drained).
    [[nodiscard]] bool drained() const { return !in_message_; }
    /// As Qp::has_unsent().
    [[nodiscard]] bool has_unsent() const {
        return in_message_ || (common_.state == QpState::kRts && common_.config.sq.has(index_));
    }
    [[nodiscard]] Psn next_psn() const { return psn_; }
    /// Of the WQE that is being sent, or of the next one.
    [[nodiscard]] std::uint32_t index() const { return index_; }
    /// WQEs that were begun since reset(). A datagram that a pause keeps back counts anew.
    [[nodiscard]] std::uint32_t taken() const { return index_ + (in_message_ ? 1 : 0); }
    /// The WQE that was begun last.
    [[nodiscard]] const SendWork& work() const { return work_; }
    [[nodiscard]] const WrOpcodeInfo& info() const { return *info_; }

  private:
    enum class Begun : std::uint8_t { kNothing, kMessage, kLocal };
    [[nodiscard]] Begun begin_next(Outbox& outbox);
    [[nodiscard]] Begun process_local_op(Outbox& outbox);
    [[nodiscard]] WcStatus check_new() const;
    [[nodiscard]] WcStatus address_datagram();
    [[nodiscard]] bool send_packet(Outbox& outbox);
    void finish(Outbox& outbox);
    void fail(WcStatus status, Outbox& outbox);

    QpCommon& common_;
    wire::Service service_;
    std::uint32_t index_ = 0;  // of the WQE that is being sent, or of the next one
    Psn psn_;                  // of the next packet
    // The message that is being sent:
    bool in_message_ = false;
    std::uint32_t offset_bytes_ = 0;
    const WrOpcodeInfo* info_ = nullptr;
    wire::PacketHeader header_;  // of its next packet, as far as it is known beforehand
    wire::Path datagram_path_;   // UD
    SendWork work_;              // copy of its WQE
};

}  // namespace urnic
