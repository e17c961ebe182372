#include "daemon/state/subnet_routes.h"

#include <algorithm>
#include <vector>

#include "daemon/state/control_state.h"

namespace urnic::daemon {

void SubnetRoutes::route(const ControlState& control, netsim::Lid mlid) const {
    std::vector<netsim::NodeIndex> nodes;
    for (const std::uint32_t rnic : members_.at(mlid)) {
        nodes.push_back(subnet_.node_of(rnic));
    }
    const netsim::MulticastRoutes routes = netsim::find_multicast_routes(subnet_.network(), nodes);
    control.workers[0]->call([&] { subnet_.set_multicast_routes(mlid, routes); });
}

void SubnetRoutes::set_groups(const ControlState& control, std::uint32_t rnic,
                              std::span<const std::uint16_t> lids) {
    for (const std::uint16_t lid : lids) {
        if (members_[lid].insert(rnic).second) {
            route(control, lid);
        }
    }
    std::vector<std::uint16_t> sorted(lids.begin(), lids.end());
    std::sort(sorted.begin(), sorted.end());
    for (auto group = members_.begin(); group != members_.end();) {
        const bool is_member = std::binary_search(sorted.begin(), sorted.end(), group->first);
        if (!is_member && group->second.erase(rnic) != 0) {
            route(control, group->first);
        }
        group = group->second.empty() ? members_.erase(group) : std::next(group);
    }
}

void SubnetRoutes::set_link(const ControlState& control, std::uint32_t port, bool up) {
    control.workers[0]->call([&] { subnet_.set_link(port, up); });
    const netsim::LinearRoutes routes = netsim::find_linear_routes(subnet_.network(), subnet_.plan());
    control.workers[0]->call([&] { subnet_.set_linear_routes(routes); });
    for (const auto& group : members_) {
        route(control, group.first);
    }
}

}  // namespace urnic::daemon
