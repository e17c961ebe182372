#include "cli/veth_pair.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/launch_error.h"
#include "os/unique_fd.h"

namespace urnic::cli {

namespace {

struct Free {
    void operator()(nl_sock* socket) const { nl_socket_free(socket); }
    void operator()(rtnl_link* link) const { rtnl_link_put(link); }
    void operator()(rtnl_addr* address) const { rtnl_addr_put(address); }
    void operator()(nl_addr* address) const { nl_addr_put(address); }
};
using Socket = std::unique_ptr<nl_sock, Free>;

/// `code`: of libnl, negative for an error.
void check_netlink(int code, const std::string& what) {
    if (code < 0) {
        throw LaunchError(fmt::format("cannot {} in a network namespace: {}", what, nl_geterror(code)));
    }
}

void write_id_map(const char* path, const std::string& text) {
    const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        throw LaunchError(
            fmt::format("cannot write {} for a user namespace: {}", path, std::strerror(errno)));
    }
}

void set_link_up(const Socket& socket, const char* name, std::uint32_t mtu_bytes) {
    const std::unique_ptr<rtnl_link, Free> link(rtnl_link_alloc());
    const std::unique_ptr<rtnl_link, Free> changes(rtnl_link_alloc());
    rtnl_link_set_ifindex(link.get(), static_cast<int>(if_nametoindex(name)));
    rtnl_link_set_flags(changes.get(), IFF_UP);
    if (mtu_bytes != 0) rtnl_link_set_mtu(changes.get(), mtu_bytes);
    check_netlink(rtnl_link_change(socket.get(), link.get(), changes.get(), 0),
                  fmt::format("take {} up", name));
}

void add_address(const Socket& socket, const VethEnd& end) {
    nl_addr* parsed = nullptr;
    check_netlink(nl_addr_parse(end.address.c_str(), AF_INET, &parsed),
                  fmt::format("use the address {}", end.address));
    const std::unique_ptr<nl_addr, Free> local(parsed);
    const std::unique_ptr<rtnl_addr, Free> address(rtnl_addr_alloc());
    rtnl_addr_set_ifindex(address.get(), static_cast<int>(if_nametoindex(end.name.c_str())));
    check_netlink(rtnl_addr_set_local(address.get(), local.get()),
                  fmt::format("use the address {}", end.address));
    check_netlink(rtnl_addr_add(socket.get(), address.get(), 0),
                  fmt::format("give {} the address {}", end.name, end.address));
}

}  // namespace

void enter_network_namespace() {
    if (unshare(CLONE_NEWNET) == 0) return;
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        throw LaunchError(fmt::format(
            "a network namespace of its own needs CAP_SYS_ADMIN or a user namespace, and this kernel lets "
            "user {} make none: {}. Run it as root, or allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container --security-opt seccomp=...)",
            uid, std::strerror(errno)));
    }
    // A program that is executed keeps capabilities as user 0 alone.
    write_id_map("/proc/self/setgroups", "deny");
    write_id_map("/proc/self/uid_map", fmt::format("0 {} 1", uid));
    write_id_map("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

void make_veth_pair(const VethEnd& one, const VethEnd& other, std::uint32_t mtu_bytes) {
    const Socket socket(nl_socket_alloc());
    check_netlink(socket ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM, "open a netlink socket");
    check_netlink(rtnl_link_veth_add(socket.get(), one.name.c_str(), other.name.c_str(), getpid()),
                  "make a veth pair");
    set_link_up(socket, "lo", 0);
    for (const VethEnd* const end : {&one, &other}) {
        set_link_up(socket, end->name.c_str(), mtu_bytes);
        if (!end->address.empty()) add_address(socket, *end);
    }
}

}  // namespace urnic::cli
