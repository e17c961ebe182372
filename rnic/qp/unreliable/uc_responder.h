// The UC responder (IBA 9.8.2.2): carries out messages of which every packet arrived, and drops the others
// without a word.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "rnic/qp/qp_common.h"
#include "rnic/qp/recv_wqe.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

class UcResponder {
  public:
    /// Nothing tells the peer that a key was wrong, so it could try one after the other, millions a second:
    /// after so many WRITEs that were not allowed the QP goes to ERR.
    static constexpr std::uint32_t kMaxRefusedWrites = 1000;

    explicit UcResponder(QpCommon& common) : common_(common) {}

    /// As new, with the first PSN to expect.
    void reset(Psn first_psn);
    void handle_request(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox);
    [[nodiscard]] Psn expected_psn() const { return expected_psn_; }
    /// The receive WQE that the message in progress fills, or that a dropped one left for the next.
    [[nodiscard]] RecvWqe& receive() { return receive_; }

  private:
    enum class Message : std::uint8_t { kNone, kSend, kWrite };

    [[nodiscard]] bool sequence_ok(const wire::PacketView& packet, const wire::OpcodeInfo& info) const;
    [[nodiscard]] bool consume_recv_wqe(Outbox& outbox);
    [[nodiscard]] bool handle_send(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                   Outbox& outbox);
    [[nodiscard]] bool handle_write(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                    Outbox& outbox);
    [[nodiscard]] bool begin_write(const wire::Reth& reth, Outbox& outbox);
    void refuse_write(Outbox& outbox);
    void complete(const wire::PacketView& packet, const wire::OpcodeInfo& info, WcOpcode opcode,
                  Outbox& outbox);

    QpCommon& common_;
    Psn expected_psn_;
    Message message_ = Message::kNone;  // in progress; kNone also while the rest of a dropped one comes in
    std::uint32_t received_bytes_ = 0;  // SEND: so far; WRITE: of the whole message
    std::uint32_t write_left_bytes_ = 0;
    std::uint32_t write_rkey_ = 0;
    std::uint32_t refused_writes_ = 0;  // since reset()
    std::uint64_t write_va_ = 0;
    RecvWqe receive_;
};

}  // namespace urnic
