/// What a TAP device with IFF_VNET_HDR says in front of each frame: struct virtio_net_hdr (virtio 1.2,
/// section 5.1.6), little-endian.
#pragma once

#include <cstdint>

#include "ulp/ipoib/codec/octets.h"

namespace urnic::ipoib {

inline constexpr std::size_t kOffloadOctets = 10;

/// VIRTIO_NET_HDR_GSO_*.
enum class Segmentation : std::uint8_t {
    kNone = 0,
    kTcpIpv4 = 1,
    kTcpIpv6 = 4,
    kUdp = 5,
};

struct Offload {
    /// The field at `checksum_at` holds the sum of the pseudo-header: the checksum is still to be made.
    bool needs_checksum = false;
    Segmentation segmentation = Segmentation::kNone;
    /// Octets of all headers, Ethernet's included; a hint to whoever allocates memory for them.
    std::uint16_t header_octets = 0;
    /// Octets of data in each segment but the last.
    std::uint16_t segment_octets = 0;
    /// Where the checksum begins to cover the frame.
    std::uint16_t checksum_start = 0;
    /// The field of the checksum, from there.
    std::uint16_t checksum_offset = 0;
};

/// From kOffloadOctets octets.
[[nodiscard]] inline Offload read_offload(ConstOctets octets) {
    const auto u16 = [&](std::size_t at) {
        return static_cast<std::uint16_t>(u8_at(octets, at) | u8_at(octets, at + 1) << 8U);
    };
    constexpr std::uint8_t kNeedsChecksum = 1;
    // The bit says that the first segment has CWR; the header says so, too.
    constexpr std::uint8_t kEcn = 0x80;
    Offload offload;
    offload.needs_checksum = (u8_at(octets, 0) & kNeedsChecksum) != 0;
    offload.segmentation = static_cast<Segmentation>(u8_at(octets, 1) & static_cast<std::uint8_t>(~kEcn));
    offload.header_octets = u16(2);
    offload.segment_octets = u16(4);
    offload.checksum_start = u16(6);
    offload.checksum_offset = u16(8);
    return offload;
}
inline void write_offload(Octets octets, const Offload& offload) {
    const auto put = [&](std::size_t at, std::uint16_t value) {
        put_u8(octets, at, static_cast<std::uint8_t>(value));
        put_u8(octets, at + 1, static_cast<std::uint8_t>(value >> 8U));
    };
    put_u8(octets, 0, offload.needs_checksum ? 1 : 0);
    put_u8(octets, 1, static_cast<std::uint8_t>(offload.segmentation));
    put(2, offload.header_octets);
    put(4, offload.segment_octets);
    put(6, offload.checksum_start);
    put(8, offload.checksum_offset);
}

/// Completes the checksum of a frame that needs one. Returns whether its field is inside the frame.
[[nodiscard]] inline bool complete_checksum(Octets frame, const Offload& offload) {
    const std::size_t field = std::size_t{offload.checksum_start} + offload.checksum_offset;
    if (field + 2 > frame.size()) {
        return false;
    }
    const auto sum = static_cast<std::uint16_t>(~fold(sum_words(frame.subspan(offload.checksum_start))));
    // Zero means "no checksum" in UDP (RFC 768); elsewhere both are the same number.
    put_u16(frame, field, sum == 0 ? 0xFFFF : sum);
    return true;
}

}  // namespace urnic::ipoib
