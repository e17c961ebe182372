#include "daemon/neighbour/path_resolver.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/check.h"

namespace urnic::daemon {

bool PathResolver::Key::operator<(const Key& other) const {
    return std::tie(destination, source, vlan) < std::tie(other.destination, other.source, other.vlan);
}

PathResolver::PathResolver(dataplane::Device& device, Network& network, const NeighbourResolver& configured)
    : device_(device), network_(network), configured_(configured), entries_(NeighbourMacs::kEntries) {
    free_.reserve(entries_.size());
    lingering_.reserve(kLingering);
    for (std::uint32_t place = NeighbourMacs::kEntries; place != 0; --place) {
        free_.push_back(static_cast<std::uint16_t>(place - 1));
    }
}

std::optional<wire::Mac> PathResolver::resolve(const wire::Gid& gid) const {
    return configured_.resolve(gid);
}

int PathResolver::acquire(const wire::Gid& source, std::uint16_t vlan, const wire::Gid& destination,
                          ResolvedPath& path) {
    if (const auto mac = configured_.resolve(destination)) {
        path = {*mac, wire::kNoNeighbour};
        return 0;
    }
    const Key key{source, destination, vlan};
    if (const auto found = places_.find(key); found != places_.end()) {
        Entry& entry = entries_[found->second];
        if (!entry.hop && !is_ours(destination)) {
            return ENETUNREACH;
        }
        if (entry.hop) {
            (void)network_.want(*entry.hop, source);  // one that failed is asked again at once
        }
        if (entry.users++ == 0) {
            std::erase(lingering_, found->second);
        }
        path = {{}, found->second};
        return 0;
    }
    if (free_.empty() && !lingering_.empty()) {
        evict_oldest();
    }
    if (free_.empty()) {
        return ENOMEM;
    }
    const std::uint16_t place = free_.back();
    const auto made = places_.emplace(key, place).first;
    Entry& entry = entries_[place];
    entry = {key, std::nullopt, 1};
    bool has_room = update_next_hop(place);
    while (!has_room && !lingering_.empty()) {
        evict_oldest();
        has_room = update_next_hop(place);
    }
    if (!has_room || (!entry.hop && !is_ours(destination))) {
        places_.erase(made);
        return has_room ? ENETUNREACH : ENOMEM;
    }
    free_.pop_back();
    path = {{}, place};
    return 0;
}

void PathResolver::release(std::uint16_t neighbour) {
    if (neighbour == wire::kNoNeighbour) {
        return;
    }
    Entry& entry = entries_.at(neighbour);
    URNIC_CHECK(entry.users != 0);
    if (--entry.users != 0) {
        return;
    }
    if (!entry.hop || network_.find(*entry.hop)) {
        forget(neighbour);
        return;
    }
    if (lingering_.size() == kLingering) {
        evict_oldest();
    }
    lingering_.push_back(neighbour);
}

void PathResolver::forget(std::uint16_t place) {
    Entry& entry = entries_[place];
    drop_next_hop(entry);
    device_.neighbour_macs.publish(place, std::nullopt);
    places_.erase(entry.key);
    // At the other end of the list: a worker that still looks at a handle that went finds nothing.
    free_.insert(free_.begin(), place);
}

void PathResolver::evict_oldest() {
    const std::uint16_t oldest = lingering_.front();
    lingering_.erase(lingering_.begin());
    forget(oldest);
}

bool PathResolver::is_ours(const wire::Gid& gid) const {
    return std::find(device_.gids.begin(), device_.gids.end(), gid) != device_.gids.end();
}

void PathResolver::drop_next_hop(Entry& entry) {
    if (!entry.hop) {
        return;
    }
    const auto users = hop_users_.find(*entry.hop);
    if (--users->second == 0) {
        network_.drop(*entry.hop);
        hop_users_.erase(users);
    }
    entry.hop.reset();
}

bool PathResolver::update_next_hop(std::uint16_t place) {
    Entry& entry = entries_[place];
    const auto hop = is_ours(entry.key.destination)
                         ? std::nullopt
                         : network_.route(entry.key.source, entry.key.vlan, entry.key.destination);
    if (hop != entry.hop) {
        drop_next_hop(entry);
        if (hop) {
            auto& users = hop_users_[*hop];
            if (users == 0 && !network_.want(*hop, entry.key.source)) {
                hop_users_.erase(*hop);
                publish(place);
                return false;
            }
            ++users;
            entry.hop = hop;
        }
    }
    publish(place);
    return true;
}

void PathResolver::publish(std::uint16_t place) {
    const Entry& entry = entries_[place];
    std::optional<wire::Mac> mac;
    // From an address that is not ours nothing goes out.
    if (is_ours(entry.key.source)) {
        if (is_ours(entry.key.destination)) {
            mac = device_.mac;
        } else if (entry.hop) {
            mac = network_.find(*entry.hop);
        }
    }
    device_.neighbour_macs.publish(place, mac);
}

void PathResolver::neighbour_changed(const net::Hop& hop) {
    for (const auto& [key, place] : places_) {
        if (entries_[place].hop == hop) {
            publish(place);
        }
    }
}

void PathResolver::network_changed() {
    for (const auto& [key, place] : places_) {
        (void)update_next_hop(place);
    }
}

}  // namespace urnic::daemon
