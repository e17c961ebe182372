// Memory for rings, as the provider gives it to the engine: zeroed, and aligned.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "abi/queues.h"
#include "base/check.h"

namespace urnic {

inline constexpr std::size_t kPageBytes = 4096;

struct FreeRingMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
};
using RingMemory = std::unique_ptr<std::byte, FreeRingMemory>;

/// Rounded up to whole units of `alignment`; not more, so that the address sanitizer sees what goes past the
/// end.
[[nodiscard]] inline RingMemory zeroed_memory(std::size_t bytes, std::size_t alignment = 64) {
    const std::size_t rounded = abi::round_up(bytes == 0 ? 1 : bytes, alignment);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    URNIC_CHECK(memory != nullptr);
    std::memset(memory, 0, rounded);
    return RingMemory(memory);
}

}  // namespace urnic
