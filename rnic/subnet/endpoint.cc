#include "rnic/subnet/endpoint.h"

#include <algorithm>

#include "rnic/subnet/sa_choice.h"
#include "rnic/subnet/smp.h"

namespace urnic::subnet {

namespace mad = wire::mad;

Endpoint::Endpoint(const Node& node) : node_(&node) {
    store_be64(reinterpret_cast<std::byte*>(gid_.data()), info().gid_prefix);
    store_be64(reinterpret_cast<std::byte*>(gid_.data() + 8), guid());
}

std::uint8_t Endpoint::mtu() const { return info().neighbor_mtu; }
std::uint8_t Endpoint::rate() const { return rate_of(info()); }

std::vector<Endpoint> endpoints_of(std::span<const Node* const> nodes) {
    std::vector<Endpoint> endpoints;
    for (const Node* node : nodes) {
        Endpoint endpoint(*node);
        if (endpoint.info().lid != 0 && endpoint.info().port_state == mad::kActive) {
            endpoints.push_back(endpoint);
        }
    }
    return endpoints;
}

const Endpoint* find_gid(std::span<const Endpoint> endpoints, const wire::Gid& gid) {
    const auto found = std::find_if(endpoints.begin(), endpoints.end(),
                                    [&](const Endpoint& candidate) { return candidate.gid() == gid; });
    return found == endpoints.end() ? nullptr : &*found;
}

const Endpoint* find_lid(std::span<const Endpoint> endpoints, std::uint16_t lid) {
    const auto found = std::find_if(endpoints.begin(), endpoints.end(),
                                    [&](const Endpoint& candidate) { return candidate.has_lid(lid); });
    return found == endpoints.end() ? nullptr : &*found;
}

std::optional<std::uint16_t> shared_pkey(const PkeyTable& a, const PkeyTable& b,
                                         std::optional<std::uint16_t> wanted) {
    std::optional<std::uint16_t> limited;
    for (std::uint32_t i = 0; i < PkeyTable::kEntries; ++i) {
        const std::uint16_t own = a.entries[i];
        const bool is_wanted = !wanted || ((own ^ *wanted) & ~wire::kFullMember) == 0;
        if (!a.has(i) || !is_wanted || !b.find(own)) {
            continue;
        }
        if ((own & wire::kFullMember) != 0) {
            return own;
        }
        limited = limited ? limited : std::optional(own);
    }
    return limited;
}

}  // namespace urnic::subnet
