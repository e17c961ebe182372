// CRC-32 and ICRC written bit by bit and field by field from the specification, sharing nothing with
// rnic/wire, to check it by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace urnic::conform {

inline std::uint32_t reference_crc32(std::uint32_t crc, std::span<const std::byte> data) {
    for (const std::byte byte : data) {
        crc ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0xedb88320U : crc >> 1U;
        }
    }
    return crc;
}

/// The ICRC of a packet that begins with its IP header and ends before the ICRC (IBA annex A17.3.3).
inline std::uint32_t reference_icrc(std::span<const std::byte> l3) {
    std::vector<std::byte> packet(8, std::byte{0xff});
    packet.insert(packet.end(), l3.begin(), l3.end());
    const auto mask = [&packet](std::size_t offset, std::byte bits) { packet[8 + offset] |= bits; };
    const bool is_ipv4 = (l3[0] >> 4U) == std::byte{4};
    const std::byte all{0xff};
    std::size_t udp = 20;
    if (is_ipv4) {
        mask(1, all);   // TOS
        mask(8, all);   // TTL
        mask(10, all);  // header checksum
        mask(11, all);
    } else {
        udp = 40;
        mask(0, std::byte{0x0f});  // traffic class, flow label
        mask(1, all);
        mask(2, all);
        mask(3, all);
        mask(7, all);  // hop limit
    }
    mask(udp + 6, all);  // UDP checksum
    mask(udp + 7, all);
    mask(udp + 8 + 4, all);  // BTH resv8a
    return ~reference_crc32(0xffffffffU, packet);
}

}  // namespace urnic::conform
