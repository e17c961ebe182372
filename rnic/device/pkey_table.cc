#include "rnic/device/pkey_table.h"

namespace urnic {

std::optional<std::uint16_t> PkeyTable::find(std::uint16_t pkey) const {
    std::optional<std::uint16_t> limited;
    for (std::uint16_t i = 0; i < kEntries; ++i) {
        if (!has(i) || !wire::pkeys_match(entries[i], pkey)) {
            continue;
        }
        if ((entries[i] & wire::kFullMember) != 0) {
            return i;
        }
        limited = limited.value_or(i);
    }
    return limited;
}

std::optional<std::uint16_t> PkeyTable::index_of(std::uint16_t pkey) const {
    std::optional<std::uint16_t> same_partition;
    for (std::uint16_t i = 0; i < kEntries; ++i) {
        if (has(i) && entries[i] == pkey) {
            return i;
        }
        if (has(i) && ((entries[i] ^ pkey) & ~wire::kFullMember) == 0) {
            same_partition = same_partition.value_or(i);
        }
    }
    return same_partition;
}

}  // namespace urnic
