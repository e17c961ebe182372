// The P_Key table of one port: the partitions that it is a member of (IBA 10.9.1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "rnic/wire/headers.h"

namespace urnic {

/// Of Ethernet fixed once the port is made.
struct PkeyTable {
    static constexpr std::uint32_t kEntries = 128;

    /// Entry 0 is what QPs use that do not choose. An entry whose partition number is 0 is free.
    std::array<std::uint16_t, kEntries> entries{wire::kDefaultPkey};

    [[nodiscard]] bool has(std::uint32_t index) const {
        return index < kEntries && wire::is_partition(entries[index]);
    }
    /// The entry for a packet with this P_Key: that of its partition through which both may talk, a full
    /// member's before a limited one's; nullopt: none (IBA 10.9.3).
    [[nodiscard]] std::optional<std::uint16_t> find(std::uint16_t pkey) const;
    /// The entry that has this P_Key of ours, or else one of its partition; nullopt: none.
    [[nodiscard]] std::optional<std::uint16_t> index_of(std::uint16_t pkey) const;
    /// The P_Key in the entry of find().
    [[nodiscard]] std::optional<std::uint16_t> match(std::uint16_t pkey) const {
        const std::optional<std::uint16_t> index = find(pkey);
        return index ? std::optional(entries[*index]) : std::nullopt;
    }
};

/// Entry 0 alone, a full member of the default partition.
inline constexpr PkeyTable kDefaultPkeys;

}  // namespace urnic
