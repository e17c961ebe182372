#include "rnic/device/address_handles.h"

#include <cstdlib>
#include <new>

namespace urnic {

namespace {

constexpr std::uint32_t kHandleSlotMask = AddressHandles::kSlots - 1;

}  // namespace

struct AddressHandles::Slot {
    std::atomic<std::uint32_t> key;  // the published key, 0 when there is none
    std::uint32_t last_key;          // writer only: the key that has, or last had, the slot
    std::uint32_t next;              // writer only: in a queue
    AddressHandle handle;            // unchanged from add() to release()
};

AddressHandles::AddressHandles()
    // Zeroed memory straight from the system: pages of slots that are never used cost nothing.
    : slots_(static_cast<Slot*>(std::calloc(kSlots, sizeof(Slot))), [](Slot* slots) { std::free(slots); }) {
    static_assert(std::is_trivially_destructible_v<Slot>);
    if (slots_ == nullptr) {
        throw std::bad_alloc();
    }
}

AddressHandles::~AddressHandles() = default;

std::uint32_t AddressHandles::add(const AddressHandle& handle) {
    std::uint32_t index = unused_;
    if (unused_ < kSlots) {
        ++unused_;
    } else if (free_.size != 0) {
        index = take_first(free_);
    } else {
        return 0;
    }
    Slot& slot = slots_.get()[index];
    // The upper bits count the slot's owners, beginning with 1 and leaving 0 out: no key is 0.
    std::uint32_t turn = (slot.last_key >> kSlotBits) + 1;
    turn = turn >> (32 - kSlotBits) != 0 ? 1 : turn;
    slot.last_key = turn << kSlotBits | index;
    slot.handle = handle;
    slot.key.store(slot.last_key, std::memory_order_release);
    ++size_;
    return slot.last_key;
}

bool AddressHandles::remove(std::uint32_t key) {
    Slot& slot = slots_.get()[key & kHandleSlotMask];
    if (key == 0 || slot.key.load(std::memory_order_relaxed) != key) {
        return false;
    }
    slot.key.store(0, std::memory_order_release);
    append(removed_, key & kHandleSlotMask);
    --size_;
    return true;
}

void AddressHandles::release_removed() {
    while (removed_.size != 0) {
        append(free_, take_first(removed_));
    }
}

void AddressHandles::append(Queue& queue, std::uint32_t index) {
    if (queue.size == 0) {
        queue.first = index;
    } else {
        slots_.get()[queue.last].next = index;
    }
    queue.last = index;
    ++queue.size;
}

std::uint32_t AddressHandles::take_first(Queue& queue) {
    const std::uint32_t index = queue.first;
    queue.first = slots_.get()[index].next;
    --queue.size;
    return index;
}

const AddressHandle* AddressHandles::find(std::uint32_t key) const {
    const Slot& slot = slots_.get()[key & kHandleSlotMask];
    return key != 0 && slot.key.load(std::memory_order_acquire) == key ? &slot.handle : nullptr;
}

}  // namespace urnic
