// The receiving half of an RC requester: takes acknowledgements and responses and completes WQEs
// (IBA 9.7.6, 9.9.2).
#pragma once

#include "rnic/qp/rc/rc_common.h"
#include "rnic/qp/rc/rc_send_state.h"
#include "rnic/qp/wr_opcodes.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

class RcCompleter {
  public:
    RcCompleter(RcCommon& common, RcSendState& state) : common_(common), state_(state) {}

    void reset() { wqe_loaded_ = false; }
    void handle_response(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                         Outbox& outbox);

  private:
    [[nodiscard]] bool retire_through(Psn psn, Outbox& outbox);
    [[nodiscard]] bool acknowledge_through(TimeNs now, Psn psn, bool is_plain_ack, Outbox& outbox);
    void on_response_gap(TimeNs now, Psn end, Outbox& outbox);
    void drain_reorder_buffer(TimeNs now, Outbox& outbox);
    void process_response(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                          Outbox& outbox);
    void handle_acknowledge(TimeNs now, const wire::PacketHeader& header, Outbox& outbox);
    [[nodiscard]] bool is_read_rnr_nak(const wire::PacketHeader& header) const;
    void handle_rnr_nak(TimeNs now, std::uint8_t syndrome, Outbox& outbox);
    void handle_nak(TimeNs now, const wire::PacketHeader& header, Outbox& outbox);
    // Each of these has one caller, for each response.
    [[gnu::always_inline]] inline void handle_data(TimeNs now, const wire::PacketView& packet,
                                                   const wire::OpcodeInfo& info, Outbox& outbox);
    [[nodiscard]] [[gnu::always_inline]] inline bool is_expected_response(const wire::PacketView& packet,
                                                                          const wire::OpcodeInfo& info) const;
    [[nodiscard]] [[gnu::always_inline]] inline WcStatus store(const wire::PacketView& packet,
                                                               const wire::OpcodeInfo& info);
    [[nodiscard]] [[gnu::always_inline]] inline bool load_wqe();

    RcCommon& common_;
    RcSendState& state_;
    bool wqe_loaded_ = false;
    SendWork work_;  // copy of the READ or atomic WQE whose response is coming in
};

}  // namespace urnic
