#include "rnic/mem/key_table.h"

#include <cstdlib>
#include <new>

#include "base/check.h"
#include "rnic/mem/key_table_slot.h"

namespace urnic {

namespace {

constexpr std::uint32_t kSlotMask = (KeyTable::kSlots - 1) << KeyTable::kConsumerBits;
/// Set in a key whose other bits beyond the consumer's are all 0: 0 means "no key", whatever a consumer puts
/// into its bits.
constexpr std::uint32_t kNonZeroBit = 1U << 31U;
static_assert((kNonZeroBit & kSlotMask) == 0);

/// Zeroed memory straight from the system: pages of slots that are never used cost nothing.
template <typename T>
std::unique_ptr<T, void (*)(T*)> make_array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    std::unique_ptr<T, void (*)(T*)> array(static_cast<T*>(std::calloc(count, sizeof(T))),
                                           [](T* memory) { std::free(memory); });
    if (array == nullptr) {
        throw std::bad_alloc();
    }
    return array;
}

}  // namespace

KeyTable::KeyTable() : slots_(make_array<Slot>(kSlots)), windows_(make_array<WindowPlace>(kSlots)) {}

KeyTable::~KeyTable() = default;

// Takes a free slot; its key, or 0.
std::uint32_t KeyTable::reserve(std::uint32_t random) {
    if (size_ >= kMaxKeys) {
        return 0;
    }
    std::uint32_t key = random;
    // At most half of the slots are taken, so a few steps find a free one.
    while (slot_of(key).reserved_for != 0) {
        const std::uint32_t next = (key & kSlotMask) + (1U << kConsumerBits);
        key = (key & ~kSlotMask) | (next & kSlotMask);
    }
    if ((key >> kConsumerBits) == 0) {
        key |= kNonZeroBit;
    }
    slot_of(key).reserved_for = key;
    ++size_;
    return key;
}

std::uint32_t KeyTable::add(const MemoryRegion& region, std::uint32_t random) {
    const std::uint32_t key = reserve(random);
    if (key != 0) {
        replace(key, region);
    }
    return key;
}

void KeyTable::replace(std::uint32_t key, const MemoryRegion& region) {
    Slot& slot = slot_of(key);
    URNIC_CHECK(key != 0 && slot.reserved_for == key && slot.key.load(std::memory_order_relaxed) == 0);
    slot.region = region;
    slot.windows.store(0, std::memory_order_relaxed);
    slot.key.store(key, std::memory_order_release);
}

bool KeyTable::close(std::uint32_t key) {
    std::uint32_t none = 0;
    // Acquire: what workers did with the last window happened before.
    return slot_of(key).windows.compare_exchange_strong(none, kRegionClosed, std::memory_order_acquire,
                                                        std::memory_order_relaxed);
}

bool KeyTable::remove(std::uint32_t key) {
    Slot& slot = slot_of(key);
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != key) {
        return false;
    }
    slot.key.store(0, std::memory_order_release);
    return true;
}

void KeyTable::release(std::uint32_t key) {
    Slot& slot = slot_of(key);
    // A key that is still published, or that never was, would free memory under a reader.
    URNIC_CHECK(key != 0 && slot.reserved_for == key && slot.key.load(std::memory_order_relaxed) == 0);
    slot.reserved_for = 0;
    slot.region = MemoryRegion{};
    slot.windows.store(0, std::memory_order_relaxed);
    slot.is_window.store(false, std::memory_order_relaxed);
    --size_;
}

const MemoryRegion* KeyTable::find(std::uint32_t key) const {
    const Slot& slot = slot_of(key);
    return key != 0 && slot.key.load(std::memory_order_acquire) == key &&
                   !slot.is_window.load(std::memory_order_relaxed)
               ? &slot.region
               : nullptr;
}

KeyTable::Verdict KeyTable::resolve(std::uint32_t key, std::uint32_t pd, std::uint32_t access,
                                    std::uint64_t addr, std::uint32_t length_bytes,
                                    MemoryPiece& piece) const {
    const MemoryRegion* region = find(key);
    if (region == nullptr) {
        return Verdict::kBadKey;
    }
    if (region->pd != pd) {
        return Verdict::kBadPd;
    }
    if ((region->access & access) != access) {
        return Verdict::kBadAccess;
    }
    if (!is_within(addr, length_bytes, region->iova, region->length_bytes)) {
        return Verdict::kBadRange;
    }
    const std::uint64_t offset = addr - region->iova;
    piece.length_bytes = length_bytes;
    if (region->direct != nullptr) [[likely]] {
        piece.direct = region->direct + offset;
        piece.key = key;
        return Verdict::kOk;
    }
    piece.direct = nullptr;
    piece.space = region->space;
    piece.va = region->va + offset;
    piece.key = 0;
    return Verdict::kOk;
}

KeyTable::Verdict KeyTable::resolve_remote(std::uint32_t key, const KeyUser& user, std::uint32_t access,
                                           std::uint64_t addr, std::uint32_t length_bytes,
                                           MemoryPiece& piece) const {
    const Slot& slot = slot_of(key);
    if (slot.is_window.load(std::memory_order_relaxed)) [[unlikely]] {
        return resolve_window(slot, key, user, access, addr, length_bytes, piece);
    }
    return resolve(key, user.pd, access, addr, length_bytes, piece);
}

}  // namespace urnic
