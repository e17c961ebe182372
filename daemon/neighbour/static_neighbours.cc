#include "daemon/neighbour/static_neighbours.h"

namespace urnic::daemon {

StaticNeighbours::StaticNeighbours(const std::vector<NeighbourConfig>& neighbours) {
    for (const NeighbourConfig& neighbour : neighbours) {
        table_[neighbour.gid] = neighbour.mac;
        table_[link_local_gid(neighbour.mac)] = neighbour.mac;
    }
}

std::optional<wire::Mac> StaticNeighbours::resolve(const wire::Gid& gid) const {
    if (const auto found = table_.find(gid); found != table_.end()) {
        return found->second;
    }
    return std::nullopt;
}

}  // namespace urnic::daemon
