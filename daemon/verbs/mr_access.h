// What access flags a region may have.
#pragma once

#include <cstdint>

#include "abi/verbs_values.h"

namespace urnic::daemon {

/// Bits that a provider may pass on and that change nothing here (IBV_ACCESS_OPTIONAL_RANGE).
inline constexpr std::uint32_t kOptionalAccess = 0x3ff0'0000;
inline constexpr std::uint32_t kKnownAccess =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessMwBind |
    kAccessZeroBased | kAccessHugetlb | kAccessFlushGlobal | kAccessFlushPersistent | kOptionalAccess;

/// IBA 10.6.3.1 (as ib_check_mr_access): remote write and atomics need local write.
constexpr bool is_valid_access(std::uint32_t access) {
    const bool writes_remotely = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
    return (access & ~kKnownAccess) == 0 && (!writes_remotely || (access & kAccessLocalWrite) != 0);
}

}  // namespace urnic::daemon
