// Addresses that every part speaks of.
#pragma once

#include <array>
#include <cstdint>

namespace urnic {

/// In network order; IPv4 addresses are IPv4-mapped (::ffff:a.b.c.d), as GIDs are.
using Gid = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

/// The link-local address made from a MAC by modified EUI-64 (RFC 4291 appendix A): GID 0.
[[nodiscard]] inline Gid link_local_gid(const Mac& mac) {
    return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2U),
            mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

}  // namespace urnic
