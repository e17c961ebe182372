// What two real RC peers said to each other, out of a capture: who they are, their packets in order, and the
// operations that their applications must have posted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "rnic/qp/rc/rc_qp.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"

namespace urnic::sim {

/// One packet of the capture; `view` refers into `bytes`.
struct CapturedFrame {
    TimeNs time = 0;  // since the conversation's first packet
    std::vector<std::byte> bytes;
    wire::PacketView view;
    int sender = 0;  // 0 or 1

    [[nodiscard]] const wire::OpcodeInfo& info() const { return wire::opcode_info(view.header.opcode); }
    [[nodiscard]] bool is_request() const { return (info().flags & wire::kIsRequest) != 0; }
};

/// A work request, as its packets tell it.
struct CapturedOperation {
    WrOpcode opcode = WrOpcode::kSend;
    bool solicited = false;
    wire::Reth reth;
    wire::AtomicEth atomic;
    std::uint32_t length_bytes = 0;
    Psn first_psn;
    std::vector<std::byte> data;  // SEND, WRITE
};

class Conversation {
  public:
    /// Reads the RC packets of tests/golden/NAME.pcap. Throws when there is anything in them that does not
    /// parse or whose ICRC is wrong.
    explicit Conversation(const std::string& name);
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    [[nodiscard]] const std::vector<CapturedFrame>& frames() const { return frames_; }
    /// Packets of one sender, requests or answers.
    [[nodiscard]] std::vector<const CapturedFrame*> sent_by(int sender, bool requests) const;
    [[nodiscard]] bool requests_of(int sender) const { return !sent_by(sender, true).empty(); }
    /// What `sender`'s application posted, in order.
    [[nodiscard]] std::vector<CapturedOperation> operations_of(int sender) const;

    /// QP number of a peer: what the other one puts into DestQP.
    [[nodiscard]] std::uint32_t qp_num(int peer) const { return qp_num_[static_cast<std::size_t>(peer)]; }
    [[nodiscard]] std::uint32_t mtu_bytes() const { return mtu_bytes_; }
    /// First PSN of `sender`'s requests, 0 when it sent none.
    [[nodiscard]] std::uint32_t first_psn(int sender) const;
    /// How `sender` addresses the other.
    [[nodiscard]] wire::PathSpec path(int sender) const;

  private:
    std::vector<CapturedFrame> frames_;
    std::uint32_t qp_num_[2] = {};
    std::uint32_t mtu_bytes_ = 256;
};

/// Captures with RC in them.
[[nodiscard]] const std::vector<std::string>& rc_captures();

}  // namespace urnic::sim
