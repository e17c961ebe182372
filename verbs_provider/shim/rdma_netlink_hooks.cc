// libmnl's sockets: those of RDMA netlink are ours under `urnic run`, all others are libmnl's. To stand in
// front of libmnl costs nobody anything who does not use it; in front of bind(), sendto() and recvmsg() it
// would.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>

#include "verbs_provider/shim/functions.h"
#include "verbs_provider/shim/mapped_path.h"
#include "verbs_provider/shim/rdma_netlink.h"

namespace urnic::shim {
namespace {

/// Calls libmnl's function; `otherwise` where there is no libmnl (errno ENOSYS).
template <typename Result, typename... Args>
Result call_libmnl(Function function, Result otherwise, Args... args) {
    void* address = real_function(function);
    return address == nullptr ? otherwise : reinterpret_cast<Result (*)(Args...)>(address)(args...);
}

/// What the socket cannot do.
int refuse_option() {
    errno = EOPNOTSUPP;
    return -1;
}

}  // namespace
}  // namespace urnic::shim

using urnic::shim::call_libmnl;
using urnic::shim::Function;
using urnic::shim::is_rdma_netlink;

// NOLINTNEXTLINE(bugprone-macro-parentheses): types and parameter lists cannot be in parentheses
#define URNIC_LIBMNL(result, name, ...)                                                                 \
    extern "C" __attribute__((visibility("default"))) result urnic_shim_##name(__VA_ARGS__) asm(#name); \
    result urnic_shim_##name(__VA_ARGS__)

URNIC_LIBMNL(void*, mnl_socket_open, int bus) {
    return bus == NETLINK_RDMA && urnic::shim::active()
               ? urnic::shim::open_rdma_netlink()
               : call_libmnl<void*>(Function::k_mnl_socket_open, nullptr, bus);
}
URNIC_LIBMNL(void*, mnl_socket_open2, int bus, int flags) {
    return bus == NETLINK_RDMA && urnic::shim::active()
               ? urnic::shim::open_rdma_netlink()
               : call_libmnl<void*>(Function::k_mnl_socket_open2, nullptr, bus, flags);
}
URNIC_LIBMNL(int, mnl_socket_bind, void* socket, unsigned int groups, pid_t pid) {
    if (!is_rdma_netlink(socket))
        return call_libmnl<int>(Function::k_mnl_socket_bind, -1, socket, groups, pid);
    // Nothing tells of changes.
    return groups == 0 ? 0 : urnic::shim::refuse_option();
}
URNIC_LIBMNL(ssize_t, mnl_socket_sendto, void* socket, const void* message, size_t size) {
    return is_rdma_netlink(socket)
               ? urnic::shim::send_rdma_netlink(socket, message, size)
               : call_libmnl<ssize_t>(Function::k_mnl_socket_sendto, -1, socket, message, size);
}
URNIC_LIBMNL(ssize_t, mnl_socket_recvfrom, void* socket, void* buffer, size_t size) {
    return is_rdma_netlink(socket)
               ? urnic::shim::receive_rdma_netlink(socket, buffer, size)
               : call_libmnl<ssize_t>(Function::k_mnl_socket_recvfrom, -1, socket, buffer, size);
}
URNIC_LIBMNL(int, mnl_socket_close, void* socket) {
    if (!is_rdma_netlink(socket)) return call_libmnl<int>(Function::k_mnl_socket_close, -1, socket);
    urnic::shim::close_rdma_netlink(socket);
    return 0;
}
URNIC_LIBMNL(int, mnl_socket_get_fd, const void* socket) {
    return is_rdma_netlink(socket) ? urnic::shim::refuse_option()
                                   : call_libmnl<int>(Function::k_mnl_socket_get_fd, -1, socket);
}
URNIC_LIBMNL(unsigned int, mnl_socket_get_portid, const void* socket) {
    return is_rdma_netlink(socket) ? urnic::shim::rdma_netlink_port(socket)
                                   : call_libmnl<unsigned int>(Function::k_mnl_socket_get_portid, 0, socket);
}
// Options are about the form of answers: the daemon's are as NETLINK_CAP_ACK has them.
URNIC_LIBMNL(int, mnl_socket_setsockopt, const void* socket, int type, void* value, socklen_t size) {
    return is_rdma_netlink(socket)
               ? 0
               : call_libmnl<int>(Function::k_mnl_socket_setsockopt, -1, socket, type, value, size);
}
URNIC_LIBMNL(int, mnl_socket_getsockopt, const void* socket, int type, void* value, socklen_t* size) {
    return is_rdma_netlink(socket)
               ? urnic::shim::refuse_option()
               : call_libmnl<int>(Function::k_mnl_socket_getsockopt, -1, socket, type, value, size);
}
