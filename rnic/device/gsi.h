// QP1, the general services interface (IBA 13.5.1.3): what comes for it are management datagrams (MADs), the
// connection manager's above all. They are the control thread's, no application's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rnic/device/counters.h"
#include "rnic/device/pkey_table.h"
#include "rnic/wire/packet_view.h"

namespace urnic {

inline constexpr std::uint32_t kGsiQp = 1;
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;
inline constexpr std::size_t kMadBytes = 256;

/// A MAD as it was received, with what is needed to answer it.
struct ReceivedMad {
    wire::Gid src_gid{};
    wire::Gid dst_gid{};
    wire::Mac src_mac{};
    std::uint16_t pkey = 0;  // ours: the entry of the P_Key table that the packet's matches
    std::uint32_t src_qp = 0;
    std::uint16_t slid = 0;  // of InfiniBand: the sender's LID; 0 over RoCE
    std::uint8_t sl = 0;     // of InfiniBand
    std::array<std::byte, kMadBytes> bytes{};
};

/// Takes the MAD out of a packet for QP1. Returns whether it is one for a partition of ours, whichever (IBA
/// 10.9.8); others are counted.
[[nodiscard]] bool take_mad(const wire::PacketView& packet, const PkeyTable& pkeys, Counters& counters,
                            ReceivedMad& mad);

}  // namespace urnic
