// Reads single values of the configuration: numbers in range, addresses, modes. Each returns nullopt when the
// text is not of its form.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// "02:00:c6:12:00:01", unicast and not zero.
[[nodiscard]] std::optional<wire::Mac> parse_mac(std::string_view text);
/// "198.18.0.1" or "198.18.0.1/24" as an IPv4-mapped GID; no multicast, broadcast or zero address.
[[nodiscard]] std::optional<wire::Gid> parse_ipv4(const std::string& text);
/// "fd00::1" or "fd00::1/64"; no multicast, zero or IPv4-mapped address.
[[nodiscard]] std::optional<wire::Gid> parse_ipv6(const std::string& text);
/// Octal digits such as "0660": permission bits only.
[[nodiscard]] std::optional<mode_t> parse_mode(std::string_view text);
/// A device name as the kernel and libibverbs take it: 1 to 60 letters, digits, '_' or '-', a letter first.
[[nodiscard]] bool is_device_name(std::string_view text);
/// "0000:01:00.0" or "01:00.0".
[[nodiscard]] bool is_pci_address(std::string_view text);

}  // namespace urnic::daemon
