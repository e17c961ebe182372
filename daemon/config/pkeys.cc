#include "daemon/config/pkeys.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic::daemon {

void read_pkeys(TableReader& reader, PkeyTable& table) {
    const toml::array* const list = reader.find_list(
        "pkeys", 1, PkeyTable::kEntries,
        fmt::format("must be a list of 1 to {} P_Keys, for example [0xffff, 0x8001]", PkeyTable::kEntries));
    if (list == nullptr) {
        return;
    }
    table = {};
    auto end = table.entries.begin();
    for (const auto& entry : *list) {
        const auto pkey = static_cast<std::uint16_t>(reader.whole_at(entry, "pkeys", 1, 0xffff));
        if (!wire::is_partition(pkey)) {
            reader.fail_at(entry, "pkeys",
                           "has 0x8000, which is no partition's: the low 15 bits must not be 0");
        }
        if (std::find(table.entries.begin(), end, pkey) != end) {
            reader.fail_at(entry, "pkeys", fmt::format("has 0x{:04x} twice; each must be different", pkey));
        }
        *end++ = pkey;
    }
}

}  // namespace urnic::daemon
