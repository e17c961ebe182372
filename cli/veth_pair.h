// A veth pair in this process's network namespace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace urnic::cli {

struct VethEnd {
    std::string name;
    std::vector<std::string> addresses;  // of the kernel's, with prefix lengths
};

/// Makes a veth pair, both ends up, and takes the loopback interface up. Throws LaunchError.
void make_veth_pair(const VethEnd& one, const VethEnd& other, std::uint32_t mtu_bytes);

}  // namespace urnic::cli
