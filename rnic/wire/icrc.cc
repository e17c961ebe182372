#include "rnic/wire/icrc.h"

#include "rnic/wire/bytes.h"
#include "rnic/wire/copy_bytes.h"
#include "rnic/wire/crc32.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::wire {

namespace {

/// The CRC register after eight bytes 0xFF, which are the same in every packet.
constexpr std::uint32_t after_eight_ones() {
    std::uint32_t crc = 0xffff'ffffU;
    for (int bit = 0; bit < 64; ++bit) {
        const bool out = ((crc ^ 1U) & 1U) != 0;
        crc = (crc >> 1U) ^ (out ? 0xedb8'8320U : 0U);
    }
    return crc;
}

constexpr std::byte kOnes{0xff};

}  // namespace

std::uint32_t icrc_begin(const std::byte* l3, std::size_t length_bytes, bool is_ipv4) {
    std::byte masked[kMaxIcrcHeadBytes];
    copy_bytes_sse(masked, l3, length_bytes);
    const std::size_t ip_bytes = is_ipv4 ? kIpv4Bytes : kIpv6Bytes;
    if (is_ipv4) {
        masked[kIpv4Tos] = kOnes;
        masked[kIpv4Ttl] = kOnes;
        masked[kIpv4Checksum] = kOnes;
        masked[kIpv4Checksum + 1] = kOnes;
    } else {
        masked[0] |= std::byte{0x0f};  // the version stays; traffic class and flow label go
        masked[1] = kOnes;
        masked[2] = kOnes;
        masked[3] = kOnes;
        masked[kIpv6HopLimit] = kOnes;
    }
    masked[ip_bytes + kUdpChecksum] = kOnes;
    masked[ip_bytes + kUdpChecksum + 1] = kOnes;
    masked[ip_bytes + kUdpBytes + kBthResv8a] = kOnes;
    return crc32_update(after_eight_ones(), masked, length_bytes);
}

bool icrc_ok(const PacketView& view) {
    const std::byte* data = view.l3.data();
    const std::size_t length = view.l3.size();
    const std::size_t least = (view.is_ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kBthBytes;
    const std::size_t head = length <= kMaxIcrcHeadBytes ? length : least;
    std::uint32_t crc = icrc_begin(data, head, view.is_ipv4);
    if (head != length) {
        crc = crc32_update(crc, data + head, length - head);
    }
    return ~crc == load_le32(data + length);
}

}  // namespace urnic::wire
