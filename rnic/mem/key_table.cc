#include "rnic/mem/key_table.h"

#include <cstdlib>
#include <new>

#include "rnic/base/check.h"

namespace urnic {

namespace {

constexpr std::uint32_t kSlotMask = KeyTable::kSlots - 1;
/// Set in a key that would otherwise be 0, which means "no key".
constexpr std::uint32_t kNonZeroBit = 1U << KeyTable::kSlotBits;

}  // namespace

struct KeyTable::Slot {
    std::atomic<std::uint32_t> key;  // the published key, 0 when there is none
    std::uint32_t reserved_for;      // writer only: the key that holds the slot, published or not
    MemoryRegion region;             // unchanged from add() to release()
};

KeyTable::KeyTable()
    // Zeroed memory straight from the system: pages of slots that are never used cost nothing.
    : slots_(static_cast<Slot*>(std::calloc(kSlots, sizeof(Slot))), [](Slot* slots) { std::free(slots); }) {
    static_assert(std::is_trivially_destructible_v<Slot>);
    if (slots_ == nullptr) {
        throw std::bad_alloc();
    }
}

KeyTable::~KeyTable() = default;

std::uint32_t KeyTable::add(const MemoryRegion& region, std::uint32_t random) {
    if (size_ >= kMaxKeys) {
        return 0;
    }
    std::uint32_t index = random & kSlotMask;
    // At most half of the slots are taken, so a few steps find a free one.
    while (slots_.get()[index].reserved_for != 0) {
        index = (index + 1) & kSlotMask;
    }
    std::uint32_t key = (random & ~kSlotMask) | index;
    if (key == 0) {
        key = kNonZeroBit;
    }
    Slot& slot = slots_.get()[index];
    slot.reserved_for = key;
    slot.region = region;
    slot.key.store(key, std::memory_order_release);
    ++size_;
    return key;
}

bool KeyTable::remove(std::uint32_t key) {
    Slot& slot = slots_.get()[key & kSlotMask];
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != key) {
        return false;
    }
    slot.key.store(0, std::memory_order_release);
    return true;
}

void KeyTable::release(std::uint32_t key) {
    Slot& slot = slots_.get()[key & kSlotMask];
    // A key that is still published, or that never was, would free memory under a reader.
    URNIC_CHECK(key != 0 && slot.reserved_for == key && slot.key.load(std::memory_order_relaxed) == 0);
    slot.reserved_for = 0;
    slot.region = MemoryRegion{};
    --size_;
}

const MemoryRegion* KeyTable::find(std::uint32_t key) const {
    const Slot& slot = slots_.get()[key & kSlotMask];
    return key != 0 && slot.key.load(std::memory_order_acquire) == key ? &slot.region : nullptr;
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
    // Subtractions only: addr + length_bytes may wrap.
    const std::uint64_t offset = addr - region->iova;
    if (addr < region->iova || offset > region->length_bytes ||
        length_bytes > region->length_bytes - offset) {
        return Verdict::kBadRange;
    }
    piece.direct = region->direct == nullptr ? nullptr : region->direct + offset;
    piece.space = region->space;
    piece.va = region->va + offset;
    piece.length_bytes = length_bytes;
    return Verdict::kOk;
}

}  // namespace urnic
