#include "daemon/neighbour/rtnetlink.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/socket.h>

#include <algorithm>
#include <cstring>

#include "daemon/neighbour/rtnetlink_messages.h"
#include "os/setup_error.h"

namespace urnic::daemon {

namespace {

/// Changes that one look takes before others get their turn.
constexpr int kChangesPerLook = 64;
constexpr int kSocketBytes = 1 << 20;
struct Free {
    void operator()(nl_msg* message) const { nlmsg_free(message); }
    void operator()(nl_cache* cache) const { nl_cache_free(cache); }
};
using Message = std::unique_ptr<nl_msg, Free>;
using Cache = std::unique_ptr<nl_cache, Free>;

std::uint8_t family_of(const wire::Gid& gid) { return wire::is_ipv4_mapped(gid) ? AF_INET : AF_INET6; }

void put_address(nl_msg* message, int type, const wire::Gid& gid) {
    const std::size_t skipped = wire::is_ipv4_mapped(gid) ? 12 : 0;
    (void)nla_put(message, type, static_cast<int>(gid.size() - skipped), gid.data() + skipped);
}

/// Sends a request and takes its one answer, which is there when the request has been sent. Returns whether
/// both succeeded.
bool ask(nl_sock* socket, nl_msg* message, int (*note)(nl_msg*, void*), void* argument) {
    (void)nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, note, argument);
    return nl_send_auto(socket, message) >= 0 && nl_recvmsgs_default(socket) >= 0;
}

/// All interfaces. Returns whether the kernel reported them.
bool list_links(nl_sock* socket, std::vector<LinkMessage>& links) {
    constexpr int kTries = 16;  // a list is interrupted by a change
    for (int tried = 0; tried < kTries; ++tried) {
        links.clear();
        rtgenmsg all{AF_UNSPEC};
        (void)nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, note_link, &links);
        if (nl_send_simple(socket, RTM_GETLINK, NLM_F_DUMP, &all, sizeof all) < 0) {
            return false;
        }
        const int error = nl_recvmsgs_default(socket);
        if (error != -NLE_DUMP_INTR) {
            return error >= 0;
        }
    }
    return false;
}

bool ask_route(nl_sock* socket, int interface, const wire::Gid& source, const wire::Gid& destination,
               std::uint32_t flags, RouteAnswer& answer) {
    const Message message(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST));
    if (message == nullptr) {
        return false;
    }
    rtmsg body{};
    body.rtm_family = family_of(destination);
    body.rtm_dst_len = body.rtm_family == AF_INET ? 32 : 128;
    body.rtm_src_len = body.rtm_dst_len;
    body.rtm_flags = flags;
    (void)nlmsg_append(message.get(), &body, sizeof body, NLMSG_ALIGNTO);
    put_address(message.get(), RTA_DST, destination);
    put_address(message.get(), RTA_SRC, source);
    (void)nla_put_u32(message.get(), RTA_OIF, static_cast<std::uint32_t>(interface));
    return ask(socket, message.get(), note_route, &answer) && answer.valid && answer.interface == interface;
}

}  // namespace

void Rtnetlink::SocketDeleter::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Rtnetlink::Socket Rtnetlink::connect() {
    Socket socket(nl_socket_alloc());
    if (socket == nullptr) {
        throw std::bad_alloc();
    }
    nl_socket_disable_auto_ack(socket.get());
    if (const int error = nl_connect(socket.get(), NETLINK_ROUTE); error < 0) {
        throw SetupError(std::string("cannot ask the kernel about addresses and routes: ") +
                         nl_geterror(error));
    }
    return socket;
}

Rtnetlink::Rtnetlink(const NetNamespace& where) {
    where.run([this] {
        query_ = connect();
        changes_ = connect();
    });
    nl_socket_disable_seq_check(changes_.get());
    (void)nl_socket_set_buffer_size(changes_.get(), kSocketBytes, 0);
    const int error =
        nl_socket_add_memberships(changes_.get(), RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                                  RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_NEIGH, 0);
    if (error < 0 || nl_socket_set_nonblocking(changes_.get()) < 0) {
        throw SetupError(std::string("cannot follow addresses and routes: ") + nl_geterror(error));
    }
}

Rtnetlink::~Rtnetlink() = default;

int Rtnetlink::changes_fd() const { return nl_socket_get_fd(changes_.get()); }

RtnetlinkChanges Rtnetlink::changes() {
    RtnetlinkChanges changes;
    (void)nl_socket_modify_cb(changes_.get(), NL_CB_VALID, NL_CB_CUSTOM, note_change, &changes);
    for (int i = 0; i < kChangesPerLook; ++i) {
        const int error = nl_recvmsgs_default(changes_.get());
        if (error == -NLE_AGAIN) {
            break;
        }
        if (error < 0) {  // ENOBUFS: some were lost
            changes.addresses = changes.routes = changes.neighbours_lost = true;
        }
    }
    return changes;
}

std::optional<InterfaceView> Rtnetlink::look(const std::string& interface) {
    nl_cache* addresses = nullptr;
    std::vector<LinkMessage> links;
    if (!list_links(query_.get(), links)) {
        return std::nullopt;
    }
    LinkFinder finder{interface.c_str(), {}, {}};
    note_links(links, finder);
    if (rtnl_addr_alloc_cache(query_.get(), &addresses) < 0) {
        return std::nullopt;
    }
    const Cache all_addresses(addresses);
    nl_cache_foreach(addresses, note_address, &finder);
    return finder.view;
}

std::optional<wire::Gid> Rtnetlink::next_hop(int interface, const wire::Gid& source,
                                             const wire::Gid& destination) {
    RouteAnswer answer;
    // Bound to an interface, Linux takes anything for a neighbour when there is no route; so look for one
    // first.
    if (!ask_route(query_.get(), interface, source, destination, RTM_F_FIB_MATCH, answer)) {
        return std::nullopt;
    }
    answer = {};
    if (!ask_route(query_.get(), interface, source, destination, 0, answer)) {
        return std::nullopt;
    }
    return answer.gateway.value_or(destination);
}

std::optional<KernelNeighbour> Rtnetlink::neighbour(int interface, const wire::Gid& address) {
    const Message message(nlmsg_alloc_simple(RTM_GETNEIGH, NLM_F_REQUEST));
    std::optional<KernelNeighbour> answer;
    if (message == nullptr) {
        return answer;
    }
    ndmsg body{};
    body.ndm_family = family_of(address);
    body.ndm_ifindex = interface;
    (void)nlmsg_append(message.get(), &body, sizeof body, NLMSG_ALIGNTO);
    put_address(message.get(), NDA_DST, address);
    (void)ask(query_.get(), message.get(), note_neighbour, &answer);
    return answer;
}

bool Rtnetlink::resolve(int interface, const wire::Gid& address) {
    const Message message(nlmsg_alloc_simple(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE));
    if (message == nullptr) {
        return false;
    }
    ndmsg body{};
    body.ndm_family = family_of(address);
    body.ndm_ifindex = interface;
    body.ndm_flags = NTF_USE;
    (void)nlmsg_append(message.get(), &body, sizeof body, NLMSG_ALIGNTO);
    put_address(message.get(), NDA_DST, address);
    std::optional<KernelNeighbour> nothing;
    return ask(query_.get(), message.get(), note_neighbour, &nothing);
}

}  // namespace urnic::daemon
