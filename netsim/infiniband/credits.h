// Credits of one virtual lane of one link (IBA 7.9): absolute counts of 64-byte blocks, modulo 4096, so that
// a lost flow control packet costs nothing but time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace urnic::netsim {

inline constexpr std::uint32_t kCreditBlockBytes = 64;
/// The most that can be granted beyond what was received.
inline constexpr std::uint32_t kMostCreditBlocks = 2048;
inline constexpr std::uint32_t kCreditMask = 0xfff;

[[nodiscard]] constexpr std::uint32_t credit_blocks(std::uint32_t bytes) {
    return (bytes + kCreditBlockBytes - 1) / kCreditBlockBytes;
}

/// A flow control packet.
struct FlowControlPacket {
    bool is_init = false;     // Op: the link comes up
    std::uint8_t vl = 0;      // a data VL
    std::uint16_t fctbs = 0;  // Flow Control Total Blocks Sent, in the direction that the packet goes
    std::uint16_t fccl = 0;   // Flow Control Credit Limit, for the opposite direction
};

/// The sending end.
class CreditSender {
  public:
    /// Returns whether a packet of so many blocks may go.
    [[nodiscard]] bool may_send(std::uint32_t blocks) const {
        return ((limit_ - total_sent_ - blocks) & kCreditMask) <= kMostCreditBlocks;
    }
    void send(std::uint32_t blocks) { total_sent_ = (total_sent_ + blocks) & kCreditMask; }
    /// An FCCL came.
    void set_limit(std::uint16_t fccl) { limit_ = fccl & kCreditMask; }
    /// The link went down: no credit until an FCCL comes.
    void reset() { total_sent_ = limit_ = 0; }
    [[nodiscard]] std::uint16_t total_sent() const { return static_cast<std::uint16_t>(total_sent_); }
    /// Blocks that may go.
    [[nodiscard]] std::uint32_t available() const { return (limit_ - total_sent_) & kCreditMask; }

  private:
    std::uint32_t total_sent_ = 0;  // FCTBS
    std::uint32_t limit_ = 0;       // FCCL
};

/// The receiving end, with its buffer.
class CreditReceiver {
  public:
    /// Not more than kMostCreditBlocks are of use.
    void set_capacity(std::uint32_t blocks) { capacity_ = std::min(blocks, kMostCreditBlocks); }
    [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

    /// Takes a packet into the buffer. Returns false if there is no room: the sender had no credit for it.
    [[nodiscard]] bool receive(std::uint32_t blocks) {
        if (used_ + blocks > capacity_) {
            return false;
        }
        used_ += blocks;
        received_ = (received_ + blocks) & kCreditMask;
        return true;
    }
    /// A packet has left the buffer.
    void release(std::uint32_t blocks) { used_ -= std::min(blocks, used_); }
    [[nodiscard]] std::uint32_t used() const { return used_; }

    /// The sender's FCTBS came: what was lost on the way counts as received, or its credit were lost.
    void set_total(std::uint16_t fctbs) { received_ = fctbs & kCreditMask; }
    /// The link went down. What is in the buffer stays there.
    void reset() { received_ = granted_ = 0; }

    /// The limit that could be granted now.
    [[nodiscard]] std::uint16_t limit() const {
        const std::uint32_t room = used_ < capacity_ ? capacity_ - used_ : 0;
        return static_cast<std::uint16_t>((received_ + room) & kCreditMask);
    }
    /// Grants limit(), which is returned.
    [[nodiscard]] std::uint16_t grant() {
        granted_ = limit();
        return static_cast<std::uint16_t>(granted_);
    }
    /// Returns whether a flow control packet is due. One for each packet would be more than the sender
    /// needs: an eighth of the buffer is waited for, but never while it may lack credit for a packet of
    /// `longest` blocks.
    [[nodiscard]] bool grant_due(std::uint32_t longest) const {
        const std::uint32_t new_blocks = (limit() - granted_) & kCreditMask;
        const std::uint32_t left = (granted_ - received_) & kCreditMask;
        return new_blocks != 0 && new_blocks <= kMostCreditBlocks &&
               (new_blocks * 8 >= capacity_ || left < longest || left > kMostCreditBlocks);
    }

  private:
    std::uint32_t capacity_ = 0;
    std::uint32_t used_ = 0;
    std::uint32_t received_ = 0;  // Adjusted Blocks Received
    std::uint32_t granted_ = 0;   // the last FCCL
};

}  // namespace urnic::netsim
