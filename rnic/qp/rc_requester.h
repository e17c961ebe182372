// The sending half of an RC requester: takes WQEs from the send ring and cuts them into request packets
// (IBA 9.7.2, 9.7.3).
#pragma once

#include <cstdint>

#include "rnic/qp/rc_common.h"
#include "rnic/qp/rc_send_state.h"
#include "rnic/qp/sge_list.h"
#include "rnic/qp/wr_table.h"

namespace urnic {

class RcRequester {
  public:
    RcRequester(RcCommon& common, RcSendState& state) : common_(common), state_(state) {}

    void reset() { work_loaded_ = false; }

    /// Sends up to `max_packets` requests. True: there is more that could go now.
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox);
    void handle_timeout(TimeNs now, Outbox& outbox);
    /// Nothing is outstanding and no message is half sent (IBA 10.3.1.5: SQ drained).
    [[nodiscard]] bool drained() const { return state_.window.empty(); }

  private:
    /// What the next packet of a message is.
    struct PacketPlan {
        const SendRecord* record;
        const WrRow* row;
        std::uint64_t offset;  // of its first byte in the message
        std::uint32_t payload_bytes;
        bool is_first;
        bool is_last;
        bool starved;  // the only packet that may go until the peer has shown credits
    };

    [[nodiscard]] bool send_next(TimeNs now, Outbox& outbox);
    [[nodiscard]] bool begin_next(Outbox& outbox);
    [[nodiscard]] WcStatus check_new(const WrRow& row) const;
    [[nodiscard]] bool load_work(std::uint32_t index, Outbox& outbox);
    [[nodiscard]] bool plan_packet(PacketPlan& plan) const;
    [[nodiscard]] bool credits_allow(PacketPlan& plan) const;
    [[nodiscard]] bool gather_payload(const PacketPlan& plan, PieceList& pieces) const;
    [[nodiscard]] wire::PacketHeader header_of(const PacketPlan& plan) const;
    [[nodiscard]] bool more_to_send() const;

    RcCommon& common_;
    RcSendState& state_;
    bool work_loaded_ = false;
    SendWork work_;  // copy of the WQE at the cursor
};

}  // namespace urnic
