// Pause frames of priority flow control (IEEE 802.1Qbb) as they stand on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/wire/dissect/eth/headers.h"

namespace urnic::wire {

/// Without the FCS: Ethernet's least length, which a pause frame never exceeds.
inline constexpr std::size_t kPauseFrameBytes = 60;

/// Returns whether it is a frame of MAC control, whatever it asks for: it belongs to the link and to nobody
/// behind it.
[[nodiscard]] bool is_mac_control(std::span<const std::byte> frame);

/// Reads a frame for which is_mac_control() is true. Returns whether it is of priority flow control (another
/// opcode is that of the pause of IEEE 802.3 annex 31B), is for the address that ends at the other end of a
/// link (01-80-C2-00-00-01), does not come from a group address, and is whole. Reserved bits and padding are
/// not looked at. A capture or a virtual wire may leave the padding out.
[[nodiscard]] bool parse_pause_frame(std::span<const std::byte> frame, Pfc& pause);

/// Writes the frame with its padding.
void build_pause_frame(const Mac& source, const Pfc& pause, std::span<std::byte, kPauseFrameBytes> frame);

}  // namespace urnic::wire
