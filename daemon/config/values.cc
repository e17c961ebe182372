#include "daemon/config/values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace urnic::daemon {

namespace {

/// Splits "ADDRESS/BITS"; nullopt when BITS is there and not a number up to `max_bits`.
std::optional<std::string> without_prefix_length(const std::string& text, unsigned max_bits) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) {
        return text;
    }
    const char* end = text.data() + text.size();
    unsigned bits = 0;
    const auto parsed = std::from_chars(text.data() + slash + 1, end, bits);
    if (parsed.ec != std::errc{} || parsed.ptr != end || bits > max_bits) {
        return std::nullopt;
    }
    return text.substr(0, slash);
}

bool is_word(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

}  // namespace

std::optional<wire::Mac> parse_mac(std::string_view text) {
    wire::Mac mac{};
    if (text.size() != 17) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < mac.size(); ++i) {
        const char* digits = text.data() + 3 * i;
        const auto parsed = std::from_chars(digits, digits + 2, mac[i], 16);
        if (parsed.ec != std::errc{} || parsed.ptr != digits + 2 || (i < 5 && digits[2] != ':')) {
            return std::nullopt;
        }
    }
    const bool multicast = (mac[0] & 1U) != 0;
    return multicast || mac == wire::Mac{} ? std::nullopt : std::optional(mac);
}

std::optional<wire::Gid> parse_ipv4(const std::string& text) {
    const auto address = without_prefix_length(text, 32);
    in_addr parsed{};
    if (!address || inet_pton(AF_INET, address->c_str(), &parsed) != 1) {
        return std::nullopt;
    }
    const std::uint32_t host = ntohl(parsed.s_addr);
    if (host >> 24U == 0 || host >> 28U >= 0xe) {
        return std::nullopt;
    }
    wire::Gid gid{};
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid.data() + 12, &parsed.s_addr, 4);
    return gid;
}

std::optional<wire::Gid> parse_ipv6(const std::string& text) {
    const auto address = without_prefix_length(text, 128);
    in6_addr parsed{};
    if (!address || inet_pton(AF_INET6, address->c_str(), &parsed) != 1 || IN6_IS_ADDR_UNSPECIFIED(&parsed) ||
        IN6_IS_ADDR_MULTICAST(&parsed) || IN6_IS_ADDR_V4MAPPED(&parsed)) {
        return std::nullopt;
    }
    wire::Gid gid{};
    std::memcpy(gid.data(), &parsed, gid.size());
    return gid;
}

std::optional<mode_t> parse_mode(std::string_view text) {
    mode_t mode = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || mode > 0777) {
        return std::nullopt;
    }
    return mode;
}

bool is_device_name(std::string_view text) {
    return !text.empty() && text.size() <= 60 && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
           is_word(text);
}

bool is_pci_address(std::string_view text) {
    // Field by field: [domain:]bus:device.function, all hexadecimal.
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned function = 0;
    char rest = 0;
    const std::string line(text);
    const bool plain = line.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
    const bool with_domain =
        std::sscanf(line.c_str(), "%8x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &rest) == 4;
    return plain &&
           (with_domain ||
            std::sscanf(line.c_str(), "%2x:%2x.%1x%c", &bus, &device, &function, &rest) == 3) &&
           device < 32 && function < 8;
}

}  // namespace urnic::daemon
