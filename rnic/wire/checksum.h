// The Internet checksum (RFC 1071) over headers and UDP datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

/// One's complement sum of big-endian words, not folded; an odd last byte counts as the high one.
[[nodiscard]] std::uint64_t checksum_sum(std::span<const std::byte> data, std::uint64_t sum = 0);
/// Folded and complemented. Over data that contains its own right checksum the result is 0.
[[nodiscard]] std::uint16_t checksum_fold(std::uint64_t sum);
/// Checksum of a UDP datagram with its pseudo header: `addresses` is source and destination as they lie in
/// the IP header. The checksum field counts as it stands.
[[nodiscard]] std::uint16_t udp_checksum(std::span<const std::byte> addresses,
                                         std::span<const std::byte> datagram);

}  // namespace urnic::wire
