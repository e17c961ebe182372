// Octets from words in hexadecimal; addresses from text.
#pragma once

#include <arpa/inet.h>

#include <sstream>
#include <string>
#include <vector>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib::test {

using Bytes = std::vector<std::byte>;

/// Groups of hexadecimal digits, two an octet.
inline Bytes octets_of(const std::string& text) {
    Bytes octets;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        for (std::size_t at = 0; at < word.size(); at += 2) {
            octets.push_back(static_cast<std::byte>(std::stoul(word.substr(at, 2), nullptr, 16)));
        }
    }
    return octets;
}

inline Gid gid_of(const char* text) {
    Gid gid{};
    inet_pton(AF_INET6, text, gid.data());
    return gid;
}

inline Mac mac_of(const std::string& text) {
    const Bytes octets = octets_of(text);
    Mac mac{};
    std::copy(octets.begin(), octets.end(), mac.begin());
    return mac;
}

}  // namespace urnic::ipoib::test
