// Limits of the transport engine. They bound its memory; none is a wire fact.
#pragma once

#include <cstdint>

namespace urnic {

/// Largest message: with a path MTU of 256 its 2^22 PSNs still leave the duplicate window apart from the new
/// one (IBA 9.7.1). Reported as max_msg_sz.
inline constexpr std::uint32_t kMaxMessageBytes = 1U << 30U;
/// Outstanding READs and atomics of one QP, on either side. Reported as max_qp_rd_atom and
/// max_qp_init_rd_atom.
inline constexpr std::uint32_t kMaxRdAtomic = 16;
/// Send WQEs with a PSN and no completion yet.
inline constexpr std::uint32_t kMaxInFlightWqes = 128;
/// Request packets sent and not acknowledged (a READ's responses are not counted).
inline constexpr std::uint32_t kMaxInFlightPackets = 256;
/// Inside a long message every packet whose PSN is a multiple of this asks for an acknowledgement, so that
/// the window above opens again before it closes.
inline constexpr std::uint32_t kAckEveryPackets = 32;
/// PSNs from the oldest unacknowledged to the newest: less than half the space (IBA 9.7.1).
inline constexpr std::uint32_t kMaxPsnsOutstanding = (1U << 23U) - 1;

}  // namespace urnic
