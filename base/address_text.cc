#include "base/address_text.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace urnic {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(std::string& text, std::uint8_t byte) {
    text += kHexDigits[byte >> 4U];
    text += kHexDigits[byte & 0xfU];
}

/// Groups of two bytes, with all their digits.
std::string groups_text(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        text += i != 0 && i % 2 == 0 ? ":" : "";
        append_hex(text, bytes[i]);
    }
    return text;
}

/// The longest run of zero groups, of at least two (RFC 5952 4.2).
struct ZeroRun {
    std::size_t begin = 8;
    std::size_t length = 1;
};
ZeroRun longest_zero_run(const std::array<std::uint32_t, 8>& groups) {
    ZeroRun best;
    for (std::size_t begin = 0; begin < groups.size(); ++begin) {
        std::size_t end = begin;
        while (end < groups.size() && groups[end] == 0) {
            ++end;
        }
        if (end - begin > best.length) {
            best = {begin, end - begin};
        }
    }
    return best;
}

/// Without leading zeros (RFC 5952 4.1).
std::string group_text(std::uint32_t group) {
    std::string text;
    for (; group != 0 || text.empty(); group >>= 4U) {
        text += kHexDigits[group & 0xfU];
    }
    std::reverse(text.begin(), text.end());
    return text;
}

constexpr std::size_t kPrefixBytes = 12;
constexpr std::array<std::uint8_t, kPrefixBytes> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool has_prefix(const Gid& gid, const std::array<std::uint8_t, kPrefixBytes>& prefix) {
    return std::equal(prefix.begin(), prefix.end(), gid.begin());
}

std::string ipv4_in(const Gid& gid) {
    return ipv4_text(
        {gid[kPrefixBytes], gid[kPrefixBytes + 1], gid[kPrefixBytes + 2], gid[kPrefixBytes + 3]});
}

}  // namespace

std::string mac_text(const Mac& mac) {
    std::string text;
    for (const std::uint8_t byte : mac) {
        text += text.empty() ? "" : ":";
        append_hex(text, byte);
    }
    return text;
}

std::string ipv4_text(const Ipv4Address& address) {
    std::string text;
    for (const std::uint8_t byte : address) {
        text += text.empty() ? "" : ".";
        text += std::to_string(byte);
    }
    return text;
}

std::string gid_text(const Gid& gid) {
    if (has_prefix(gid, kMappedPrefix)) {
        return "::ffff:" + ipv4_in(gid);
    }
    // An IPv4 address in a field for both kinds, as the RDMA IP CM service has them.
    if (has_prefix(gid, {}) && gid[kPrefixBytes] != 0) {
        return "::" + ipv4_in(gid);
    }
    std::array<std::uint32_t, 8> groups{};
    for (std::size_t i = 0; i < groups.size(); ++i) {
        groups[i] = std::uint32_t{gid[2 * i]} << 8U | gid[2 * i + 1];
    }
    const ZeroRun zeros = longest_zero_run(groups);
    std::string text;
    for (std::size_t i = 0; i < groups.size();) {
        if (i == zeros.begin) {
            text += "::";
            i += zeros.length;
            continue;
        }
        text += text.empty() || text.back() == ':' ? "" : ":";
        text += group_text(groups[i]);
        ++i;
    }
    return text;
}

std::string address_text(const Gid& address) {
    return has_prefix(address, kMappedPrefix) ? ipv4_in(address) : gid_text(address);
}

std::string full_gid_text(const Gid& gid) { return groups_text(gid); }

std::string guid_text(std::uint64_t guid) {
    std::array<std::uint8_t, sizeof guid> bytes{};
    std::memcpy(bytes.data(), &guid, bytes.size());
    return groups_text(bytes);
}

}  // namespace urnic
