// MADs as native packets (IBA 13.5.1, 14.2.1): UD SEND Only between QP0s on VL15, or between QP1s.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rnic/subnet/smp.h"

namespace urnic::subnet {

inline constexpr std::uint8_t kVl15 = 15;
/// LRH, BTH, DETH, MAD, ICRC, VCRC.
inline constexpr std::size_t kMadPacketBytes = 8 + 12 + 8 + wire::kMadBytes + 4 + 2;
using PacketBytes = std::array<std::byte, kMadPacketBytes>;

struct MadPacket {
    std::uint16_t slid = kPermissiveLid;
    std::uint16_t dlid = kPermissiveLid;
    std::uint8_t sl = 0;
    std::uint16_t pkey = 0xffff;
    std::uint32_t src_qp = 0;
    std::uint32_t dest_qp = 0;  // 0: on VL15
    std::uint32_t qkey = 0;     // QP0's is 0, QP1's wire::kGsiQkey
    MadBytes mad{};
};

void encode(const MadPacket& packet, PacketBytes& bytes);
/// nullopt: a CRC is wrong, or it is no MAD's packet: lengths, opcode, a QP other than 0 and 1, a Q_Key that
/// is not the QP's, another VL than 15 to QP0 or VL15 to QP1.
[[nodiscard]] std::optional<MadPacket> decode(std::span<const std::byte> bytes);

}  // namespace urnic::subnet
