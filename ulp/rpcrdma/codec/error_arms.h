/// What follows the code of an error in a header (draft, section 7.2.4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {

/// Words behind each code, from ErrorCode::kVers on: none, ErrorBody's first, or both.
inline constexpr std::array<std::uint8_t, 10> kErrorWords = {2, 0, 0, 1, 1, 1, 2, 1, 0, 0};

/// Words behind `code`; none: that version has no such code (RFC 8166, section 4.1: two codes).
[[nodiscard]] constexpr std::optional<std::size_t> error_words(std::uint32_t version, std::uint32_t code) {
    const std::size_t codes = version == kVersion1 ? 2 : kErrorWords.size();
    if (code == 0 || code > codes) {
        return std::nullopt;
    }
    return kErrorWords[code - 1];
}

}  // namespace urnic::rpcrdma
