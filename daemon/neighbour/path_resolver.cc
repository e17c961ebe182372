#include "daemon/neighbour/path_resolver.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/check.h"

namespace urnic::dataplane {

bool Ways::Key::operator<(const Key& other) const {
    return std::tie(destination, source, vlan) < std::tie(other.destination, other.source, other.vlan);
}

Ways::Ways(Device& device, Network& network, const NeighbourResolver& configured)
    : device_(device), network_(network), configured_(configured), entries_(NeighbourMacs::kEntries) {
    free_.reserve(entries_.size());
    lingering_.reserve(kLingering);
    for (std::uint32_t place = NeighbourMacs::kEntries; place != 0; --place) {
        free_.push_back(static_cast<std::uint16_t>(place - 1));
    }
}

std::optional<wire::Mac> Ways::resolve(const wire::Gid& gid) const { return configured_.resolve(gid); }

int Ways::acquire(const wire::Gid& source, std::uint16_t vlan, const wire::Gid& destination, Way& way) {
    if (const auto mac = configured_.resolve(destination)) {
        way = {*mac, wire::kNoNeighbour};
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
        way = {{}, found->second};
        return 0;
    }
    if (free_.empty() && !lingering_.empty()) {
        forget_the_oldest_lingering();
    }
    if (free_.empty()) {
        return ENOMEM;
    }
    const std::uint16_t place = free_.back();
    const auto made = places_.emplace(key, place).first;
    Entry& entry = entries_[place];
    entry = {key, std::nullopt, 1};
    bool led = lead(place);
    while (!led && !lingering_.empty()) {
        forget_the_oldest_lingering();
        led = lead(place);
    }
    if (!led || (!entry.hop && !is_ours(destination))) {
        places_.erase(made);
        return led ? ENETUNREACH : ENOMEM;
    }
    free_.pop_back();
    way = {{}, place};
    return 0;
}

void Ways::release(std::uint16_t neighbour) {
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
        forget_the_oldest_lingering();
    }
    lingering_.push_back(neighbour);
}

void Ways::forget(std::uint16_t place) {
    Entry& entry = entries_[place];
    leave_hop(entry);
    device_.neighbour_macs.publish(place, std::nullopt);
    places_.erase(entry.key);
    // At the other end of the list: a worker that still looks at a handle that went finds nothing.
    free_.insert(free_.begin(), place);
}

void Ways::forget_the_oldest_lingering() {
    const std::uint16_t oldest = lingering_.front();
    lingering_.erase(lingering_.begin());
    forget(oldest);
}

bool Ways::is_ours(const wire::Gid& gid) const {
    return std::find(device_.gids.begin(), device_.gids.end(), gid) != device_.gids.end();
}

void Ways::leave_hop(Entry& entry) {
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

bool Ways::lead(std::uint16_t place) {
    Entry& entry = entries_[place];
    const auto hop = is_ours(entry.key.destination)
                         ? std::nullopt
                         : network_.route(entry.key.source, entry.key.vlan, entry.key.destination);
    if (hop != entry.hop) {
        leave_hop(entry);
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

void Ways::publish(std::uint16_t place) {
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

void Ways::neighbour_changed(const net::Hop& hop, const std::optional<wire::Mac>& /*mac*/) {
    for (const auto& [key, place] : places_) {
        if (entries_[place].hop == hop) {
            publish(place);
        }
    }
}

void Ways::network_changed() {
    for (const auto& [key, place] : places_) {
        (void)lead(place);
    }
}

}  // namespace urnic::dataplane
