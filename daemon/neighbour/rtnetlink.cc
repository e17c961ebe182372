#include "daemon/neighbour/rtnetlink.h"

#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/vlan.h>
#include <netlink/socket.h>

#include <algorithm>
#include <cstring>

#include "os/setup_error.h"
#include "rnic/neighbour/neighbour_message.h"

namespace urnic::daemon {

namespace {

/// Changes that one look takes before others get their turn.
constexpr int kChangesPerLook = 64;
constexpr int kSocketBytes = 1 << 20;
constexpr std::uint16_t kUsable =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr std::uint16_t kFresh = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_DELAY | NUD_PROBE;

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

/// Nullopt: not an address of that family.
std::optional<wire::Gid> gid_from(int family, const void* bytes, std::size_t length) {
    wire::Gid gid{};
    if (family == AF_INET && length == 4) {
        gid[10] = gid[11] = 0xff;
        std::memcpy(&gid[12], bytes, 4);
        return gid;
    }
    if (family == AF_INET6 && length == gid.size()) {
        std::memcpy(gid.data(), bytes, gid.size());
        return gid;
    }
    return std::nullopt;
}

std::optional<wire::Gid> gid_from(int family, const nlattr* attribute) {
    return attribute == nullptr
               ? std::nullopt
               : gid_from(family, nla_data(attribute), static_cast<std::size_t>(nla_len(attribute)));
}

std::optional<KernelNeighbour> neighbour_from(nlmsghdr* header) {
    nlattr* attributes[NDA_MAX + 1] = {};
    if (!nlmsg_valid_hdr(header, sizeof(ndmsg)) ||
        nlmsg_parse(header, sizeof(ndmsg), attributes, NDA_MAX, nullptr) < 0) {
        return std::nullopt;
    }
    const auto* body = static_cast<const ndmsg*>(nlmsg_data(header));
    const auto address = gid_from(body->ndm_family, attributes[NDA_DST]);
    if (!address) {
        return std::nullopt;
    }
    KernelNeighbour neighbour{body->ndm_ifindex, *address, std::nullopt, false};
    const nlattr* mac = attributes[NDA_LLADDR];
    if (header->nlmsg_type == RTM_NEWNEIGH && (body->ndm_state & kUsable) != 0 && mac != nullptr &&
        nla_len(mac) == sizeof(wire::Mac)) {
        wire::Mac found{};
        std::memcpy(found.data(), nla_data(mac), found.size());
        if (found != wire::Mac{}) {
            neighbour.mac = found;
            neighbour.is_fresh = (body->ndm_state & kFresh) != 0;
        }
    }
    return neighbour;
}

int note_change(nl_msg* message, void* argument) {
    auto& changes = *static_cast<RtnetlinkChanges*>(argument);
    nlmsghdr* header = nlmsg_hdr(message);
    switch (header->nlmsg_type) {
        case RTM_NEWLINK:
        case RTM_DELLINK:
        case RTM_NEWADDR:
        case RTM_DELADDR:
            changes.addresses = true;
            break;
        case RTM_NEWROUTE:
        case RTM_DELROUTE:
            changes.routes = true;
            break;
        case RTM_NEWNEIGH:
        case RTM_DELNEIGH:
            if (const auto neighbour = neighbour_from(header)) {
                changes.neighbours.push_back(*neighbour);
            }
            break;
        default:
            break;
    }
    return NL_OK;
}

struct RouteAnswer {
    bool valid = false;
    int interface = 0;
    std::optional<wire::Gid> gateway;
};

int note_route(nl_msg* message, void* argument) {
    auto& answer = *static_cast<RouteAnswer*>(argument);
    nlmsghdr* header = nlmsg_hdr(message);
    nlattr* attributes[RTA_MAX + 1] = {};
    if (header->nlmsg_type != RTM_NEWROUTE || !nlmsg_valid_hdr(header, sizeof(rtmsg)) ||
        nlmsg_parse(header, sizeof(rtmsg), attributes, RTA_MAX, nullptr) < 0) {
        return NL_OK;
    }
    const auto* body = static_cast<const rtmsg*>(nlmsg_data(header));
    answer.valid = body->rtm_type == RTN_UNICAST;
    if (attributes[RTA_OIF] != nullptr) {
        answer.interface = static_cast<int>(nla_get_u32(attributes[RTA_OIF]));
    }
    answer.gateway = gid_from(body->rtm_family, attributes[RTA_GATEWAY]);
    if (const nlattr* via = attributes[RTA_VIA]; via != nullptr && nla_len(via) > 2) {
        // A gateway of the other family (struct rtvia).
        const auto* bytes = static_cast<const std::uint8_t*>(nla_data(via));
        std::uint16_t family = 0;
        std::memcpy(&family, bytes, sizeof family);
        answer.gateway = gid_from(family, bytes + 2, static_cast<std::size_t>(nla_len(via)) - 2);
    }
    return NL_OK;
}

int note_neighbour(nl_msg* message, void* argument) {
    auto& answer = *static_cast<std::optional<KernelNeighbour>*>(argument);
    if (nlmsg_hdr(message)->nlmsg_type == RTM_NEWNEIGH) {
        answer = neighbour_from(nlmsg_hdr(message));
    }
    return NL_OK;
}

/// Sends a request and takes its one answer, which is there when the request has been sent. Returns whether
/// both succeeded.
bool ask(nl_sock* socket, nl_msg* message, int (*note)(nl_msg*, void*), void* argument) {
    (void)nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, note, argument);
    return nl_send_auto(socket, message) >= 0 && nl_recvmsgs_default(socket) >= 0;
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

struct LinkFinder {
    const char* name;
    InterfaceView view;
    std::map<int, std::pair<std::uint16_t, std::string>> vlan_of_index;  // and the interface's name
};

void note_base(nl_object* object, void* argument) {
    auto& finder = *static_cast<LinkFinder*>(argument);
    auto* link = reinterpret_cast<rtnl_link*>(object);
    if (rtnl_link_get_name(link) == nullptr || std::strcmp(rtnl_link_get_name(link), finder.name) != 0) {
        return;
    }
    finder.view.index_of_vlan[0] = rtnl_link_get_ifindex(link);
    finder.vlan_of_index[rtnl_link_get_ifindex(link)] = {0, finder.name};
    nl_addr* mac = rtnl_link_get_addr(link);
    if (mac != nullptr && nl_addr_get_len(mac) == sizeof(wire::Mac)) {
        std::memcpy(finder.view.mac.data(), nl_addr_get_binary_addr(mac), sizeof(wire::Mac));
    }
}

void note_vlan(nl_object* object, void* argument) {
    auto& finder = *static_cast<LinkFinder*>(argument);
    auto* link = reinterpret_cast<rtnl_link*>(object);
    const auto base = finder.view.index_of_vlan.find(0);
    if (base == finder.view.index_of_vlan.end() || rtnl_link_is_vlan(link) == 0 ||
        rtnl_link_get_link(link) != base->second || rtnl_link_vlan_get_protocol(link) != htons(ETH_P_8021Q)) {
        return;
    }
    const int vlan = rtnl_link_vlan_get_id(link);
    if (vlan > 0 && vlan < 0xfff) {
        finder.view.index_of_vlan[static_cast<std::uint16_t>(vlan)] = rtnl_link_get_ifindex(link);
        finder.vlan_of_index[rtnl_link_get_ifindex(link)] = {static_cast<std::uint16_t>(vlan),
                                                             rtnl_link_get_name(link)};
    }
}

void note_address(nl_object* object, void* argument) {
    auto& finder = *static_cast<LinkFinder*>(argument);
    auto* address = reinterpret_cast<rtnl_addr*>(object);
    const auto interface = finder.vlan_of_index.find(rtnl_addr_get_ifindex(address));
    nl_addr* local = rtnl_addr_get_local(address);
    // What may turn out to be somebody else's is not used yet (RFC 4862 5.4).
    if (interface == finder.vlan_of_index.end() || local == nullptr ||
        (rtnl_addr_get_flags(address) & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) {
        return;
    }
    const auto gid =
        gid_from(rtnl_addr_get_family(address), nl_addr_get_binary_addr(local), nl_addr_get_len(local));
    if (gid && net::is_host_address(*gid)) {
        finder.view.addresses.push_back({*gid, interface->second.first, interface->second.second});
    }
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
    nl_cache* links = nullptr;
    nl_cache* addresses = nullptr;
    if (rtnl_link_alloc_cache(query_.get(), AF_UNSPEC, &links) < 0) {
        return std::nullopt;
    }
    const Cache all_links(links);
    LinkFinder finder{interface.c_str(), {}, {}};
    nl_cache_foreach(links, note_base, &finder);
    nl_cache_foreach(links, note_vlan, &finder);
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
