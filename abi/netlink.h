// RDMA netlink (<rdma/rdma_netlink.h>) as `rdma` of iproute2 speaks it with the kernel: the discovery shim
// takes a program's messages to the daemon, which answers in the kernel's place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control.h"

namespace urnic::abi {

/// Of one message to the daemon.
inline constexpr std::size_t kMaxNetlinkRequestBytes = 1024;
/// Of one message from it: what the buffers of libmnl's programs take (MNL_SOCKET_BUFFER_SIZE).
inline constexpr std::size_t kMaxNetlinkBytes = 4096;

/// Needs no Hello. Reply fd: [0] a memfd with all that the kernel would answer, netlink messages one behind
/// the other. EINVAL: the message is none.
struct NetlinkRequest {
    RequestHeader header;
    std::uint32_t message_bytes;
    std::uint32_t reserved;
    std::byte message[kMaxNetlinkRequestBytes];  // with its nlmsghdr
};
static_assert(sizeof(NetlinkRequest) <= kMaxMessageBytes);

}  // namespace urnic::abi
