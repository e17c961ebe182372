// The kernel's messages about interfaces, addresses, routes and neighbours (rtnetlink(7)), as callbacks of
// libnl. Nothing in a message is believed to be as long as it should.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/neighbour/rtnetlink.h"

struct nl_msg;
struct nl_object;

namespace urnic::daemon {

struct RouteAnswer {
    bool valid = false;
    int interface = 0;
    std::optional<wire::Gid> gateway;
};

struct LinkFinder {
    const char* name;
    InterfaceView view;
    std::map<int, std::pair<std::uint16_t, std::string>> vlan_of_index;  // and the interface's name
};

/// `argument`: RtnetlinkChanges.
int note_change(nl_msg* message, void* argument);
/// `argument`: RouteAnswer.
int note_route(nl_msg* message, void* argument);
/// `argument`: std::optional<KernelNeighbour>.
int note_neighbour(nl_msg* message, void* argument);

/// An interface. (libnl's own object of one reads the VLAN of a link that says "vlan" and no more by a null
/// pointer.)
struct LinkMessage {
    int index = 0;
    std::string name;
    wire::Mac mac{};
    int base = 0;            // of a VLAN: the interface below
    std::uint16_t vlan = 0;  // 0: none
};
/// `argument`: std::vector<LinkMessage>.
int note_link(nl_msg* message, void* argument);
/// The interface that `finder` names, and its VLANs, among all.
void note_links(const std::vector<LinkMessage>& links, LinkFinder& finder);
/// Of a list of addresses, when the links are known; `argument`: LinkFinder.
void note_address(nl_object* object, void* argument);

}  // namespace urnic::daemon
