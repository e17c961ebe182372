#include "daemon/config/pkeys.h"

#include <algorithm>

namespace urnic::daemon {

PkeyTable read_pkeys(const toml::node& node, const std::string& key) {
    const auto* list = node.as_array();
    if (list == nullptr || list->empty() || list->size() > PkeyTable::kEntries) {
        throw_at(node, fmt::format("'{}' must be a list of 1 to {} P_Keys, for example [0xffff, 0x8001]", key,
                                   PkeyTable::kEntries));
    }
    PkeyTable table;
    auto end = table.entries.begin();
    for (const auto& entry : *list) {
        const auto pkey = static_cast<std::uint16_t>(get_int(entry, key, 1, 0xffff));
        if (!wire::is_partition(pkey)) {
            throw_at(
                entry,
                fmt::format("'{}' has 0x8000, which is no partition's: the low 15 bits must not be 0", key));
        }
        if (std::find(table.entries.begin(), end, pkey) != end) {
            throw_at(entry, fmt::format("'{}' has 0x{:04x} twice; each must be different", key, pkey));
        }
        *end++ = pkey;
    }
    return table;
}

}  // namespace urnic::daemon
