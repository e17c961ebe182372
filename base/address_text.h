// Addresses as people and programs read them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/address.h"

namespace urnic {

using Ipv4Address = std::array<std::uint8_t, 4>;  // in network order

/// "02:00:00:00:00:01".
[[nodiscard]] std::string mac_text(const Mac& mac);
/// "10.0.0.1".
[[nodiscard]] std::string ipv4_text(const Ipv4Address& address);
/// IPv4-mapped ones as ::ffff:a.b.c.d, IPv4 behind zeros as ::a.b.c.d, others as RFC 5952 has it.
[[nodiscard]] std::string gid_text(const Gid& gid);
/// Without the prefix of IPv4-mapped ones: "10.0.0.1", "fe80::1".
[[nodiscard]] std::string address_text(const Gid& address);
/// All digits, as sysfs has GIDs: "fe80:0000:0000:0000:0000:00ff:fe00:0001".
[[nodiscard]] std::string full_gid_text(const Gid& gid);
/// A GUID that is held in network order, as sysfs has it: "0000:00ff:fe00:0001".
[[nodiscard]] std::string guid_text(std::uint64_t guid);

}  // namespace urnic
