/// GIDs as text.
#pragma once

#include <arpa/inet.h>

#include <array>
#include <string>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

[[nodiscard]] inline std::string text_of(const Gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
    return text.data();
}

}  // namespace urnic::ipoib
