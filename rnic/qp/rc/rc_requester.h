// The sending half of an RC requester: takes WQEs from the send ring and cuts them into request packets
// (IBA 9.7.2, 9.7.3).
#pragma once

#include <cstdint>

#include "rnic/qp/rc/rc_common.h"
#include "rnic/qp/rc/rc_send_state.h"
#include "rnic/qp/sge_list.h"
#include "rnic/qp/wr_opcodes.h"

namespace urnic {

class RcRequester {
  public:
    RcRequester(RcCommon& common, RcSendState& state) : common_(common), state_(state) {}

    void reset() { wqe_loaded_ = false; }

    /// Sends up to `max_packets` requests. Returns whether there is more that could go now.
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox);
    void handle_timeout(TimeNs now, Outbox& outbox);
    /// Nothing is outstanding and no message is half sent (IBA 10.3.1.5: SQ drained).
    [[nodiscard]] bool drained() const { return state_.window.empty(); }
    /// As Qp::has_unsent(). What is sent again was sent once.
    [[nodiscard]] bool has_unsent() const;

  private:
    /// What the next packet of a message is.
    struct PacketPlan {
        const InflightWqe* wqe;
        const WrOpcodeInfo* info;
        Psn psn;
        std::uint64_t offset;  // of its first byte in the message
        std::uint32_t payload_bytes;
        std::uint32_t read_bytes;  // of a READ that continues after a loss: what is asked for
        bool is_first;
        bool is_last;
        bool asks_ack;
    };

    // send_next() is one function to the machine: calls of its parts, each with registers to save, cost a
    // tenth of it.
    [[nodiscard]] bool send_next(TimeNs now, Outbox& outbox);
    enum class Begun : std::uint8_t { kNothing, kMessage, kLocal };
    [[nodiscard]] [[gnu::always_inline]] inline Begun begin_next(Outbox& outbox);
    [[nodiscard]] Begun process_local_op(Outbox& outbox);
    [[nodiscard]] [[gnu::always_inline]] inline WcStatus check_new(const WrOpcodeInfo& info) const;
    /// Makes work_ the WQE `index`. Returns whether it is as it was when its first packet went out.
    [[nodiscard]] bool load_wqe(std::uint32_t index, Outbox& outbox) {
        return (wqe_loaded_ && work_.index == index) || fetch_again(index, outbox);
    }
    [[nodiscard]] bool fetch_again(std::uint32_t index, Outbox& outbox);
    [[gnu::always_inline]] inline void plan_packet(std::uint32_t index, Psn psn, PacketPlan& plan) const;
    [[nodiscard]] bool admit(PacketPlan& plan) const;
    [[nodiscard]] [[gnu::always_inline]] inline bool transmit(std::uint32_t index, const PacketPlan& plan,
                                                              Outbox& outbox);
    [[nodiscard]] bool send_retransmission(TimeNs now, Outbox& outbox);
    [[nodiscard]] bool retry_next_gap(TimeNs now, Outbox& outbox);
    [[nodiscard]] bool retry_gap(TimeNs now, std::uint32_t index, Psn gap, Outbox& outbox);
    [[nodiscard]] Psn first_missing(const InflightWqe& wqe) const;
    [[nodiscard]] Psn end_of_gap(const InflightWqe& wqe, Psn gap) const;
    [[nodiscard]] Psn psn_to_send() const;
    [[nodiscard]] bool admit_by_credits(PacketPlan& plan) const;
    [[nodiscard]] bool gather_payload(const PacketPlan& plan, PieceList& pieces) const;
    [[nodiscard]] wire::PacketHeader header_of(const PacketPlan& plan) const;
    [[nodiscard]] bool more_to_send() const;

    RcCommon& common_;
    RcSendState& state_;
    bool wqe_loaded_ = false;
    SendWork work_;  // copy of the WQE at the cursor
};

}  // namespace urnic
