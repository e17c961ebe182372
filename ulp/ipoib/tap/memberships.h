/// The IP groups that an interface's kernel is a member of, from /proc/net/igmp and /proc/net/igmp6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulp/ipoib/codec/multicast.h"

namespace urnic::ipoib {

/// Addresses in host order, as the file has them below the interface's line.
[[nodiscard]] std::vector<std::uint32_t> parse_igmp(const std::string& text, const std::string& interface);
[[nodiscard]] std::vector<Ipv6Address> parse_igmp6(const std::string& text, const std::string& interface);
/// A file of /proc; empty if it cannot be read.
[[nodiscard]] std::string read_proc_file(const char* path);

}  // namespace urnic::ipoib
