// Names of values that several classes of management share.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace urnic::wire::mad {

/// The name of a value that counts from 0; nullptr: it has none.
[[nodiscard]] inline const char* pick(std::initializer_list<const char*> names, std::uint64_t value) {
    return value < names.size() ? names.begin()[value] : nullptr;
}

/// As libibverbs' ibv_mtu: octets of payload.
[[nodiscard]] const char* mtu_name(std::uint64_t mtu);
[[nodiscard]] const char* notice_type_name(std::uint64_t type);
[[nodiscard]] const char* producer_type_name(std::uint64_t type);
/// Of a generic notice (IBA 14.4.9, table 132).
[[nodiscard]] const char* trap_name(std::uint64_t number);

}  // namespace urnic::wire::mad
