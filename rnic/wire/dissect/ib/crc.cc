#include "rnic/wire/dissect/ib/crc.h"

#include <array>
#include <cstring>

#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/dissect/ib/link.h"
#include "rnic/wire/layout.h"

namespace urnic::wire {

namespace {

/// Bits that switches and routers may change on the way (IBA 7.8.1, annexes A16.3, A17.3.3): they count as
/// ones. Offsets are from the first byte of the header in question.
struct Variant {
    std::uint8_t offset;
    std::uint8_t bits;
};
constexpr Variant kLrhVariants[] = {{0, 0xf0}};  // VL
// A packet with a GRH may pass a router, which gives it another LRH.
constexpr Variant kRoutedLrhVariants[] = {{0, 0xff}, {1, 0xff}, {2, 0xff}, {3, 0xff},
                                          {4, 0xff}, {5, 0xff}, {6, 0xff}, {7, 0xff}};
constexpr Variant kIpv6Variants[] = {{0, 0x0f}, {1, 0xff}, {2, 0xff}, {3, 0xff}, {kIpv6HopLimit, 0xff}};
constexpr Variant kIpv4Variants[] = {
    {kIpv4Tos, 0xff}, {kIpv4Ttl, 0xff}, {kIpv4Checksum, 0xff}, {kIpv4Checksum + 1, 0xff}};
constexpr Variant kUdpVariants[] = {{kUdpChecksum, 0xff}, {kUdpChecksum + 1, 0xff}};
constexpr Variant kBthVariants[] = {{kBthResv8a, 0xff}};

struct Part {
    std::size_t length_bytes;
    std::span<const Variant> variants;
};
constexpr Part kLrh = {kLrhBytes, kLrhVariants};
constexpr Part kRoutedLrh = {kLrhBytes, kRoutedLrhVariants};
constexpr Part kGrh = {kGrhBytes, kIpv6Variants};
constexpr Part kIpv4Part = {kIpv4Bytes, kIpv4Variants};
constexpr Part kUdp = {kUdpBytes, kUdpVariants};
constexpr Part kBth = {kBthBytes, kBthVariants};

struct Scope {
    bool begins_with_lrh;  // otherwise eight bytes of ones stand for it
    std::array<Part, 3> parts;
};
constexpr std::array<Scope, 5> kScopes = {{
    {false, {{kIpv4Part, kUdp, kBth}}},
    {false, {{kGrh, kUdp, kBth}}},
    {false, {{kGrh, kBth, {}}}},
    {true, {{kLrh, kBth, {}}}},
    {true, {{kRoutedLrh, kGrh, kBth}}},
}};

constexpr std::size_t length_of(const Scope& scope) {
    return scope.parts[0].length_bytes + scope.parts[1].length_bytes + scope.parts[2].length_bytes;
}

}  // namespace

std::size_t least_covered_bytes(IcrcScope scope) {
    return length_of(kScopes[static_cast<std::size_t>(scope)]);
}

std::uint32_t invariant_crc(IcrcScope kind, std::span<const std::byte> covered) {
    const Scope& scope = kScopes[static_cast<std::size_t>(kind)];
    std::array<std::byte, kLrhBytes + kIpv6Bytes + kUdpBytes + kBthBytes> masked{};
    const std::size_t length = length_of(scope);
    std::memcpy(masked.data(), covered.data(), length);
    std::size_t offset = 0;
    for (const Part& part : scope.parts) {
        for (const Variant& variant : part.variants) {
            masked[offset + variant.offset] |= std::byte{variant.bits};
        }
        offset += part.length_bytes;
    }
    std::uint32_t crc = 0xffff'ffffU;
    if (!scope.begins_with_lrh) {
        constexpr std::uint64_t kOnes = ~std::uint64_t{0};
        crc = crc32_update(crc, reinterpret_cast<const std::byte*>(&kOnes), sizeof kOnes);
    }
    crc = crc32_update(crc, masked.data(), length);
    return ~crc32_update(crc, covered.data() + length, covered.size() - length);
}

}  // namespace urnic::wire
