// What each send work request becomes on the wire (IBA 9.4, 11.4.1.1): one entry for each WrOpcode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/verbs_values.h"

namespace urnic {

struct WrOpcodeInfo {
    enum Flags : std::uint16_t {
        kValid = 1U << 0U,
        kIsRead = 1U << 1U,
        kIsAtomic = 1U << 2U,
        kHasRemoteAddress = 1U << 3U,  // RETH in the first packet
        kNeedsReceive = 1U << 4U,      // takes a receive WQE at the peer: subject to credits and RNR
        kReceiveAtEnd = 1U << 5U,      // takes it with the last packet only
        kIsLocal = 1U << 6U,           // done here, nothing is sent: no packets, no message number
        kIsAtomicWrite = 1U << 7U,     // 8 bytes, answered by a READ response without data
        kIsFlush = 1U << 8U,           // the same answer
    };
    // Operations by position in the message.
    std::uint8_t first = 0;
    std::uint8_t middle = 0;
    std::uint8_t last = 0;
    std::uint8_t only = 0;
    WcOpcode completion = WcOpcode::kSend;
    std::uint16_t flags = 0;

    [[nodiscard]] constexpr bool is(std::uint16_t mask) const { return (flags & mask) != 0; }
    /// Returns whether a response of its own completes it, never an ACK alone.
    [[nodiscard]] constexpr bool has_response() const {
        return is(kIsRead | kIsAtomic | kIsAtomicWrite | kIsFlush);
    }
    /// That response has no data.
    [[nodiscard]] constexpr bool has_empty_response() const { return is(kIsAtomicWrite | kIsFlush); }
    [[nodiscard]] constexpr std::uint8_t operation(bool is_first, bool is_last) const {
        return is_first ? (is_last ? only : first) : (is_last ? last : middle);
    }
};

inline constexpr std::size_t kNumWrOpcodes = 16;
extern const std::array<WrOpcodeInfo, kNumWrOpcodes> kRcWrOpcodes;
inline constexpr WrOpcodeInfo kInvalidWrOpcode{};

/// The entry of any opcode value; an unknown one or one that the service does not offer is not kValid.
[[nodiscard]] inline const WrOpcodeInfo& rc_wr_opcode_info(std::uint8_t wr_opcode) {
    return wr_opcode < kNumWrOpcodes ? kRcWrOpcodes[wr_opcode] : kInvalidWrOpcode;
}
[[nodiscard]] const WrOpcodeInfo& uc_wr_opcode_info(std::uint8_t wr_opcode);
[[nodiscard]] const WrOpcodeInfo& ud_wr_opcode_info(std::uint8_t wr_opcode);

}  // namespace urnic
