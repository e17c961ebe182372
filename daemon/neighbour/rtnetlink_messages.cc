#include "daemon/neighbour/rtnetlink_messages.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/msg.h>
#include <netlink/route/addr.h>

#include <cstring>

#include "rnic/neighbour/neighbour_message.h"

namespace urnic::daemon {

namespace {

constexpr std::uint16_t kUsable =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr std::uint16_t kFresh = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_DELAY | NUD_PROBE;

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

template <class Number>
std::optional<Number> number_of(const nlattr* attribute) {
    Number number = 0;
    if (attribute == nullptr || nla_len(attribute) != sizeof number) {
        return std::nullopt;
    }
    std::memcpy(&number, nla_data(attribute), sizeof number);
    return number;
}

std::string text_of(const nlattr* attribute) {
    const auto* begin = static_cast<const char*>(nla_data(attribute));
    return {begin, ::strnlen(begin, static_cast<std::size_t>(nla_len(attribute)))};
}

/// The number of an interface's VLAN (802.1Q) by what kind of interface it is; 0: it is none.
std::uint16_t vlan_of(nlattr* link_info) {
    nlattr* info[IFLA_INFO_MAX + 1] = {};
    nlattr* data[IFLA_VLAN_MAX + 1] = {};
    if (link_info == nullptr || nla_parse_nested(info, IFLA_INFO_MAX, link_info, nullptr) < 0 ||
        info[IFLA_INFO_KIND] == nullptr || text_of(info[IFLA_INFO_KIND]) != "vlan" ||
        info[IFLA_INFO_DATA] == nullptr ||
        nla_parse_nested(data, IFLA_VLAN_MAX, info[IFLA_INFO_DATA], nullptr) < 0 ||
        number_of<std::uint16_t>(data[IFLA_VLAN_PROTOCOL]) != htons(ETH_P_8021Q)) {
        return 0;
    }
    constexpr std::uint16_t kReserved = 0xfff;
    const std::uint16_t vlan = number_of<std::uint16_t>(data[IFLA_VLAN_ID]).value_or(0);
    return vlan < kReserved ? vlan : 0;
}

}  // namespace

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

int note_link(nl_msg* message, void* argument) {
    nlmsghdr* header = nlmsg_hdr(message);
    nlattr* attributes[IFLA_MAX + 1] = {};
    if (header->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(header, sizeof(ifinfomsg)) ||
        nlmsg_parse(header, sizeof(ifinfomsg), attributes, IFLA_MAX, nullptr) < 0 ||
        attributes[IFLA_IFNAME] == nullptr) {
        return NL_OK;
    }
    LinkMessage link;
    link.index = static_cast<const ifinfomsg*>(nlmsg_data(header))->ifi_index;
    link.name = text_of(attributes[IFLA_IFNAME]);
    link.base = number_of<std::int32_t>(attributes[IFLA_LINK]).value_or(0);
    if (const nlattr* mac = attributes[IFLA_ADDRESS]; mac != nullptr && nla_len(mac) == sizeof(wire::Mac)) {
        std::memcpy(link.mac.data(), nla_data(mac), sizeof(wire::Mac));
    }
    link.vlan = vlan_of(attributes[IFLA_LINKINFO]);
    static_cast<std::vector<LinkMessage>*>(argument)->push_back(link);
    return NL_OK;
}

void note_links(const std::vector<LinkMessage>& links, LinkFinder& finder) {
    int base = 0;
    for (const LinkMessage& link : links) {
        if (link.name == finder.name) {
            base = link.index;
            finder.view.index_of_vlan[0] = link.index;
            finder.vlan_of_index[link.index] = {0, link.name};
            finder.view.mac = link.mac;
        }
    }
    for (const LinkMessage& link : links) {
        if (base != 0 && link.vlan != 0 && link.base == base) {
            finder.view.index_of_vlan[link.vlan] = link.index;
            finder.vlan_of_index[link.index] = {link.vlan, link.name};
        }
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

}  // namespace urnic::daemon
