// A network namespace for one command, with a veth pair in it.
#pragma once

#include <cstdint>
#include <string>

namespace urnic::cli {

/// This process leaves its network namespace for one of its own, where it has all rights: as root, or in a
/// user namespace. Throws LaunchError where the kernel lets it have none. Threads that there are stay.
void enter_network_namespace();

struct VethEnd {
    std::string name;
    std::string address;  // with prefix length; empty: none of the kernel's
};

/// Makes a veth pair, both ends up, and takes the loopback interface up. Throws LaunchError.
void make_veth_pair(const VethEnd& one, const VethEnd& other, std::uint32_t mtu_bytes);

}  // namespace urnic::cli
