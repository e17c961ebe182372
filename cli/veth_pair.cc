#include "cli/veth_pair.h"

#include <fmt/core.h>
#include <net/if.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <unistd.h>

#include <memory>

#include "cli/launch_error.h"

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

void set_link_up(const Socket& socket, const char* name, std::uint32_t mtu_bytes) {
    const std::unique_ptr<rtnl_link, Free> link(rtnl_link_alloc());
    const std::unique_ptr<rtnl_link, Free> changes(rtnl_link_alloc());
    rtnl_link_set_ifindex(link.get(), static_cast<int>(if_nametoindex(name)));
    rtnl_link_set_flags(changes.get(), IFF_UP);
    if (mtu_bytes != 0) rtnl_link_set_mtu(changes.get(), mtu_bytes);
    check_netlink(rtnl_link_change(socket.get(), link.get(), changes.get(), 0),
                  fmt::format("take {} up", name));
}

void add_address(const Socket& socket, const std::string& interface, const std::string& text) {
    nl_addr* parsed = nullptr;
    check_netlink(nl_addr_parse(text.c_str(), AF_INET, &parsed), fmt::format("use the address {}", text));
    const std::unique_ptr<nl_addr, Free> local(parsed);
    const std::unique_ptr<rtnl_addr, Free> address(rtnl_addr_alloc());
    rtnl_addr_set_ifindex(address.get(), static_cast<int>(if_nametoindex(interface.c_str())));
    check_netlink(rtnl_addr_set_local(address.get(), local.get()), fmt::format("use the address {}", text));
    check_netlink(rtnl_addr_add(socket.get(), address.get(), 0),
                  fmt::format("give {} the address {}", interface, text));
}

}  // namespace

void make_veth_pair(const VethEnd& one, const VethEnd& other, std::uint32_t mtu_bytes) {
    const Socket socket(nl_socket_alloc());
    check_netlink(socket ? nl_connect(socket.get(), NETLINK_ROUTE) : -NLE_NOMEM, "open a netlink socket");
    check_netlink(rtnl_link_veth_add(socket.get(), one.name.c_str(), other.name.c_str(), getpid()),
                  "make a veth pair");
    set_link_up(socket, "lo", 0);
    for (const VethEnd* const end : {&one, &other}) {
        set_link_up(socket, end->name.c_str(), mtu_bytes);
        for (const std::string& address : end->addresses) add_address(socket, end->name, address);
    }
}

}  // namespace urnic::cli
