#include "daemon/state/equal_guids.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/address_text.h"

namespace urnic::daemon {

std::vector<std::string> equal_guids(std::span<dataplane::Device* const> devices) {
    std::vector<std::string> said;
    for (auto each = devices.begin(); each != devices.end(); ++each) {
        const dataplane::Device& device = **each;
        const auto earlier = std::find_if(devices.begin(), each, [&](const dataplane::Device* other) {
            return other->node_guid == device.node_guid;
        });
        if (earlier != each) {
            said.push_back(fmt::format(
                "{} has the GUID of {} ({}), for both have the MAC {}: librdmacm and others that "
                "look for a device by GUID may take the wrong one. Give one of the two another "
                "'mac'",
                device.name, (*earlier)->name, guid_text(device.node_guid), mac_text(device.mac)));
        }
    }
    return said;
}

}  // namespace urnic::daemon
