#include "dataplane/device/gid_table.h"

#include <algorithm>

#include "os/log.h"

namespace urnic::dataplane {

namespace {

constexpr std::size_t kNowhere = Device::kGidTableLength;

std::size_t place_of(const Device& device, const InterfaceAddress& address) {
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
        if (device.gids[i] == address.gid && device.gid_vlans[i] == address.vlan) {
            return i;
        }
    }
    return kNowhere;
}

/// True: it was not so before.
bool put(Device& device, std::size_t place, const InterfaceAddress& address) {
    const bool same = device.gids[place] == address.gid && device.gid_vlans[place] == address.vlan &&
                      device.gid_interfaces[place] == address.interface;
    device.gid_interfaces[place] = address.interface;
    device.gids[place] = address.gid;
    device.gid_vlans[place] = address.vlan;
    return !same;
}

}  // namespace

bool set_addresses(Device& device, const wire::Mac& mac, const std::vector<InterfaceAddress>& addresses) {
    std::vector<InterfaceAddress> wanted;
    InterfaceAddress first{link_local_gid(mac), 0, ""};
    for (const InterfaceAddress& address : addresses) {
        if (address.gid == first.gid && address.vlan == 0) {
            first.interface = address.interface;
        } else if (std::find(wanted.begin(), wanted.end(), address) == wanted.end()) {
            wanted.push_back(address);
        }
    }
    bool changed = device.mac != mac;
    device.mac = mac;
    changed |= put(device, 0, first);
    for (std::size_t i = 1; i < device.gids.size(); ++i) {
        const bool stays = std::any_of(wanted.begin(), wanted.end(), [&](const InterfaceAddress& address) {
            return place_of(device, address) == i;
        });
        if (!stays && device.gids[i] != wire::Gid{}) {
            changed |= put(device, i, {});
        }
    }
    for (const InterfaceAddress& address : wanted) {
        std::size_t place = place_of(device, address);
        if (place == kNowhere) {
            const auto* const free = std::find(device.gids.begin() + 1, device.gids.end(), wire::Gid{});
            place = static_cast<std::size_t>(free - device.gids.begin());
        }
        if (place == kNowhere) {
            log_warning("{}: more than {} addresses; the rest cannot be used", device.name,
                        Device::kGidTableLength);
            break;
        }
        changed |= put(device, place, address);
    }
    return changed;
}

}  // namespace urnic::dataplane
