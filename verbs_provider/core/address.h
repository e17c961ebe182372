// Addresses that come as numbers: from verbs structs, the ELF dynamic section, events.
#pragma once

#include <cstdint>

namespace urnic::provider {

template <class T>
T* at_address(std::uint64_t address) {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace urnic::provider
