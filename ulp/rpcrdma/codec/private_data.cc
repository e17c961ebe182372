#include "ulp/rpcrdma/codec/private_data.h"

#include <algorithm>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kPrivateDataMagic = 0xF6AB0E18;
constexpr std::uint32_t kPrivateDataVersion = 1;
constexpr std::uint32_t kInlineUnit = 1024;
constexpr std::uint32_t kMaxInlineUnits = 256;
constexpr std::uint32_t kRemoteInvalidateFlag = 1;

/// One octet: units of 1024 octets, less one.
std::uint32_t inline_units(std::uint32_t octets) {
    return std::clamp(octets / kInlineUnit, 1U, kMaxInlineUnits) - 1;
}

std::uint32_t inline_octets(std::uint32_t units) { return ((units & 0xFFU) + 1) * kInlineUnit; }

}  // namespace

std::array<std::byte, kPrivateDataOctets> encode_private_data(const PrivateData& data) {
    std::array<std::byte, kPrivateDataOctets> octets{};
    const std::uint32_t flags = data.can_remote_invalidate ? kRemoteInvalidateFlag : 0;
    XdrWriter out(octets);
    out.u32(kPrivateDataMagic);
    out.u32(kPrivateDataVersion << 24U | flags << 16U | inline_units(data.send_octets) << 8U |
            inline_units(data.receive_octets));
    return octets;
}

std::optional<PrivateData> decode_private_data(std::span<const std::byte> octets) {
    XdrReader in(octets);
    const std::uint32_t magic = in.u32();
    const std::uint32_t word = in.u32();
    if (in.failed() || magic != kPrivateDataMagic || word >> 24U != kPrivateDataVersion) {
        return std::nullopt;
    }
    return PrivateData{inline_octets(word >> 8U), inline_octets(word),
                       (word >> 16U & kRemoteInvalidateFlag) != 0};
}

}  // namespace urnic::rpcrdma
