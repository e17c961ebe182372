// RDMA netlink sockets of libmnl, by which `rdma` of iproute2 asks the kernel about its RDMA devices: here
// the daemon answers. Other programs' RDMA netlink stays refused (hooks.cc), so libibverbs reads sysfs.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace urnic::shim {

/// A socket in place of libmnl's struct mnl_socket, which nobody but libmnl looks into. Null: too many are
/// open, errno is EMFILE.
[[nodiscard]] void* open_rdma_netlink();
[[nodiscard]] bool is_rdma_netlink(const void* socket);
void close_rdma_netlink(void* socket);
/// What the messages that come back name as their receiver.
[[nodiscard]] std::uint32_t rdma_netlink_port(const void* socket);
/// Asks the daemon; the answer is whole then. -1 and errno.
[[nodiscard]] ssize_t send_rdma_netlink(void* socket, const void* message, std::size_t size);
/// As many whole messages of the answer as fit. -1 and errno: ENOSPC, not even the next one does; EAGAIN:
/// there are no more.
[[nodiscard]] ssize_t receive_rdma_netlink(void* socket, void* buffer, std::size_t size);

}  // namespace urnic::shim
