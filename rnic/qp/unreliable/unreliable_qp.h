// What UC and UD QPs have in common: the states, the requester, the flush.
#pragma once

#include "rnic/qp/qp.h"
#include "rnic/qp/qp_common.h"
#include "rnic/qp/recv_wqe.h"
#include "rnic/qp/unreliable/unreliable_requester.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

class UnreliableQp : public Qp {
  public:
    [[nodiscard]] int modify(TimeNs now, const abi::QpAttr& attr, const wire::Path& path,
                             Outbox& outbox) override;
    void query(abi::QpAttr& attr) const override;
    [[nodiscard]] QpPsns psns() const override;
    void handle_timeout(TimeNs now, Outbox& outbox) override { flow_.on_timer(now, outbox.clock(now)); }
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) override;
    [[nodiscard]] TimeNs deadline() const override { return flow_.deadline(); }
    [[nodiscard]] bool has_unsent() const override { return requester_.has_unsent(); }
    [[nodiscard]] std::uint32_t sends_taken() const override { return requester_.taken(); }
    /// To be asked before a second packet of it goes out.
    [[nodiscard]] Psn first_psn_of(std::uint32_t /*index*/) const override { return requester_.next_psn(); }
    [[nodiscard]] const wire::Path& path() const override { return common_.path; }
    [[nodiscard]] QpState state() const override { return common_.state; }

  protected:
    UnreliableQp(const QpConfig& config, QpType type, wire::Service service);

    /// The responder is as new, with the first PSN to expect.
    virtual void reset_responder(Psn /*first_psn*/) {}
    /// The receive WQE that the responder keeps between packets; nullptr: it keeps none.
    virtual RecvWqe* current_recv_wqe() { return nullptr; }
    /// What every packet has to pass: state, P_Key, service.
    [[nodiscard]] bool is_acceptable(const wire::PacketView& packet) const;
    /// What follows from a packet.
    void after_call(Outbox& outbox);
    [[nodiscard]] const UnreliableRequester& requester() const { return requester_; }

    QpCommon common_;

  private:
    void enter_state(QpState next, Outbox& outbox);
    [[nodiscard]] bool flush(Outbox& outbox);
    void report_drained(Outbox& outbox);

    QpType type_;
    wire::Service service_;
    UnreliableRequester requester_;
    bool drain_reported_ = false;
};

}  // namespace urnic
