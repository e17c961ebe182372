#include "rnic/subnet/ping_agent.h"

#include <algorithm>
#include <cstring>

namespace urnic::subnet {

namespace {

// Vendor classes from 0x30 on have RMPP's header, an octet that is reserved, the OUI, then data (IBA 16.5.1).
constexpr std::size_t kOui = 37;
constexpr std::size_t kVendorData = 40;
constexpr std::uint8_t kOpenIbOui[] = {0x00, 0x14, 0x05};

}  // namespace

bool answer_ping(MadRef mad, std::string_view name) {
    if (mad.base_version() != kBaseVersion || mad.class_version() != 1 || mad.method() != wire::kMadGet ||
        std::memcmp(mad.at(kOui), kOpenIbOui, sizeof kOpenIbOui) != 0) {
        return false;
    }
    const std::size_t length = std::min(name.size(), wire::kMadBytes - kVendorData - 1);
    std::memset(mad.at(kVendorData), 0, wire::kMadBytes - kVendorData);
    std::memcpy(mad.at(kVendorData), name.data(), length);
    make_response(mad, kStatusGood);
    return true;
}

}  // namespace urnic::subnet
