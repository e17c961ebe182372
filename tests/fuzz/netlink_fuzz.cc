// What a kernel says of interfaces, addresses, routes and neighbours: any bytes in any of the messages.
#include <linux/rtnetlink.h>
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/object.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "daemon/neighbour/rtnetlink_messages.h"
#include "tests/fuzz/input.h"

namespace urnic::fuzz {
namespace {

constexpr std::uint16_t kTypes[] = {RTM_NEWLINK,  RTM_DELLINK,  RTM_NEWADDR,  RTM_DELADDR,
                                    RTM_NEWROUTE, RTM_DELROUTE, RTM_NEWNEIGH, RTM_DELNEIGH};

void free_message(nl_msg* message) { nlmsg_free(message); }
using Message = std::unique_ptr<nl_msg, decltype(&free_message)>;

/// A message as it came: header as the input says, but for its length.
Message next_message(Input& input) {
    const std::uint16_t type = kTypes[input.below(std::size(kTypes))];
    const std::span<const std::byte> body = input.bytes(input.number<std::uint16_t>() % 512);
    Message message(nlmsg_alloc_simple(type, 0), free_message);
    URNIC_CHECK(message != nullptr);
    if (!body.empty()) {
        (void)nlmsg_append(message.get(), const_cast<std::byte*>(body.data()), body.size(), NLMSG_ALIGNTO);
    }
    nlmsg_set_proto(message.get(), NETLINK_ROUTE);
    return message;
}

void note_object(nl_object* object, void* finder) {
    if (nl_object_get_msgtype(object) == RTM_NEWADDR) {
        daemon::note_address(object, finder);
    }
}

void run(Input& input) {
    daemon::RtnetlinkChanges changes;
    daemon::RouteAnswer route;
    std::optional<daemon::KernelNeighbour> neighbour;
    daemon::LinkFinder finder{"eth0", {}, {}};
    std::vector<daemon::LinkMessage> links;
    while (!input.empty()) {
        const Message message = next_message(input);
        (void)daemon::note_change(message.get(), &changes);
        (void)daemon::note_route(message.get(), &route);
        (void)daemon::note_neighbour(message.get(), &neighbour);
        (void)daemon::note_link(message.get(), &links);
        daemon::note_links(links, finder);
        if (nlmsg_hdr(message.get())->nlmsg_type == RTM_NEWADDR) {
            (void)nl_msg_parse(message.get(), note_object, &finder);
        }
    }
    for (const daemon::KernelNeighbour& one : changes.neighbours) {
        URNIC_CHECK(!one.mac || *one.mac != wire::Mac{});
    }
    for (const auto& [vlan, index] : finder.view.index_of_vlan) {
        URNIC_CHECK(vlan < 0xfff);
    }
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    urnic::fuzz::Input input(data, size);
    urnic::fuzz::run(input);
    return 0;
}
