#include "dataplane/neighbour_table.h"

namespace urnic::dataplane {

NeighbourTable::NeighbourTable(const std::vector<NeighbourConfig>& neighbours) {
    for (const NeighbourConfig& neighbour : neighbours) {
        table_[neighbour.gid] = neighbour.mac;
        table_[link_local_gid(neighbour.mac)] = neighbour.mac;
    }
}

std::optional<wire::Mac> NeighbourTable::resolve(const wire::Gid& gid) {
    if (const auto found = table_.find(gid); found != table_.end()) {
        return found->second;
    }
    // A link-local address made by modified EUI-64 (RFC 4291 appendix A) says which MAC it came from.
    const wire::Mac mac{static_cast<std::uint8_t>(gid[8] ^ 2U), gid[9], gid[10], gid[13], gid[14], gid[15]};
    return link_local_gid(mac) == gid ? std::optional(mac) : std::nullopt;
}

}  // namespace urnic::dataplane
