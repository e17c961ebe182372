/// The CM private data of version 1 (RFC 8797): inline sizes and whether SEND with Invalidate is taken.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace urnic::rpcrdma {

struct PrivateData {
    /// Octets that the sender of it sends and receives inline: multiples of 1024, up to 256 KiB.
    std::uint32_t send_octets = 1024;
    std::uint32_t receive_octets = 1024;
    /// Whether it takes SEND with Invalidate.
    bool can_remote_invalidate = false;
    friend bool operator==(const PrivateData&, const PrivateData&) = default;
};

inline constexpr std::size_t kPrivateDataOctets = 8;

/// Sizes are rounded down to what the field can say, 1024 octets at least.
[[nodiscard]] std::array<std::byte, kPrivateDataOctets> encode_private_data(const PrivateData& data);
/// None if it does not begin with the magic word and version 1. What is behind is ignored.
[[nodiscard]] std::optional<PrivateData> decode_private_data(std::span<const std::byte> octets);

}  // namespace urnic::rpcrdma
