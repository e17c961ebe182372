#include "dataplane/device/gid_table.h"

#include <algorithm>

#include "os/log.h"

namespace urnic::dataplane {

namespace {

constexpr std::size_t kNoEntry = Device::kGidTableLength;

std::size_t index_of(const Device& device, const InterfaceAddress& address) {
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
        if (device.gids[i] == address.gid && device.gid_vlans[i] == address.vlan) {
            return i;
        }
    }
    return kNoEntry;
}

/// Returns whether the entry was different before.
bool set_entry(Device& device, std::size_t index, const InterfaceAddress& address) {
    const bool same = device.gids[index] == address.gid && device.gid_vlans[index] == address.vlan &&
                      device.gid_interfaces[index] == address.interface;
    device.gid_interfaces[index] = address.interface;
    device.gids[index] = address.gid;
    device.gid_vlans[index] = address.vlan;
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
    changed |= set_entry(device, 0, first);
    for (std::size_t i = 1; i < device.gids.size(); ++i) {
        const bool is_kept = std::any_of(wanted.begin(), wanted.end(), [&](const InterfaceAddress& address) {
            return index_of(device, address) == i;
        });
        if (!is_kept && device.gids[i] != wire::Gid{}) {
            changed |= set_entry(device, i, {});
        }
    }
    for (const InterfaceAddress& address : wanted) {
        std::size_t index = index_of(device, address);
        if (index == kNoEntry) {
            const auto* const free = std::find(device.gids.begin() + 1, device.gids.end(), wire::Gid{});
            index = static_cast<std::size_t>(free - device.gids.begin());
        }
        if (index == kNoEntry) {
            log_warning("{}: more than {} addresses; the rest cannot be used", device.name,
                        Device::kGidTableLength);
            break;
        }
        changed |= set_entry(device, index, address);
    }
    return changed;
}

}  // namespace urnic::dataplane
