// The slots of a key table; for its own files alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "rnic/mem/key_table.h"

namespace urnic {

/// Of KeyTable::Slot::windows: the region goes away, no window may be bound any more.
inline constexpr std::uint32_t kRegionClosed = 1U << 31U;

struct KeyTable::Slot {
    std::atomic<std::uint32_t> key;      // the published key, 0 when there is none
    std::uint32_t reserved_for;          // control thread only: the key that holds the slot, published or not
    std::atomic<std::uint32_t> windows;  // region: windows that are bound to it, kRegionClosed
    std::atomic<bool> is_window;         // unchanged while reserved
    MemoryRegion region;                 // unchanged while published
};

inline KeyTable::Slot& KeyTable::slot_of(std::uint32_t key) const {
    return slots_.get()[(key >> kConsumerBits) & (kSlots - 1)];
}

inline KeyTable::WindowPlace& KeyTable::window_of(std::uint32_t key) const {
    return windows_.get()[(key >> kConsumerBits) & (kSlots - 1)];
}

/// The part of [addr, addr + length_bytes) in [begin, begin + total_bytes): its offset. Subtractions only,
/// since sums may wrap.
[[nodiscard]] inline bool is_within(std::uint64_t addr, std::uint64_t length_bytes, std::uint64_t begin,
                                    std::uint64_t total_bytes) {
    const std::uint64_t offset = addr - begin;
    return addr >= begin && offset <= total_bytes && length_bytes <= total_bytes - offset;
}

}  // namespace urnic
